"""Caches of Levanter, whose arrays tensorstore writes in the shape that the library gives them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmill.audit.formats import levanter
from corpusmill.errors import UserError
from tests.tools.table_rows import for_rows
from tests.tools.token_folders import read_file, read_files

ROWS = [[7, 8, 9, 70000], [], [5], [6, 2]]


def write_array(path: Path, values: list[int], dtype: str, driver: str) -> None:
    tensorstore = pytest.importorskip("tensorstore", reason="tensorstore is not installed")
    store = {"driver": "file", "path": f"{path}/"}
    metadata: dict[str, Any] = {"shape": [len(values)], "chunks": [4], "dtype": np.dtype(dtype).str}
    metadata |= {"compressor": None}
    if driver == "zarr3":
        shards = {"name": "regular", "configuration": {"chunk_shape": [4]}}
        codecs = [{"name": "blosc", "configuration": {"clevel": 5}}]
        inner = {"chunk_shape": [2], "codecs": codecs}
        sharding = {"name": "sharding_indexed", "configuration": inner}
        # The library opens arrays of more values than will ever be written.
        metadata = {"chunk_grid": shards, "codecs": [sharding], "data_type": dtype}
        metadata |= {"shape": [2**54]}
    spec = {"driver": driver, "kvstore": store, "metadata": metadata, "create": True, "open": True}
    if values:
        tensorstore.open(spec).result()[: len(values)].write(np.array(values, dtype)).result()


def write_column(path: Path, rows: list[list[int]] = ROWS, driver: str = "zarr3") -> None:
    write_array(path / "data", [token for row in rows for token in row], "int32", driver)
    ends = np.cumsum([*map(len, rows)]).tolist()
    write_array(path / "offsets", [len(rows), *ends], "int64", driver)


def write_ledger(folder: Path, rows: int = len(ROWS), **others: Any) -> None:
    ledger = {
        "total_num_rows": rows,
        "shard_rows": {"": rows},
        "is_finished": True,
        "finished_shards": [""],
        "field_counts": {},
        "metadata": {"preprocessor_metadata": {"tokenizer": "gpt2", "vocab_size": 50257}},
    }
    (folder / "shard_ledger.json").write_text(json.dumps(ledger | others))


def write(folder: Path) -> None:
    write_column(folder / "input_ids")
    write_ledger(folder)


@for_rows(
    ("column", "driver"), [("input_ids", "zarr3"), ("input_ids/0", "zarr3"), ("input_ids", "zarr")]
)
def test_each_layout_is_read(tmp_path: Path, column: str, driver: str) -> None:
    folder = tmp_path / f"{driver}-{column}".replace("/", "-")
    write_column(folder / column, driver=driver)
    write_column(folder / "assistant_masks", [[1] * len(row) for row in ROWS], driver)
    write_ledger(folder)
    file = read_file(folder, "levanter")
    assert file.rows == ROWS
    assert file.columns == {"learned": [[1] * len(row) for row in ROWS]}
    assert not file.faults
    assert file.file
    assert (file.file.tokenizer, file.file.dtype) == ("gpt2", "int32")


def test_a_cache_of_caches_is_one(tmp_path: Path) -> None:
    for name in ("part-0", "part-1"):
        write(tmp_path / "train" / name)
    write_ledger(tmp_path / "train", 8)
    write(tmp_path / "validation")
    files = read_files(tmp_path, "levanter")
    assert {name: file.rows for name, file in files.items()} == {
        "train/part-0/shard_ledger.json": ROWS,
        "train/part-1/shard_ledger.json": ROWS,
        "validation/shard_ledger.json": ROWS,
    }
    assert not any(file.faults for file in files.values())


def test_many_rows_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levanter, "INDEX_NUMBERS", 2)
    monkeypatch.setattr("corpusmill.audit.formats.flat.BATCH_TOKENS", 3)
    write(tmp_path)
    file = read_file(tmp_path, "levanter")
    assert (file.rows, file.numbers, file.faults) == (ROWS, [0, 1, 2, 3], [])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


DAMAGES: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "not finished": (lambda f: write_ledger(f, is_finished=False), 4, "was not finished"),
    "wrong rows": (lambda f: write_ledger(f, 5), 4, "it has 4 rows, and 5 by its index"),
    "a lost chunk": (lambda f: (f / "input_ids/data/c/1").unlink(), 0, "its chunks have 4"),
    "a cut chunk": (lambda f: cut(f / "input_ids/data/c/1"), 0, "after 0 rows"),
    "lost offsets": (lambda f: (f / "input_ids/offsets/c/1").unlink(), 0, "5 numbers are needed"),
    "no offsets at all": (lambda f: (f / "input_ids/offsets/c/0").unlink(), 0, ""),
    "offsets that descend": (
        lambda f: write_array(f / "input_ids/offsets", [2, 5, 3], "int64", "zarr3"),
        0,
        "ends before it begins",
    ),
    "a negative number of rows": (
        lambda f: write_array(f / "input_ids/offsets", [-3], "int64", "zarr3"),
        0,
        "",
    ),
    "more rows than there are": (
        lambda f: write_array(f / "input_ids/offsets", [2**50], "int64", "zarr3"),
        0,
        "numbers are needed",
    ),
    "a row beyond the data": (
        lambda f: write_array(f / "input_ids/offsets", [1, 2**50], "int64", "zarr3"),
        0,
        "its chunks have 8",
    ),
    "no data": (lambda f: (f / "input_ids/data/zarr.json").unlink(), 0, ""),
    "damaged metadata": (lambda f: cut(f / "input_ids/data/zarr.json"), 0, ""),
    "other columns": (lambda f: (f / "input_ids").rename(f / "audio"), 0, "no lists of ids"),
    "cut ledger": (lambda f: cut(f / "shard_ledger.json"), 0, ""),
    "a ledger of something else": (lambda f: (f / "shard_ledger.json").write_text("[]"), 0, ""),
}


@for_rows(("damage", "rows", "fault"), [(name, *rest[1:]) for name, rest in DAMAGES.items()])
def test_damage_is_a_fault(tmp_path: Path, damage: str, rows: int, fault: str) -> None:
    folder = tmp_path / damage
    write(folder)
    DAMAGES[damage][0](folder)
    file = read_file(folder, "levanter")
    assert len(file.rows) == rows
    assert any(fault in text for text in file.faults), file.faults


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    (tmp_path / "input_ids" / "offsets").mkdir(parents=True)
    (tmp_path / "input_ids" / "offsets" / "zarr.json").write_text("{}")
    write_ledger(tmp_path)
    with pytest.raises(UserError, match=r"Run pip install 'corpusmill\[levanter\]'"):
        read_file(tmp_path, "levanter")
