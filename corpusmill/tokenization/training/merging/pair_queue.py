"""Pairs in the order in which they are merged: a binary heap in compiled loops.

An entry is (how often the pair occurs, the pair, where its places begin in the list of places, how
many there are); a heap is int64[room, 4]. See `pairs`.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit

COUNT, PAIR, START, SIZE = 0, 1, 2, 3
FIRST = np.int64(0)
Entry = tuple[int, int, int, int]


@njit
def _is_before(heap: np.ndarray, place: int, entry: Entry) -> bool:
    """Whether the entry at a place is merged before another: by count, by pair, the newer first."""
    if heap[place, COUNT] != entry[COUNT]:
        return bool(heap[place, COUNT] > entry[COUNT])
    if heap[place, PAIR] != entry[PAIR]:
        return bool(heap[place, PAIR] < entry[PAIR])
    return bool(heap[place, START] > entry[START])


@njit
def _move(heap: np.ndarray, source: int, target: int) -> None:
    for column in range(4):
        heap[target, column] = heap[source, column]


@njit
def _put(heap: np.ndarray, place: int, entry: Entry) -> None:
    for column in range(4):
        heap[place, column] = entry[column]


@njit
def grow_rows(rows: np.ndarray) -> np.ndarray:
    """Return a copy of int64[n, columns] with room for as many rows again."""
    grown = np.empty((2 * len(rows), rows.shape[1]), np.int64)
    for row in range(len(rows)):
        for column in range(rows.shape[1]):
            grown[row, column] = rows[row, column]
    return grown


@njit
def push(heap: np.ndarray, size: int, entry: Entry) -> np.ndarray:
    """Add an entry to a heap of a size; return the heap, which may have been copied to grow."""
    if size == len(heap):
        heap = grow_rows(heap)
    place = size
    while place and not _is_before(heap, (place - 1) // 2, entry):
        _move(heap, (place - 1) // 2, place)
        place = (place - 1) // 2
    _put(heap, place, entry)
    return heap


@njit
def replace_first(heap: np.ndarray, size: int, entry: Entry) -> None:
    """Put an entry in the place of the first one of a heap of a size of 1 or more."""
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        following = child + 1
        if following < size and not _is_before(heap, child, entry_at(heap, following)):
            child = following
        if not _is_before(heap, child, entry):
            break
        _move(heap, child, place)
        place = child
    _put(heap, place, entry)


@njit
def entry_at(heap: np.ndarray, place: np.int64) -> Entry:
    """Return the entry at a place; the first one is at FIRST."""
    return (heap[place, COUNT], heap[place, PAIR], heap[place, START], heap[place, SIZE])
