import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.order.order import Order
from corpusmill.reading.rows import Integers

shards = st.lists(st.integers(0, 300), min_size=1, max_size=8).filter(sum).map(tuple)
seeds = st.integers(0, 2**64 - 1)


def epoch_of(order: Order, epoch: int = 0) -> Integers:
    return order.locate(np.arange(epoch * len(order), (epoch + 1) * len(order)))


@settings(deadline=None)
@given(shards, seeds, st.integers(1, 3000), st.integers(1, 40), st.integers(0, 2**40))
def test_an_epoch_has_every_sample_once(
    sizes: tuple[int, ...], seed: int, window: int, lanes: int, epoch: int
) -> None:
    order = Order(sizes, seed, window=window, lanes=lanes)
    assert np.array_equal(np.sort(epoch_of(order, epoch)), np.arange(len(order)))


@settings(deadline=None)
@given(shards, seeds, st.data())
def test_a_number_is_the_same_sample_in_any_company(
    sizes: tuple[int, ...], seed: int, data: st.DataObject
) -> None:
    order = Order(sizes, seed, window=50, lanes=3)
    numbers = np.array(data.draw(st.lists(st.integers(0, 4 * len(order) - 1), max_size=50)), int)
    row = np.concatenate([epoch_of(order, epoch) for epoch in range(4)])
    assert np.array_equal(order.locate(numbers), row[numbers])
    assert np.array_equal(order.epochs(numbers), numbers // len(order))


def test_epochs_and_seeds_differ() -> None:
    orders = [epoch_of(Order((500, 500), seed), epoch) for seed in range(3) for epoch in range(3)]
    for place, order in enumerate(orders):
        for other in orders[:place]:
            # Two permutations of 1000 agree in one place on average.
            assert (order == other).sum() < 12


def test_without_shuffling_samples_come_as_they_are_stored() -> None:
    order = Order((3, 0, 4), shuffle=False)
    assert order.locate(np.arange(14)).tolist() == [*range(7), *range(7)]


@settings(deadline=None)
@given(shards, seeds, st.integers(1, 400))
def test_no_sample_moves_further_than_the_window(
    sizes: tuple[int, ...], seed: int, window: int
) -> None:
    by_shard = np.argsort(epoch_of(Order(sizes, seed, window=1)))
    shuffled = np.argsort(epoch_of(Order(sizes, seed, window=window)))
    assert np.abs(by_shard - shuffled).max() < window


def test_shards_come_one_after_another_each_from_its_own_first_row() -> None:
    order = Order((40, 60, 50), seed=5, window=1)
    begun = []
    for epoch in range(30):
        samples = epoch_of(order, epoch)
        of_samples = np.searchsorted(np.cumsum(order.shard_sizes), samples, side="right")
        changes = np.flatnonzero(np.diff(of_samples)) + 1
        assert len(changes) == 2
        for part in np.split(samples, changes):
            assert np.array_equal(np.roll(np.sort(part), np.argmin(part)), part)
        begun.append((int(of_samples[0]), int(samples[0])))
    assert {shard for shard, _ in begun} == {0, 1, 2}
    assert len(set(begun)) > 15


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_with_a_lane_per_rank_each_rank_reads_its_own_stretch(ranks: int) -> None:
    sizes = (100,) * 24
    plain, order = Order(sizes, 3, window=1), Order(sizes, 3, window=1, lanes=ranks)
    places = np.argsort(epoch_of(plain))
    for rank in range(ranks):
        samples = order.locate(np.arange(rank, len(order), ranks))
        stretch = places[samples]
        assert np.array_equal(stretch, np.arange(stretch[0], stretch[0] + len(samples)))
        assert (
            len(set(np.searchsorted(np.cumsum(order.shard_sizes), samples, side="right")))
            <= 24 // ranks + 1
        )


def test_an_order_that_was_read_is_sent_as_it_was_made() -> None:
    order = Order((10,) * 1000, seed=3)
    made = pickle.dumps(order)
    epochs = [epoch_of(order, epoch) for epoch in (0, 5, 1, 0)]
    assert pickle.dumps(order) == made
    copied = pickle.loads(made)  # noqa: S301  our own
    assert copied == order
    for epoch, expected in zip((0, 5, 1, 0), epochs, strict=True):
        assert np.array_equal(epoch_of(copied, epoch), expected)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 2**64}, {"window": 0}, {"lanes": 0}])
def test_values_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    [(name, value)] = wrong.items()
    with pytest.raises(UserError, match=f"{name}={value}: .* Give "):
        Order((5,), **wrong)


@settings(deadline=None)
@given(
    shards, seeds, st.integers(1, 3000), st.integers(1, 40), st.integers(0, 2**40), st.booleans()
)
def test_each_sample_is_found_at_its_place(
    sizes: tuple[int, ...], seed: int, window: int, lanes: int, epoch: int, shuffle: bool
) -> None:
    order = Order(sizes, seed, shuffle, window, lanes)
    assert np.array_equal(order.find(epoch_of(order, epoch), epoch), np.arange(len(order)))
