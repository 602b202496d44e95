"""What it costs to find the next sample: mixtures, their stages and curricula beside plain orders.

    python -m benchmarks.readers.locating [--samples 10000000] [--shards 100] [--rounds 5]

Nothing is read; each order is asked for samples, 1,024 at a time, as loaders do, and for how often
each was read before. The columns are medians over the rounds, in which the orders take turns:

    in order    nanoseconds of processor time per sample, of a million consecutive ones that begin
                in the middle of an epoch
    at random   the same for places anywhere in the first two epochs, which no loader asks for
    bytes       of a pickled order per sample of the data, which each spawned worker receives
"""

import pickle
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from benchmarks.console import CONSOLE, make_parser, print_table
from benchmarks.measure import take_turns, time_call
from benchmarks.readers.shuffle_quality import Lengths
from corpusmill.reading.order.curriculum import curriculum
from corpusmill.reading.order.mixture import mix
from corpusmill.reading.order.order import Order, Ordering
from corpusmill.reading.order.stages import Stage
from corpusmill.reading.rows import Integers
from tests.tools.manifests import small_manifest

_BLOCK = 1024
_READ = 1_000_000


class Source(Lengths):
    """Samples that can be mixed."""

    manifest = small_manifest()


def make_orders(samples: int, shards: int) -> dict[str, Ordering]:
    """Return the orders to compare, all of as many samples."""
    sizes = (samples // shards,) * shards
    whole = Source(sizes)

    def split(number: int) -> list[Source]:
        return [Source(sizes[place::number]) for place in range(number)]

    def mixture(*stages: Stage) -> Ordering:
        return mix(split(len(stages[0].weights)), stages)[1]

    orders: dict[str, Ordering] = {"plain order": Order(sizes)}
    for number in (2, 8, 64):
        weights = list(range(1, number + 1))
        orders[f"mixture of {number} sources"] = mix(split(number), weights)[1]
    first, last = [3, 2, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 9]
    half = samples // 2
    orders["8 sources, 2 stages"] = mixture(Stage(first, half), Stage(last, half))
    orders["8 sources, a ramp"] = mixture(Stage(first, half), Stage(last, half, ramp=True))
    many = [Stage((first, last)[place % 2], samples // 1000) for place in range(1000)]
    orders["8 sources, 1,000 stages"] = mixture(*many)
    for stages in (1, 4, 16):
        orders[f"curriculum of {stages} stages"] = curriculum(whole, "length", stages)
    return orders


def locate(order: Ordering, numbers: Integers) -> int:
    """Ask for samples and their epochs, 1,024 at a time."""
    total = 0
    for begin in range(0, len(numbers), _BLOCK):
        block = numbers[begin : begin + _BLOCK]
        total += len(order.locate(block)) + len(order.epochs(block))
    return total


def time_locating(order: Ordering, numbers: Integers) -> float:
    """Return nanoseconds of processor time per sample."""
    _, seconds = time_call(partial(locate, order, numbers))
    return 1e9 * seconds / len(numbers)


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, samples=10_000_000, shards=100, rounds=5)
    options = parser.parse_args()
    orders = make_orders(options.samples, options.shards)
    drawn = np.random.default_rng(1)
    calls: dict[tuple[str, str], Callable[[], float]] = {}
    for name, order in orders.items():
        begin = len(order) // 2
        consecutive = np.arange(begin, begin + min(_READ, len(order)))
        anywhere = drawn.integers(0, 2 * len(order), _READ // 10)
        time_locating(order, anywhere[:_BLOCK])  # compiles
        calls[name, "in order"] = partial(time_locating, order, consecutive)
        calls[name, "at random"] = partial(time_locating, order, anywhere)
    results = take_turns(calls, options.rounds)
    CONSOLE.print(f"{options.samples:,} samples in {options.shards:,} shards")
    rows = (
        [
            name,
            f"{median(results[name, 'in order']):.0f}",
            f"{median(results[name, 'at random']):.0f}",
            f"{len(pickle.dumps(order)) / options.samples:.3f}",
        ]
        for name, order in orders.items()
    )
    print_table(("order", "ns in order", "ns at random", "bytes"), rows)


if __name__ == "__main__":
    main()
