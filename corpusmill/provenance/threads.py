"""Many files searched by threads."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Found = TypeVar("Found")

_MOST_THREADS = 8
# glibc's malloc keeps freed arrays up to the size of the largest one so far that it got from the
# system for itself alone, and that was smaller than 32 MB (M_MMAP_THRESHOLD in mallopt(3)).
_KEPT_BYTES = 2**25 - 2**16


def search_in_order(
    search: Callable[[Item], Found], items: Iterable[Item], most_threads: int = _MOST_THREADS
) -> Iterator[Found]:
    """Yield what is found in each item, in their order, while threads search the next ones.

    Args:
        search: finds something in an item.
        items: what is searched; of these, and of what is found, a few are in memory.
        most_threads: how many threads search at a time, if there are as many cores.

    Raises:
        Exception: what `search` raises, when it is the item's turn.
    """
    # Else the system clears the pages of each array again, a third of the time of a search.
    np.empty(_KEPT_BYTES, np.uint8)
    number = min(most_threads, os.cpu_count() or 1)
    with ThreadPoolExecutor(number) as threads:
        ahead = deque[Future[Found]]()
        try:
            for item in items:
                ahead.append(threads.submit(search, item))
                if len(ahead) > 2 * number:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
