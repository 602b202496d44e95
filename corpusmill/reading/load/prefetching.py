"""Reading ahead in a thread: the next batches are made while the last one is trained on.

The kernels that look up, mask and pad release the GIL, so that a thread is enough.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def prefetch(
    items: Iterator[T], most: int, interrupt: Callable[[], None] = lambda: None
) -> Generator[T, None, None]:
    """The items of an iterator, which a thread takes ahead of whoever iterates.

    The thread ends with the items, with an error, which is raised here when its turn comes, or
    when this generator is closed, as by leaving a loop over it.

    Args:
        items: what is taken; used by the thread alone.
        most: items that wait at a time.
        interrupt: called when the generator is closed before its end, where taking an item may
            wait for something: makes it raise an error.
    """
    waiting = _Waiting[T](most)
    thread = threading.Thread(target=_fill, args=(items, waiting), name="prefetch", daemon=True)
    thread.start()
    try:
        yield from waiting
    finally:
        waiting.stop()
        interrupt()
        if not sys.is_finalizing():  # then threads do not end any more
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
    """Items that wait to be taken, of which there are never too many.

    Args:
        most: items that wait at a time.
    """

    def __init__(self, most: int) -> None:
        self._most, self._items = most, deque[T]()
        self._changed = threading.Condition()
        self._ended, self._stopped = False, False
        self._error: BaseException | None = None

    def put(self, item: T) -> bool:
        """Let an item wait, when there is room; whether anybody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._items) < self._most)
            self._items.append(item)
            self._changed.notify()
            return not self._stopped

    def end(self, error: BaseException | None) -> None:
        """Say that no more items come, and why."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify()

    def stop(self) -> None:
        """Say that no more items are wanted."""
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
