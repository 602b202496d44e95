"""How well orders of reading shuffle, beside a full random permutation and none at all.

    python -m benchmarks.readers.shuffle_quality [--samples 1000000] [--shards 100] [--epochs 4]

Numbers of samples are looked at, as they are stored. The build has put its examples at random
places already, so that neighbours in a shard have nothing to do with each other, and what counts is
whether examples that came together in one epoch come together again in the next. Each row is the
mean over all pairs of consecutive epochs:

    neighbours      correlation of a sample's number with that of the next one read: 0 where they
                    tell nothing of each other, 1 where samples come as they are stored
    still near      of pairs that were read within 32 samples of each other, those that are so again
                    in the next epoch, over what chance makes of them: 1 where nothing is kept
    moved           how far samples move from one epoch to the next, in epochs: 1/3 by chance
    shards          that 1,024 consecutive samples lie in, which is what is read from at once
    memory          most bytes that are held for an order, while it is asked for 1,024 at a time
    ns              to say which sample comes next

A second table shows batches of 32 by length, whose samples come together again more often: by how
much less with smaller pools, and the padding that these leave. A quarter of the samples have 512
tokens, the others 20 to 512.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from corpusmill.reading.order.length_batches import LengthBatches
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.schedule import FixedBatches, Position
from corpusmill.reading.rows import Integers, Rows

_NEAR, _BLOCK = 32, 1024

# An epoch's samples in blocks, by the epoch's number.
Epochs = Callable[[int], Iterator[Integers]]


@dataclass(frozen=True)
class Quality:
    """A row of the table; see the module."""

    name: str
    neighbours: float
    still_near: float
    moved: float
    shards: float
    memory: int
    nanoseconds: float


def ordered(order: Order) -> Epochs:
    """The epochs of an order."""

    def epoch(number: int) -> Iterator[Integers]:
        end = (number + 1) * len(order)
        for begin in range(number * len(order), end, _BLOCK):
            yield order.locate(np.arange(begin, min(begin + _BLOCK, end)))

    return epoch


def permuted(samples: int) -> Epochs:
    """Epochs of NumPy's own permutation, which is held in memory."""

    def epoch(number: int) -> Iterator[Integers]:
        whole = np.random.default_rng(number).permutation(samples)
        for begin in range(0, samples, _BLOCK):
            yield whole[begin : begin + _BLOCK]

    return epoch


