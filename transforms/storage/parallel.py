"""Concurrent calls to a file system: each call to an object store takes long and costs little."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

CALLS_AT_ONCE = 16


def map_ahead(
    call: Callable[[Item], Result], items: Iterable[Item], ahead: int = CALLS_AT_ONCE
) -> Iterator[Result]:
    """Yield the results of a call in the order of its items; threads work a few items ahead.

    Args:
        call: a function that several threads may call at once.
        items: the arguments of the calls.
        ahead: largest number of results that wait, which bounds the memory.

    Raises:
        Exception: the error of the first call that failed; no further call begins then.
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
            for future in waiting:
                future.cancel()
