"""Which samples each rank reads in which step, and where to resume after a stop.

Training reads an endless sequence of numbers, epoch after epoch (`corpusmill.reading.order.order`).
From a position to the end of its epoch it is read in *steps*; in a step each rank reads one batch.
A *pool* is a stretch of the sequence that is arranged into steps on its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from corpusmill.dataset.manifest import Manifest, Shard
from corpusmill.errors import UserError
from corpusmill.reading.rows import MOST_SAMPLES, Integers, check_minimum

# The most steps in a pool of batches that follow the order; it only limits the look-ahead.
_POOL_STEPS = 1024


@dataclass(frozen=True)
class Position:
    """How far all ranks and workers together have read.

    Attributes:
        number: the first number that has not been read. Within a pool that is read in another
            order, it is the first number of the pool.
        pool_reads: what was read of such a pool, one entry for each time that the pool was
            arranged: the number of samples added to it, the parameters of the arrangement, and
            last the number of samples read.
    """

    number: int
    pool_reads: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def from_state(cls, state: Mapping[str, Any], size: int) -> Self:
        """Return the position of a state, which may come from anywhere.

        Args:
            state: what `state_dict` of a reader returned.
            size: samples of an epoch.

        Raises:
            UserError: its numbers are none that a reader saves.
        """
        number, taken = state.get("number", 0), state.get("taken", ())
        try:
            position = cls(index(number), tuple(tuple(map(index, entry)) for entry in taken))
            least = min(min(entry) for entry in ((position.number,), *position.pool_reads))
            if least < 0 or position.end > MOST_SAMPLES - size:
                raise ValueError("a number is out of range")
        except (TypeError, ValueError) as error:
            cause = f"its number is {number}, and taken is {taken}"
            raise UserError("state", cause, "Give what state_dict() returned") from error
        return position

    @property
    def samples_read(self) -> int:
        """All samples of the sequence that were read before this position."""
        return self.number + sum(entry[-1] for entry in self.pool_reads)

    @property
    def end(self) -> int:
        """The number after the last one on which the position depends: the end of the pool."""
        return self.number + sum(entry[0] for entry in self.pool_reads)


class Pool(Protocol):
    """Some steps; each has a batch for every rank."""

    @property
    def steps(self) -> int:
        """The number of steps."""

    def batch(self, step: int, rank: int) -> Integers:
        """Return the numbers that a rank reads in a step, int64[samples], at least one."""

    def position_after(self, steps: int) -> Position:
        """Return the position after some steps; after an epoch's last step, the epoch's end."""


class Batching(Protocol):
    """How the sequence of numbers is divided into steps."""

    def next_pool(self, position: Position, end: int, world_size: int) -> Pool | None:
        """Return the next steps, or None at the end of the epoch.

        Args:
            position: the end of the last pool, or where an earlier run stopped.
            end: the number after the epoch's last sample.
            world_size: the number of ranks.
        """


def list_pools(batching: Batching, position: Position, end: int, world_size: int) -> Iterator[Pool]:
    """Yield the pools from a position to an end; the rest is as of `Batching.next_pool`."""
    while pool := batching.next_pool(position, end, world_size):
        yield pool
        position = pool.position_after(pool.steps)


@dataclass(frozen=True)
class FixedBatches:
    """Batches of one size, in the order of the numbers.

    A step is the next world_size * batch_size numbers; rank r reads the numbers n with
    n % world_size == r. The last step of an epoch shares the remaining samples evenly. If these are
    fewer than the ranks, the step before takes them too, and some of its batches are larger by one.
    So each rank has the same number of steps, and each sample is read once.

    Attributes:
        batch_size: samples of a rank in a step.
        drop_last: whether to leave out samples that do not fill a whole step at an epoch's end.
    """

    batch_size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        """Check the batch size.

        Raises:
            UserError: the batch size is not positive.
        """
        check_minimum("batch_size", self.batch_size, 1)

    def next_pool(self, position: Position, end: int, world_size: int) -> "StepRange | None":
        """Return the next steps, or None at the end of the epoch.

        Raises:
            UserError: the position is within a pool that was arranged by length.
        """
        if position.pool_reads:
            cause = "the earlier run stopped within a pool of batches by length"
            cure = "Resume with LengthBatches; the batch size may differ"
            raise UserError(f"batch_size={self.batch_size}", cause, cure)
        size = world_size * self.batch_size
        steps = self.count_steps(end - position.number, world_size)
        if not steps:
            return None
        if steps > _POOL_STEPS:
            return StepRange(position.number, _POOL_STEPS, size, world_size)
        last_end = position.number + steps * size if self.drop_last else end
        return StepRange(position.number, steps, size, world_size, last_end, end)

    def count_steps(self, samples: int, world_size: int) -> int:
        """Count the steps of some samples; the last one takes what is too little for one more."""
        whole, rest = divmod(samples, world_size * self.batch_size)
        return whole if self.drop_last else whole + (rest >= world_size)


@dataclass(frozen=True)
class StepRange:
    """A pool of steps of consecutive numbers.

    Attributes:
        begin: the number of the first sample.
        steps: the number of steps.
        step_size: samples of a step, all ranks together.
        world_size: the number of ranks.
        end: the number after the last step's last sample; None if that step is as long as others.
        epoch_end: the number after the epoch's last sample if these are the epoch's last steps; a
            run resumes there even if they leave samples out.
    """

    begin: int
    steps: int
    step_size: int
    world_size: int
    end: int | None = None
    epoch_end: int | None = None

    def batch(self, step: int, rank: int) -> Integers:
        """Return the numbers that a rank reads in a step, int64[samples]."""
        first, end = self._bound(step), self._bound(step + 1)
        return np.arange(first + (rank - first) % self.world_size, end, self.world_size)

    def position_after(self, steps: int) -> Position:
        """Return the position after some steps."""
        if steps == self.steps and self.epoch_end is not None:
            return Position(self.epoch_end)
        return Position(self._bound(steps))

    def _bound(self, step: int) -> int:
        if step == self.steps and self.end is not None:
            return self.end
        return self.begin + step * self.step_size


# From how many shards, or stretches of the corpus, a window takes rows where shards are no random
# samples, or larger than windows.
SLICES = 8
STRETCHES = 64


def find_parts(manifest: Manifest, split: str, shards: Sequence[Shard]) -> tuple[int, ...]:
    """Return the number of the part that each of some shards belongs to; () for a single part.

    A part is what was built at a time, of one source.

    Args:
        manifest: of the data set.
        split: of the shards.
        shards: some shards of the split.

    Example:
        ("wiki", "wiki", "books") are the sources of parts (0, 0, 1).
    """
    generations = manifest.provenance.generations if manifest.provenance else ()
    if len(generations) < 2 and not manifest.corpus.sources:
        return ()
    counts = [generation.shards.get(split, 0) for generation in generations]
    files = (shard.file for shard in manifest.splits[split].shards)
    numbers = np.repeat(np.arange(len(counts)), counts).tolist() if len(counts) > 1 else []
    generation_of = dict(zip(files, numbers, strict=False))
    known: dict[tuple[int, str | None], int] = {}
    parts = tuple(
        known.setdefault((generation_of.get(shard.file, 0), shard.source), len(known))
        for shard in shards
    )
    return parts if len(known) > 1 else ()


def cut_stretches(
    sizes: Sequence[int], parts: Sequence[int], stretches: int = STRETCHES
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cut shards where rows follow the corpus, so that a window takes rows of its whole length.

    Each part is cut into stretches of equal size, in proportion to its rows. A stretch is a part of
    its own; shards are cut where it ends.

    Args:
        sizes: samples of each shard.
        parts: the part of each shard; empty if all are of one.
        stretches: their number in all, about.

    Returns:
        the samples of each piece of a shard, and the stretch that it belongs to.

    Example:
        sizes (5, 3) of one part and two stretches give the sizes (4, 1, 3) and the parts (0, 1, 1).
    """
    rows = np.array(sizes, np.int64)
    labels = np.array(parts, np.int64) if len(parts) else np.zeros(len(rows), np.int64)
    total, first = max(1, int(rows.sum())), 0
    cut: list[npt.NDArray[np.int64]] = []
    for part in np.unique(labels).tolist():
        shards = np.flatnonzero(labels == part)
        ends = np.cumsum(rows[shards])
        size = int(ends[-1])
        count = max(1, round(stretches * size / total))
        borders = size * np.arange(1, count) // count
        bounds = np.unique(np.concatenate([[0], ends, borders]))
        own = shards[np.searchsorted(ends, bounds[:-1], side="right")]
        stretch = first + np.searchsorted(borders, bounds[:-1], side="right")
        cut.append(np.stack([own, np.diff(bounds), stretch]))
        first += count
    pieces = np.concatenate(cut, axis=1) if cut else np.empty((3, 0), np.int64)
    pieces = pieces[:, np.argsort(pieces[0], kind="stable")]
    return tuple(pieces[1].tolist()), tuple(pieces[2].tolist())
