"""How far a run has read: what a loader saves with a checkpoint."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.schedule import Position

T = TypeVar("T")


class Progress:
    """A position that moves on as batches are taken, epoch after epoch.

    Each iteration goes on where the last one stopped, and ends with the epoch, or when it is left
    behind the epoch's last batch, as by a loop that counts batches. The first iteration after a
    state that was saved in an epoch's last step is empty: so that a run that goes on has the epochs
    of one that was never stopped.

    Args:
        batches: what is read.
        world_size: ranks that read together.

    Attributes:
        position: how far everybody has read.
        at_end: whether all batches of the epoch are taken and its loop has not ended.
    """

    def __init__(self, batches: Batches, world_size: int) -> None:
        self._batches, self._world_size = batches, world_size
        self._size = len(batches.order)
        self.position, self.at_end = Position(0), False
        self._begun = self.position
        self._steps: dict[int, int] = {}  # of the epoch that was last asked for
        self._iteration: object = None  # which one moves the position; None where none has begun

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or the next one where none is."""
        return self.epoch_at(self.position.read, self.at_end)

    def epoch_at(self, read: int, at_end: bool = False) -> int:
        """The epoch of an iteration that is begun, or just ending, when so many samples are read.

        Where a run goes on with more ranks, fewer samples than those may be left of an epoch,
        which are read with the next one.
        """
        return (read - 1 if at_end else read + self._world_size - 1) // self._size

    def end_of_epoch(self) -> int:
        """The number behind the last sample of the epoch that is being read."""
        if self.at_end:
            return (self.epoch + 1) * self._size
        return self._batches.end_of_epoch(self.position, self._world_size)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch.

        That of the epoch that is being read changes nothing, so that a loop over epochs may set
        each of them, and yet goes on in the middle of one.

        Raises:
            UserError: the number is negative.
        """
        if epoch < 0:
            raise UserError(f"set_epoch({epoch})", "epochs count from 0", "Give 0 or more")
        if epoch != self.epoch:
            self.move_to(Position(epoch * self._size))

    def move_to(self, position: Position, at_end: bool = False) -> None:
        """Go on at any position."""
        self.position, self.at_end, self._begun = position, at_end, position
        self._iteration = None

    def follow(self, read: Callable[[Position], Iterator[tuple[T, Position]]]) -> Iterator[T]:
        """One iteration: what is read of the epoch, each time with the position moved on.

        Args:
            read: gives batches from a position to the end of its epoch, each with how far
                everybody has read when it is done.

        Raises:
            UserError: a whole epoch gives no batch.
        """
        loaded_at_end = self.at_end and self._iteration is None
        self._iteration, self.at_end = object(), False
        if loaded_at_end:
            return
        own, begun, taken = self._iteration, self.position, False
        self._begun = begun
        end = self._batches.end_of_epoch(begun, self._world_size)
        try:
            for item, position in read(begun):
                self.position, self.at_end, taken = position, position.read >= end, True
                yield item
        except GeneratorExit:
            if self._iteration is own:  # and no later one has begun, nor a state been loaded
                self.at_end = False
            raise
        if not taken and end - begun.read >= self._size:
            raise no_batch(self._batches)
        self.position, self.at_end = Position(end), False

    def steps_of_epoch(self) -> int:
        """Batches that each rank takes in the epoch, from its beginning."""
        epoch = self.epoch
        if epoch not in self._steps:
            pools = self._batches.pools(Position(epoch * self._size), self._world_size)
            self._steps = {epoch: sum(pool.steps for pool in pools)}
        return self._steps[epoch]

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` goes on from, as JSON's own types."""
        return {**self._batches.state_dict(self.position), "at_end": self.at_end}

    def state_after(self, batches: int) -> dict[str, Any]:
        """The state when so many batches are taken since the present iteration was begun.

        For whoever takes batches by another loader, which reads ahead, so that `state_dict` counts
        what nobody has seen yet.

        Args:
            batches: of this rank.

        Raises:
            UserError: the epoch has fewer.
        """
        return self.state_behind(self._begun, batches)

    def state_behind(self, begun: Position, batches: int) -> dict[str, Any]:
        """`state_after`, for an iteration that was begun at a given position."""
        end = self._batches.end_of_epoch(begun, self._world_size)
        position, left = begun, batches
        for pool in self._batches.pools(begun, self._world_size):
            if not left:
                break
            position = pool.position_after(min(left, pool.steps))
            left -= min(left, pool.steps)
        if left:
            cause = f"the epoch had {batches - left} left"
            raise UserError(f"state_after({batches})", cause, "Count the batches of one iteration")
        at_end = batches > 0 and position.read >= end
        return {**self._batches.state_dict(position), "at_end": at_end}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, with any ranks, workers and batch size.

        Raises:
            UserError: it is of other data or of another order.
        """
        position = self._batches.load_state_dict(state)
        self.move_to(position, bool(state.get("at_end", False)))


def no_batch(batches: Batches) -> UserError:
    """What an epoch without a batch is refused with."""
    cause = f"an epoch of {len(batches.order)} samples gives no batch to each rank"
    return UserError(f"{batches.batching}", cause, "Give smaller batches, or keep the last one")
