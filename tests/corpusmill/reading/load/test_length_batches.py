from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import Padding
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.load.length_batches import LengthBatches, PaddingShare, padding_share
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import Batching, FixedBatches, Pool, Position
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples, read_epoch

SAMPLES = NumberedSamples((700, 300, 1000), longest=64)
ORDER = Order(SAMPLES.shard_sizes, seed=3)
START = Position(0)


def by_length(**options: Any) -> LengthBatches:
    return LengthBatches(SAMPLES, ORDER, **options)


def batches_of(
    batching: Batching, samples: NumberedSamples = SAMPLES, order: Order = ORDER
) -> Batches:
    return Batches(samples, order, batching, AsTheyAre())


def next_pool(batching: Batching, position: Position = START, ranks: int = 1) -> Pool:
    pool = batching.next_pool(position, 2000, ranks)
    assert pool
    return pool


def numbers_of(pool: Pool, ranks: int) -> list[list[list[int]]]:
    """Return the numbers by step and rank."""
    return [
        [pool.batch(step, rank).tolist() for rank in range(ranks)] for step in range(pool.steps)
    ]


def test_a_batch_has_samples_of_about_one_length() -> None:
    for step in read_epoch(batches_of(by_length(batch_size=20, pool_size=1000)), Position(0), 2):
        for batch in step.batches:
            assert len(batch["lengths"]) == 20
            assert np.ptp(batch["lengths"]) <= 4
        # So ranks wait little for one another.
        assert np.ptp(np.concatenate([batch["lengths"] for batch in step.batches])) <= 5


def test_batches_fill_their_budget_of_tokens() -> None:
    shares = []
    for step in read_epoch(batches_of(by_length(max_tokens=1024, pool_size=2000)), Position(0)):
        lengths = step.batches[0]["lengths"]
        shares.append(len(lengths) * lengths.max() / 1024)
    assert max(shares) <= 1
    assert np.mean(shares) > 0.93
    # Where samples are short, the batch size bounds them.
    batching = by_length(max_tokens=1024, batch_size=24, pool_size=2000)
    sizes = [len(step.samples[0]) for step in read_epoch(batches_of(batching), Position(0))]
    assert max(sizes) == 24
    assert min(sizes) < 17


def test_epochs_and_seeds_bring_other_samples_together() -> None:
    def pairs(seed: int, epoch: int) -> set[tuple[int, int]]:
        order = Order(SAMPLES.shard_sizes, seed)
        batching = LengthBatches(SAMPLES, order, batch_size=10, pool_size=500)
        steps = read_epoch(batches_of(batching, order=order), Position(epoch * 2000))
        return {
            pair
            for step in steps
            for pair in zip(step.samples[0], step.samples[0][1:], strict=False)
        }

    # 1800 of 64,000 pairs of equal lengths are drawn.
    first = pairs(3, 0)
    assert max(len(first & pairs(3, 1)), len(first & pairs(4, 0))) < 100


def test_steps_do_not_come_by_length() -> None:
    steps = read_epoch(batches_of(by_length(batch_size=10, pool_size=2000)), Position(0))
    means = np.array([step.batches[0]["lengths"].mean() for step in steps])
    assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 0.25


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=6))
def test_a_pool_is_rearranged_each_time_the_batching_changes(legs: list[tuple[int, int]]) -> None:
    ways = [(by_length(max_tokens=256, pool_size=900), 3), (by_length(batch_size=7), 2)]
    position = Position(0)
    read: list[int] = []
    for way, steps in legs:
        batching, ranks = ways[way]
        pool = next_pool(batching, position, ranks)
        for step in range(steps):
            read += [number for rank in range(ranks) for number in pool.batch(step, rank).tolist()]
        position = pool.position_after(steps)
        assert position.samples_read == len(read)
    assert len(set(read)) == len(read)
    assert max(read) < 2000
    # Each change of batching adds one entry.
    changes = 1 + sum(one[0] != other[0] for one, other in pairwise(legs))
    assert len(position.pool_reads) == changes


def test_too_few_remaining_samples_of_a_pool_join_the_next_pool() -> None:
    few = by_length(batch_size=10, pool_size=100)
    pool = next_pool(few)
    left = pool.position_after(9)
    assert left.samples_read == 90
    steps = numbers_of(next_pool(few, left, 16), 16)
    assert all(len(batch) == 10 for step in steps for batch in step)
    numbers = {number for step in steps for batch in step for number in batch}
    done = {number for step in range(9) for number in pool.batch(step, 0).tolist()}
    assert numbers == set(range(len(numbers) + 90)) - done


def test_too_few_samples_after_a_pool_join_its_remaining_ones() -> None:
    samples, order = NumberedSamples((20,)), Order((20,))
    batching = LengthBatches(samples, order, batch_size=2, pool_size=8)
    batches = batches_of(batching, samples, order)
    begun = read_epoch(batches, Position(0), 1)[:5]  # from pools of 8, 8 and 4
    assert begun[-1].position.samples_read == 10
    rest = read_epoch(batches, begun[-1].position, 5)
    reads = [read for step in begun + rest for read in step.reads]
    assert sorted(reads) == [(0, sample) for sample in range(20)]
    assert rest[-1].position == Position(20)


