"""A pool of samples, arranged into batches of samples of similar length."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below
from corpusmill.objectives.examples.best_fit_packing import order_by_length
from corpusmill.reading.rows import Integers


class Rules(NamedTuple):
    """The rules by which a pool is cut into batches.

    Attributes:
        batch_size: samples of a batch; with `max_tokens`, the most samples, 0 for any number.
        max_tokens: the most tokens of a batch with its padding; 0 for any number.
        multiple: the multiple to which lengths are padded.
        world_size: the number of ranks; each has a batch in each step.
    """

    batch_size: int
    max_tokens: int
    multiple: int
    world_size: int


@dataclass(frozen=True)
class Arrangement:
    """A pool's samples in the order of their batches, step after step.

    Attributes:
        numbers: int64[n], the samples' numbers in the endless sequence.
        bounds: int64[steps * world_size + 1], where the batches begin among them. Samples after
            the last bound are in no step; they are fewer than the ranks.
        world_size: batches of a step.
    """

    numbers: Integers
    bounds: Integers
    world_size: int

    @property
    def steps(self) -> int:
        """The number of steps."""
        return (len(self.bounds) - 1) // self.world_size

    def batch(self, step: int, rank: int) -> Integers:
        """Return the numbers that a rank reads in a step, int64[samples]."""
        begin, end = self.bounds[step * self.world_size + rank :][:2]
        return self.numbers[begin:end]

    def samples_in(self, steps: int) -> int:
        """Count the samples of the first steps."""
        return int(self.bounds[steps * self.world_size])

    def after(self, steps: int) -> Integers:
        """Return the numbers that are not in the first steps, int64[samples], ascending."""
        return np.sort(self.numbers[self.samples_in(steps) :])


def arrange(numbers: Integers, lengths: Integers, rules: Rules, key: np.uint64) -> Arrangement:
    """Cut a pool into batches of samples of similar length.

    Samples are sorted by their padded lengths, longest first, with ties in random order, and
    consecutive ones become a batch. Every world_size consecutive batches become a step, so that all
    ranks have about the same work in it. Then the steps are shuffled, and so are the batches of
    each step among the ranks.

    Args:
        numbers: int64[n], ascending, at least as many as there are ranks.
        lengths: int64[n], their tokens, none above `max_tokens`.
        rules: the rules for batches.
        key: the key of the random draws.

    Example:
        lengths [5, 9, 4, 8] and batches of 2 for one rank give the steps [0, 2] and [3, 1], or the
        other way round.
    """
    ties_key, steps_key, ranks_key = (np.uint64(draw(key, purpose)) for purpose in range(3))
    widths = -(-lengths // rules.multiple)
    shuffled = _shuffle(len(numbers), ties_key)
    by_width = shuffled[order_by_length(widths[shuffled], int(widths.max()))]
    if rules.max_tokens:
        most_rows = rules.batch_size or len(numbers)
        sizes = _cut_by_tokens(widths[by_width], rules.max_tokens // rules.multiple, most_rows)
        if -(-len(sizes) // rules.world_size) * rules.world_size <= len(numbers):
            sizes = _split(sizes, -len(sizes) % rules.world_size)
        else:
            by_width, sizes = _leave_out(by_width, sizes, len(sizes) % rules.world_size)
    else:
        sizes = share_evenly(len(numbers), rules.batch_size, rules.world_size)
    steps = len(sizes) // rules.world_size
    places, bounds = _mix(sizes, steps, rules.world_size, steps_key, ranks_key)
    whole = np.concatenate([by_width[places], by_width[len(places) :]])
    return Arrangement(numbers[whole], bounds, rules.world_size)


def share_evenly(samples: int, batch_size: int, world_size: int) -> Integers:
    """Return the sizes of batches; those of the last step share the remaining samples evenly.

    If these are fewer than the ranks, the step before takes them too, and some of its batches are
    larger by one.

    Args:
        samples: the number of samples, at least world_size.
        batch_size: the size of whole batches.
        world_size: the number of ranks.

    Example:
        9 samples for 3 ranks in batches of 2 give [2, 2, 2, 1, 1, 1], 8 give [3, 3, 2].
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
    """Return a random permutation. Source: Fisher and Yates, as Knuth's algorithm P."""
    order = np.arange(size)
    for i in range(size - 1, 0, -1):
        j = to_below(draw(key, i), i + 1)
        order[i], order[j] = order[j], order[i]
    return order


@njit
def _cut_by_tokens(widths: np.ndarray, budget: int, most_rows: int) -> np.ndarray:
    """Return the sizes of batches, each as large as its first, longest row allows."""
    sizes = np.empty(len(widths), np.int64)
    count, begin = 0, 0
    while begin < len(widths):
        fits = budget // max(1, widths[begin])
        sizes[count] = min(fits, most_rows, len(widths) - begin)
        begin += sizes[count]
        count += 1
    return sizes[:count].copy()


@njit
def _split(sizes: np.ndarray, times: int) -> np.ndarray:
    """Halve the largest batch `times` times; the halves stay side by side."""
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
    """Move the `times` last batches of one sample after all others, and drop their sizes."""
    alone = np.flatnonzero(sizes == 1)
    places = (np.cumsum(sizes) - sizes)[alone]
    last = np.argsort(by_width[places])[-times:]
    moved = np.concatenate([np.delete(by_width, places[last]), by_width[places[last]]])
    return moved, np.delete(sizes, alone[last])


@njit
def _mix(
    sizes: np.ndarray, steps: int, ranks: int, steps_key: np.uint64, ranks_key: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    """Shuffle the steps, and the batches of each among the ranks; return the places and bounds."""
    begins = np.zeros(len(sizes) + 1, np.int64)
    begins[1:] = np.cumsum(sizes)
    places = np.empty(begins[-1], np.int64)
    bounds = np.zeros(len(sizes) + 1, np.int64)
    filled = 0
    for nth, step in enumerate(_shuffle(steps, steps_key)):
        for rank, source_rank in enumerate(_shuffle(ranks, draw(ranks_key, nth))):
            batch = step * ranks + source_rank
            for place in range(begins[batch], begins[batch + 1]):
                places[filled] = place
                filled += 1
            bounds[nth * ranks + rank + 1] = filled
    return places, bounds