def measure(name: str, epochs: Epochs, shard_size: int, count: int) -> Quality:
    """Read so many epochs, and compare each with the one before."""
    for _ in epochs(0):  # compiles
        break
    begin = time.perf_counter()
    blocks = [list(epochs(number)) for number in range(count)]
    seconds = time.perf_counter() - begin
    whole = [np.concatenate(of) for of in blocks]
    pairs = list(pairwise(whole))
    return Quality(
        name,
        mean(float(np.corrcoef(of[1:], of[:-1])[0, 1]) for of in whole),
        mean(still_near(one, other) for one, other in pairs),
        mean(moved(one, other) for one, other in pairs),
        mean(len(np.unique(of // shard_size)) for of in blocks[0]),
        held(epochs),
        1e9 * seconds / sum(map(len, whole)),
    )


def places_of(epoch: Integers) -> Integers:
    """Where each sample is read."""
    places = np.empty_like(epoch)
    places[epoch] = np.arange(len(epoch))
    return places


def still_near(one: Integers, other: Integers) -> float:
    """Pairs that stay within 32 places of each other, over those that do by chance."""
    places = places_of(other)[one]
    found, pairs = 0, 0
    for step in range(1, _NEAR + 1):
        apart = np.abs(places[step:] - places[:-step])
        found += int((apart <= _NEAR).sum())
        pairs += len(apart)
    return found / pairs / (2 * _NEAR / len(one))


def moved(one: Integers, other: Integers) -> float:
    """How far samples move, as a share of the epoch."""
    return float(np.abs(places_of(one) - places_of(other)).mean()) / len(one)


def held(epochs: Epochs) -> int:
    """The most bytes that an epoch takes while it is read."""
    tracemalloc.start()
    for _ in epochs(99):
        pass
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


class Lengths:
    """Samples of which nothing but their lengths is asked; see Samples."""

    digest = "lengths"
    longest = 512

    def __init__(self, shard_sizes: tuple[int, ...]) -> None:
        self.shard_sizes = shard_sizes
        self.manifest: Mapping[str, Any] = {}
        drawn = np.random.default_rng(1)
        full = drawn.random(len(self)) < 0.25
        self._lengths = np.where(full, self.longest, drawn.integers(20, 513, len(self)))

    def __len__(self) -> int:
        return sum(self.shard_sizes)

    def take(self, samples: Integers, epochs: Integers | None = None) -> Rows:
        """Nothing is read here."""
        return Rows({}, samples, samples if epochs is None else epochs)

    def lengths(self, samples: Integers) -> Integers:
        """int64[n]."""
        return self._lengths[samples]


def read_batches(
    batching: FixedBatches | LengthBatches, order: Order, epoch: int
) -> list[Integers]:
    """The samples of each batch of an epoch."""
    position, end, found = Position(epoch * len(order)), (epoch + 1) * len(order), []
    while pool := batching.next_pool(position, end, 1):
        found += [order.locate(pool.batch(step, 0)) for step in range(pool.steps)]
        position = pool.position_after(pool.steps)
    return found


def compare_pools(sizes: tuple[int, ...]) -> Table:
    """Batches by length beside those of the order itself."""
    samples, order = Lengths(sizes), Order(sizes)
    table = Table("batches of 32", "padding", "still near", "next batch's length")
    ways: dict[str, FixedBatches | LengthBatches] = {"as they come": FixedBatches(32)}
    for pool in (2**12, 2**14, 2**16, 2**18):
        ways[f"by length, pool {pool:,}"] = LengthBatches(samples, order, 32, pool_size=pool)
    for name, batching in ways.items():
        one, other = (read_batches(batching, order, epoch) for epoch in range(2))
        lengths = [samples.lengths(batch) for batch in one]
        tokens, places = sum(of.sum() for of in lengths), sum(of.max() * len(of) for of in lengths)
        near = still_near(np.concatenate(one), np.concatenate(other))
        means = np.array([of.mean() for of in lengths])
        alike = np.corrcoef(means[1:], means[:-1])[0, 1]
        table.add_row(name, f"{1 - tokens / places:.2%}", f"{near:,.2f}", f"{alike:.4f}")
    return table


def compare_orders(sizes: tuple[int, ...], epochs: int) -> Table:
    """Orders beside a permutation in memory."""
    samples = sum(sizes)
    rows: list[tuple[str, Epochs]] = [("as stored", ordered(Order(sizes, shuffle=False)))]
    rows += [
        (f"window {window:,}", ordered(Order(sizes, window=window)))
        for window in (1, 2**10, 2**14, 2**17)
    ]
    for lanes in (8, 64):
        order = Order(sizes, window=2**14, lanes=lanes)
        rows.append((f"window {2**14:,}, {lanes} lanes", ordered(order)))
    rows.append(("window of all", ordered(Order(sizes, window=samples))))
    rows.append(("random permutation", permuted(samples)))
    table = Table("order", "neighbours", "still near", "moved", "shards", "memory", "ns")
    for name, read in rows:
        of = measure(name, read, sizes[0], epochs)
        table.add_row(
            name,
            f"{of.neighbours:.4f}",
            f"{of.still_near:,.2f}",
            f"{of.moved:.3f}",
            f"{of.shards:.1f}",
            f"{of.memory / 1000:,.0f} kB",
            f"{of.nanoseconds:.0f}",
        )
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=4)
    chosen = parser.parse_args()
    sizes = (chosen.samples // chosen.shards,) * chosen.shards
    console = Console()
    console.print(f"{sum(sizes):,} samples in {chosen.shards:,} shards")
    console.print(compare_orders(sizes, chosen.epochs))
    console.print(compare_pools(sizes))


if __name__ == "__main__":
    main()
