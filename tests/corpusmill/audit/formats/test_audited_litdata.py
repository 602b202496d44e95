"""Chunks of LitData, byte by byte and as its library writes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tools.table_rows import for_rows
from tests.tools.token_folders import check_damages, cut, empty, lose, put, read_file, swap

ROWS = [[7, 8, 9, 70000], [5], [6, 2]]


def write(folder: Path, kind: str = "no_header_tensor:16", dtype: str = "<i4") -> None:
    """Two chunks of ROWS, for a TokensLoader."""
    folder.mkdir(exist_ok=True)
    chunks = []
    for number, part in enumerate((ROWS[:2], ROWS[2:])):
        items = [np.array(row).astype(dtype).tobytes() for row in part]
        begins = np.cumsum([4 * (len(part) + 2), *map(len, items)])
        content = np.array([len(part), *begins], "<u4").tobytes() + b"".join(items)
        name, tokens = f"chunk-0-{number}.bin", sum(map(len, part))
        (folder / name).write_bytes(content)
        chunks.append({"filename": name, "chunk_size": len(part), "dim": tokens})
    config = {"data_format": [kind], "compression": None, "encryption": None}
    (folder / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))


@for_rows(
    ("kind", "dtype"),
    [
        ("no_header_tensor:16", "<i4"),
        ("no_header_tensor:18", "<i8"),
        ("no_header_numpy:5", "<u2"),
        ("no_header_numpy:6", "<u4"),
    ],
)
def test_items_are_read_one_by_one(tmp_path: Path, kind: str, dtype: str) -> None:
    write(tmp_path / kind.replace(":", "-"), kind, dtype)
    file = read_file(tmp_path / kind.replace(":", "-"), "litdata")
    rows = [np.array(row).astype(dtype).tolist() for row in ROWS]
    assert (file.rows, file.numbers, file.faults) == (rows, [0, 1, 0], [])
    assert [(one.dtype, one.tokens) for one in file.files] == [(dtype, 5), (dtype, 2)]


def test_damage_is_a_fault_and_other_chunks_are_read(tmp_path: Path) -> None:
    chunk, index, last = "chunk-0-0.bin", "index.json", ROWS[2:]
    check_damages(tmp_path, "litdata", write, [
        (chunk, cut(1), [ROWS[0], ROWS[2]], "it ends within an id: 3 of 4 bytes are left"),
        (chunk, cut(4), [ROWS[0], ROWS[2]], "it has 4 ids, and 5 by what it says"),
        (chunk, lambda content: content[:6], last, "it has 0 ids, and 5 by"),
        (chunk, empty, last, "it has 0 ids, and 5 by"),
        (chunk, lose, last, "it is not in the folder"),
        (chunk, put(8, 0), last, "a row end before it begins"),
        (chunk, put(12, 2**32 - 1), [ROWS[0], ROWS[2]], "names 1,073,741,819 ids and"),
        (index, swap('size": 2', 'size": 7'), last, "a row end before it begins"),
        (index, swap('size": 2', f'size": {2**40}'), last, "it has 0"),
        (index, swap('size": 2', 'size": -9'), last, "ends after 0 of 16 ids"),
        (index, swap('size": 2', 'size": null'), [], "something else"),
        (index, swap('dim": 5', 'dim": 6'), ROWS, "it has 5 ids, and 6 by"),
        (index, swap('dim": 5', 'dim": "x"'), ROWS, "it has 5 ids, and x by"),
        (index, swap(chunk, f"../{chunk}"), last, "it is not in the folder"),
        (index, swap(chunk, f"/etc/{chunk}"), last, "it is not in the folder"),
        (index, swap('encryption": null', 'encryption": {"a": 1}'), [], "encrypted"),
        (index, swap('compression": null', 'compression": "zstd"'), [], "decompress them"),
        (index, swap("no_header_tensor:16", "pickle"), [], "Python objects"),
        (index, swap('"no_header_tensor:16"', '"int", "int"'), [], "Python objects"),
        (index, swap('["no_header_tensor:16"]', "[]"), [], "something else"),
        (index, swap("tensor:16", "tensor:1"), [], "something else"),
        (index, swap("tensor:16", "tensor:x"), [], "invalid literal"),
        (index, lambda _: b'{"chunks": [', [], "unexpected end"),
        (index, lambda _: b"[]", [], "something else"),
    ])  # fmt: skip


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    library = pytest.importorskip("litdata.streaming.writer", reason="LitData is not installed")
    loaders = pytest.importorskip("litdata.streaming.item_loader")
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def write_rows(name: str, make: Any, **options: Any) -> Any:
        writer = library.BinaryWriter(str(tmp_path / name), chunk_size=7, **options)
        for number, row in enumerate(rows):
            writer[number] = make(row)
        writer.done()
        writer.merge()
        return read_file(tmp_path / name, "litdata")

    rows, loader = [[*range(i, 3 * i + 2)] for i in range(40)], loaders.TokensLoader()
    for name, make in (
        ("tensors", lambda row: torch.tensor(row, dtype=torch.int32)),
        ("arrays", lambda row: np.array(row, np.uint16)),
    ):
        file = write_rows(name, make, item_loader=loader)
        assert (file.rows, file.faults) == (rows, []), name
    packing = {"compression": "zstd", "compression_level": "chunk"}
    packed = write_rows("packed", torch.tensor, item_loader=loader, **packing)
    assert "its chunks are compressed" in packed.faults[0]
    objects = write_rows("objects", lambda row: {"input_ids": np.array(row), "n": 4})
    assert "Python objects" in objects.faults[0]
