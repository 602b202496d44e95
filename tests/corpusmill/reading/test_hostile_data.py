"""A data set from anywhere: nothing of it is executed, written elsewhere or believed unseen.

Manifests that must not be believed are in tests/pipeline/commands/test_hostile_manifests.py.
"""

import builtins
import hashlib
import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet
from tests.corpusmill.reading.test_damaged_data import read_all, reseal

Manifest = dict[str, Any]


@pytest.fixture
def data(bert: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bert, tmp_path / "in" / "out"))


def change(data: Path, by: Callable[[Manifest], object]) -> None:
    manifest = json.loads((data / "dataset.json").read_text())
    by(manifest)
    reseal(data, manifest)


def first_shard(manifest: Manifest) -> Manifest:
    shard: Manifest = manifest["splits"]["train"]["shards"][0]
    return shard


def rewrite(data: Path, by: Callable[[dict[str, list[Any]]], object]) -> None:
    """Other rows in the first shard, with a manifest that vouches for them."""
    manifest = json.loads((data / "dataset.json").read_text())
    shard = first_shard(manifest)
    path = data / shard["file"]
    table = pq.read_table(path)
    rows = table.to_pydict()
    by(rows)
    pq.write_table(pa.table(rows, schema=table.schema), path)
    content = path.read_bytes()
    shard.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    reseal(data, manifest)


def put_row(column: str, row: list[int] | int) -> Callable[[dict[str, list[Any]]], object]:
    return lambda rows: rows[column].__setitem__(0, row)


def put_value(column: str, value: int) -> Callable[[dict[str, list[Any]]], object]:
    return lambda rows: rows[column][0].__setitem__(0, value)


ROWS: dict[str, tuple[Callable[[dict[str, list[Any]]], object], str]] = {
    "a place after the row": (put_value("masked_lm_positions", 100),
                              "masked_lm_positions has a place that its row does not have"),
    "a place before the row": (put_value("masked_lm_positions", -100),
                               "masked_lm_positions has a place"),
    "a longer row": (put_row("input_ids", [5] * 70), "input_ids has a list of more than 64 values"),
    "an id that no token has": (put_value("input_ids", 600),
                                "input_ids has a value that is not from 0 to 599"),
    "a label that no token has": (put_value("masked_lm_ids", -5), "masked_lm_ids has a value"),
    "too few labels": (put_row("masked_lm_ids", []), "rows of masked_lm_ids are not as long"),
    "too few types": (put_row("token_type_ids", [0]), "rows of token_type_ids are not as long"),
    "a third segment": (put_value("token_type_ids", 2),
                        "token_type_ids has a value that is not from 0 to 1"),
    "a third label": (put_row("next_sentence_label", 2), "next_sentence_label has a value"),
    "a row less": (lambda rows: [column.pop() for column in rows.values()], "rows"),
}  # fmt: skip


@pytest.mark.usefixtures("usual_thresholds")
@pytest.mark.parametrize("name", ROWS)
def test_rows_that_kernels_would_write_beside_their_arrays_for_are_refused(
    name: str, data: Path, cache_folder: Path
) -> None:
    by, cause = ROWS[name]
    rewrite(data, by)
    opened = DataSet(data, cache_folder=cache_folder)
    with pytest.raises(UserError) as refused:
        opened.take(np.arange(len(opened)))
    assert "its rows are not what dataset.json says" in str(refused.value)
    assert cause in str(refused.value)
    assert not opened.cache.place(0).exists()
    assert not list(cache_folder.glob("*.*/"))


def test_rows_of_other_types_are_refused(data: Path, cache_folder: Path) -> None:
    types = {"dtype": "int64", "type": "list<element: int64 not null>"}
    change(data, lambda manifest: manifest["columns"][0].update(types))
    with pytest.raises(UserError, match=r"its rows are not what dataset\.json says"):
        read_all(data, cache_folder)


@pytest.mark.parametrize("marks", [[], [0], [1, 64], [0, 70], [0, 40, 20, 64], [0, -1, 64]])
def test_boundaries_beside_their_row_are_refused(
    marks: list[int], gpt_pack: Path, tmp_path: Path, cache_folder: Path
) -> None:
    data = Path(shutil.copytree(gpt_pack, tmp_path / "out"))
    rewrite(data, put_row("cu_seqlens", marks))
    with pytest.raises(UserError, match="cu_seqlens does not lead from 0 to its row's length"):
        read_all(data, cache_folder)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


def test_nothing_in_a_folder_is_executed(
    data: Path, cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code, pickles and configurations that lie beside the shards stay unread."""

    def explode(*_: object, **__: object) -> None:
        raise AssertionError("it was executed")

    read_all(data, tmp_path / "warm")  # compiled kernels are loaded as pickles, once
    bomb = pickle.dumps(Bomb())
    (data / "out.py").write_text("raise SystemExit")
    (data / "__init__.py").write_text("raise SystemExit")
    for name in ("state.pkl", "dataset.npy", "data.pt", "index.pkl.gz"):
        (data / name).write_bytes(bomb)
    added = {"loader": "out.py", "trust_remote_code": True, "_target_": "os.system"}
    change(data, lambda manifest: manifest.update(added))
    for module, name in (
        (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (builtins, "eval"),
        (os, "system"), (subprocess, "Popen"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, explode)
    assert read_all(data, cache_folder) > 0


def test_a_shard_that_is_a_link_is_read_where_its_bytes_are_right(
    data: Path, tmp_path: Path, cache_folder: Path
) -> None:
    """The hub's own cache is made of links, so that links are followed; only bytes count."""
    shard = data / "train-00000-of-00003.parquet"
    shard.rename(tmp_path / "blob")
    shard.symlink_to(tmp_path / "blob")
    assert read_all(data, cache_folder) > 0
    secret = tmp_path / "secret"
    secret.write_bytes(b"s3cret" * 999)
    shard.unlink()
    shard.symlink_to(secret)
    with pytest.raises(UserError) as refused:
        read_all(data, tmp_path / "other cache")
    assert "s3cret" not in str(refused.value)


def test_numbers_of_examples_that_are_none_are_refused(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    for number in (-1, len(data), 2**62):
        with pytest.raises(IndexError, match=f"it has {len(data)} examples"):
            data.take(np.array([0, number]))
