"""A hash table of integers in compiled loops."""

import numpy as np

from corpusmill.arrays.kernel_cache import njit

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio
HALF, ONE = np.uint64(32), np.uint64(1)


@njit
def find_slot(table: np.ndarray, key: np.uint64) -> np.int64:
    """Return the row of a key, or the free row where it belongs.

    Args:
        table: uint64[a power of two, 2]; a key + 1 and its value, or 0 where a row is free.
        key: at most 2**64 - 2.
    """
    last, stored = np.uint64(len(table) - 1), key + ONE
    slot = ((stored * MULTIPLIER) >> HALF) & last
    while table[slot, 0] and table[slot, 0] != stored:
        slot = (slot + ONE) & last
    return np.int64(slot)


@njit
def allocate_table(most: int) -> np.ndarray:
    """Return an empty table with room for a number of keys."""
    size = 16
    while size < 2 * most:
        size *= 2
    return np.zeros((size, 2), np.uint64)
