"""Batches of an epoch as NumPy arrays; any rank, worker or later run can resume their order.

`Batches` is what the readers for PyTorch are built on, and what JAX users iterate over.

The shards that a reader needs next are unpacked in threads while it reads the present ones. Reader
and threads follow the same plan, each at its own pace, and count the shards that are new in it. So
the threads know without a lock how far they are ahead.
"""

import atexit
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from types import TracebackType
from typing import Any, Self

import numpy as np

from corpusmill.errors import UserError
from corpusmill.knobs import knob
from corpusmill.reading.cache.shard_cache import Stored
from corpusmill.reading.data_set import Samples
from corpusmill.reading.mixture import MixtureOrder
from corpusmill.reading.order.order import Ordering
from corpusmill.reading.order.schedule import Batching, Pool, Position, list_pools
from corpusmill.reading.rows import Batch, Collator, Integers, Rows, Shares


class BackgroundThread(Thread):
    """A thread that ends with the program at the latest.

    Python waits for threads when a program ends, for ever if nobody tells them to stop. It does not
    wait for daemon threads, but one that is in native code then may abort the whole process, with
    "terminate called without an active exception".

    Args:
        work: what the thread does.
        name: its name.
        stop: makes the work end soon; called from any thread, and more than once.
    """

    def __init__(self, work: Callable[[], None], name: str, stop: Callable[[], None]) -> None:
        super().__init__(target=work, name=name, daemon=True)
        self._make_work_end = stop

    def start(self) -> None:
        """Start the thread."""
        super().start()
        atexit.register(self.end)

    def end(self) -> None:
        """Tell the thread to stop, and wait until it has, unless this is the thread itself."""
        self._make_work_end()
        # No thread ends once Python finalizes.
        if self is not current_thread() and not sys.is_finalizing():
            self.join()
        atexit.unregister(self.end)


# Shards that are unpacked and not yet read, or being unpacked. Each takes a core for a second or
# two, and a few dozen megabytes of memory meanwhile.
_MOST_AHEAD = 2


class UnpackingAhead:
    """Unpacks the shards of a reader's later blocks, if the reader has to unpack one itself.

    A shard that cannot be unpacked is left to the reader, which reports the error where it needs
    the shard. What other processes unpack is left to them.

    Args:
        plan: returns an iterator over the shards of each block, from the first block on.
        first: the shards of the first sample.
    """

    def __init__(
        self, plan: Callable[[], Iterator[Sequence[Stored]]], first: Sequence[Stored]
    ) -> None:
        self._plan, self._first = plan, first
        self._before = {cache: cache.unpackings for cache, _ in first}
        self._reached = set[Stored]()
        self._current: Sequence[Stored] = ()
        self._blocks = 0
        self._upcoming: Iterator[Stored] = iter(())
        # A token for each shard that may be unpacked. As in `prefetch`, Ctrl-C cannot break it.
        self._room = SimpleQueue[None]()
        self._lock = Lock()  # only the threads use it
        self._threads: list[BackgroundThread] = []
        self._is_stopped = False

    def __enter__(self) -> Self:
        # How many shards fit into a cache with a limit is known once the first one is unpacked.
        if any(cache.is_unlimited and not cache.is_unpacked(shard) for cache, shard in self._first):
            self._reached = {*self._first}
            self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def reach(self, shards: Sequence[Stored]) -> None:
        """Note that the reader has read a block, which is stored in some shards."""
        self._blocks += 1
        self._current = shards
        new = {*shards} - self._reached
        self._reached |= new
        if self._threads:
            for _ in new:
                self._room.put(None)
        elif any(cache.unpackings > self._before.get(cache, 0) for cache, _ in shards):
            self._start()

    def stop(self) -> None:
        """End the threads; a shard that is being unpacked is left."""
        for thread in self._threads:
            thread.end()

    def _start(self) -> None:
        self._upcoming = self._find_upcoming(self._blocks, {*self._reached})
        for _ in range(_MOST_AHEAD):
            self._room.put(None)

        def stop() -> None:
            self._is_stopped = True
            for _ in self._threads:
                self._room.put(None)

        self._threads = [
            BackgroundThread(self._work, "unpack-ahead", stop) for _ in range(_MOST_AHEAD)
        ]
        for thread in self._threads:
            thread.start()

    def _find_upcoming(self, blocks: int, seen: set[Stored]) -> Iterator[Stored]:
        """Yield each shard that is first needed after some blocks."""
        for number, shards in enumerate(self._plan()):
            if self._is_stopped:
                return
            if number < blocks:
                continue
            new = [stored for stored in dict.fromkeys(shards) if stored not in seen]
            seen.update(new)
            yield from new

    def _work(self) -> None:
        # An error is that of the plan or of a shard. The reader meets the same one.
        with suppress(Exception):
            while True:
                self._room.get()
                with self._lock:
                    if self._is_stopped or (stored := next(self._upcoming, None)) is None:
                        return
                cache, shard = stored
                together = [other for of, other in self._current if of is cache]
                with suppress(Exception):
                    cache.unpack_ahead(shard, together, lambda: not self._is_stopped)


Plan = tuple[list[Integers], list[Position]]

_STATE_VERSION = 1

_SAMPLES_CURE = (
    "Read the data of the earlier run; if its data set was added to since, the "
    "first_generations() of it"
)


