"""Reading ahead in a thread: the next batches are made while the model trains on the last one.

The kernels that look up, mask and pad release the GIL, so a thread is enough.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def prefetch(
    items: Iterator[T], capacity: int, interrupt: Callable[[], None] = lambda: None
) -> Generator[T, None, None]:
    """Yield the items of an iterator, which a thread takes ahead of the loop.

    The thread ends with the items, with an error, which is raised here after the items before it,
    or when this generator is closed, as by leaving a loop over it.

    Args:
        items: the items; only the thread may use the iterator.
        capacity: the most items that wait at a time.
        interrupt: called at the end; must make an iterator that waits for something raise an error.
    """
    waiting = _Waiting[T](capacity)
    thread = threading.Thread(target=_fill, args=(items, waiting), name="prefetch", daemon=True)
    thread.start()
    try:
        yield from waiting
    finally:
        waiting.stop()
        interrupt()
        if not sys.is_finalizing():  # threads no longer end then
            thread.join()


def _fill(items: Iterator[T], waiting: "_Waiting[T]") -> None:
    error = None
    try:
        for item in items:
            if not waiting.put(item):
                break
    except BaseException as raised:
        error = raised
    waiting.end(error)


class _Waiting(Generic[T]):
    """A bounded queue of items between two threads.

    Args:
        capacity: the most items that wait at a time.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._items = capacity, deque[T]()
        self._changed = threading.Condition()
        self._ended, self._stopped = False, False
        self._error: BaseException | None = None

    def put(self, item: T) -> bool:
        """Add an item when there is room; return whether more are wanted."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._items) < self._capacity)
            self._items.append(item)
            self._changed.notify()
            return not self._stopped

    def end(self, error: BaseException | None) -> None:
        """Announce that no more items come, and the error that ended them, if any."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify()

    def stop(self) -> None:
        """Announce that no more items are wanted."""
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._changed.notify()

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or bool(self._items))
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify()
            yield item
        if self._error is not None:
            raise self._error
