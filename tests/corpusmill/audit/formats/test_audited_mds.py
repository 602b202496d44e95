"""Shards of MosaicML's streaming, byte by byte and as its library writes them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from tests.tools.table_rows import for_rows
from tests.tools.token_folders import read_file, read_files

ROWS = [[7, 8, 9, 70000], [5], [6, 2]]


def ndarray(values: Any, dtype: str = "int32") -> bytes:
    """An array of one or two dimensions, whose lengths take a byte each."""
    array = np.array(values, dtype)
    return bytes([array.ndim << 2, *array.shape]) + array.tobytes()


def shard_of(rows: list[list[bytes]], own: int | None = None) -> bytes:
    """A shard of rows, each the bytes of its columns, of which the last ones have a fixed size."""
    own = len(rows[0]) if own is None else own
    bodies = [np.array([*map(len, row[:own])], "<u4").tobytes() + b"".join(row) for row in rows]
    header = b"{}"
    begins = np.cumsum([4 * (len(rows) + 2) + len(header), *map(len, bodies)])
    head = np.array([len(rows), *begins], "<u4").tobytes()
    return head + header + b"".join(bodies)


def entry_of(name: str, rows: int, columns: dict[str, str], **others: Any) -> dict[str, Any]:
    return {
        "column_encodings": [*columns.values()],
        "column_names": [*columns],
        "column_sizes": [None] * len(columns),
        "compression": None,
        "format": "mds",
        "hashes": [],
        "raw_data": {"basename": name, "bytes": 1, "hashes": {}},
        "samples": rows,
        "size_limit": None,
        "version": 2,
        "zip_data": None,
    } | others


def write_index(folder: Path, *entries: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": 2}))


def write(folder: Path, encoding: str, encode: Callable[[list[int]], bytes]) -> None:
    """Two shards of ROWS."""
    columns = {"id": "str", "input_ids": encoding}
    parts = (ROWS[:2], ROWS[2:])
    write_index(
        folder,
        *(entry_of(f"shard.{i}.mds", len(part), columns) for i, part in enumerate(parts)),
    )
    for i, part in enumerate(parts):
        rows = [[b"name", encode(row)] for row in part]
        (folder / f"shard.{i}.mds").write_bytes(shard_of(rows))


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
    write(folder, encoding, lambda row: head(row) + np.array(row, dtype).tobytes())
    file = read_file(folder, "mds")
    assert file.rows == ROWS
    assert file.numbers == [0, 1, 0]
    assert not file.faults
    assert file.file
    assert np.dtype(file.file.dtype) == np.dtype(dtype)


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
    rows = [
        [
            ndarray([1, 1, 0], "uint8"),
            ndarray([[0, 2], [2, 3]], "uint32"),
            np.array([-100, 8, 9]).tobytes(),
            np.array([7, 8, 9]).tobytes(),
        ],
        [
            ndarray([1, 1], "uint8"),
            ndarray([[0, 2]], "uint32"),
            np.array([5, 6]).tobytes(),
            np.array([5, 6]).tobytes(),
        ],
    ]
    write_index(tmp_path, entry_of("a.mds", 2, columns))
    (tmp_path / "a.mds").write_bytes(shard_of(rows))
    file = read_file(tmp_path, "mds")
    assert file.rows == [[7, 8, 9], [5, 6]]
    assert file.columns == {
        "attended": [[1, 1, 0], [1, 1]],
        "segments": [[0, 0, 1], [0, 0]],
        "labels": [[-100, 8, 9], [5, 6]],
    }
    assert file.file
    assert file.file.label_names == ("labels",)
    assert not file.faults


def test_columns_of_one_size_have_no_shape(tmp_path: Path) -> None:
    columns = {"tokens": "ndarray:int16:3"}
    write_index(tmp_path, entry_of("a.mds", 2, columns, column_sizes=[6]))
    rows = [[np.array(row, "int16").tobytes()] for row in ([7, 8, 9], [1, 2, 3])]
    (tmp_path / "a.mds").write_bytes(shard_of(rows, own=0))
    assert read_file(tmp_path, "mds").rows == [[7, 8, 9], [1, 2, 3]]


def test_a_compressed_shard_is_read_as_it_lies_there(tmp_path: Path) -> None:
    write(tmp_path, "ndarray:int32", ndarray)
    index = json.loads((tmp_path / "index.json").read_text())
    for shard in index["shards"]:
        name = shard["raw_data"]["basename"]
        shard["zip_data"] = {"basename": f"{name}.zstd", "bytes": 1, "hashes": {}}
        content = (tmp_path / name).read_bytes()
        (tmp_path / f"{name}.zstd").write_bytes(zstandard.compress(content))
        (tmp_path / name).unlink()
    (tmp_path / "index.json").write_text(json.dumps(index))
    file = read_file(tmp_path, "mds")
    assert (file.rows, file.faults) == (ROWS, [])


def test_an_index_of_several_folders_leaves_files_to_theirs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, "ndarray:int32", ndarray)
    assert sorted(read_files(tmp_path, "mds")) == ["a/index.json", "b/index.json"]
    columns = {"id": "str", "input_ids": "ndarray:int32"}
    entries = [
        entry_of(f"{name}/shard.{i}.mds", 2 - i, columns) for name in ("a", "b") for i in (0, 1)
    ]
    write_index(tmp_path, *entries)
    files = read_files(tmp_path, "mds")
    assert {name: file.rows for name, file in files.items()} == {
        "a/index.json": ROWS,
        "b/index.json": ROWS,
    }


def test_a_folder_of_files_may_hold_another_one(tmp_path: Path) -> None:
    write(tmp_path, "ndarray:int32", ndarray)
    write(tmp_path / "eval", "ndarray:int32", ndarray)
    files = read_files(tmp_path, "mds")
    assert {name: file.rows for name, file in files.items()} == {
        "index.json": ROWS,
        "eval/index.json": ROWS,
    }


def change_index(folder: Path, **values: Any) -> None:
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0] |= values
    (folder / "index.json").write_text(json.dumps(index))


def change(folder: Path, edit: Callable[[bytes], bytes]) -> None:
    path = folder / "shard.0.mds"
    path.write_bytes(edit(path.read_bytes()))


def put(content: bytes, place: int, number: int) -> bytes:
    return content[:place] + np.uint32(number).tobytes() + content[place + 4 :]


def outside(name: str) -> dict[str, Any]:
    return {"raw_data": {"basename": name, "bytes": 1, "hashes": {}}}


DAMAGES: dict[str, tuple[Callable[[Path], object], list[list[int]], str]] = {
    "cut": (
        lambda f: change(f, lambda c: c[:-3]),
        [ROWS[0], ROWS[2]],
        "it cannot be read after 1 rows (it ends too early)",
    ),
    "cut head": (lambda f: change(f, lambda c: c[:9]), ROWS[2:], "follow"),
    "empty": (lambda f: change(f, lambda _: b""), ROWS[2:], "it has 0 rows, and 2 by its index"),
    "missing": (lambda f: (f / "shard.0.mds").unlink(), ROWS[2:], "is not in the folder"),
    "wrong count": (
        lambda f: change_index(f, samples=3),
        ROWS,
        "it has 2 rows, and 3 by its index",
    ),
    "huge count": (lambda f: change_index(f, samples=2**40), ROWS, "by its index"),
    "negative count": (
        lambda f: change_index(f, samples=-1),
        ROWS,
        "it has 2 rows, and -1 by its index",
    ),
    "count as text": (lambda f: change_index(f, samples="2"), ROWS, ""),
    "rows that end before they begin": (
        lambda f: change(f, lambda c: put(c, 8, 5)),
        ROWS[2:],
        "follow",
    ),
    "a row of gigabytes": (
        lambda f: change(f, lambda c: put(c, 12, 2**32 - 1)),
        [ROWS[0], ROWS[2]],
        "early",
    ),
    "more dimensions than there are bytes": (
        lambda f: change(f, lambda c: c.replace(bytes([4, 4, 7]), bytes([255, 4, 7]))),
        ROWS[2:],
        "shape",
    ),
    "half an id": (
        lambda f: change(f, lambda c: c.replace(bytes([4, 4, 7]), bytes([8, 4, 7]))),
        ROWS[2:],
        "size must be a divisor",
    ),
    "outside": (
        lambda f: change_index(f, **outside("../shard.0.mds")),
        ROWS[2:],
        "is not in the folder",
    ),
    "absolute": (
        lambda f: change_index(f, **outside("/etc/passwd")),
        ROWS[2:],
        "is not in the folder",
    ),
    "no ids": (lambda f: change_index(f, column_names=["a", "b"]), [], "no lists of ids"),
    "pickles": (lambda f: change_index(f, column_encodings=["str", "pkl"]), [], "no lists of ids"),
    "sizes that are none": (lambda f: change_index(f, column_sizes=None), [], ""),
    "fewer encodings": (lambda f: change_index(f, column_encodings=["str"]), [], ""),
    "cut index": (lambda f: (f / "index.json").write_text('{"shards": [{'), [], "unexpected end"),
    "an index of something else": (lambda f: (f / "index.json").write_text("[1]"), [], ""),
}


@for_rows(("damage", "rows", "fault"), [(name, *rest[1:]) for name, rest in DAMAGES.items()])
def test_damage_is_a_fault_and_the_rest_is_read(
    tmp_path: Path, damage: str, rows: list[list[int]], fault: str
) -> None:
    folder = tmp_path / damage
    write(folder, "ndarray:int32", ndarray)
    DAMAGES[damage][0](folder)
    file = read_file(folder, "mds")
    assert file.rows == rows
    assert any(fault in text for text in file.faults), file.faults


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
                writer.write(
                    {
                        "tokens": np.array(row).tobytes(),
                        "labels": np.array(row) - 1,
                        "indices": np.array([[0, 1], [1, len(row)]], np.uint32),
                        "n": len(row),
                    }
                )
        file = read_file(out, "mds")
        assert file.rows == rows
        assert file.columns["labels"] == [[token - 1 for token in row] for row in rows]
        assert file.columns["segments"] == [[0] + [1] * (len(row) - 1) for row in rows]
        assert not file.faults
