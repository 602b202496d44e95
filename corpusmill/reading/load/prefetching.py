"""Reading ahead in a thread: the next batches are made while the model trains on the last one.

The kernels that look up, mask and pad release the GIL, so a thread is enough.
"""

from collections.abc import Generator
from contextlib import closing
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from corpusmill.reading.load.background import BackgroundThread

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
