import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.length_batches import LengthBatches
from corpusmill.reading.order.mixture import JoinedSamples, MixtureOrder, mix, share
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.rows import Lists
from tests.tools.manifests import INPUT_IDS
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples, read_epoch

SMALL = NumberedSamples((60, 40), digest="small")
LARGE = NumberedSamples((500, 300, 200), digest="large", seed=1)

OTHER_TOKENIZER = replace(SMALL.manifest.tokenizer, sha256="f" * 64)

quotas = st.lists(st.integers(1, 400), min_size=1, max_size=6).map(tuple)


def order_of(quotas: tuple[int, ...], seed: int = 0, shuffle: bool = True) -> MixtureOrder:
    return MixtureOrder((), quotas, seed, shuffle, stretch=64)


@settings(deadline=None)
@given(quotas, st.integers(0, 2**64 - 1), st.booleans(), st.integers(0, 2**30))
def test_an_epoch_has_the_quota_of_each_source_which_continues_in_the_next_epoch(
    quotas: tuple[int, ...], seed: int, shuffle: bool, epoch: int
) -> None:
    order = order_of(quotas, seed, shuffle)
    begin = epoch * len(order)
    sources, own = order.assign(np.arange(begin, begin + 2 * len(order)))
    for source, quota in enumerate(quotas):
        expected = np.arange(epoch * quota, (epoch + 2) * quota)
        assert np.array_equal(np.sort(own[sources == source]), expected)
        assert (sources[: len(order)] == source).sum() == quota


@settings(deadline=None)
@given(quotas, st.integers(0, 9))
def test_each_stretch_has_its_share_of_each_source(quotas: tuple[int, ...], seed: int) -> None:
    order = order_of(quotas, seed)
    sources, _ = order.assign(np.arange(len(order)))
    for begin in range(0, len(order), 64):
        stretch = sources[begin : begin + 64]
        for source, quota in enumerate(quotas):
            fair = quota / len(order) * len(stretch)
            assert abs((stretch == source).sum() - fair) < 2 + len(quotas) / 2


def test_a_number_is_the_same_sample_in_any_company() -> None:
    _, order = mix([SMALL, LARGE], [1, 3], seed=5)
    row = order.locate(np.arange(3 * len(order)))
    epochs = order.epochs(np.arange(3 * len(order)))
    for number in (0, 399, 400, 1199, 17):
        assert order.locate(np.array([number])) == row[number]
        assert order.epochs(np.array([number])) == epochs[number]


def test_sources_alternate_at_random_and_each_in_its_own_order() -> None:
    _, order = mix([LARGE, LARGE], [1, 1], seed=5)
    sources, own = order.assign(np.arange(len(order)))
    changes = (np.diff(sources) != 0).mean()
    assert 0.45 < changes < 0.55  # 1 if they take turns
    assert not np.array_equal(own[sources == 0], np.arange(1000))
    _, plain = mix([LARGE, LARGE], [1, 1], shuffle=False)
    sources, own = plain.assign(np.arange(20))
    assert sources.tolist() == [1, 0] * 10
    assert own.tolist() == [place // 2 for place in range(20)]


def test_an_exhausted_source_begins_its_next_epoch() -> None:
    joined, order = mix([SMALL, LARGE], [1, 1], epoch_size="all_exhausted")
    assert order.quotas == (1000, 1000)
    numbers = np.arange(len(order))
    samples, epochs = order.locate(numbers), order.epochs(numbers)
    small = samples < 100
    assert np.bincount(epochs[small]).tolist() == [100] * 10
    for epoch in range(10):
        assert set(samples[small & (epochs == epoch)]) == set(range(100))
    assert np.array_equal(np.sort(samples[~small]), np.arange(100, 1100))
    assert not epochs[~small].any()
    assert len(joined) == 1100


@pytest.mark.parametrize(
    ("proportions", "epoch_size", "expected"),
    [
        ((1, 2), "first_exhausted", (100, 200)),
        ((1, 2), "all_exhausted", (500, 1000)),
        ((0.1, 0.9), "first_exhausted", (100, 900)),
        ((1, 20), "first_exhausted", (50, 1000)),
        ((0.3, 0.3), "first_exhausted", (100, 100)),
        ((1, 2), 10, (3, 7)),
        ((2, 1), 3000, (2000, 1000)),
    ],
)
def test_quotas(proportions: Any, epoch_size: Any, expected: tuple[int, int]) -> None:
    assert share((100, 1000), proportions, epoch_size) == expected


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=6), st.integers(10_000, 10**9))
def test_quotas_of_a_given_size_are_those_of_the_proportions(
    proportions: list[float], size: int
) -> None:
    result = share([1] * len(proportions), proportions, size)
    assert sum(result) == size
    for quota, part in zip(result, proportions, strict=True):
        assert abs(quota - size * part / sum(proportions)) <= 1.001


