import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.length_batches import LengthBatches
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.mixture import mix
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import Batching, FixedBatches, Position
from corpusmill.reading.rows import Batch, Rows
from tests.tools.traced_batches import Key, TracedCollator, key, read_plainly


@pytest.mark.parametrize("prefetch_factor", [0, 3])
def test_batches_are_those_of_a_plain_loop_epoch_after_epoch(
    batches: Batches, prefetch_factor: int
) -> None:
    loader = Loader(batches, 1, 2, prefetch_factor=prefetch_factor)
    for epoch in range(2):
        assert loader.epoch == epoch
        read = [key(batch) for batch in loader]
        assert read == read_plainly(batches, epoch, 1, 2)
        assert len(read) == len(loader)


@settings(max_examples=8, deadline=None)
@given(
    world_size=st.integers(1, 4),
    batch_size=st.integers(1, 9),
    drop_last=st.booleans(),
    max_tokens=st.sampled_from([None, None, 100, 300]),
    prefetch_factor=st.sampled_from([0, 3]),
    # Each of them ends within an epoch or with it, so that a fourth epoch is not begun.
    stops=st.lists(st.integers(0, 30), max_size=3),
)
def test_a_stopped_and_resumed_run_reads_the_same_as_an_uninterrupted_one(
    batches: Batches,
    world_size: int,
    batch_size: int,
    drop_last: bool,
    max_tokens: int | None,
    prefetch_factor: int,
    stops: list[int],
) -> None:
    batching: Batching = FixedBatches(batch_size, drop_last)
    if max_tokens:
        samples, pool_size = batches.samples, 16 * batch_size
        batching = LengthBatches(samples, batches.order, None, max_tokens, pool_size=pool_size)
    batches = replace(batches, batching=batching)
    rank = world_size - 1

    def start() -> Loader:
        return Loader(batches, rank, world_size, prefetch_factor=prefetch_factor)

    def read(loader: Loader, stop: int | None = None) -> Iterator[tuple[int, Key]]:
        epoch = loader.epoch
        return ((epoch, key(batch)) for batch in islice(loader, stop))

    loader = start()
    resumed: list[tuple[int, Key]] = []
    for stop in stops:
        resumed += read(loader, stop)
        state = json.loads(json.dumps(loader.state_dict()))
        loader = start()
        loader.load_state_dict(state)
    while loader.epoch < 3:
        resumed += read(loader)
    whole = start()
    expected = [batch for _ in range(loader.epoch) for batch in read(whole)]
    assert resumed == expected
    assert whole.state_dict() == loader.state_dict()


def test_too_few_samples_for_more_ranks_are_read_with_the_next_epoch(batches: Batches) -> None:
    size = len(batches.order)
    left = Loader(replace(batches, batching=FixedBatches(1)))
    left.load_state_dict(batches.state_dict(Position(size - 2)))
    read = []
    for rank in range(5):
        loader = Loader(batches, rank, 5)
        loader.load_state_dict(left.state_dict())
        assert loader.epoch == 1
        read += [pair for batch in loader for pair in key(batch)]
        assert loader.epoch == 2
    expected = [(1, sample) for sample in range(size)]
    assert sorted(read) == [*sorted(pair for batch in left for pair in key(batch)), *expected]


def test_a_loop_that_counts_samples_reads_those_that_are_left_of_its_last_epoch(
    batches: Batches,
) -> None:
    size, read = len(batches.order), []
    state = batches.state_dict(Position(2 * size - 2))
    for rank in range(5):
        loader = Loader(replace(batches, batching=FixedBatches(1)), rank, 5)
        loader.load_state_dict(state)
        while loader.state_dict()["number"] < 2 * size:
            for batch in loader:
                read += [epoch for epoch, _ in key(batch)]
                if loader.state_dict()["number"] >= 2 * size:
                    break
    assert sorted(read) == [1, 1, 2, 2, 2]


def test_a_state_of_the_last_step_ends_its_epoch_first(batches: Batches) -> None:
    loader = Loader(batches)
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    resumed = Loader(batches)
    resumed.load_state_dict(loader.state_dict())
    assert resumed.epoch == 0
    assert list(resumed) == []
    assert resumed.epoch == 1
    assert [key(batch) for batch in resumed] == read_plainly(batches, 1)


def test_setting_the_epoch_that_is_being_read_changes_nothing(batches: Batches) -> None:
    loader = Loader(batches)
    loader.set_epoch(2)
    first = [key(batch) for batch in islice(loader, 3)]
    loader.set_epoch(2)
    assert first + [key(batch) for batch in loader] == read_plainly(batches, 2)
    loader.set_epoch(0)
    assert [key(batch) for batch in loader] == read_plainly(batches, 0)
    for epoch in (-1, 2**62):
        with pytest.raises(UserError, match=f"epoch={epoch}: there is no such epoch"):
            loader.set_epoch(epoch)


