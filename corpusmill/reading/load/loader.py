"""Batches as NumPy arrays, read ahead: what a training loop without PyTorch iterates over."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batch, Batches, Block, Reader
from corpusmill.reading.load.prefetching import prefetch
from corpusmill.reading.load.progress import Progress
from corpusmill.reading.load.worker_processes import WorkerProcesses
from corpusmill.reading.order.schedule import Position

B = TypeVar("B")


class BaseLoader(ABC, Generic[B]):
    """What loaders of arrays and of tensors share; see Loader.

    Args:
        batches: what is read.
        rank: see Loader.
        world_size: see Loader.
        num_workers: see Loader.
        prefetch_factor: see Loader.
        multiprocessing_context: see Loader.

    Raises:
        UserError: a value is out of range.
    """

    def __init__(
        self,
        batches: Batches,
        rank: int = 0,
        world_size: int = 1,
        *,
        num_workers: int = 0,
        prefetch_factor: int = 8,
        multiprocessing_context: str | BaseContext | None = None,
    ) -> None:
        _check_count("num_workers", num_workers)
        _check_count("prefetch_factor", prefetch_factor)
        self._reader = Reader(rank, world_size)
        self.batches, self.num_workers = batches, num_workers
        self._prefetch_factor, self._context = prefetch_factor, multiprocessing_context
        self._progress = Progress(batches, world_size)

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or the next one where none is."""
        return self._progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless it is being read already.

        Raises:
            UserError: the number is negative.
        """
        self._progress.set_epoch(epoch)

    def __len__(self) -> int:
        """Batches of the whole epoch."""
        return self._progress.steps_of_epoch()

    def __iter__(self) -> Iterator[B]:
        return self._progress.follow(self._read)

    def state_dict(self) -> dict[str, Any]:
        """How far batches were given out, for all ranks together; read ahead is not counted.

        It holds a handful of numbers, and is the same on each rank.
        """
        return self._progress.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind the last batch that was given out.

        Ranks, workers and batch size may be others than they were. It takes the same time anywhere
        in an epoch.

        Raises:
            UserError: the state is of other data or of another order.
        """
        self._progress.load_state_dict(state)

    @abstractmethod
    def _finish(self, batch: Batch) -> B:
        """What is given out for a batch; runs in the thread that reads ahead."""

    def _collate(self, block: Block) -> Iterator[tuple[B, Position]]:
        for batch, position in self.batches.collate(block):
            yield self._finish(batch), position

    def _read(self, position: Position) -> Generator[tuple[B, Position], None, None]:
        if self.num_workers:
            yield from self._read_by_workers(position)
        elif self._prefetch_factor:
            yield from prefetch(self._read_here(position), self._prefetch_factor)
        else:
            yield from self._read_here(position)

    def _read_here(self, position: Position) -> Iterator[tuple[B, Position]]:
        for block in self.batches.blocks(position, self._reader):
            yield from self._collate(block)

    def _read_by_workers(self, position: Position) -> Iterator[tuple[B, Position]]:
        workers = WorkerProcesses(
            self.batches, position, self._reader, self.num_workers, self._context
        )
        try:
            items = workers.in_turn(self._collate)
            if self._prefetch_factor:
                items = prefetch(items, self._prefetch_factor, workers.stop)
            yield from items
        finally:
            workers.stop()


class Loader(BaseLoader[Batch]):
    """Gives the batches of one rank, one epoch an iteration.

    A thread reads `prefetch_factor` batches ahead. Without workers it does all the work, which
    takes one core to some hundred thousand examples a second. Workers are processes that look up
    and mask; they are started with each iteration and end with it, also when a loop is left early
    or the process is killed. What is read, and in which order, depends on neither.

    Iterating goes on where the last iteration stopped, also within an epoch.

    Args:
        batches: what is read.
        rank: of this process, 0 to world_size - 1.
        world_size: processes that train together.
        num_workers: processes that read for this rank; 0 for none.
        prefetch_factor: batches that are read ahead; 0 reads each when it is asked for, without a
            thread. Workers hold up to three blocks of 1,024 samples each besides.
        multiprocessing_context: how workers are started: "fork", "spawn", "forkserver", or a
            context of multiprocessing; None for its own choice.

    Raises:
        UserError: a value is out of range.

    Example:
        for epoch in range(loader.epoch, 3):
            for batch in loader:
                ...  # {"input_ids": int64[32, 512], ...}; loader.state_dict() goes on behind it
    """

    def _finish(self, batch: Batch) -> Batch:
        """See BaseLoader."""
        return batch


def _check_count(name: str, value: int) -> None:
    if value < 0:
        raise UserError(f"{name}={value}", "there is no such number of them", "Give 0 or more")
