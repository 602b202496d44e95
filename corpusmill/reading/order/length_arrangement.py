"""A pool of samples, arranged into batches of samples of about the same length."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below
from corpusmill.reading.rows import Integers


class Rules(NamedTuple):
    """What decides how a pool is cut into batches.

    Attributes:
        batch_size: samples of a batch; with `max_tokens` the most of them, 0 for any number.
        max_tokens: most tokens of a batch with its padding; 0 for any number.
        multiple: of what lengths are padded to.
        world_size: ranks, each of which has a batch in each step.
    """

    batch_size: int
    max_tokens: int
    multiple: int
    world_size: int


@dataclass(frozen=True)
class Arrangement:
    """A pool's samples in the order of their batches, those of a step behind each other.

    Attributes:
        numbers: int64[n], the samples' numbers in the endless row.
        bounds: int64[steps * world_size + 1], where the batches begin among them. What lies behind
            the last one is in no step: fewer samples than ranks that fit no batch.
        world_size: batches of a step.
    """

    numbers: Integers
    bounds: Integers
    world_size: int

    @property
    def steps(self) -> int:
        """How many there are."""
        return (len(self.bounds) - 1) // self.world_size

    def batch(self, step: int, rank: int) -> Integers:
        """int64[samples]: what a rank reads in a step."""
        begin, end = self.bounds[step * self.world_size + rank :][:2]
        return self.numbers[begin:end]

    def read(self, steps: int) -> int:
        """Samples of the first steps."""
        return int(self.bounds[steps * self.world_size])

    def left(self, steps: int) -> Integers:
        """int64[samples]: the numbers that are not in the first steps, ascending."""
        return np.sort(self.numbers[self.read(steps) :])


def arrange(numbers: Integers, lengths: Integers, rules: Rules, key: np.uint64) -> Arrangement:
    """Cut a pool into batches of samples of about the same length.

    Samples are sorted by the length that they are padded to, those of the same one at random, and
    consecutive ones become a batch, the longest first. As many batches as there are ranks become a
    step, so that all ranks have about the same work in it; steps, and the ranks' batches in each,
    are then in random order.

    Args:
        numbers: int64[n], ascending, at least as many as there are ranks.
        lengths: int64[n], their tokens, none above `max_tokens`.
        rules: how large batches are.
        key: of the draws.

    Example:
        of lengths [5, 9, 4, 8] and batches of 2 for one rank come the steps [0, 2] and [3, 1], or
        the other way round.
    """
    of_ties, of_steps, of_ranks = (np.uint64(draw(key, purpose)) for purpose in range(3))
    widths = -(-lengths // rules.multiple)
    by_width = _sort_down(widths, _shuffle(len(numbers), of_ties))
    if rules.max_tokens:
        most = rules.batch_size or len(numbers)
        sizes = _cut_by_tokens(widths[by_width], rules.max_tokens // rules.multiple, most)
        if -(-len(sizes) // rules.world_size) * rules.world_size <= len(numbers):
            sizes = _split(sizes, -len(sizes) % rules.world_size)
        else:
            by_width, sizes = _leave_out(by_width, sizes, len(sizes) % rules.world_size)
    else:
        sizes = share_evenly(len(numbers), rules.batch_size, rules.world_size)
    steps = len(sizes) // rules.world_size
    places, bounds = _mix(sizes, steps, rules.world_size, of_steps, of_ranks)
    whole = np.concatenate([by_width[places], by_width[len(places) :]])
    return Arrangement(numbers[whole], bounds, rules.world_size)


def share_evenly(samples: int, batch_size: int, world_size: int) -> Integers:
    """Sizes of batches that are whole but for the last step, which shares what is left evenly.

    Where that is less than one sample for each rank, the batches of the step before it are larger
    by one.

    Args:
        samples: at least as many as there are ranks.
        batch_size: of whole batches.
        world_size: ranks.

    Example:
        9 samples of 3 ranks in batches of 2 are [2, 2, 2, 1, 1, 1], 8 are [3, 3, 2].
    """
    whole, rest = divmod(samples, batch_size * world_size)
    each, more = divmod(rest, world_size)
    last = each + (np.arange(world_size) < more)
    sizes = np.full(whole * world_size, batch_size, np.int64)
    if each:
        return np.concatenate([sizes, last])
    sizes[-world_size:] += last
    return sizes


@njit
def _shuffle(size: int, key: np.uint64) -> np.ndarray:
    """A random permutation. Source: Fisher and Yates, as Knuth's algorithm P."""
    order = np.arange(size)
    for i in range(size - 1, 0, -1):
        j = to_below(draw(key, i), i + 1)
        order[i], order[j] = order[j], order[i]
    return order


@njit
def _sort_down(widths: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The widest first, those of one width as they stand in `order`, by counting."""
    widest = widths.max()
    begins = np.zeros(widest + 2, np.int64)
    for width in widths:
        begins[widest - width + 1] += 1
    for i in range(1, len(begins)):
        begins[i] += begins[i - 1]
    found = np.empty_like(order)
    for place in order:
        rank = widest - widths[place]
        found[begins[rank]] = place
        begins[rank] += 1
    return found


@njit
def _cut_by_tokens(widths: np.ndarray, budget: int, most: int) -> np.ndarray:
    """Sizes of batches of which each is as large as its first, longest row lets it be."""
    sizes = np.empty(len(widths), np.int64)
    count, begin = 0, 0
    while begin < len(widths):
        fits = budget // max(1, widths[begin])
        sizes[count] = min(fits, most, len(widths) - begin)
        begin += sizes[count]
        count += 1
    return sizes[:count].copy()


@njit
def _split(sizes: np.ndarray, times: int) -> np.ndarray:
    """Halve the largest batch, so many times; the halves stay side by side."""
    cut = np.empty(len(sizes) + times, np.int64)
    count = len(sizes)
    cut[:count] = sizes
    for _ in range(times):
        largest = np.argmax(cut[:count])
        half = cut[largest] // 2
        cut[largest + 1 : count + 1] = cut[largest:count].copy()
        cut[largest] -= half
        cut[largest + 1] = half
        count += 1
    return cut


def _leave_out(by_width: Integers, sizes: Integers, times: int) -> tuple[Integers, Integers]:
    """Put so many batches of one sample, the last in the row, behind all others, without a size."""
    alone = np.flatnonzero(sizes == 1)
    places = (np.cumsum(sizes) - sizes)[alone]
    last = np.argsort(by_width[places])[-times:]
    moved = np.concatenate([np.delete(by_width, places[last]), by_width[places[last]]])
    return moved, np.delete(sizes, alone[last])


@njit
def _mix(
    sizes: np.ndarray, steps: int, ranks: int, steps_key: np.uint64, ranks_key: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    """Steps in random order, and batches among the ranks: which place comes where, and bounds."""
    begins = np.zeros(len(sizes) + 1, np.int64)
    begins[1:] = np.cumsum(sizes)
    places = np.empty(begins[-1], np.int64)
    bounds = np.zeros(len(sizes) + 1, np.int64)
    filled = 0
    for nth, step in enumerate(_shuffle(steps, steps_key)):
        for rank, of_step in enumerate(_shuffle(ranks, draw(ranks_key, nth))):
            batch = step * ranks + of_step
            for place in range(begins[batch], begins[batch + 1]):
                places[filled] = place
                filled += 1
            bounds[nth * ranks + rank + 1] = filled
    return places, bounds
