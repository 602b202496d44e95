"""Chunks of LitData, byte by byte and as its library writes them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tools.table_rows import for_rows
from tests.tools.token_folders import read_file

ROWS = [[7, 8, 9, 70000], [5], [6, 2]]
PARTS = (ROWS[:2], ROWS[2:])


def chunk_of(items: Sequence[bytes]) -> bytes:
    begins = np.cumsum([4 * (len(items) + 2), *map(len, items)])
    return np.array([len(items), *begins], "<u4").tobytes() + b"".join(items)


def write(folder: Path) -> None:
    """Chunks for a TokensLoader."""
    folder.mkdir(exist_ok=True)
    chunks = []
    for i, part in enumerate(PARTS):
        name, items = f"chunk-0-{i}.bin", [np.array(row, "<i4").tobytes() for row in part]
        (folder / name).write_bytes(chunk_of(items))
        dim = sum(map(len, part))
        chunks.append({"filename": name, "chunk_size": len(part), "chunk_bytes": 1, "dim": dim})
    config = {"data_format": ["no_header_tensor:16"], "compression": None, "encryption": None}
    (folder / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))


def test_chunks_of_tokens_are_read_item_by_item(tmp_path: Path) -> None:
    write(tmp_path)
    file = read_file(tmp_path, "litdata")
    assert (file.rows, file.numbers, file.faults) == (ROWS, [0, 1, 0], [])
    assert file.file
    assert file.file.dtype == "<i4"


def change(folder: Path, edit: Callable[[bytes], bytes]) -> None:
    path = folder / "chunk-0-0.bin"
    path.write_bytes(edit(path.read_bytes()))


def change_index(folder: Path, part: str, **values: Any) -> None:
    index = json.loads((folder / "index.json").read_text())
    (index["chunks"][0] if part == "chunk" else index["config"]).update(values)
    (folder / "index.json").write_text(json.dumps(index))


DAMAGES: dict[str, tuple[Callable[[Path], object], list[list[int]], str]] = {
    "cut": (
        lambda f: change(f, lambda c: c[:-1]),
        [ROWS[0], ROWS[2]],
        "its index names 5 ids and more, and it has 4",
    ),
    "cut head": (lambda f: change(f, lambda c: c[:6]), ROWS[2:], "5 ids, and it has 0"),
    "missing": (lambda f: (f / "chunk-0-0.bin").unlink(), ROWS[2:], "not in the folder"),
    "wrong count": (lambda f: change_index(f, "chunk", chunk_size=7), ROWS[2:], "follow"),
    "no count": (lambda f: change_index(f, "chunk", chunk_size=None), [], ""),
    "wrong number of ids": (lambda f: change_index(f, "chunk", dim=6), ROWS, "says 6 ids"),
    "negative length": (
        lambda f: change(f, lambda c: c[:8] + bytes(4) + c[12:]),
        ROWS[2:],
        "follow",
    ),
    "outside": (lambda f: change_index(f, "chunk", filename="../../x"), ROWS[2:], "not in the"),
    "encrypted": (lambda f: change_index(f, "config", encryption={"a": 1}), [], "encrypted"),
    "compressed": (lambda f: change_index(f, "config", compression="zstd"), [], "compressed"),
    "pickles": (lambda f: change_index(f, "config", data_format=["pickle"]), [], "Python objects"),
    "two leaves": (
        lambda f: change_index(f, "config", data_format=["no_header_tensor:16", "int"]),
        [],
        "Python objects",
    ),
    "a type of fractions": (
        lambda f: change_index(f, "config", data_format=["no_header_tensor:1"]),
        [],
        "",
    ),
    "a type that is no number": (
        lambda f: change_index(f, "config", data_format=["no_header_tensor:x"]),
        [],
        "",
    ),
    "cut index": (lambda f: (f / "index.json").write_text('{"chunks": ['), [], "unexpected end"),
}


@for_rows(("damage", "rows", "fault"), [(name, *rest[1:]) for name, rest in DAMAGES.items()])
def test_damage_is_a_fault_and_the_rest_is_read(
    tmp_path: Path, damage: str, rows: list[list[int]], fault: str
) -> None:
    folder = tmp_path / damage
    write(folder)
    DAMAGES[damage][0](folder)
    file = read_file(folder, "litdata")
    assert file.rows == rows
    assert any(fault in text for text in file.faults), file.faults


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    library = pytest.importorskip("litdata.streaming.writer", reason="LitData is not installed")
    loaders = pytest.importorskip("litdata.streaming.item_loader")
    torch = pytest.importorskip("torch", reason="torch is not installed")

    rows = [[*range(i, 3 * i + 2)] for i in range(40)]
    for name, make in (
        ("tensors", lambda row: torch.tensor(row, dtype=torch.int32)),
        ("arrays", lambda row: np.array(row, np.uint16)),
    ):
        out, loader = tmp_path / name, loaders.TokensLoader()
        writer = library.BinaryWriter(str(out), chunk_size=7, item_loader=loader)
        for i, row in enumerate(rows):
            writer[i] = make(row)
        writer.done()
        writer.merge()
        file = read_file(out, "litdata")
        assert (file.rows, file.faults) == (rows, []), name
