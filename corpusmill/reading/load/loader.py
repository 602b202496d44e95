"""Batches as NumPy arrays, read ahead: what a training loop without PyTorch iterates over."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

from corpusmill.reading.keywords import check_minimum
from corpusmill.reading.load.batches import Batches, Reader
from corpusmill.reading.load.prefetching import prefetch
from corpusmill.reading.load.progress import Progress, Resumable
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
        prefetch_factor: int = 8,
    ) -> None:
        check_minimum("prefetch_factor", prefetch_factor, 0)
        self.batches, self._reader = batches, Reader(rank, world_size)
        self._prefetch_factor = prefetch_factor
        self._progress = Progress(batches, world_size)

    def __iter__(self) -> Iterator[B]:
        return self._progress.follow(self._read)

    @abstractmethod
    def _finish(self, batch: Batch) -> B:
        """Convert a batch, in the thread that reads ahead."""

    def _read(self, position: Position) -> Generator[tuple[B, Position], None, None]:
        if self._prefetch_factor:
            return prefetch(self._read_here(position), self._prefetch_factor)
        return self._read_here(position)

    def _read_here(self, position: Position) -> Generator[tuple[B, Position], None, None]:
        for block in self.batches.blocks(position, self._reader):
            for batch, after in self.batches.collate(block):
                yield self._finish(batch), after


class Loader(BaseLoader[Batch]):
    """The batches of one rank; each iteration is an epoch.

    A thread reads `prefetch_factor` batches ahead; it reads more than a hundred thousand examples
    per second. It is started with each iteration and ends with it, even if a loop is left early. It
    does not change which batches are read, or their order.

    An iteration resumes where the last one stopped, even within an epoch.

    Args:
        batches: the batches to read.
        rank: the rank of this process, 0 to world_size - 1.
        world_size: the number of processes that train together.
        prefetch_factor: batches to read ahead; with 0 each is read when the loop asks for it,
            without a thread.

    Raises:
        UserError: a value is out of range.

    Example:
        for epoch in range(loader.epoch, 3):
            for batch in loader:
                ...  # {"input_ids": int64[32, 512], ...}; loader.state_dict() resumes after it
    """

    def _finish(self, batch: Batch) -> Batch:
        return batch
