"""Caches of Levanter, whose arrays tensorstore writes in the shape that the library gives them."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmill.audit.formats import levanter
from corpusmill.errors import UserError
from tests.tools.table_rows import for_rows
from tests.tools.token_folders import check_damages, cut, empty, lose, read_file, swap

ROWS = [[7, 8, 9, 70000], [], [5], [6, 2]]
MASKS = [[1] * len(row) for row in ROWS]


def write_array(
    path: Path, values: list[int], dtype: str, driver: str = "zarr3", chunk: int = 4
) -> None:
    tensorstore = pytest.importorskip("tensorstore", reason="tensorstore is not installed")
    metadata: dict[str, Any] = {
        "shape": [len(values)],
        "chunks": [chunk],
        "dtype": np.dtype(dtype).str,
    }
    metadata |= {"compressor": None}
    if driver == "zarr3":
        shards = {"name": "regular", "configuration": {"chunk_shape": [chunk]}}
        codecs = [{"name": "blosc", "configuration": {"clevel": 5}}]
        inner = {"chunk_shape": [chunk // 2], "codecs": codecs}
        sharding = {"name": "sharding_indexed", "configuration": inner}
        # The library opens arrays of more values than will ever be written.
        metadata = {"chunk_grid": shards, "codecs": [sharding], "data_type": dtype}
        metadata |= {"shape": [2**54]}
    spec = {"driver": driver, "metadata": metadata, "create": True, "open": True}
    spec["kvstore"] = {"driver": "file", "path": f"{path}/"}
    tensorstore.open(spec).result()[: len(values)].write(np.array(values, dtype)).result()


def write_column(
    path: Path, rows: list[list[int]] = ROWS, driver: str = "zarr3", chunk: int = 4
) -> None:
    write_array(path / "data", [token for row in rows for token in row], "int32", driver, chunk)
    ends = np.cumsum([*map(len, rows)]).tolist()
    write_array(path / "offsets", [len(rows), *ends], "int64", driver, chunk)


def write_ledger(folder: Path, **others: Any) -> None:
    preprocessor = {"preprocessor_metadata": {"tokenizer": "gpt2", "vocab_size": 50257}}
    ledger = {"total_num_rows": 4, "shard_rows": {"": 4}, "is_finished": True}
    text = json.dumps({**ledger, "metadata": preprocessor, **others})
    (folder / "shard_ledger.json").write_text(text)


def write(folder: Path) -> None:
    write_column(folder / "input_ids")
    write_ledger(folder)


@for_rows(
    ("column", "driver"), [("input_ids", "zarr3"), ("input_ids/0", "zarr3"), ("input_ids", "zarr")]
)
def test_each_layout_is_read(tmp_path: Path, column: str, driver: str) -> None:
    folder = tmp_path / f"{driver}-{column}".replace("/", "-")
    write_column(folder / column, driver=driver)
    write_column(folder / "assistant_masks", MASKS, driver)
    write_ledger(folder)
    file = read_file(folder, "levanter")
    assert (file.rows, file.columns, file.faults) == (ROWS, {"learned": MASKS}, [])
    assert [(one.tokenizer, one.dtype) for one in file.files] == [("gpt2", "int32")]


def test_shards_have_caches_of_their_own(tmp_path: Path) -> None:
    for name in ("part-0", "part-1"):
        write_column(tmp_path / "train" / name / "input_ids")
    shards = {"part-0": 4, "part-1": 4}
    write_ledger(tmp_path / "train", total_num_rows=8, shard_rows=shards)
    file = read_file(tmp_path, "levanter")
    assert (file.rows, file.numbers, file.faults) == ([*ROWS, *ROWS], [*range(4)] * 2, [])
    (tmp_path / "train/part-0/input_ids/data/c/1").unlink()
    shards["part-1"] = 5
    write_ledger(tmp_path / "train", total_num_rows=8, shard_rows=shards)
    file = read_file(tmp_path, "levanter")
    assert file.rows == ROWS
    assert ["chunks" in text or "5 by its" in text for text in file.faults] == [True, False, True]


def test_many_rows_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levanter, "INDEX_NUMBERS", 2)
    monkeypatch.setattr("corpusmill.audit.formats.flat.BATCH_TOKENS", 3)
    write(tmp_path)
    file = read_file(tmp_path, "levanter")
    assert (file.rows, file.numbers, file.faults) == (ROWS, [0, 1, 2, 3], [])
    assert read_file(tmp_path, "levanter", every=3).rows == ROWS[:1]


def test_damage_is_a_fault(tmp_path: Path) -> None:
    ids, ledger = "input_ids", "shard_ledger.json"
    check_damages(tmp_path, "levanter", write, [
        (ledger, swap('finished": true', 'finished": false'), ROWS, "was not finished"),
        (ledger, swap('rows": 4', 'rows": 5'), ROWS, "has 4 rows, and 5 by its index"),
        (ledger, cut(5), [], "unexpected end of data"),
        (ledger, lambda _: b"[]", [], "something else"),
        (ledger, swap("is_finished", "finished"), [], "something else: 'is_finished'"),
        (ledger, swap('"metadata": {', '"metadata": [], "other": {'), [], "something else"),
        (f"{ids}/data/c/1", lose, [], "7 numbers are needed, and its chunks have 4"),
        (f"{ids}/data/c/1", cut(5), [], "DATA_LOSS"),
        (f"{ids}/data/c/1", empty, [], "DATA_LOSS"),
        (f"{ids}/data/zarr.json", lose, [], "NOT_FOUND"),
        (f"{ids}/data/zarr.json", cut(5), [], "JSON"),
        (f"{ids}/data/zarr.json", swap("int32", "float32"), [], "ids are of type float32"),
        (f"{ids}/offsets/c/0", lose, [], "has 0 rows, and 4 by"),
        (f"{ids}/offsets/c/1", lose, [], "5 numbers are needed"),
        (f"{ids}/offsets/zarr.json", lose, [], "no arrays"),
        (f"{ids}/data/zarr.json", swap("[4]", f"[{2**40}]"), [], "grid shape"),
    ])  # fmt: skip


@for_rows(
    ("offsets", "fault"),
    [
        ([2, 5, 3], "ends before it begins"),
        ([-3, 5], "0 rows, and 4 by its index"),
        ([2**50, 5], "numbers are needed"),
        ([1, 2**50], "numbers are needed"),
        ([1, -1], "ends before it begins"),
    ],
)
def test_offsets_that_lead_astray_are_faults(
    tmp_path: Path, offsets: list[int], fault: str
) -> None:
    folder = tmp_path / str(offsets)
    write_column(folder / "input_ids")
    write_array(folder / "input_ids/offsets", offsets, "int64")
    write_ledger(folder)
    file = read_file(folder, "levanter")
    assert not file.rows
    assert fault in file.faults[0], file.faults


def test_a_cache_without_ids_is_refused(tmp_path: Path) -> None:
    write_column(tmp_path / "audio")
    write_ledger(tmp_path)
    assert "no lists of ids" in read_file(tmp_path, "levanter").faults[0]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    for part in ("data", "offsets"):
        (tmp_path / "input_ids" / part).mkdir(parents=True)
        (tmp_path / "input_ids" / part / "zarr.json").touch()
    write_ledger(tmp_path)
    with pytest.raises(UserError, match=r"Run pip install 'corpusmill\[levanter\]'"):
        read_file(tmp_path, "levanter")
