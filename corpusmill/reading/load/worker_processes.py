"""Processes that read blocks of batches, and send them as they are stored, a block at a time.

A batch of padded tensors is many times larger than the small integers it is made of. So workers
look up and mask a thousand samples at a time, and each block goes from process to process as one
piece of memory with its columns one after another; the receiver pads them.

That memory has no name (memfd_create). It is not a file in /dev/shm, whose size containers limit
(64 MB in Docker), and it is freed with its processes however they end.
"""

import mmap
import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from itertools import chain, cycle
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.reduction import DupFd
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from corpusmill.errors import UserError
from corpusmill.reading.load.batches import Batches, Block, Reader
from corpusmill.reading.load.packing import pack
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.rows import Lists, Rows, Values

T = TypeVar("T")

# Blocks that a worker writes while earlier ones are being read.
_BUFFERS = 2

# Seconds between two checks of whether the reading process is still alive. Its end also closes the
# connection, unless other processes have inherited it.
_WATCH_SECONDS = 5.0

# Seconds that a worker has to end by itself, without leaving a half-unpacked shard.
_END_SECONDS = 5.0


class SharedBuffer:
    """Memory without a name, shared with a process that is started later."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._file = os.memfd_create("corpusmill")
        else:  # a file without a name
            with tempfile.TemporaryFile() as file:
                self._file = os.dup(file.fileno())
        self._map: mmap.mmap | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"file": DupFd(self._file)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._file, self._map = state["file"].detach(), None

    def __del__(self) -> None:
        os.close(self._file)

    def view(self, size: int) -> npt.NDArray[np.uint8]:
        """Return the first bytes of the memory, uint8[size]; it grows where needed."""
        if self._map is None or len(self._map) < size:
            if os.fstat(self._file).st_size < size:
                os.ftruncate(self._file, size + size // 4)
            self._map = mmap.mmap(self._file, 0)
        return np.frombuffer(self._map, np.uint8, size)


def write_block(block: Block, buffer: SharedBuffer) -> bytes:
    """Write a block into shared memory.

    Returns:
        the message from which `read_block` reads it.
    """
    columns = {name: _arrays(values) for name, values in block.rows.columns.items()}
    arrays = [block.rows.samples, block.rows.epochs]
    arrays += [array for parts in columns.values() for array in parts]
    size, begins = pack(arrays, buffer.view)
    layout = [
        (array.dtype.str, begin, begin + array.nbytes)
        for array, begin in zip(arrays, begins, strict=True)
    ]
    counts = {name: len(parts) for name, parts in columns.items()}
    message = size, layout, counts, block.bounds, block.positions
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def read_block(message: bytes, buffer: SharedBuffer) -> Block:
    """Return a copy of a block that `write_block` wrote, so that its memory can be reused."""
    size, layout, counts, bounds, positions = pickle.loads(message)  # noqa: S301  our own process
    memory = buffer.view(size).copy()
    arrays = (memory[begin:end].view(dtype) for dtype, begin, end in layout)
    samples, epochs = next(arrays), next(arrays)
    columns: dict[str, Values] = {
        name: Lists(next(arrays), next(arrays)) if count == 2 else next(arrays)
        for name, count in counts.items()
    }
    return Block(Rows(columns, samples, epochs), bounds, positions)


def _arrays(values: Values) -> list[npt.NDArray[Any]]:
    if not isinstance(values, Lists):
        return [values]
    first, last = values.offsets[0], values.offsets[-1]
    return [values.values[first:last], values.offsets - first]


class WorkerProcesses:
    """Processes that read the batches of one rank from a position to the end of its epoch.

    Args:
        batches: the batches to read.
        position: where to begin.
        reader: the rank and world size.
        number: the number of processes.
        context: "fork", "spawn" or "forkserver"; None for the default of multiprocessing.
    """

    def __init__(
        self,
        batches: Batches,
        position: Position,
        reader: Reader,
        number: int,
        context: str | BaseContext | None = None,
    ) -> None:
        self._batches = batches
        start = get_context(context) if context is None or isinstance(context, str) else context
        self._workers: list[_Worker] = []
        try:
            for worker in range(number):
                own = Reader(reader.rank, reader.world_size, worker, number)
                self._workers.append(_Worker(start, batches, position, own))
        except BaseException:
            self.stop()
            raise

    def in_turn(self, collate: Callable[[Block], Iterator[T]]) -> Generator[T, None, None]:
        """Yield an item for each batch, in the order of the batches.

        Args:
            collate: yields one item for each batch of a block.

        Raises:
            UserError: a worker found a user's mistake, or was killed.
        """
        streams = [chain.from_iterable(map(collate, worker.blocks())) for worker in self._workers]
        for items in cycle(streams):
            try:
                item = next(items)
            except StopIteration:
                return
            yield item

    def stop(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_END_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


class _Worker:
    """A handle on one process."""

    def __init__(self, context: Any, batches: Batches, position: Position, reader: Reader) -> None:
        self.reader = reader
        self._buffers = [SharedBuffer() for _ in range(_BUFFERS)]
        self._connection, end = context.Pipe()
        self.process = context.Process(
            target=_work,
            args=(batches, position, reader, self._buffers, end, os.getpid()),
            name=f"reader-{reader.worker}",
            daemon=True,
        )
        self.process.start()
        end.close()

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks that the process reads."""
        for buffer in cycle(self._buffers):
            try:
                message = self._connection.recv()
            except (EOFError, ConnectionError):
                raise self._death() from None
            if message is None:
                return
            if isinstance(message, BaseException):
                raise message
            block = read_block(message, buffer)
            with suppress(ConnectionError):  # it may have ended with this block
                self._connection.send(None)
            yield block

    def _death(self) -> UserError:
        self.process.join(_END_SECONDS)
        cause = f"worker {self.reader.worker} was killed ({_describe_exit(self.process.exitcode)})"
        cure = "Check whether memory ran out, and give fewer workers"
        return UserError(f"num_workers={self.reader.workers}", cause, cure)


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit status {code}"


def _work(
    batches: Batches,
    position: Position,
    reader: Reader,
    buffers: list[SharedBuffer],
    connection: Connection,
    parent: int,
) -> None:
    """Run a worker: write a block, announce it, and wait until a buffer is free."""
    # Ctrl-C goes to all processes of a terminal; the reading process ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    free = len(buffers)
    try:
        for block, buffer in zip(batches.blocks(position, reader), cycle(buffers), strict=False):
            if not free:
                _wait(connection, parent)
                free = 1
            connection.send(write_block(block, buffer))
            free -= 1
        connection.send(None)
    except (EOFError, ConnectionError):
        return  # the reading process has closed the connection
    except Exception as error:
        with suppress(ConnectionError):
            connection.send(_portable(error))


def _wait(connection: Connection, parent: int) -> None:
    """Wait for a message of the reading process, or end with it."""
    while not connection.poll(_WATCH_SECONDS):
        if os.getppid() != parent:
            sys.exit()
    connection.recv()


def _portable(error: Exception) -> Exception:
    """Return an error that can be pickled and says where it was raised."""
    where = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  our own process
    except Exception:
        return RuntimeError(where)
    if not isinstance(error, UserError):
        error.add_note(where)
    return error
