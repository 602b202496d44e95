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


@pytest.mark.usefixtures("usual_thresholds")
def test_rows_that_kernels_would_write_beside_their_arrays_for_are_refused(
    data: Path, cache_folder: Path
) -> None:
    """All that is refused is in cache/test_row_checks.py."""
    rewrite(data, lambda rows: rows["masked_lm_positions"][0].__setitem__(0, 100))
    opened = DataSet(data, cache_folder=cache_folder)
    with pytest.raises(UserError) as refused:
        opened.take(np.arange(len(opened)))
    assert "its rows are not what dataset.json says" in str(refused.value)
    assert "masked_lm_positions has a place that its row does not have" in str(refused.value)
    assert not opened.cache.place(0).exists()
    assert not list(cache_folder.glob("*.*/"))


def test_rows_of_other_types_or_numbers_are_refused(data: Path, cache_folder: Path) -> None:
    manifest = (data / "dataset.json").read_bytes()
    types = {"dtype": "int64", "type": "list<element: int64 not null>"}
    change(data, lambda entries: entries["columns"][0].update(types))
    with pytest.raises(UserError, match=r"its rows are not what dataset\.json says"):
        read_all(data, cache_folder)
    (data / "dataset.json").write_bytes(manifest)
    rewrite(data, lambda rows: [column.pop() for column in rows.values()])
    with pytest.raises(UserError, match=r"its rows are not what dataset\.json says.*rows"):
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