def test_a_fixed_epoch_is_read_from_its_beginning_each_time(batches: Batches) -> None:
    loader = Loader(batches, epoch=1)
    first = [key(batch) for batch in islice(loader, 3)]  # as Lightning's sanity check does
    assert first == read_plainly(batches, 1)[:3]
    for _ in range(2):
        assert [key(batch) for batch in loader] == read_plainly(batches, 1)
        loader.set_epoch(5)
    with pytest.raises(UserError, match="epoch=-1: there is no such epoch"):
        Loader(batches, epoch=-1)


def test_an_epoch_without_a_batch_and_negative_numbers_are_refused(batches: Batches) -> None:
    with pytest.raises(UserError, match="prefetch_factor=-1"):
        Loader(batches, prefetch_factor=-1)
    batching = FixedBatches(len(batches.order) + 1, drop_last=True)
    with pytest.raises(UserError, match="is too short for one batch per rank"):
        next(iter(Loader(replace(batches, batching=batching))))


def test_a_loop_that_is_left_leaves_no_thread(batches: Batches) -> None:
    before = threading.active_count()
    for _ in Loader(batches, prefetch_factor=1):
        assert threading.active_count() > before
        break
    assert threading.active_count() == before


class Failing(TracedCollator):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def prepare(self, rows: Rows) -> Rows:  # noqa: ARG002  as collators are called
        raise self.error


def test_errors_reach_the_loop_unchanged(batches: Batches) -> None:
    error = UserError("train-0.parquet", "it is missing", "Copy it")
    failing = replace(batches, collator=Failing(error))
    with pytest.raises(UserError) as raised:
        next(iter(Loader(failing)))
    assert raised.value is error


@pytest.mark.parametrize("close", [True, False])
def test_a_loop_that_counts_batches_reads_each_epoch(batches: Batches, close: bool) -> None:
    loader = Loader(batches)
    iterators = []
    for epoch in range(3):
        iterators.append(iter(loader))
        assert loader.epoch == epoch or not close
        counted = [key(batch) for batch in islice(iterators[-1], len(loader))]
        assert counted == read_plainly(batches, epoch)
        if close:
            iterators.clear()


# One call from a data set to batches gives the same as its parts


@pytest.fixture
def data_set(bert_dynamic: Path, cache_folder: Path) -> DataSet:
    return DataSet(bert_dynamic, cache_folder=cache_folder)


def read_all(batches: Batches) -> list[Batch]:
    return list(Loader(batches))


def assert_same(actual: Batches, expected: Batches) -> None:
    ours, theirs = read_all(actual), read_all(expected)
    assert len(ours) == len(theirs)
    for batch, other in zip(ours, theirs, strict=True):
        assert batch.keys() == other.keys()
        for name, array in batch.items():
            np.testing.assert_array_equal(array, other[name])


def test_batches_of_one_size(data_set: DataSet) -> None:
    order = Order(data_set.shard_sizes, 3)
    expected = Batches(data_set, order, FixedBatches(4), collator_for(data_set, seed=3))
    assert_same(make_batches(data_set, 4, seed=3), expected)


def test_batches_by_tokens_are_cut_and_padded_for_the_same_multiple(data_set: DataSet) -> None:
    order = Order(data_set.shard_sizes, 3)
    collator = collator_for(data_set, seed=3, pad_to_multiple_of=8)
    batching = LengthBatches(data_set, order, None, 1024, 8)
    actual = make_batches(data_set, max_tokens=1024, seed=3, pad_to_multiple_of=8)
    assert_same(actual, Batches(data_set, order, batching, collator))
    assert max(batch["input_ids"].size for batch in read_all(actual)) <= 1024


def test_a_mixture_is_read_in_its_order(data_set: DataSet) -> None:
    samples, order = mix([data_set, data_set], [1, 2])
    with pytest.raises(UserError, match="proportions"):
        make_batches(samples, 4)
    batches = read_all(make_batches(samples, 4, order=order))
    assert sum(len(batch["input_ids"]) for batch in batches) == len(order)


def test_contradictory_options_are_refused(data_set: DataSet) -> None:
    with pytest.raises(UserError, match="the size of batches is unknown"):
        make_batches(data_set)
    with pytest.raises(UserError, match="leave no samples out"):
        make_batches(data_set, 4, by_length=True, drop_last=True)
