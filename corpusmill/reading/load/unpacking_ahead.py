"""The shards that a reader needs next, unpacked in threads while it reads the present ones.

Reader and threads follow the same plan, each at its own pace, and count the shards that are new in
it. So the threads know without a lock how far they are ahead.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock
from types import TracebackType
from typing import Self

from corpusmill.reading.cache.shard_cache import Stored
from corpusmill.reading.load.background import BackgroundThread

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
        self._threads = [
            BackgroundThread(self._work, "unpack-ahead", self._stop_work)
            for _ in range(_MOST_AHEAD)
        ]
        for thread in self._threads:
            thread.start()

    def _stop_work(self) -> None:
        self._is_stopped = True
        for _ in self._threads:
            self._room.put(None)

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
