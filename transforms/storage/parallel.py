"""Calls to a file system side by side: to an object store each takes long, and costs nothing."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Result = TypeVar("Result")

CALLS_AT_ONCE = 16


def map_ahead(
    call: Callable[[Given], Result], items: Iterable[Given], ahead: int = CALLS_AT_ONCE
) -> Iterator[Result]:
    """The results of a call in the order of its items, made by threads a few items ahead.

    Args:
        call: safe to be made by several threads at once.
        items: of the calls.
        ahead: so many results wait at most, which bounds the memory.

    Raises:
        Exception: what the first call that failed did; no further one is begun then.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(ahead) as threads:
        try:
            for item in items:
                if len(waiting) >= ahead:
                    yield waiting.popleft().result()
                waiting.append(threads.submit(call, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for left in waiting:
                left.cancel()
