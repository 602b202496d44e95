"""The memo of words in compiled loops: units looked up and added, and ids written out."""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.hash_table import HALF, MULTIPLIER, ONE
from corpusmill.tokenization.compiled.units import WORD_BYTES

# For each entry: two slots of the table, of 16 bytes each; 4 bytes each for the ends of its tail
# and of its ids; 1 word of its tail; 4 ids of 4 bytes.
_BYTES_PER_ENTRY = 64
_TAIL_PER_ENTRY, _IDS_PER_ENTRY = 1, 4
_FEWEST_ENDS, _MOST_ENDS = 16, 1 << 28

NO_ENTRY = -1
_SPACES = np.uint64(0x2020202020202020)
_LOWEST_BITS, _HIGHEST_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


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
    """

    table: np.ndarray
    tail_ends: np.ndarray
    tails: np.ndarray
    id_ends: np.ndarray
    ids: np.ndarray


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


def allocate_memo(memory_bytes: int) -> MemoArrays:
    """Return an empty memo of at most `memory_bytes`, but at least 1 KiB.

    It has room for one entry less than a power of two.
    """
    fitting = min(max(_FEWEST_ENDS, memory_bytes // _BYTES_PER_ENTRY), _MOST_ENDS)
    ends = 1 << (fitting.bit_length() - 1)
    return MemoArrays(
        table=np.zeros((2 * ends, 2), np.uint64),
        tail_ends=np.zeros(ends, np.int32),
        tails=np.empty(_TAIL_PER_ENTRY * ends, np.uint64),
        id_ends=np.zeros(ends, np.int32),
        ids=np.empty(_IDS_PER_ENTRY * ends, np.int32),
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
    position, byte = np.uint64(place), np.uint64
    word = (  # written like this, the compiler makes a single load of it
        byte(text[position])
        | byte(text[position + byte(1)]) << byte(8)
        | byte(text[position + byte(2)]) << byte(16)
        | byte(text[position + byte(3)]) << byte(24)
        | byte(text[position + byte(4)]) << byte(32)
        | byte(text[position + byte(5)]) << byte(40)
        | byte(text[position + byte(6)]) << byte(48)
        | byte(text[position + byte(7)]) << byte(56)
    )
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


@njit
def find_entry(memo: MemoArrays, text: np.ndarray, unit: Unit) -> tuple[np.int64, np.int64]:
    """Look up a unit.

    Args:
        memo: the memo.
        text: uint8[bytes].
        unit: the unit.

    Returns:
        entry: -1 if the unit is not in memory.
        slot: the row of the table that holds it, or the free one where it belongs.
    """
    table, tails = memo.table, memo.tails
    last = np.uint64(len(table) - 1)
    slot = (((unit.hash ^ np.uint64(unit.spaced)) * MULTIPLIER) >> HALF) & last
    while table[slot, 1]:
        if table[slot, 0] == unit.first and np.int64(table[slot, 1] & ONE) == unit.spaced:
            entry = np.int64(table[slot, 1] >> ONE) - 1
            tail, place = memo.tail_ends[entry], unit.start + WORD_BYTES
            while place <= unit.end:
                word, _ = read_word(text, place, unit.end)
                if tails[tail] != word:
                    break
                tail += 1
                place += WORD_BYTES
            if place > unit.end:
                return entry, np.int64(slot)
        slot = (slot + ONE) & last
    return np.int64(NO_ENTRY), np.int64(slot)


@njit
def add_entry(memo: MemoArrays, known: int, slot: int, text: np.ndarray, unit: Unit) -> bool:
    """Add a unit, without its ids, as entry `known`; return False if there is no room.

    Args:
        memo: table, tail_ends and tails are written.
        known: the number of entries.
        slot: a free row of the table.
        text: uint8[bytes].
        unit: the unit.
    """
    tail = memo.tail_ends[min(known, len(memo.tail_ends) - 1)]
    tail_words = (unit.end - unit.start) // WORD_BYTES
    if known + 1 >= len(memo.tail_ends) or tail + tail_words > len(memo.tails):
        return False
    memo.table[slot, 0] = unit.first
    memo.table[slot, 1] = 2 * (known + 1) + unit.spaced
    for place in range(unit.start + WORD_BYTES, unit.end + 1, WORD_BYTES):
        memo.tails[tail], _ = read_word(text, place, unit.end)
        tail += 1
    memo.tail_ends[known + 1] = tail
    return True


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


@njit
def look_up(
    memo: MemoArrays,
    known: int,
    longest: int,
    own_space: int | None,
    text: np.ndarray,
    offsets: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut sentences at spaces and look up each unit.

    New units get the next entries; the caller must fill in their ids.

    Args:
        memo: table, tail_ends and tails are filled for new units.
        known: the number of entries.
        longest: bytes of the longest unit that is remembered.
        own_space: 0x20 if the unit after a space owns it; None if no unit does, which is compiled
            separately.
        text: uint8[bytes + 8]; the last 8 have no meaning.
        offsets: int64[sentences + 1] into text.

    Returns:
        entries: int32[units]; -1 for units that are too long, or for which there is no room left.
        unit_offsets: int64[sentences + 1] into the units.
        new: int64[new units, 2], first byte and end of each, in the order of their entries.
        unremembered: int64[units of entry -1, 2], likewise.

    Example:
        an empty memo and "ab  c ab" as one sentence give entries [0, 1, 0], unit_offsets [0, 3],
        new [[0, 2], [4, 5]] and an empty array. If units own spaces, they are "ab", " ", " c" and
        " ab".
    """
    most = (offsets[-1] - offsets[0] + len(offsets)) // (2 if own_space is None else 1)
    entries = np.empty(most, np.int32)
    new = np.empty((min(most, len(memo.tail_ends) - 1 - known), 2), np.int64)
    unremembered = np.empty((most, 2), np.int64)
    unit_offsets = np.zeros(len(offsets), np.int64)
    units = added = others = 0
    for sentence in range(len(offsets) - 1):
        place, stop = offsets[sentence], offsets[sentence + 1]
        while place < stop:
            begin, spaced = place, np.int64(0)
            if own_space is not None:
                spaced = np.int64(text[place] == own_space)
            unit = read_unit(text, begin, stop, spaced)
            place = unit.end
            if place == begin:
                place += 1
                continue
            entry = np.int64(NO_ENTRY)
            if place - begin <= longest:
                entry, slot = find_entry(memo, text, unit)
                if entry < 0 and add_entry(memo, known + added, slot, text, unit):
                    entry = np.int64(known + added)
                    new[added] = begin, place
                    added += 1
            if entry < 0:
                unremembered[others] = begin, place
                others += 1
            entries[units] = entry
            units += 1
        unit_offsets[sentence + 1] = units
    return entries[:units], unit_offsets, new[:added], unremembered[:others]


