"""A hash table of pairs of numbers in compiled loops.

Two arrays together are the table: `joined`, integers[n, 3], holds by *rank* both numbers of a pair
and what belongs to them. `pairs`, uint32[a power of two], is in buckets: the rank + 1 of each pair,
below a tag of its hash, or 0. So most pairs that are not in the table cost a single access to
little memory. A pair is in its own bucket, or after buckets that are full.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.hash_table import HALF, MULTIPLIER, ONE

RANK_BITS = np.uint32(22)
MOST_PAIRS = 2**22
_RANK_MASK = np.uint32(MOST_PAIRS - 1)
_TAG_SHIFT = np.uint64(32 + 22)  # a tag is the rest of 32 bits
# Entries that are compared at once.
_BUCKET = np.uint64(4)


@njit(inline="always")
def hash_pair(left: int, right: int) -> np.uint64:
    """Return the hash of a pair."""
    first = np.uint64(left)
    product = ((first << HALF | first >> HALF) ^ np.uint64(right)) * MULTIPLIER
    return product ^ (product >> HALF)


@njit(inline="always")  # each call counts references to the arrays
def find_rank(pairs: np.ndarray, joined: np.ndarray, left: int, right: int) -> np.int64:
    """Return the rank of a pair; -1 for others.

    All entries of a bucket are compared, without a branch for each: most pairs are never joined,
    and which are cannot be predicted.
    """
    value, last = hash_pair(left, right), np.uint64(len(pairs) - 1)
    tag, begin = np.uint32(value >> _TAG_SHIFT), value * _BUCKET & last
    while True:
        found = np.uint32(0)
        for place in range(_BUCKET):
            entry = pairs[begin + np.uint64(place)]
            found = max(found, entry & _RANK_MASK if entry >> RANK_BITS == tag else np.uint32(0))
        if found:
            rank = np.int64(found) - 1
            if joined[rank, 0] == left and joined[rank, 1] == right:
                return rank
            for place in range(_BUCKET):  # several may have the tag
                rank = np.int64(pairs[begin + np.uint64(place)] & _RANK_MASK) - 1
                if rank >= 0 and joined[rank, 0] == left and joined[rank, 1] == right:
                    return rank
        if not pairs[begin + np.uint64(_BUCKET - 1)]:
            return np.int64(-1)
        begin = (begin + np.uint64(_BUCKET)) & last


@njit
def put_rank(pairs: np.ndarray, joined: np.ndarray, rank: int) -> None:
    """Write the rank of a pair into the hash table, in place of an earlier one."""
    left, right = joined[rank, 0], joined[rank, 1]
    value, last = hash_pair(left, right), np.uint64(len(pairs) - 1)
    slot = value * _BUCKET & last
    while pairs[slot]:
        known = np.int64(pairs[slot] & _RANK_MASK) - 1
        if joined[known, 0] == left and joined[known, 1] == right:
            break
        slot = (slot + ONE) & last
    pairs[slot] = np.uint32(value >> _TAG_SHIFT) << RANK_BITS | np.uint32(rank + 1)


@njit
def hash_pairs(joined: np.ndarray) -> np.ndarray:
    """Return the hash table of the pairs in `joined`; if one comes twice, it has its later rank."""
    size = 16
    while size < 2 * len(joined):
        size *= 2
    pairs = np.zeros(size, np.uint32)
    for rank in range(len(joined)):
        put_rank(pairs, joined, rank)
    return pairs
