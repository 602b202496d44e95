"""Batches of samples of similar length, so that little of them is padding; and how much that is.

Samples are taken in pools of many consecutive ones, sorted by length within the pool, and cut into
batches of one size or of limited tokens. The larger the pool, the less padding; beyond some hundred
batches there is little left to gain.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import POOLED, derive_key, draw, to_below
from corpusmill.errors import UserError
from corpusmill.objectives.examples.packing import order_by_length
from corpusmill.reading.collate.collators import Padding
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.order import Ordering
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Integers, check_minimum


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

    def samples_in(self, steps: int) -> int:
        """Count the samples of the first steps."""
        return int(self.bounds[steps * self.world_size])


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


@dataclass(frozen=True)
class LengthBatches:
    """Batches by length, of `batch_size` samples or of up to `max_tokens` tokens.

    Each rank has the same number of batches, all samples are read once per epoch, and a batch
    depends only on the seed, the epoch and the samples' numbers. A run may stop within a pool and
    resume with other ranks, batch sizes and limits: the rest of the pool is then arranged anew.

    Each rank looks up the lengths of all ranks' samples: if the data is remote, each machine
    unpacks all shards, not only those of its own lanes.

    Attributes:
        samples: the samples to read.
        order: the order of the samples; its seed is also that of the batches.
        batch_size: samples of a rank in a step; with `max_tokens`, the most samples. Without
            `max_tokens` the last step of a pool that is resumed, or of an epoch, has fewer or more,
            like the last one of FixedBatches.
        max_tokens: the most tokens of a batch with its padding: its rows times its longest row. If
            it is below twice the longest sample, or if batch_size is 1, nearly all batches have one
            sample, and up to world_size - 1 samples at an epoch's end may fit into no step; these
            are left out.
        pad_to_multiple_of: the multiple to which the collator pads lengths.
        pool_size: samples of a pool, rounded to a multiple of what all ranks read in a step. A
            larger pool gives less padding, but samples of one length come together more often.
    """

    samples: Samples = field(repr=False)
    order: Ordering
    batch_size: int | None = None
    max_tokens: int | None = None
    pad_to_multiple_of: int = 1
    pool_size: int = 2**14

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is out of range, or the longest sample does not fit into a batch.
        """
        if self.batch_size is None and self.max_tokens is None:
            cause = "the size of batches is unknown"
            raise UserError("batch_size=None", cause, "Give batch_size or max_tokens")
        check_minimum("batch_size", self.batch_size, 1)
        check_minimum("pad_to_multiple_of", self.pad_to_multiple_of, 1)
        check_minimum("pool_size", self.pool_size, 1)
        multiple = self.pad_to_multiple_of
        longest = -(-self.samples.longest // multiple) * multiple
        if self.max_tokens is not None and longest > self.max_tokens:
            cause = f"the longest sample has {longest} tokens when it is padded"
            raise UserError(f"max_tokens={self.max_tokens}", cause, f"Give {longest} or more")

    def next_pool(self, position: Position, end: int, world_size: int) -> "LengthPool | None":
        """Return the next steps, or None at the end of the epoch.

        Raises:
            UserError: the position belongs to other samples or to another order, or a sample is
                longer than the data set says.
        """
        rules = Rules(
            self.batch_size or 0, self.max_tokens or 0, self.pad_to_multiple_of, world_size
        )
        waiting, next_number = np.empty(0, np.int64), position.number
        for turn, (added, *parameters, steps, read) in enumerate(position.pool_reads):
            earlier_rules = Rules(*parameters)
            waiting = np.concatenate([waiting, np.arange(next_number, next_number + added)])
            next_number += added
            arrangement = self._arrange(waiting, earlier_rules, position.number, turn)
            if steps > arrangement.steps or arrangement.samples_in(steps) != read:
                cause = "it is within a pool of other samples, or of another order"
                raise UserError("load_state_dict", cause, "Read the data of the earlier run")
            is_last = turn == len(position.pool_reads) - 1
            if is_last and earlier_rules == rules and steps < arrangement.steps:
                begin = Position(position.number, position.pool_reads[:turn])
                return LengthPool(arrangement, rules, begin, added, next_number, end, steps)
            waiting = np.sort(arrangement.numbers[arrangement.samples_in(steps) :])
        added = self._count_added(len(waiting), end - next_number, world_size)
        if len(waiting) + added < world_size:
            return None
        waiting = np.concatenate([waiting, np.arange(next_number, next_number + added)])
        arrangement = self._arrange(waiting, rules, position.number, len(position.pool_reads))
        return LengthPool(arrangement, rules, position, added, next_number + added, end)

    def _count_added(self, waiting: int, unread: int, world_size: int) -> int:
        """Count the unread samples that join those left over from an earlier arrangement."""
        if waiting >= world_size:
            # Unread samples that are too few for a step of their own join now.
            return unread if unread < world_size else 0
        step = world_size * (1 if self.max_tokens else self.batch_size or 1)
        size = max(1, self.pool_size // step) * step
        # The end of an epoch joins too, if it is less than half a pool.
        is_last = waiting + unread < size + max(size // 2, world_size)
        return unread if is_last else size - waiting

    def _arrange(self, numbers: Integers, rules: Rules, first: int, turn: int) -> Arrangement:
        lengths = self.samples.lengths(self.order.locate(numbers))
        if lengths.max() > self.samples.longest:
            cause = f"a sample has {lengths.max()} tokens, the manifest says that the longest has"
            cure = "Copy or build the data set again"
            raise UserError("samples", f"{cause} {self.samples.longest}", cure)
        key = derive_key(np.uint64(self.order.seed), first, turn, POOLED)
        return arrange(numbers, lengths, rules, np.uint64(key))


@dataclass(frozen=True)
class LengthPool:
    """The remaining steps of a pool.

    Attributes:
        arrangement: all steps of the pool.
        rules: the rules of the arrangement.
        begin: the position at which it was arranged.
        added: samples that were not in the pool before.
        end: the number after its last sample.
        epoch_end: the number after the epoch's last sample.
        done: steps that were done before.
    """

    arrangement: Arrangement
    rules: Rules
    begin: Position
    added: int
    end: int
    epoch_end: int
    done: int = 0

    @property
    def steps(self) -> int:
        """The number of remaining steps."""
        return self.arrangement.steps - self.done

    def batch(self, step: int, rank: int) -> Integers:
        """Return the numbers that a rank reads in a step, int64[samples]."""
        first = (self.done + step) * self.rules.world_size + rank
        begin, end = self.arrangement.bounds[first : first + 2]
        return self.arrangement.numbers[begin:end]

    def position_after(self, steps: int) -> Position:
        """Return the position after some steps."""
        done = self.done + steps
        if not done:
            return self.begin
        read = self.arrangement.samples_in(done)
        ends_epoch = done == self.arrangement.steps and self.end == self.epoch_end
        if ends_epoch or read == len(self.arrangement.numbers):
            return Position(self.end)
        entry = (self.added, *self.rules, done, read)
        return Position(self.begin.number, (*self.begin.pool_reads, entry))


@dataclass
class PaddingShare:
    """A running count of padding.

    Attributes:
        tokens: tokens that are not padding, so far.
        places: places in all batches, so far.

    Example:
        the mask [[1, 1, 0, 0], [1, 1, 1, 1]] gives the share 0.25.
    """

    tokens: int = 0
    places: int = 0

    @property
    def share(self) -> float:
        """The share of padding among all places; 0 before the first batch."""
        return 1 - self.tokens / self.places if self.places else 0.0

    def add(self, attention_mask: Any) -> None:
        """Count a batch.

        Args:
            attention_mask: integers[rows, width], 0 at padding: an array, or a tensor on the CPU.
        """
        mask = np.asarray(attention_mask)
        self.tokens += int(mask.sum())
        self.places += mask.size


def padding_share(
    batches: Batches,
    padding: Padding | None = None,
    *,
    world_size: int = 1,
    begin: Position | None = None,
    most_samples: int | None = None,
) -> float:
    """Return the share of padding in an epoch's batches, of all ranks together.

    Only lengths are looked up; examples are not read.

    Args:
        batches: the batches; their collator is not used.
        padding: the width of batches; None for the longest row of each.
        world_size: the number of ranks.
        begin: where to begin; None for the first epoch.
        most_samples: stop after the pool in which this many are counted; None for the whole epoch.

    Example:
        0.31 means that of 100 places of a batch 31 are padding on average.
    """
    padding = padding or Padding()
    total = PaddingShare()
    samples = 0
    for pool in batches.pools(begin or Position(0), world_size):
        parts = [pool.batch(step, rank) for step in range(pool.steps) for rank in range(world_size)]
        sizes = [len(part) for part in parts]
        lengths = batches.samples.lengths(batches.order.locate(np.concatenate(parts)))
        for batch_lengths in np.split(lengths, np.cumsum(sizes)[:-1]):
            total.places += len(batch_lengths) * padding.width(batch_lengths)
        total.tokens += int(lengths.sum())
        samples += len(lengths)
        if most_samples is not None and samples >= most_samples:
            break
    return total.share