@njit
def emit_ids(
    memo: MemoArrays,
    entries: np.ndarray,
    unit_offsets: np.ndarray,
    other_ids: np.ndarray,
    other_ends: np.ndarray,
    like: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Write out the ids of each sentence's units, one after the other.

    Args:
        memo: the memo.
        entries: int32[units], -1 for a unit whose ids are the next of `other_ids`.
        unit_offsets: int64[sentences + 1] into the units.
        other_ids: int32[...].
        other_ends: int64[units of entry -1, + 1] into other_ids.
        like: an empty array of the desired type.

    Returns:
        token_ids: like's type[tokens].
        token_offsets: int64[sentences + 1].
    """
    id_ends, ids = memo.id_ends, memo.ids
    total = len(other_ids)
    for entry in entries:
        if entry >= 0:
            total += id_ends[entry + 1] - id_ends[entry]
    token_ids = np.empty(total, like.dtype)
    token_offsets = np.zeros(len(unit_offsets), np.int64)
    written = others = 0
    for sentence in range(len(unit_offsets) - 1):
        for unit in range(unit_offsets[sentence], unit_offsets[sentence + 1]):
            entry = entries[unit]
            if entry >= 0:
                for place in range(id_ends[entry], id_ends[entry + 1]):
                    token_ids[written] = ids[place]
                    written += 1
            else:
                for place in range(other_ends[others], other_ends[others + 1]):
                    token_ids[written] = other_ids[place]
                    written += 1
                others += 1
        token_offsets[sentence + 1] = written
    return token_ids, token_offsets
