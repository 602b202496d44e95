import pickle
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise, product
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


@st.composite
def orders(draw: st.DrawFn) -> Order:
    """Return an order of some shards of one part or more, in streams of their own or in one."""
    sizes = draw(shards)
    labels = st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes)).map(tuple)
    parts: tuple[int, ...] = draw(st.just(()) | labels)
    rule = (draw(seeds), True, draw(st.integers(1, 3000)), draw(st.integers(1, 40)))
    return Order(sizes, *rule, parts, draw(st.sampled_from([1, 2, 5, 16])))


@settings(deadline=None)
@given(orders(), st.data())
def test_a_number_is_the_same_sample_in_any_company(order: Order, data: st.DataObject) -> None:
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
@given(orders(), st.integers(0, 2**40), st.booleans())
def test_each_sample_is_found_at_its_place(order: Order, epoch: int, shuffle: bool) -> None:
    order = replace(order, shuffle=shuffle)
    assert np.array_equal(order.find(epoch_of(order, epoch), epoch), np.arange(len(order)))


@settings(deadline=None)
@given(orders(), st.integers(0, 2**40))
def test_every_stretch_of_windows_has_its_share_of_each_part(order: Order, epoch: int) -> None:
    parts = np.repeat(order.parts or (0,) * len(order.shard_sizes), order.shard_sizes)
    samples = epoch_of(replace(order, lanes=1), epoch)
    for begin in range(0, len(order), order.window):
        read = np.bincount(parts[samples[: begin + order.window]], minlength=4)
        share = min(1, (begin + order.window) / len(order))
        # Each stream may lag behind by less than a sample, and what lags is made up by others.
        assert np.abs(read - share * np.bincount(parts, minlength=4)).max() <= 40


def test_a_batch_of_two_sources_is_never_one_source_alone() -> None:
    sizes, parts = (35_000,) * 4 + (37_000,) * 6, (0,) * 4 + (1,) * 6
    order = Order(sizes, seed=1, parts=parts)
    is_first = epoch_of(order) < 140_000
    batches = is_first[: len(is_first) // 256 * 256].reshape(-1, 256).mean(axis=1)
    assert 0.2 < batches.min() < batches.max() < 0.6
    tenths = [tenth.mean() for tenth in np.array_split(is_first, 10)]
    assert np.abs(np.array(tenths) - 140 / 362).max() < 0.01


def test_samples_of_a_window_part_until_the_next_epoch_however_large_shards_are() -> None:
    count = 32 * 1024
    for shards, window in product((1, 3, 40), (256, 512)):
        order = Order((count // shards,) * shards, 7, window=window, slices=16)
        windows = [np.argsort(epoch_of(order, epoch)) // window for epoch in range(3)]
        for one, other in pairwise(windows):
            met = np.bincount(one * 1000 + other)
            again = float((met * (met - 1)).sum() / (count * (window - 1)))
            # By chance it is the share of a window in the epoch.
            assert again < 1.8 * window / len(order)


def test_windows_of_the_first_epoch_take_rows_that_follow_one_another() -> None:
    """So a reader whose shards are not unpacked waits for few pieces of them."""
    order = Order((4096,) * 64, 3, window=1024, slices=16)
    for epoch, fewest, most in ((0, 16, 32), (1, 200, 1024)):
        pieces = epoch_of(order, epoch).reshape(-1, 1024) // 64
        counts = [len(np.unique(window)) for window in pieces]
        assert fewest <= min(counts) <= max(counts) <= most


def test_large_shards_are_read_some_at_a_time_and_each_to_its_end() -> None:
    order = Order((4096,) * 64, 3, window=1024, slices=16)
    shards = epoch_of(order) // 4096
    spans = [np.ptp(np.flatnonzero(shards == shard)) for shard in range(64)]
    # Sixteen shards of 4,096 rows are read beside each other.
    assert max(spans) <= 16 * 4096 + 1024
    assert len(np.unique(shards[:1024])) == 16


def test_the_order_of_one_part_with_small_shards_has_no_more_parameters() -> None:
    plain, usual = Order((400,) * 9, 3, window=400), Order((400,) * 9, 3, window=400, slices=16)
    assert np.array_equal(epoch_of(plain), epoch_of(usual))
    assert usual.describe() == plain.describe() == {
        "seed": 3, "shuffle": True, "window": 400, "lanes": 1
    }  # fmt: skip
    smaller = replace(usual, window=399)
    assert smaller.describe()["streams"] == 9
    assert Order((400,) * 9, parts=(0,) * 4 + (1,) * 5).describe()["streams"] == 2


def test_the_order_of_one_part_is_that_of_earlier_versions() -> None:
    order = Order((500, 0, 700, 300), 5, window=256, lanes=3)
    first = [1334, 1165, 1126, 1329, 1208, 949, 1381, 534]
    assert epoch_of(order, 2)[:8].tolist() == first
    numbers = np.arange(1_200_000)
    assert sha256(Order((50_000,) * 12, 1).locate(numbers).tobytes()).hexdigest() == (
        "b50e3d2242fad12afc1a2f8881d815be3919308849d82fd888ad6585f1cdd54e"
    )
