"""How well orders of reading shuffle, beside a full random permutation and the stored order.

    python -m benchmarks.readers.shuffle_quality [--samples 1000000] [--shards 100] [--epochs 4]

Samples are numbered as they are stored. The build has already put its examples into random places,
so that neighbours in a shard are unrelated; what counts is whether examples that were close in one
epoch are close again in the next. Each row is the mean over all pairs of consecutive epochs:

    neighbours      correlation of a sample's number with that of the next one read: 0 if they are
                    unrelated, 1 if samples are read as they are stored
    still near      of the pairs that were read within 32 samples of each other, the share that is
                    again in the next epoch, relative to chance: 1 if nothing is kept
    memory          peak memory of an order that is asked for 1,024 samples at a time

A second table shows batches of 32 by length, whose samples meet again more often: how much less so
with smaller pools, and the padding that these leave. A quarter of the samples have 512 tokens, the
others 20 to 512.
"""

import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import mean

import numpy as np

from benchmarks.console import make_parser, print_table
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.length_batches import LengthBatches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import SLICES, FixedBatches, Position
from corpusmill.reading.rows import Integers, Values

_NEAR, _BLOCK = 32, 1024

# Yields the samples of an epoch in blocks, given its number.
Epochs = Callable[[int], Iterator[Integers]]


def read_order(order: Order) -> Epochs:
    """Return the epochs of an order."""

    def epoch(number: int) -> Iterator[Integers]:
        end = (number + 1) * len(order)
        for begin in range(number * len(order), end, _BLOCK):
            yield order.locate(np.arange(begin, min(begin + _BLOCK, end)))

    return epoch


def permute(samples: int) -> Epochs:
    """Return epochs by NumPy's permutation, which is held in memory."""

    def epoch(number: int) -> Iterator[Integers]:
        whole = np.random.default_rng(number).permutation(samples)
        for begin in range(0, samples, _BLOCK):
            yield whole[begin : begin + _BLOCK]

    return epoch


def measure(name: str, epochs: Epochs, count: int) -> list[str]:
    """Read a number of epochs, compare each with the one before, and return a row of the table."""
    whole = [np.concatenate(list(epochs(number))) for number in range(count)]
    neighbours = mean(float(np.corrcoef(epoch[1:], epoch[:-1])[0, 1]) for epoch in whole)
    return [
        name,
        f"{neighbours:.4f}",
        f"{mean(still_near(*pair) for pair in pairwise(whole)):,.2f}",
        f"{peak_memory(epochs) / 1000:,.0f} kB",
    ]


def invert(epoch: Integers) -> Integers:
    """Return the place at which each sample is read."""
    places = np.empty_like(epoch)
    places[epoch] = np.arange(len(epoch))
    return places


def still_near(one: Integers, other: Integers) -> float:
    """Return the share of pairs that stay within 32 places of each other, relative to chance."""
    places = invert(other)[one]
    near, pairs = 0, 0
    for step in range(1, _NEAR + 1):
        distances = np.abs(places[step:] - places[:-step])
        near += int((distances <= _NEAR).sum())
        pairs += len(distances)
    return near / pairs / (2 * _NEAR / len(one))


def peak_memory(epochs: Epochs) -> int:
    """Return the most bytes that reading an epoch takes."""
    tracemalloc.start()
    for _ in epochs(99):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


class Lengths(Samples):
    """Samples that have lengths but no values."""

    digest = "lengths"
    longest = 512

    def __init__(self, shard_sizes: tuple[int, ...]) -> None:
        self.shard_sizes = shard_sizes
        drawn = np.random.default_rng(1)
        full = drawn.random(len(self)) < 0.25
        self._lengths = np.where(full, self.longest, drawn.integers(20, 513, len(self)))

    def lengths(self, samples: Integers) -> Integers:
        """Return the lengths as int64[n]."""
        return self._lengths[samples]

    def _read(self, samples: Integers, epochs: Integers) -> dict[str, Values]:  # noqa: ARG002
        return {}


def read_batches(
    batching: FixedBatches | LengthBatches, order: Order, epoch: int
) -> list[Integers]:
    """Return the samples of each batch of an epoch."""
    position, end = Position(epoch * len(order)), (epoch + 1) * len(order)
    batches: list[Integers] = []
    while pool := batching.next_pool(position, end, 1):
        batches += [order.locate(pool.batch(step, 0)) for step in range(pool.steps)]
        position = pool.position_after(pool.steps)
    return batches


def compare_orders(sizes: tuple[int, ...], epochs: int) -> Iterator[list[str]]:
    """Yield the rows of the first table: orders beside a permutation in memory."""
    orders = {"as stored": Order(sizes, shuffle=False)}
    for window in (2**10, 2**14, 2**17):
        orders[f"window {window:,}"] = Order(sizes, window=window)
    orders["window 16,384, 64 lanes"] = Order(sizes, window=2**14, lanes=64)
    large = (sum(sizes) // 4,) * 4
    orders["window 16,384, 4 large shards"] = Order(large, window=2**14, slices=SLICES)
    for name, order in orders.items():
        yield measure(name, read_order(order), epochs)
    yield measure("random permutation", permute(sum(sizes)), epochs)


def compare_pools(sizes: tuple[int, ...]) -> Iterator[list[str]]:
    """Yield the rows of the second table: batches by length beside those of the order itself."""
    samples, order = Lengths(sizes), Order(sizes)
    ways: dict[str, FixedBatches | LengthBatches] = {"as they come": FixedBatches(32)}
    for pool in (2**12, 2**14, 2**16):
        ways[f"by length, pool {pool:,}"] = LengthBatches(samples, order, 32, pool_size=pool)
    for name, batching in ways.items():
        one, other = (read_batches(batching, order, epoch) for epoch in range(2))
        lengths = [samples.lengths(batch) for batch in one]
        tokens = sum(batch.sum() for batch in lengths)
        places = sum(batch.max() * len(batch) for batch in lengths)
        near = still_near(np.concatenate(one), np.concatenate(other))
        yield [name, f"{1 - tokens / places:.2%}", f"{near:,.2f}"]


def main() -> None:
    """Measure and print both tables."""
    options = make_parser(__doc__, samples=1_000_000, shards=100, epochs=4).parse_args()
    sizes = (options.samples // options.shards,) * options.shards
    title = f"order of {sum(sizes):,} samples in {options.shards:,} shards"
    headings = (title, "neighbours", "still near", "memory")
    print_table(headings, compare_orders(sizes, options.epochs))
    print_table(("batches of 32", "padding", "still near"), compare_pools(sizes))


if __name__ == "__main__":
    main()
