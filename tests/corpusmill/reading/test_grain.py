"""Grain's loaders over our data sets: what it resumes, and what it refuses to resume."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from corpusmill.objectives.bert import BertOptions
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.token_windows import TokenWindows
from tests.tools.lazily import LazyModule
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset

grain = LazyModule("grain")

Rows = list[list[int]]
GLOBAL_BATCH = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data sets of several kinds; `dynamic` is masked when it is read."""
    folder = tmp_path_factory.mktemp("grain")
    dynamic = BertOptions(max_seq_length=64, duplicates=1, whole_word_mask=True, mask="dynamic")
    write_dataset(folder / "dynamic", Recipe(dynamic))
    write_dataset(folder / "stream", Recipe(OBJECTIVES["gpt_stream"]))
    write_dataset(folder / "other", Recipe(dynamic, shards=2))
    return folder


@pytest.fixture(scope="module")
def data(folder: Path) -> DataSet:
    return DataSet(folder / "dynamic", cache_folder=folder / "cache")


class Batch:
    """Collates the examples at some places of the stream of all epochs."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.collate = collator_for(samples, padding="max_length", seed=1)

    def __call__(self, places: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        rows = self.samples.take(places[:, 0], epochs=places[:, 1])
        return self.collate(self.collate.prepare(rows))


def batches(samples: Samples, host: int = 0, hosts: int = 1) -> Any:
    """The batches of one host, as docs/how-to/read-in-other-frameworks.md makes them."""
    size = len(samples)
    stream = grain.MapDataset.range(size).shuffle(seed=1).repeat(2)
    places = stream.map_with_index(lambda place, number: np.array([number, place // size]))
    host_batch = GLOBAL_BATCH // hosts
    by_host = places[host::hosts].batch(host_batch, drop_remainder=True)
    return by_host.map(Batch(samples)).to_iter_dataset()


def rows_of(batch: dict[str, npt.NDArray[Any]]) -> Rows:
    """The tokens and labels of a batch, so that masks count; sorted, as hosts take turns."""
    columns = np.concatenate([batch["input_ids"], batch["labels"]], axis=1)
    return sorted(columns.tolist())


def step(iterators: list[Iterator[Any]]) -> Rows:
    """What all hosts read in one step."""
    return sorted(row for iterator in iterators for row in rows_of(next(iterator)))


def test_a_data_set_is_a_source_of_grain(data: DataSet, folder: Path) -> None:
    assert isinstance(data, grain.sources.RandomAccessDataSource)
    source = grain.MapDataset.source(data).shuffle(seed=1)
    assert sorted(len(row["input_ids"]) for row in source) == sorted(
        data.lengths(np.arange(len(data)))
    )
    row, again = source[0], grain.MapDataset.source(data).shuffle(seed=1)._getitems([0])[0]
    assert row.keys() == again.keys()
    assert all(np.array_equal(row[name], again[name]) for name in row)
    windows = TokenWindows(DataSet(folder / "stream", cache_folder=folder / "cache"), 16)
    batch = next(iter(grain.MapDataset.source(windows).batch(4).to_iter_dataset()))
    assert batch["input_ids"].shape == batch["targets"].shape == (4, 16)
    assert np.array_equal(batch["input_ids"][:, 1:], batch["targets"][:, :-1])


def test_a_source_is_known_by_its_rows_and_not_by_its_place(data: DataSet, folder: Path) -> None:
    (folder / "moved").symlink_to(folder / "dynamic")
    assert repr(DataSet(folder / "moved")) == repr(data)
    assert repr(DataSet(folder / "other")) != repr(data)
    copy = pickle.loads(pickle.dumps(data))  # noqa: S301  our own
    assert repr(copy) == repr(data)


@pytest.fixture(scope="module")
def expected(data: DataSet) -> list[Rows]:
    """All batches, as one host reads them."""
    return [rows_of(batch) for batch in batches(data)]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (4, 1)])
def test_an_iterator_resumes_on_any_number_of_hosts(
    data: DataSet, expected: list[Rows], before: int, after: int
) -> None:
    iterators = [iter(batches(data, host, before)) for host in range(before)]
    assert [step(iterators) for _ in range(3)] == expected[:3]
    states = [json.loads(json.dumps(iterator.get_state())) for iterator in iterators]
    # As long as the global batch stays the same, one host's state is every host's.
    assert all(state == states[0] for state in states)
    iterators = [iter(batches(data, host, after)) for host in range(after)]
    for iterator in iterators:
        iterator.set_state(states[0])
    resumed = [step(iterators) for _ in expected[3:]]
    assert resumed == expected[3:]


def test_grains_workers_read_the_same(data: DataSet) -> None:
    options = grain.MultiprocessingOptions(num_workers=1)
    iterator = iter(batches(data).mp_prefetch(options))
    expected = iter(batches(data))
    for _ in range(3):
        assert rows_of(next(iterator)) == rows_of(next(expected))
    iterator.close()


def test_grains_data_loader_refuses_other_hosts_and_other_data(folder: Path, data: DataSet) -> None:
    def load(samples: DataSet, hosts: int) -> Any:
        shards = grain.sharding.ShardOptions(0, hosts, drop_remainder=True)
        sampler = grain.samplers.IndexSampler(len(data), shards, shuffle=True, num_epochs=1, seed=1)
        return iter(grain.DataLoader(data_source=samples, sampler=sampler))

    first = load(data, 2)
    next(first)
    state, expected = first.get_state(), next(first)
    again = load(DataSet(folder / "dynamic"), 2)
    again.set_state(state)
    assert np.array_equal(next(again)["input_ids"], expected["input_ids"])
    with pytest.raises(ValueError, match="Sampler in checkpoint does not match"):
        load(data, 4).set_state(state)
    with pytest.raises(ValueError, match="DataSource in checkpoint does not match"):
        load(DataSet(folder / "other"), 2).set_state(state)
