"""Orders and batches on both sides of each size at which they take another way."""

from itertools import product

import numpy as np
import pytest

from corpusmill.reading.load.batches import Batches, Reader
from corpusmill.reading.mixture import mix
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.tracing import Run
from tests.tools.knobs import knobs
from tests.tools.numbered_samples import AsTheyAre, NumberedSamples


def test_large_shards_are_read_in_blocks_of_any_size() -> None:
    # Blocks of two rows begin at windows of 1,024.
    for window in (1, 511, 512, 513, 1023, 1024, 1025, 1536):
        order = Order((2 * window + 1, 3 * window), 7, window=window, slices=8)
        for epoch in range(3):
            read = order.locate(epoch * len(order) + np.arange(len(order)))
            assert np.array_equal(np.sort(read), np.arange(len(order)))
            assert np.array_equal(order.find(read, epoch), np.arange(len(order)))


@pytest.mark.parametrize("world_size", [1, 3])
def test_an_epoch_has_any_number_of_steps(world_size: int) -> None:
    """Pools end after 1,024 steps, and nothing is lost or read again where the next one begins."""
    batching = FixedBatches(2)
    for steps, rest in product((1, 1023, 1024, 1025, 2048, 2049), (0, 1, 4)):
        position, end, read = Position(0), steps * 2 * world_size + rest, list[int]()
        while pool := batching.next_pool(position, end, world_size):
            for step, rank in product(range(pool.steps), range(world_size)):
                read += pool.batch(step, rank).tolist()
            position = pool.position_after(pool.steps)
        assert sorted(read) == list(range(end))
        assert position == Position(end)


@pytest.mark.parametrize("block_samples", [1, 3, 4, 5, 1024])
def test_batches_do_not_depend_on_blocks(block_samples: int) -> None:
    samples = NumberedSamples((50, 49))
    batches = Batches(samples, samples.order(3, window=16), FixedBatches(4), AsTheyAre())
    numbers, sizes = list[int](), list[int]()
    with knobs(block_samples=block_samples):
        for plan, _ in batches.plan(Position(0), Reader()):
            sizes.append(sum(map(len, plan)))
            numbers += np.concatenate(plan).tolist()
    assert numbers == list(range(99))
    assert max(sizes) < block_samples + 4
    assert numbers == [n for plan, _ in batches.plan(Position(0)) for n in np.concatenate(plan)]


@pytest.mark.parametrize("traced_numbers", [1, 29, 30, 31])
def test_samples_are_found_in_any_order(traced_numbers: int) -> None:
    """An order that cannot be asked is looked through, some numbers at a time."""
    _, order = mix([NumberedSamples((20,)), NumberedSamples((10,))], [2, 1], seed=1)
    batching, samples = FixedBatches(4), np.array([3, 17, 29])
    run = Run(order, batching, 1)
    with knobs(traced_numbers=traced_numbers):
        found = list(run.readings(samples, range(3)))
    with knobs(traced_numbers=2**20):
        assert found == list(run.readings(samples, range(3)))
    assert sorted(reading.sample for reading in found) == sorted(3 * samples.tolist())