def test_fewer_samples_than_ranks_at_the_end_are_shared_as_by_fixed_batches() -> None:
    samples = NumberedSamples((43,))
    order = Order((43,))
    for batching in (FixedBatches(5), LengthBatches(samples, order, batch_size=5)):
        steps = read_epoch(batches_of(batching, samples, order), Position(0), 4)
        sizes = [sorted(map(len, step.samples)) for step in steps]
        assert sorted(sizes) == [[5, 5, 5, 5], [5, 6, 6, 6]]


def test_single_sample_batches_that_ranks_cannot_share_wait_for_the_epochs_end() -> None:
    samples = NumberedSamples((23,), longest=3)
    samples.all_lengths[:] = 3
    order = Order((23,))
    batching = LengthBatches(samples, order, max_tokens=3, pool_size=8)
    batches = batches_of(batching, samples, order)
    # Two steps of two ranks, then four ranks: 19 are left, 4 of them in the pool.
    begun = read_epoch(batches, Position(0), 2)[:2]
    steps = read_epoch(batches, begun[-1].position, 4)
    assert all([len(rank) for rank in step.samples] == [1, 1, 1, 1] for step in steps)
    reads = [read for step in begun + steps for read in step.reads]
    assert len(set(reads)) == len(reads) == 4 + 16
    assert steps[-1].position == Position(23)
    last = [(0, int(sample)) for sample in order.locate(np.arange(20))]
    assert set(last[:16]) <= set(reads)


def test_values_out_of_range_are_refused() -> None:
    for options, value in (
        ({}, "batch_size=None"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 1, "pool_size": 0}, "pool_size=0"),
        ({"batch_size": 1, "pad_to_multiple_of": 0}, "pad_to_multiple_of=0"),
        ({"max_tokens": 63}, "max_tokens=63: the longest sample has 64 tokens"),
        ({"max_tokens": 64, "pad_to_multiple_of": 24}, "max_tokens=64: .* 72 tokens"),
    ):
        with pytest.raises(UserError, match=value):
            by_length(**options)


def test_samples_that_are_longer_than_the_data_set_says_are_refused() -> None:
    samples = NumberedSamples((100,), longest=20)
    samples.all_lengths[50] = 21
    batching = LengthBatches(samples, Order((100,)), max_tokens=20)
    with pytest.raises(UserError, match="21 tokens, the manifest says that the longest has 20"):
        batching.next_pool(Position(0), 100, 1)


def test_a_position_within_a_pool_of_other_samples_is_refused() -> None:
    pool = next_pool(by_length(max_tokens=256))
    other = NumberedSamples(SAMPLES.shard_sizes, 64, seed=1)
    with pytest.raises(UserError, match="pool of other samples"):
        LengthBatches(other, ORDER, max_tokens=256).next_pool(pool.position_after(5), 2000, 1)


def test_fixed_batches_refuse_to_resume_within_a_pool_by_length() -> None:
    pool = next_pool(by_length(batch_size=8))
    with pytest.raises(UserError, match=r"within a pool.*LengthBatches"):
        FixedBatches(8).next_pool(pool.position_after(5), 2000, 1)
    assert FixedBatches(8).next_pool(pool.position_after(pool.steps), 4000, 1)


def test_batches_by_length_resume_where_fixed_ones_ended() -> None:
    position = next_pool(FixedBatches(8), ranks=2).position_after(10)
    steps = numbers_of(next_pool(by_length(batch_size=8), position, 2), 2)
    numbers = sorted(number for step in steps for batch in step for number in batch)
    assert numbers == list(range(160, 2000))


def test_there_is_far_less_padding() -> None:
    fixed = padding_share(batches_of(FixedBatches(10)))
    assert fixed > 0.3
    assert padding_share(batches_of(by_length(batch_size=10))) < fixed / 10
    assert padding_share(batches_of(by_length(max_tokens=320))) < fixed / 5


# The share of padding


FEW = NumberedSamples((100, 57), longest=30)
ORDER_OF_FEW = Order(FEW.shard_sizes)


def test_the_share_counted_in_training_is_that_of_all_masks() -> None:
    counted = PaddingShare()
    assert counted.share == 0
    counted.add(np.array([[1, 1, 0, 0], [1, 1, 1, 1]]))
    assert counted.share == 0.25
    counted.add(torch.ones(4, 2, dtype=torch.int64))
    assert counted.share == pytest.approx(2 / 16)


@pytest.mark.parametrize("multiple", [None, 8])
@pytest.mark.parametrize("batching", [FixedBatches(9), LengthBatches(FEW, ORDER_OF_FEW, 9)])
def test_the_expected_share_is_that_of_the_batches_that_are_read(
    batching: FixedBatches | LengthBatches, multiple: int | None
) -> None:
    batches = Batches(FEW, ORDER_OF_FEW, batching, AsTheyAre())
    padding = Padding(pad_to_multiple_of=multiple)
    counted = PaddingShare()
    for step in read_epoch(batches, Position(157), 3):
        for batch in step.batches:
            width = padding.width(batch["lengths"])
            counted.add(np.arange(width) < batch["lengths"][:, None])
    share = padding_share(batches, padding, world_size=3, begin=Position(157))
    assert share == pytest.approx(counted.share)


def test_a_part_of_an_epoch_tells_about_the_whole() -> None:
    samples = NumberedSamples((200_000,), longest=30)
    order = Order((200_000,))
    batches = Batches(samples, order, FixedBatches(32), AsTheyAre())
    part = padding_share(batches, most_samples=20_000)
    assert part == pytest.approx(padding_share(batches), abs=0.01)
    assert part != padding_share(batches)
