"""Batches as NumPy arrays, read ahead: what a training loop without PyTorch iterates over.

Reading ahead in a thread: the next batches are made while the model trains on the last one.

The kernels that look up, mask and pad release the GIL, so a thread is enough.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from corpusmill.reading.load.batches import BackgroundThread, Batches, Reader
from corpusmill.reading.load.progress import Progress, Resumable
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Batch, check_minimum

T = TypeVar("T")


class _End(NamedTuple):
    """The end of the items, and the error that ended them, if any."""

    error: BaseException | None


def prefetch(items: Generator[T, Any, Any], capacity: int) -> Generator[T, None, None]:
    """Yield the items of a generator, which a thread takes ahead of the loop.

    The thread ends with the items, with an error, which is raised here after the items before it,
    when this generator is closed, as by leaving a loop over it, or with the program.

    Args:
        items: the items; only the thread uses the generator, and closes it.
        capacity: the most items that wait at a time.
    """
    waiting, room = SimpleQueue[T | _End](), SimpleQueue[None]()
    # Not a semaphore, which is Python code with a lock: Ctrl-C between two of its lines leaves the
    # lock held forever. The methods of SimpleQueue are never left halfway.
    for _ in range(capacity):
        room.put(None)
    is_stopped = False

    def fill() -> None:
        error = None
        try:
            with closing(items):
                for item in items:
                    room.get()
                    if is_stopped:
                        break
                    waiting.put(item)
        except BaseException as raised:
            error = raised
        waiting.put(_End(error))

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = True
        room.put(None)

    thread = BackgroundThread(fill, "prefetch", stop)
    thread.start()
    try:
        while not isinstance(item := waiting.get(), _End):
            room.put(None)
            yield item
        if item.error is not None:
            raise item.error
    finally:
        thread.end()


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