@pytest.mark.parametrize(
    ("proportions", "epoch_size", "message"),
    [
        ((1,), 10, "each of the 2 sources"),
        ((1, 0), 10, "one number above 0"),
        ((1, float("nan")), 10, "one number above 0"),
        ((1, 1000), 10, "source 0 has no sample in an epoch of 10"),
    ],
)
def test_proportions_that_leave_a_source_out_are_refused(
    proportions: Any, epoch_size: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        mix([SMALL, LARGE], proportions, epoch_size=epoch_size)


def assign_by_hand(number: int, quotas: tuple[int, ...]) -> tuple[int, int]:
    """Return the source and its own number, computed with Python's unbounded integers."""
    epoch, place = divmod(number, sum(quotas))
    left = sum(quotas)
    for source, quota in enumerate(quotas):
        before = place * quota // left
        if (place + 1) * quota // left > before:
            return source, epoch * quota + before
        place, left = place - before, left - quota
    raise AssertionError


def test_epochs_far_beyond_32_bits_are_exact() -> None:
    drawn = np.random.default_rng(1)
    for sources in (2, 3, 7):
        for _ in range(50):
            quotas = tuple(drawn.integers(1, 2**47, sources).tolist())
            order = order_of(quotas, shuffle=False)
            numbers = drawn.integers(0, 100 * sum(quotas), 100)
            result = zip(*(part.tolist() for part in order.assign(numbers)), strict=True)
            assert list(result) == [assign_by_hand(number, quotas) for number in numbers.tolist()]


def test_rows_are_those_of_the_sources_with_new_numbers() -> None:
    joined = JoinedSamples([SMALL, LARGE])
    samples = np.array([1099, 5, 100, 99, 5])
    rows = joined.take(samples, np.array([3, 1, 4, 1, 5]))
    assert rows.samples.tolist() == samples.tolist()
    assert rows.epochs.tolist() == [3, 1, 4, 1, 5]
    of_sources = [(LARGE, 999), (SMALL, 5), (LARGE, 0), (SMALL, 99), (SMALL, 5)]
    for row, (source, own) in zip(rows, of_sources, strict=True):
        expected = source.take(np.array([own]))[0]
        assert row["input_ids"].tolist() == expected["input_ids"].tolist()
        assert row["label"] == expected["label"]
    assert np.array_equal(joined.lengths(samples), rows.lists("input_ids").lengths)
    assert joined.longest == 12
    assert joined[1099]["input_ids"][0] == 999
    assert len(joined.take(np.empty(0, np.int64))) == 0


def test_columns_take_the_larger_of_two_types() -> None:
    class Narrow(NumberedSamples):
        def _read(self, samples: Any, epochs: Any) -> Any:
            values, offsets = super()._read(samples, epochs)["input_ids"]
            return {"input_ids": Lists(values.astype(np.int8), offsets)}

    rows = JoinedSamples([Narrow((5,)), LARGE]).take(np.array([2, 1000]))
    assert rows.lists("input_ids").values.dtype == np.int64
    assert rows[1]["input_ids"][0] == 995


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({"tokenizer": OTHER_TOKENIZER}, "tokenizer is not that of the first"),
        ({"columns": (INPUT_IDS,)}, "has the columns input_ids; .*input_ids, label"),
    ],
)
def test_sources_that_cannot_be_read_as_one_are_refused(
    manifest: dict[str, Any], message: str
) -> None:
    other = NumberedSamples((5,), manifest=replace(SMALL.manifest, **manifest))
    with pytest.raises(UserError, match=r"sources\[1\]: .*" + message):
        mix([SMALL, other], [1, 1])


def test_no_sources_are_refused() -> None:
    with pytest.raises(UserError, match="nothing to mix"):
        mix([], [])


def test_a_state_belongs_to_its_sources_and_proportions() -> None:
    def batches(sources: list[NumberedSamples], proportions: list[int]) -> Batches:
        return Batches(*mix(sources, proportions, seed=2), FixedBatches(4), AsTheyAre())

    mixed = batches([SMALL, LARGE], [1, 1])
    state = json.loads(json.dumps(mixed.state_dict(Position(44))))
    assert mixed.load_state_dict(state) == Position(44)
    with pytest.raises(UserError, match="its samples is"):
        batches([LARGE, SMALL], [1, 1]).load_state_dict(state)
    with pytest.raises(UserError, match="its order is"):
        batches([SMALL, LARGE], [1, 2]).load_state_dict(state)


def test_batches_by_length_of_a_mixture() -> None:
    joined, order = mix([SMALL, LARGE], [1, 4])
    batching = LengthBatches(joined, order, batch_size=10)
    steps = read_epoch(Batches(joined, order, batching, AsTheyAre()), Position(0), 5)
    assert sum(len(step.reads) for step in steps) == 500
    assert all(np.ptp(batch["lengths"]) <= 2 for step in steps for batch in step.batches)
    assert sum(sample < 100 for step in steps for _, sample in step.reads) == 100


def test_one_source_is_read_in_its_own_order_within_stretches() -> None:
    _, order = mix([LARGE], [1], shuffle=False)
    assert np.array_equal(order.locate(np.arange(2000)), np.arange(2000) % 1000)
    _, shuffled = mix([LARGE], [1], seed=3)
    whole = Order(LARGE.shard_sizes, 3).locate(np.arange(1000))
    assert set(shuffled.locate(np.arange(1000))) == set(whole)
