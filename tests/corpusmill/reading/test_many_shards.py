"""Data sets of many shards: the number of open files, and rows from all shards."""

import re
import shutil
from pathlib import Path

import numpy as np
import psutil
import pytest

from corpusmill.errors import UserError
from corpusmill.reading.cache.shard_cache import unpack_together
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.rows import copy_lists


def test_mapped_shards_keep_no_file_open(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    before = psutil.Process().num_fds()
    for shard in range(len(data.shard_sizes)):
        assert len(data.cache.columns(shard)) == len(data.columns)
    assert psutil.Process().num_fds() == before


def test_rows_from_all_shards_at_once_are_those_of_each(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    samples = np.random.default_rng(0).permutation(len(data))
    rows = data.take(samples)
    for place, sample in enumerate(samples.tolist()):
        expected = data[sample]
        assert rows[place].keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(rows[place][name], value, name)


def test_lists_are_copied_to_their_places_and_nowhere_else() -> None:
    # Rows [1, 2], [], [3, 4, 5]; place 1 of the gathered rows belongs to another shard.
    values, offsets = np.array([1, 2, 3, 4, 5], np.int16), np.array([0, 2, 2, 5])
    gathered, gathered_offsets = np.full(8, -1, np.int16), np.array([0, 3, 5, 5, 7])
    rows, places = np.array([2, 1, 0]), np.array([0, 2, 3])
    copy_lists(values, offsets, rows, places, gathered, gathered_offsets)
    np.testing.assert_array_equal(gathered, [3, 4, 5, -1, -1, 1, 2, -1])


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


def test_one_damaged_shard_of_several_is_named(bert: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(bert, copy)
    data = DataSet(copy, cache_folder=tmp_path / "cache")
    damaged = copy / data.shards[1].file
    damaged.write_bytes(damaged.read_bytes()[::-1])
    with pytest.raises(UserError, match=re.escape(damaged.name)):
        data.take(np.arange(len(data)))