@dataclass(frozen=True)
class Reader:
    """One of the processes and threads that read together.

    Attributes:
        rank: the rank of this process, 0 to world_size - 1.
        world_size: the number of processes that train together.
        worker: the worker of this rank, 0 to workers - 1.
        workers: processes or threads that read for this rank; worker w reads the steps s with
            s % workers == w.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        """Check the rank.

        Raises:
            UserError: the rank is out of range.
        """
        if not 0 <= self.rank < self.world_size:
            cause = f"rank is out of range for world_size={self.world_size}"
            raise UserError(f"rank={self.rank}", cause, "Give 0 to world_size - 1")


@dataclass(frozen=True)
class Block:
    """Consecutive batches of one reader, not yet padded.

    Attributes:
        rows: the prepared rows of all batches, one batch after another.
        bounds: int64[batches + 1], where the batches begin among the rows.
        positions: the position after each batch.
    """

    rows: Rows
    bounds: tuple[int, ...]
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class Batches:
    """Reads the batches of one epoch after another.

    Everything that decides which samples a batch has is a value here, so copies in other processes
    read the same batches. How far they have been read is a `Position`, which callers pass in.

    Attributes:
        samples: the samples to read.
        order: their order in each epoch.
        batching: how they are divided into batches.
        collator: turns them into the arguments of a model.
    """

    samples: Samples
    order: Ordering
    batching: Batching
    collator: Collator

    def blocks(self, position: Position, reader: Reader = Reader()) -> Generator[Block, None, None]:
        """Yield the batches of a reader from a position to the end of its epoch.

        If it has to unpack shards, threads unpack the next ones ahead.
        """

        def plan_shards() -> Iterator[list[Stored]]:
            for numbers, _ in self.plan(position, reader):
                yield self.samples.stored_in(self.order.locate(np.concatenate(numbers)))

        first = self.samples.stored_in(self.order.locate(np.array([position.number])))
        with UnpackingAhead(plan_shards, first) as ahead:
            for numbers, positions in self.plan(position, reader):
                bounds = np.cumsum([0, *map(len, numbers)]).tolist()
                rows = self.take(np.concatenate(numbers))
                ahead.reach(self.samples.stored_in(rows.samples))
                yield Block(self.collator.prepare(rows), tuple(bounds), tuple(positions))

    def plan(self, position: Position, reader: Reader = Reader()) -> Iterator[Plan]:
        """Yield what `blocks` reads, without reading it.

        Args:
            position: where to begin.
            reader: who reads.

        Returns:
            for each block, the numbers of each of its batches, and the position after each batch.
        """
        # The first blocks are small, so that the first batch waits for its own shards alone: with
        # 4,096 ranks, 1,024 samples of one rank are spread over 4 million.
        step, size = 0, 1
        for pool in self.pools(position, reader.world_size):
            numbers, positions = list[Integers](), list[Position]()
            for own in range((reader.worker - step) % reader.workers, pool.steps, reader.workers):
                numbers.append(pool.batch(own, reader.rank))
                positions.append(pool.position_after(own + 1))
                if sum(map(len, numbers)) >= size:
                    yield numbers, positions
                    numbers, positions, size = [], [], min(4 * size, BLOCK_SAMPLES)
            if numbers:
                yield numbers, positions
                size = min(4 * size, BLOCK_SAMPLES)
            step += pool.steps

    def pools(self, position: Position, world_size: int) -> Iterator[Pool]:
        """Return the steps of all ranks from a position to the end of its epoch."""
        end = self.end_of_epoch(position, world_size)
        return list_pools(self.batching, position, end, world_size)

    def end_of_epoch(self, position: Position, world_size: int) -> int:
        """Return the number after the last sample that a run from a position reads.

        It is the end of the position's epoch. If fewer samples than ranks remain there, which can
        happen after resuming with more ranks, the next epoch is read together with them.
        """
        size = len(self.order)
        end = (position.number // size + 1) * size
        while end - position.samples_read < world_size:
            end += size
        return end

    def locate(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Return the samples at places of the endless sequence, and how often each was read."""
        return self.order.locate(numbers), self.order.epochs(numbers)

    def take(self, numbers: Integers) -> Rows:
        """Return the rows at places of the endless sequence, not yet prepared."""
        rows = self.samples.take(*self.locate(numbers))
        return Rows(rows.columns, rows.samples, rows.epochs, self.mask_shares(numbers))

    def mask_shares(self, numbers: Integers) -> Shares | None:
        """Return the shares of masks that stages give at these places; see `Rows`."""
        return self.order.mask_shares(numbers) if isinstance(self.order, MixtureOrder) else None

    def collate(self, block: Block) -> Iterator[tuple[Batch, Position]]:
        """Yield each batch of a block, and the position after it."""
        for place, position in enumerate(block.positions):
            begin, end = block.bounds[place : place + 2]
            yield self.collator(block.rows[begin:end]), position

    def state_dict(self, position: Position) -> dict[str, Any]:
        """Return a position as JSON types, together with the data and the order it belongs to."""
        return {
            "version": _STATE_VERSION,
            "samples": self.samples.digest,
            "order": self.order.describe(position.end),
            "number": position.number,
            "taken": [list(entry) for entry in position.pool_reads],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> Position:
        """Return the position that `state_dict` described.

        Ranks, workers, batch size and collator may differ from the earlier ones, and stages of a
        mixture that begin after the position.

        Raises:
            UserError: the state belongs to other data or to another order.
        """
        position = Position.from_state(state, len(self.order))
        expected = self.state_dict(position)
        for name, cure in (
            ("version", "Use the version of corpusmill that wrote it"),
            ("samples", _SAMPLES_CURE),
            ("order", "Give the order of the earlier run, by the same seed and other values"),
        ):
            if state.get(name) != expected[name]:
                cause = f"its {name} is {state.get(name)}, here it is {expected[name]}"
                raise UserError("load_state_dict", cause, cure)
        return position


BLOCK_SAMPLES = knob("block_samples", 1024, test=3)
"""The samples that are looked up, copied and masked at once; the first blocks have fewer. So many
that calls cost little, and so few that those of rows of 512 tokens take about a megabyte."""
