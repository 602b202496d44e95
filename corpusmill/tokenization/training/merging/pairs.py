"""How often pairs of neighbouring symbols occur, and where, in compiled loops."""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.hash_table import ONE, allocate_table, find_slot
from corpusmill.tokenization.training.merging.cells import BOUNDARY
from corpusmill.tokenization.training.merging.pair_queue import (
    COUNT,
    PAIR,
    SIZE,
    START,
    entry_at,
    grow_rows,
    push,
)

ID_BITS = 32
# Places that take 256 MB.
FEW_PLACES = 2**26


class Pairs(NamedTuple):
    """All pairs that have ever occurred.

    Attributes:
        table: a `hash_table` from a pair to how often it occurs, with room for `used` pairs.
        heap: a `pair_queue`.
        places: uint32[room], the first cells of pairs, one entry's after another's.
        sizes: int64[3], how many pairs are in the table, entries in the heap, and places.
    """

    table: np.ndarray
    heap: np.ndarray
    places: np.ndarray
    sizes: np.ndarray


TABLE, HEAP, PLACES = 0, 1, 2


@njit
def pair_key(left: int, right: int) -> np.int64:
    """Return a pair of ids as one number; numbers are in the order of the pairs."""
    return np.int64(left) << ID_BITS | np.int64(right)


@njit
def reserve(table: np.ndarray, used: int, more: int) -> np.ndarray:
    """Return a table with room for more keys than it holds."""
    if 2 * (used + more) <= len(table):
        return table
    grown: np.ndarray = allocate_table(used + more)
    for row in range(len(table)):
        if table[row, 0]:
            slot = find_slot(grown, table[row, 0] - ONE)
            grown[slot, 0], grown[slot, 1] = table[row, 0], table[row, 1]
    return grown


@njit
def number_pairs(cells: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.int64]:
    """Count the pairs of symbols of one cell each.

    Args:
        cells: int32[cells], see `cells`.
        counts: int64[words], how often each word occurs.

    Returns:
        table: from a pair to its number.
        entries: int64[room, 4], the entry of each pair (see `pair_queue`), its places after those
            of the pairs before it.
        used: the number of pairs.
    """
    table: np.ndarray = allocate_table(1024)
    entries, count, used = np.empty((1024, 4), np.int64), 0, np.int64(0)
    for place in range(len(cells) - 1):
        if cells[place] < 0:
            count = counts[BOUNDARY - cells[place]]
        elif cells[place + 1] >= 0:
            key = pair_key(cells[place], cells[place + 1])
            slot = find_slot(table, np.uint64(key))
            if not table[slot, 0]:
                if used == len(entries):
                    entries, table = grow_rows(entries), reserve(table, used, used)
                    slot = find_slot(table, np.uint64(key))
                table[slot, 0], table[slot, 1] = np.uint64(key) + ONE, np.uint64(used)
                entries[used, COUNT], entries[used, PAIR], entries[used, SIZE] = 0, key, 0
                used += 1
            number = np.int64(table[slot, 1])
            entries[number, COUNT] += count
            entries[number, SIZE] += 1
    start = 0
    for row in range(used):
        entries[row, START] = start
        start += entries[row, SIZE]
    return table, entries, used


@njit
def find_pairs(cells: np.ndarray, counts: np.ndarray, few_places: int) -> Pairs:
    """Count the pairs of symbols of one cell each, list their places, and queue them.

    Args:
        cells: int32[cells], see `cells`.
        counts: int64[words], how often each word occurs.
        few_places: there is room for so many places, or somewhat more than these pairs have.
    """
    table, entries, used = number_pairs(cells, counts)
    heap = np.empty((2 * used + 1, 4), np.int64)
    for size in range(used):
        push(heap, size, entry_at(entries, size))
    # Each merge of a pair leaves at most two new pairs, and one symbol less.
    room = min(3 * len(cells), max(few_places, len(cells) + len(cells) // 4))
    places = np.empty(room, np.uint32)
    listed = 0
    for place in range(len(cells) - 1):
        if cells[place] >= 0 and cells[place + 1] >= 0:
            key = np.uint64(pair_key(cells[place], cells[place + 1]))
            number = np.int64(table[find_slot(table, key), 1])
            places[entries[number, START]] = place
            entries[number, START] += 1
            listed += 1
    for row in range(len(table)):
        if table[row, 0]:
            table[row, 1] = np.uint64(entries[np.int64(table[row, 1]), COUNT])
    sizes = np.empty(3, np.int64)
    sizes[TABLE], sizes[HEAP], sizes[PLACES] = used, used, listed
    return Pairs(table, heap, places, sizes)


@njit
def reserve_places(pairs: Pairs, more: int) -> Pairs:
    """Return the pairs with room for more places: those of pairs that were merged are removed."""
    heap, places, sizes = pairs.heap, pairs.places, pairs.sizes
    if sizes[PLACES] + more <= len(places):
        return pairs
    entries = sizes[HEAP]
    needed = heap[:entries, SIZE].sum() + more
    kept = places if 4 * needed <= 3 * len(places) else np.empty(2 * needed, np.uint32)
    written = 0
    # The entries keep the order of their places, by which those of equal pairs are queued.
    for entry in np.argsort(heap[:entries, START].copy()):
        start, size = heap[entry, START], heap[entry, SIZE]
        for number in range(size):
            kept[written + number] = places[start + number]
        heap[entry, START] = written
        written += size
    sizes[PLACES] = written
    return Pairs(pairs.table, heap, kept, sizes)
