"""Reading ahead in a thread: the next batches are made while the model trains on the last one.

The kernels that look up, mask and pad release the GIL, so a thread is enough.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class _End(NamedTuple):
    """The end of the items, and the error that ended them, if any."""

    error: BaseException | None


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
    waiting, room = SimpleQueue[T | _End](), SimpleQueue[None]()
    # Not a semaphore, which is Python code with a lock: Ctrl-C between two of its lines leaves the
    # lock held forever. The methods of SimpleQueue are never left halfway.
    for _ in range(capacity):
        room.put(None)
    is_stopped = False

    def fill() -> None:
        error = None
        try:
            for item in items:
                room.get()
                if is_stopped:
                    break
                waiting.put(item)
        except BaseException as raised:
            error = raised
        waiting.put(_End(error))

    thread = Thread(target=fill, name="prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(item := waiting.get(), _End):
            room.put(None)
            yield item
        if item.error is not None:
            raise item.error
    finally:
        is_stopped = True
        room.put(None)
        interrupt()
        if not sys.is_finalizing():  # threads no longer end then
            thread.join()
