"""How often pairs of neighbouring symbols occur, and where, in compiled loops."""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.hash_table import ONE, allocate_table, find_slot
from corpusmill.tokenization.training.merging.cells import BOUNDARY
from corpusmill.tokenization.training.merging.pair_queue import push

ID_BITS = 32


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
    grown: np.ndarray = allocate_table(2 * (used + more))
    for row in range(len(table)):
        if table[row, 0]:
            slot = find_slot(grown, table[row, 0] - ONE)
            grown[slot, 0], grown[slot, 1] = table[row, 0], table[row, 1]
    return grown


@njit
def number_pairs(
    cells: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Count the pairs of symbols of one cell each.

    Args:
        cells: int32[cells], see `cells`.
        counts: int64[words], how often each word occurs.

    Returns:
        table: from a pair to its number.
        keys: int64[pairs], the pairs.
        totals: int64[pairs], how often they occur.
        sizes: int64[pairs], in how many places they occur.
    """
    table: np.ndarray = allocate_table(1024)
    numbered, count, used = np.zeros((1024, 3), np.int64), 0, 0
    for place in range(len(cells) - 1):
        if cells[place] < 0:
            count = counts[BOUNDARY - cells[place]]
        elif cells[place + 1] >= 0:
            key = pair_key(cells[place], cells[place + 1])
            slot = find_slot(table, np.uint64(key))
            if not table[slot, 0]:
                if used == len(numbered):
                    numbered = np.concatenate((numbered, np.zeros_like(numbered)))
                    table = reserve(table, used, used)
                    slot = find_slot(table, np.uint64(key))
                table[slot, 0], table[slot, 1] = np.uint64(key) + ONE, np.uint64(used)
                numbered[used, 0] = key
                used += 1
            number = np.int64(table[slot, 1])
            numbered[number, 1] += count
            numbered[number, 2] += 1
    return table, numbered[:used, 0], numbered[:used, 1], numbered[:used, 2]


@njit
def find_pairs(cells: np.ndarray, counts: np.ndarray) -> Pairs:
    """Count the pairs of symbols of one cell each, list their places, and queue them."""
    table, keys, totals, sizes = number_pairs(cells, counts)
    ends = np.cumsum(sizes) - sizes
    # Each merge of a pair leaves at most two new pairs, and one symbol less.
    places = np.empty(3 * len(cells), np.uint32)
    heap = np.empty((len(keys) + 1024, 4), np.int64)
    for size in range(len(keys)):
        push(heap, size, (totals[size], keys[size], ends[size], sizes[size]))
    for place in range(len(cells) - 1):
        if cells[place] >= 0 and cells[place + 1] >= 0:
            key = pair_key(cells[place], cells[place + 1])
            number = np.int64(table[find_slot(table, np.uint64(key)), 1])
            places[ends[number]] = place
            ends[number] += 1
    for row in range(len(table)):
        if table[row, 0]:
            table[row, 1] = np.uint64(totals[np.int64(table[row, 1])])
    return Pairs(table, heap, places, np.array([len(keys), len(keys), sizes.sum()]))
