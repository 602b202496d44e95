"""How far a run has read: what a loader saves with a checkpoint."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.schedule import Position

T = TypeVar("T")


class Progress:
    """A position that advances as batches are taken, epoch after epoch.

    Each iteration resumes where the last one stopped. It ends with the epoch, or when a loop that
    counts batches leaves it after the epoch's last one. If a state was saved in an epoch's last
    step, the first iteration after loading it is empty, so that a resumed run has the same epochs
    as one that was never stopped.

    Args:
        batches: the batches to read.
        world_size: the number of ranks that read together.

    Attributes:
        position: how far all ranks have read.
        at_end: whether all batches of the epoch are taken, but its loop has not ended.
    """

    def __init__(self, batches: Batches, world_size: int) -> None:
        self._batches, self._world_size = batches, world_size
        self._size = len(batches.order)
        self.position, self.at_end = Position(0), False
        self._begin = self.position
        self._steps: dict[int, int] = {}  # of the last epoch that was counted
        self._iteration: object = None  # the one that moves the position; None before the first

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or else the next one."""
        return self.epoch_at(self.position.samples_read, self.at_end)

    def epoch_at(self, samples_read: int, at_end: bool = False) -> int:
        """Return the epoch of an iteration that begins, or just ends, after some samples.

        After resuming with more ranks, fewer samples than ranks may remain of an epoch; they are
        read with the next one.
        """
        read = samples_read
        return (read - 1 if at_end else read + self._world_size - 1) // self._size

    def end_of_epoch(self) -> int:
        """Return the number after the last sample of the epoch that is being read."""
        if self.at_end:
            return (self.epoch + 1) * self._size
        return self._batches.end_of_epoch(self.position, self._world_size)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch.

        Naming the epoch that is being read changes nothing: a loop over epochs may set each of
        them, and still resumes in the middle of one.

        Raises:
            UserError: the number is negative.
        """
        if epoch < 0:
            raise UserError(f"set_epoch({epoch})", "epochs count from 0", "Give 0 or more")
        if epoch != self.epoch:
            self.move_to(Position(epoch * self._size))

    def move_to(self, position: Position, at_end: bool = False) -> None:
        """Resume at any position."""
        self.position, self.at_end, self._begin = position, at_end, position
        self._iteration = None

    def follow(self, read: Callable[[Position], Iterator[tuple[T, Position]]]) -> Iterator[T]:
        """Yield what is read of the epoch in one iteration, and advance the position with it.

        Args:
            read: yields batches from a position to the end of its epoch, each with the position
                after it.

        Raises:
            UserError: a whole epoch gives no batch.
        """
        loaded_at_end = self.at_end and self._iteration is None
        self._iteration, self.at_end = object(), False
        if loaded_at_end:
            return
        iteration, begin, is_empty = self._iteration, self.position, True
        self._begin = begin
        end = self._batches.end_of_epoch(begin, self._world_size)
        try:
            for item, position in read(begin):
                self.position, self.at_end, is_empty = position, position.samples_read >= end, False
                yield item
        except GeneratorExit:
            # Unless a later iteration has begun, or a state was loaded.
            if self._iteration is iteration:
                self.at_end = False
            raise
        if is_empty and end - begin.samples_read >= self._size:
            cause = f"an epoch of {self._size} samples is too short for one batch per rank"
            cure = "Give smaller batches, or keep the last one"
            raise UserError(f"{self._batches.batching}", cause, cure)
        self.position, self.at_end = Position(end), False

    def steps_of_epoch(self) -> int:
        """Return the number of batches of each rank in the whole epoch."""
        epoch = self.epoch
        if epoch not in self._steps:
            pools = self._batches.pools(Position(epoch * self._size), self._world_size)
            self._steps = {epoch: sum(pool.steps for pool in pools)}
        return self._steps[epoch]

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as JSON types, from which `load_state_dict` resumes."""
        return {**self._batches.state_dict(self.position), "at_end": self.at_end}

    def state_after(self, batches: int, begin: Position | None = None) -> dict[str, Any]:
        """Return the state after some batches of an iteration.

        It is for loops over another loader, which reads ahead, so that `state_dict` counts batches
        that the loop has not seen yet.

        Args:
            batches: the number of batches that this rank has taken.
            begin: where the iteration began; None for the present iteration.

        Raises:
            UserError: the epoch has fewer batches.
        """
        begin = begin or self._begin
        end = self._batches.end_of_epoch(begin, self._world_size)
        position, left = begin, batches
        for pool in self._batches.pools(begin, self._world_size):
            if not left:
                break
            position = pool.position_after(min(left, pool.steps))
            left -= min(left, pool.steps)
        if left:
            cause = f"the epoch had {batches - left} left"
            raise UserError(f"state_after({batches})", cause, "Count the batches of one iteration")
        at_end = batches > 0 and position.samples_read >= end
        return {**self._batches.state_dict(position), "at_end": at_end}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state, with any ranks, workers and batch size.

        Raises:
            UserError: the state belongs to other data or to another order.
        """
        position = self._batches.load_state_dict(state)
        self.move_to(position, bool(state.get("at_end", False)))


class Resumable:
    """An iterable over epochs whose progress can be saved and loaded."""

    _progress: Progress

    def __len__(self) -> int:
        """Return the batches of the whole epoch."""
        return self._progress.steps_of_epoch()

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or else the next one."""
        return self._progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless it is already being read.

        Raises:
            UserError: the number is negative.
        """
        self._progress.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return how far all ranks together have taken batches; batches read ahead don't count.

        The state is a handful of numbers, and the same on each rank.
        """
        return self._progress.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after the last batch that was taken.

        Ranks, workers and batch size may differ from the earlier ones. It takes the same time at
        any place of an epoch.

        Raises:
            UserError: the state belongs to other data or to another order.
        """
        self._progress.load_state_dict(state)
