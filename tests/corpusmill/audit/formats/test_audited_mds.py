"""Shards of MosaicML's streaming, byte by byte and as its library writes them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from tests.tools.table_rows import for_rows
from tests.tools.token_folders import (
    check_damages,
    cut,
    empty,
    lose,
    put,
    read_file,
    read_files,
    swap,
)

ROWS = [[7, 8, 9, 70000], [5], [6, 2]]
COLUMNS = {"id": "str", "input_ids": "ndarray:int32"}


def ndarray(values: Any, dtype: str = "int32") -> bytes:
    """An array of one or two dimensions, whose lengths take a byte each."""
    array = np.array(values, dtype)
    return bytes([array.ndim << 2, *array.shape]) + array.tobytes()


def write_shards(
    folder: Path,
    columns: dict[str, str],
    parts: list[list[list[bytes]]],
    size: int | None = None,
    pack: Callable[[bytes], bytes] | None = None,
) -> None:
    """Write shards of rows, each the bytes of its columns, and an index of them.

    Args:
        folder: of the shards.
        columns: names and encodings.
        parts: the rows of each shard.
        size: of each column, where it is the same in all rows.
        pack: compresses the shards.
    """
    entries = list[dict[str, Any]]()
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(parts):
        heads = [b"" if size else np.array([*map(len, row)], "<u4").tobytes() for row in rows]
        bodies = [head + b"".join(row) for head, row in zip(heads, rows, strict=True)]
        begins = np.cumsum([4 * (len(rows) + 2) + 2, *map(len, bodies)])
        content = np.array([len(rows), *begins], "<u4").tobytes() + b"{}" + b"".join(bodies)
        name = f"shard.{number}.mds"
        (folder / (f"{name}.zstd" if pack else name)).write_bytes((pack or bytes)(content))
        entries.append({
            "column_encodings": [*columns.values()],
            "column_names": [*columns],
            "column_sizes": [size] * len(columns),
            "samples": len(rows),
            "raw_data": {"basename": name},
            "zip_data": {"basename": f"{name}.zstd"} if pack else None,
        })  # fmt: skip
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": 2}))


def write(
    folder: Path,
    encoding: str = "ndarray:int32",
    encode: Callable[[list[int]], bytes] = ndarray,
    pack: Callable[[bytes], bytes] | None = None,
) -> None:
    """Two shards of ROWS."""
    parts = [[[b"name", encode(row)] for row in part] for part in (ROWS[:2], ROWS[2:])]
    write_shards(folder, {**COLUMNS, "input_ids": encoding}, parts, pack=pack)


@for_rows(
    ("encoding", "dtype", "head"),
    [
        ("ndarray:int32", "int32", lambda row: bytes([4, len(row)])),
        ("ndarray:uint32", "uint32", lambda row: bytes([5]) + np.uint16(len(row)).tobytes()),
        ("ndarray", "int64", lambda row: bytes([65, 4, len(row)])),
        ("ndarray", "uint32", lambda row: bytes([32, 4, len(row)])),
        ("bytes", "int64", lambda _: b""),
        ("bytes", "uint32", lambda _: b""),
        ("uint32", "uint32", lambda _: b""),
    ],
)
def test_each_encoding_of_ids_is_read(
    tmp_path: Path, encoding: str, dtype: str, head: Callable[[list[int]], bytes]
) -> None:
    folder = tmp_path / f"{encoding}-{dtype}".replace(":", "-")
    for pack in (None, zstandard.compress):
        write(folder, encoding, lambda row: head(row) + np.array(row, dtype).tobytes(), pack)
        file = read_file(folder, "mds")
        assert (file.rows, file.numbers, file.faults) == (ROWS, [0, 1, 0], [])
        assert {np.dtype(shard.dtype) for shard in file.files} == {np.dtype(dtype)}


def test_ids_in_bytes_have_the_type_that_is_given(tmp_path: Path) -> None:
    write(tmp_path, "bytes", lambda row: np.array(row).astype("<u2").tobytes())
    assert read_file(tmp_path, "mds", "uint16").rows == [[7, 8, 9, 70000 - 2**16], [5], [6, 2]]


def test_documents_labels_and_masks_are_told(tmp_path: Path) -> None:
    columns = {
        "attention_mask": "ndarray:uint8",
        "indices": "ndarray:uint32",
        "labels": "bytes",
        "tokens": "bytes",
    }
    masks, labels, rows = [[1, 1, 0], [1, 1]], [[-100, 8, 9], [5, 6]], [[7, 8, 9], [5, 6]]
    indices = [[[0, 2], [2, 3]], [[0, 2]]]
    parts = [
        [
            ndarray(mask, "uint8"),
            ndarray(index, "uint32"),
            np.array(some).tobytes(),
            np.array(row).tobytes(),
        ]
        for mask, index, some, row in zip(masks, indices, labels, rows, strict=True)
    ]
    write_shards(tmp_path, columns, [parts])
    file = read_file(tmp_path, "mds")
    assert (file.rows, file.faults) == (rows, [])
    segments = [[0, 0, 1], [0, 0]]
    assert file.columns == {"attended": masks, "segments": segments, "labels": labels}
    assert file.files[0].label_names == ("labels",)


def test_columns_of_one_size_have_no_shape(tmp_path: Path) -> None:
    rows = [[7, 8, 9], [1, 2, 3]]
    parts = [[[np.array(row, "int16").tobytes()] for row in rows]]
    write_shards(tmp_path, {"tokens": "ndarray:int16:3"}, parts, size=6)
    assert read_file(tmp_path, "mds").rows == rows


def test_an_index_names_shards_in_other_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name)
    shards = []
    for name in ("a", "b"):
        index = json.loads((tmp_path / name / "index.json").read_text())
        (tmp_path / name / "index.json").unlink()
        for shard in index["shards"]:
            shard["raw_data"]["basename"] = f"{name}/{shard['raw_data']['basename']}"
            shards.append(shard)
    (tmp_path / "index.json").write_text(json.dumps({"shards": shards}))
    assert read_files(tmp_path, "mds")["index.json"].rows == [*ROWS, *ROWS]


def test_damage_is_a_fault_and_other_shards_are_read(tmp_path: Path) -> None:
    index, shard = "index.json", "shard.0.mds"
    head, last = bytes([4, 4, 7]), ROWS[2:]
    check_damages(tmp_path, "mds", write, [
        (shard, cut(3), [ROWS[0], ROWS[2]], "it cannot be read after 1 rows (it ends too early)"),
        (shard, lambda content: content[:9], last, "follow"),
        (shard, empty, last, "after 0 rows"),
        (shard, lose, last, "it is not in the folder"),
        (shard, put(0, 2**32 - 1), last, "follow"),
        (shard, put(8, 5), last, "follow"),
        (shard, put(12, 2**32 - 1), [ROWS[0], ROWS[2]], "early"),
        (shard, swap(head, bytes([255, 4, 7])), last, "ends within its shape"),
        (shard, swap(head, bytes([8, 4, 7])), last, "size"),
        (index, swap('samples": 2', 'samples": 3'), ROWS, "has 2 rows, and 3 by its index"),
        (index, swap('samples": 2', f'samples": {2**40}'), ROWS, "has 2 rows"),
        (index, swap('samples": 2', 'samples": "x"'), ROWS, "2 rows, and x by its index"),
        (index, swap('"samples": 2, ', ""), [], "something else: 'samples'"),
        (index, swap("shard.0", "../shard.0"), last, "it is not in the folder"),
        (index, swap("shard.0", "/etc/shard.0"), last, "it is not in the folder"),
        (index, swap('"shard.0.mds"', "7"), last, "something else"),
        (index, swap('"input_ids"', '"a"'), [], "no lists of ids"),
        (index, swap("ndarray:int32", "pkl"), [], "no lists of ids"),
        (index, swap("[null, null]", "null"), [], "something else"),
        (index, swap("[null, null]", '["x", 7]'), last, "something else"),
        (index, swap('"str", ', ""), [], "is shorter than"),
        (index, swap("raw_data", "data"), [], "something else"),
        (index, lambda _: b'{"shards": [{', [], "unexpected end"),
        (index, lambda _: b"[1]", [], "something else"),
        (index, lambda _: b'{"shards": null}', [], "something else"),
        (index, lambda content: b"[" * 10**6 + content, [], "depth limit exceeded"),
    ])  # fmt: skip


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming", reason="MosaicML's streaming is not installed")
    kinds = {"tokens": "bytes", "labels": "ndarray:int64", "indices": "ndarray:uint32", "n": "int"}
    rows = [[*range(i, 3 * i + 2)] for i in range(40)]
    for compression in (None, "zstd", "gz"):
        out = tmp_path / str(compression)
        with streaming.MDSWriter(
            out=str(out), columns=kinds, compression=compression, size_limit=3000
        ) as writer:
            for row in rows:
                indices = np.array([[0, 1], [1, len(row)]], np.uint32)
                columns = {"labels": np.array(row) - 1, "indices": indices, "n": len(row)}
                writer.write({"tokens": np.array(row).tobytes(), **columns})
        file = read_file(out, "mds")
        assert (file.rows, file.faults) == (rows, [])
        assert file.columns["labels"] == [[token - 1 for token in row] for row in rows]
        assert file.columns["segments"] == [[0] + [1] * (len(row) - 1) for row in rows]
