"""Data sets of many shards, also of more than are listed: what is opened, and what is held."""

import gc
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import psutil
import pytest

from corpusmill.dataset.manifest import Manifest, Split
from corpusmill.dataset.manifest_json import decode, encode
from corpusmill.errors import UserError
from corpusmill.location import LocalPath, Location
from corpusmill.reading.cache.shard_cache import ShardCache, unpack_together
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import UnpackingAhead
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.order.order import Order
from corpusmill.reading.rows import Values

SHARDS, RANKS, BATCH_SIZE = 1200, 60, 4


def repeat_shards(manifest: Manifest, shards: int) -> Manifest:
    """Return a manifest whose train split has its first shard again and again."""
    [first, *_] = manifest.splits["train"].shards
    names = [f"train-{number:05d}-of-{shards:05d}.parquet" for number in range(shards)]
    entries = [msgspec.structs.replace(first, file=name) for name in names]
    rows, tokens = first.rows * shards, first.tokens * shards
    # One row has the tokens that the others lack of one each.
    lengths = {1: rows - 1, tokens - (rows - 1): 1}
    train = Split(rows, tokens, tuple(entries), {"length": lengths})
    return replace(manifest, splits={"train": train})


@pytest.fixture(scope="module")
def many(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set of links to one shard."""
    folder = tmp_path_factory.mktemp("many")
    manifest = decode((bert / "dataset.json").read_bytes(), "bert")
    content = encode(repeat_shards(manifest, SHARDS))
    for number in range(SHARDS):
        name = f"train-{number:05d}-of-{SHARDS:05d}.parquet"
        (folder / name).symlink_to(bert / manifest.splits["train"].shards[0].file)
    (folder / "dataset.json").write_bytes(content)
    return folder


@pytest.fixture
def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are opened from now on; listing them is an error."""
    names: list[str] = []
    really_open: Callable[[LocalPath, str], BinaryIO] = LocalPath.open

    def note(folder: LocalPath, name: str) -> BinaryIO:
        names.append(name)
        return really_open(folder, name)

    def refuse(folder: Location) -> dict[str, int]:
        raise AssertionError(f"{folder.url} is listed")

    monkeypatch.setattr(LocalPath, "open", note)
    monkeypatch.setattr(LocalPath, "list", refuse)
    return names


@pytest.mark.usefixtures("usual_thresholds")
def test_the_first_batch_of_a_rank_opens_its_own_shards_alone(
    many: Path, cache_folder: Path, opened_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The links have the same content, so that one that is unpacked stands for all.
    read = set[int]()
    really_read = ShardCache.columns

    def note(cache: ShardCache, shard: int, together: Collection[int] = ()) -> dict[str, Values]:
        read.add(shard)
        return really_read(cache, shard, together)

    monkeypatch.setattr(ShardCache, "columns", note)
    # Threads may unpack a later shard before the batch is read, for which it does not wait.
    monkeypatch.setattr(UnpackingAhead, "_start", lambda ahead: None)  # noqa: ARG005
    data = DataSet(many, cache_folder=cache_folder)
    assert len(data.shard_sizes) == SHARDS
    assert set(opened_files) == {"dataset.json"}
    rank = RANKS - 1
    order = Order(data.shard_sizes, seed=1, window=data.shard_sizes[0])
    numbers = np.arange(rank, RANKS * BATCH_SIZE, RANKS)
    own = np.searchsorted(np.cumsum(data.shard_sizes), order.locate(numbers), side="right")
    loader = Loader(make_batches(data, BATCH_SIZE, order=order), rank, RANKS, prefetch_factor=0)
    batch = next(iter(loader))
    assert len(batch["input_ids"]) == BATCH_SIZE
    assert read == set(own.tolist())
    assert set(opened_files) - {"dataset.json"} <= {data.shards[shard].file for shard in own}


def test_an_opened_data_set_holds_no_collected_object_per_shard(many: Path) -> None:
    DataSet(many)
    gc.collect()
    before = len(gc.get_objects())
    data = DataSet(many)
    gc.collect()
    assert len(gc.get_objects()) - before < SHARDS / 2
    assert len(data.shards) == SHARDS


def test_a_missing_file_of_very_many_is_refused_when_it_is_read(
    many: Path, tmp_path: Path, cache_folder: Path
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "dataset.json").write_bytes((many / "dataset.json").read_bytes())
    data = DataSet(copy, cache_folder=cache_folder)
    with pytest.raises(UserError, match=re.escape(f"{data.shards[7].file}: the file is missing")):
        data.lengths(np.array([7 * data.shard_sizes[0]]))


def test_mapped_shards_keep_no_file_open(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    before = psutil.Process().num_fds()
    for shard in range(len(data.shard_sizes)):
        assert len(data.cache.columns(shard)) == len(data.columns)
    assert psutil.Process().num_fds() == before


def test_shards_are_unpacked_together_before_any_is_read(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    shards = range(len(data.shard_sizes))
    unpack_together([(data.cache, shard) for shard in shards])
    assert all(data.cache.place(shard).is_dir() for shard in shards)
    alone = DataSet(bert, cache_folder=cache_folder.with_name("alone"))
    for shard in shards:
        together, expected = data.cache.columns(shard), alone.cache.columns(shard)
        for name, values in expected.items():
            for actual, part in zip(together[name], values, strict=True):
                np.testing.assert_array_equal(actual, part, name)
