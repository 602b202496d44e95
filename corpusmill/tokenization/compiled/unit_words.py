"""Units of text read in words of 8 bytes, and hashed, in compiled loops.

The last word of a unit is filled up with spaces and holds at least one, so that no unit's words
begin another's: "ab" is one word, "abcdefgh" is two.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.units import WORD_BYTES

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


_SPACES = np.uint64(0x2020202020202020)
_LOWEST_BITS, _HIGHEST_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


class Unit(NamedTuple):
    """A unit of a text.

    Attributes:
        start: its first byte, after a space that it owns.
        end: where it ends.
        spaced: 1 if it owns the space before `start`, else 0.
        first: its first word.
        hash: the hash of its words.
    """

    start: int
    end: int
    spaced: int
    first: np.uint64
    hash: np.uint64


@njit(inline="always")
def load_word(text: np.ndarray, place: int) -> np.uint64:
    """Return the 8 bytes at a place, the first one lowest."""
    position, byte = np.uint64(place), np.uint64
    return (  # written like this, the compiler makes a single load of it
        byte(text[position])
        | byte(text[position + byte(1)]) << byte(8)
        | byte(text[position + byte(2)]) << byte(16)
        | byte(text[position + byte(3)]) << byte(24)
        | byte(text[position + byte(4)]) << byte(32)
        | byte(text[position + byte(5)]) << byte(40)
        | byte(text[position + byte(6)]) << byte(48)
        | byte(text[position + byte(7)]) << byte(56)
    )


@njit
def read_word(text: np.ndarray, place: int, stop: int) -> tuple[np.uint64, np.int64]:
    """Read up to 8 bytes of a unit, up to the next space or `stop`.

    Args:
        text: uint8[bytes]; 8 of them may be read from `place` on.
        place: first byte.
        stop: where the sentence ends.

    Returns:
        word: the bytes, the first one lowest, filled up with spaces.
        size: their number; 8 if the unit may continue.
    """
    word, byte = load_word(text, place), np.uint64
    # Mycroft's test: the lowest bit that is set is the highest of the first byte that is a space.
    apart = word ^ _SPACES
    space = (apart - _LOWEST_BITS) & ~apart & _HIGHEST_BITS
    if stop - place < WORD_BYTES:
        space |= byte(0x80) << byte(8 * (stop - place))
    space &= ~space + byte(1)
    before = (space >> byte(7)) - byte(1)
    size = np.int64(((before & _LOWEST_BITS) * _LOWEST_BITS) >> byte(56))
    return (word & before) | (_SPACES & ~before), size


@njit
def hash_word(value: np.uint64, word: np.uint64) -> np.uint64:
    """Return the hash of a unit's words up to and including a word, from that before the word."""
    product = (value ^ word) * MULTIPLIER
    return product ^ (product >> HALF)


@njit(inline="always")  # a fifth of the time of look_up
def read_unit(text: np.ndarray, begin: int, stop: int, spaced: int) -> Unit:
    """Read a unit to its end; it is empty if a space is there.

    Args:
        text: uint8[bytes]; 8 of them may be read from `stop` on.
        begin: its first byte, the space that it owns included.
        stop: where the sentence ends.
        spaced: 1 if it owns the space at `begin`, else 0.
    """
    start = begin + spaced
    first, size = read_word(text, start, stop)
    end, value = start + size, hash_word(np.uint64(0), first)
    while size == WORD_BYTES:
        word, size = read_word(text, end, stop)
        value = hash_word(value, word)
        end += size
    return Unit(start, end, spaced, first, value)
