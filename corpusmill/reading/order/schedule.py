"""Which samples each rank reads in which step, and how it goes on after a stop.

Training reads an endless row of numbers, epoch after epoch (`corpusmill.reading.order.order`). A
run goes from a position to the end of its epoch in *steps*; in a step each rank reads one batch. A
*pool* is a stretch of the row that is arranged into steps on its own.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from corpusmill.errors import UserError
from corpusmill.reading.rows import Integers

# Steps of a pool whose batches follow the order; only how far ahead is looked.
_POOL_STEPS = 1024


@dataclass(frozen=True)
class Position:
    """How far a run has read, for all ranks and workers together.

    Attributes:
        number: of the first sample that is not read; within a pool whose samples are read in
            another order, of the pool's first one.
        taken: what was read of such a pool, for each way it was arranged in turn: what that way
            is known by, and last the samples that were read.
    """

    number: int
    taken: tuple[tuple[int, ...], ...] = ()

    @property
    def read(self) -> int:
        """Samples of the row that were read: all before this position."""
        return self.number + sum(of[-1] for of in self.taken)


class Pool(Protocol):
    """Some steps, which every rank has."""

    @property
    def steps(self) -> int:
        """How many."""

    def batch(self, step: int, rank: int) -> Integers:
        """int64[samples]: the numbers that a rank reads in a step, at least one."""

    def position_after(self, steps: int) -> Position:
        """Where to go on when so many steps are done; behind an epoch's last step, at its end."""


class Batching(Protocol):
    """How the row of numbers is made into steps."""

    def next_pool(self, position: Position, end: int, world_size: int) -> Pool | None:
        """The steps that come next.

        Args:
            position: where the last pool ended, or a run before this one.
            end: number behind the epoch's last sample.
            world_size: ranks that read.

        Returns:
            None at the epoch's end.
        """


@dataclass(frozen=True)
class FixedBatches:
    """Batches of one size, in the order of the numbers.

    A step is the next world_size * batch_size numbers, and a rank reads those that leave its own
    number when divided by the world size. The last step of an epoch shares what is left evenly;
    where that is less than one sample for each rank, the step before it takes it in, with batches
    larger by one. So each rank has the same number of steps, and each sample is read once.

    Attributes:
        batch_size: samples of a rank in a step.
        drop_last: leave out what fills no whole step at the end of an epoch.
    """

    batch_size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: no batch can be made.
        """
        if self.batch_size < 1:
            cause = "a batch has at least one sample"
            raise UserError(f"batch_size={self.batch_size}", cause, "Give 1 or more")

    def next_pool(self, position: Position, end: int, world_size: int) -> "StepRange | None":
        """See Batching.

        Raises:
            UserError: the position is within a pool that was arranged by length.
        """
        if position.taken:
            cause = "the run before stopped within a pool of batches by length"
            cure = "Go on with LengthBatches, of another batch size if you like"
            raise UserError(f"batch_size={self.batch_size}", cause, cure)
        size = world_size * self.batch_size
        left = end - position.number
        whole, rest = divmod(left, size)
        steps = whole if self.drop_last else whole + (rest >= world_size)
        if not steps:
            return None
        if steps > _POOL_STEPS:
            return StepRange(position.number, _POOL_STEPS, size, world_size)
        last_end = position.number + steps * size if self.drop_last else end
        return StepRange(position.number, steps, size, world_size, last_end, end)


@dataclass(frozen=True)
class StepRange:
    """Steps of consecutive numbers; see Pool.

    Attributes:
        begin: number of the first sample.
        steps: how many.
        step_size: samples of a step, all ranks together.
        world_size: ranks that read.
        end: behind the last step's last sample, where that step is shorter or longer than others.
        epoch_end: behind the epoch's last sample, where these are its last steps; what they leave
            out is then behind a run, too.
    """

    begin: int
    steps: int
    step_size: int
    world_size: int
    end: int | None = None
    epoch_end: int | None = None

    def batch(self, step: int, rank: int) -> Integers:
        """See Pool."""
        first, behind = self._bound(step), self._bound(step + 1)
        return np.arange(first + (rank - first) % self.world_size, behind, self.world_size)

    def position_after(self, steps: int) -> Position:
        """See Pool."""
        if steps == self.steps and self.epoch_end is not None:
            return Position(self.epoch_end)
        return Position(self._bound(steps))

    def _bound(self, step: int) -> int:
        if step == self.steps and self.end is not None:
            return self.end
        return self.begin + step * self.step_size
