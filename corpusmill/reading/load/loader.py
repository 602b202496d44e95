"""Batches as NumPy arrays, read ahead: what a training loop without PyTorch iterates over."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from multiprocessing.context import BaseContext
from typing import Generic, TypeVar

from corpusmill.reading.keywords import check_minimum
from corpusmill.reading.load.batches import Batches, Block, Reader
from corpusmill.reading.load.prefetching import prefetch
from corpusmill.reading.load.progress import Progress, Resumable
from corpusmill.reading.load.worker_processes import WorkerProcesses
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Batch

B = TypeVar("B")


class BaseLoader(Resumable, ABC, Generic[B]):
    """What loaders of arrays and of tensors share; `Loader` explains the arguments.

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
        check_minimum("num_workers", num_workers, 0)
        check_minimum("prefetch_factor", prefetch_factor, 0)
        self._reader = Reader(rank, world_size)
        self.batches, self.num_workers = batches, num_workers
        self._prefetch_factor, self._context = prefetch_factor, multiprocessing_context
        self._progress = Progress(batches, world_size)

    def __iter__(self) -> Iterator[B]:
        return self._progress.follow(self._read)

    @abstractmethod
    def _finish(self, batch: Batch) -> B:
        """Convert a batch, in the thread that reads ahead."""

    def _collate(self, block: Block) -> Iterator[tuple[B, Position]]:
        for batch, position in self.batches.collate(block):
            yield self._finish(batch), position

    def _read(self, position: Position) -> Generator[tuple[B, Position], None, None]:
        if self.num_workers:
            yield from self._read_in_workers(position)
        elif self._prefetch_factor:
            yield from prefetch(self._read_here(position), self._prefetch_factor)
        else:
            yield from self._read_here(position)

    def _read_here(self, position: Position) -> Generator[tuple[B, Position], None, None]:
        for block in self.batches.blocks(position, self._reader):
            yield from self._collate(block)

    def _read_in_workers(self, position: Position) -> Iterator[tuple[B, Position]]:
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
    """The batches of one rank; each iteration is an epoch.

    A thread reads `prefetch_factor` batches ahead. Without workers it does all the work; one core
    reads some hundred thousand examples per second. Workers are processes that look up and mask
    rows. They are started with each iteration and end with it, even if a loop is left early or the
    process is killed. Neither changes which batches are read, or their order.

    An iteration resumes where the last one stopped, even within an epoch.

    Args:
        batches: the batches to read.
        rank: the rank of this process, 0 to world_size - 1.
        world_size: the number of processes that train together.
        num_workers: processes that read for this rank; 0 for none.
        prefetch_factor: batches to read ahead; with 0 each is read when the loop asks for it,
            without a thread. Each worker also holds up to three blocks of 1,024 samples.
        multiprocessing_context: how workers are started: "fork", "spawn", "forkserver", or a
            context of multiprocessing; None for its default.

    Raises:
        UserError: a value is out of range.

    Example:
        for epoch in range(loader.epoch, 3):
            for batch in loader:
                ...  # {"input_ids": int64[32, 512], ...}; loader.state_dict() resumes after it
    """

    def _finish(self, batch: Batch) -> Batch:
        return batch
