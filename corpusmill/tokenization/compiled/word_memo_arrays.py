"""The arrays of the memo of words, which grow as it remembers more of them."""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.hash_table import HALF, MULTIPLIER, ONE
from corpusmill.tokenization.compiled.unit_words import hash_word

# For each entry: two slots of the table, of 16 bytes each; 4 bytes each for the ends of its tail
# and of its ids; 1 word of its tail; 4 ids of 4 bytes.
_BYTES_PER_ENTRY = 64
_TAIL_PER_ENTRY, _IDS_PER_ENTRY = 1, 4
_FEWEST_ENDS, _MOST_ENDS, _GROWTH = 16, 1 << 28, 4
# Code points that are looked up without hashing: nearly all of the ideographs in any text.
_IDEOGRAPHS = 0x10000


class MemoArrays(NamedTuple):
    """The units in memory, and their ids.

    A unit is compared in *words* of 8 bytes. Its last word is filled up with spaces and holds at
    least one, so that no unit's words begin another's: "ab" is one word, "abcdefgh" is two. The
    first word is in the table, so that most units cost a single access to memory.

    Attributes:
        table: uint64[a power of two, 2]; a unit's first word, and twice its entry + 2, plus one if
            the unit owns a space that is not in its words; 0 is free.
        tail_ends: int32[entries + 1]; tails[tail_ends[e] : tail_ends[e + 1]] are the words of entry
            e after its first.
        tails: uint64[...].
        id_ends: int32[entries + 1]; ids[id_ends[e] : id_ends[e + 1]] are its ids.
        ids: int32[...].
        ideographs: int32[0x10000], the entry + 1 of each ideograph below 0x10000, or 0; empty if no
            ideograph is a unit.
    """

    table: np.ndarray
    tail_ends: np.ndarray
    tails: np.ndarray
    id_ends: np.ndarray
    ids: np.ndarray
    ideographs: np.ndarray


def allocate_memo(memory_bytes: int, has_ideographs: bool = False) -> MemoArrays:
    """Return an empty memo of at most `memory_bytes`, but at least 1 KiB.

    It has room for one entry less than a power of two.

    Args:
        memory_bytes: upper bound of the memory, without the table of ideographs.
        has_ideographs: whether ideographs may be units.
    """
    ends = _count_ends(memory_bytes)
    return MemoArrays(
        table=np.zeros((2 * ends, 2), np.uint64),
        tail_ends=np.zeros(ends, np.int32),
        tails=np.empty(_TAIL_PER_ENTRY * ends, np.uint64),
        id_ends=np.zeros(ends, np.int32),
        ids=np.empty(_IDS_PER_ENTRY * ends, np.int32),
        ideographs=np.zeros(_IDEOGRAPHS if has_ideographs else 0, np.int32),
    )


def _count_ends(memory_bytes: int) -> int:
    """Return the length of `id_ends` of a memo of at most so many bytes."""
    fitting = min(max(_FEWEST_ENDS, memory_bytes // _BYTES_PER_ENTRY), _MOST_ENDS)
    return 1 << (fitting.bit_length() - 1)


def grow_memo(memo: MemoArrays, known: int, memory_bytes: int) -> MemoArrays | None:
    """Return a memo with the entries of another one and room for four times as many.

    Args:
        memo: the memo.
        known: the number of its entries.
        memory_bytes: upper bound of the memory of the larger one.

    Returns:
        The larger memo, or None if there is no room for one that is larger.
    """
    ends = min(_GROWTH * len(memo.id_ends), _count_ends(memory_bytes))
    tails, ids = memo.tail_ends[known], memo.id_ends[known]
    if ends <= len(memo.id_ends) or ids > _IDS_PER_ENTRY * ends:
        return None
    larger = allocate_memo(ends * _BYTES_PER_ENTRY)
    larger.tail_ends[: known + 1] = memo.tail_ends[: known + 1]
    larger.tails[:tails] = memo.tails[:tails]
    larger.id_ends[: known + 1] = memo.id_ends[: known + 1]
    larger.ids[:ids] = memo.ids[:ids]
    fill_table(memo, larger)
    return larger._replace(ideographs=memo.ideographs)


@njit
def fill_table(memo: MemoArrays, larger: MemoArrays) -> None:
    """Enter the units of a memo into the empty table of one that has their tails."""
    last = np.uint64(len(larger.table) - 1)
    for row in range(len(memo.table)):
        first, number = memo.table[row]
        if not number:
            continue
        entry, value = np.int64(number >> ONE) - 1, hash_word(np.uint64(0), first)
        for tail in range(memo.tail_ends[entry], memo.tail_ends[entry + 1]):
            value = hash_word(value, memo.tails[tail])
        slot = first_slot(value, number & ONE, last)
        while larger.table[slot, 1]:
            slot = (slot + ONE) & last
        larger.table[slot] = memo.table[row]


@njit(inline="always")
def first_slot(value: np.uint64, spaced: np.uint64, last: np.uint64) -> np.uint64:
    """Return the row of the table where a unit is looked for first.

    Args:
        value: the hash of its words.
        spaced: 1 if it owns a space, else 0.
        last: the number of the last row.
    """
    return (((value ^ spaced) * MULTIPLIER) >> HALF) & last
