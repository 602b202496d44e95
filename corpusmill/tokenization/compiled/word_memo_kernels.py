"""The memo of words in compiled loops: units looked up and added, and ids written out."""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.characters import (
    FIRST_LEAD,
    ideograph_bytes,
    read_character,
)
from corpusmill.tokenization.compiled.hash_table import ONE
from corpusmill.tokenization.compiled.unit_words import Unit, read_unit, read_word
from corpusmill.tokenization.compiled.units import WORD_BYTES
from corpusmill.tokenization.compiled.word_memo_arrays import MemoArrays, first_slot

_FOUR_BYTES = 0xF0

NO_ENTRY = -1


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
    slot = first_slot(unit.hash, np.uint64(unit.spaced), last)
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


@njit(inline="always")
def next_ideograph(text: np.ndarray, place: int, stop: int) -> int:
    """Return the first place of an ideograph from a place on, or `stop` if there is none."""
    while place < stop and not ideograph_bytes(text, place):
        place += 1
    return place


@njit(inline="always")
def take_ideographs(
    memo: MemoArrays, text: np.ndarray, place: int, stop: int, entries: np.ndarray, units: int
) -> tuple[int, int]:
    """Write the entries of a run of ideographs that are in the table of them.

    Args:
        memo: the memo.
        text: uint8[bytes], valid UTF-8.
        place: where the run begins.
        stop: where the sentence ends.
        entries: int32[...], written.
        units: the number of entries so far.

    Returns:
        The place after the run, and the number of entries.
    """
    table = memo.ideographs  # outside of the loop, which would count references to it
    while place < stop and FIRST_LEAD <= text[place] < _FOUR_BYTES:
        code, size = read_character(text, place)
        entry = table[code] - 1
        if entry < 0:
            break
        entries[units] = entry
        place, units = place + size, units + 1
    return place, units


@njit(inline="always")
def note_ideograph(memo: MemoArrays, code: int, entry: int) -> None:
    """Put the entry of an ideograph into the table of them; a code of -1 is not an ideograph."""
    if 0 <= code < len(memo.ideographs):
        memo.ideographs[code] = entry + 1


@njit
def look_up(  # noqa: C901  parts of the loop as kernels would double its time
    memo: MemoArrays,
    known: int,
    longest: int,
    own_space: int | None,
    separable: np.ndarray | None,
    text: np.ndarray,
    offsets: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut sentences at spaces, and perhaps around ideographs, and look up each unit.

    New units get the next entries; the caller must fill in their ids.

    Args:
        memo: table, tail_ends, tails and ideographs are filled for new units.
        known: the number of entries.
        longest: bytes of the longest unit that is remembered.
        own_space: 0x20 if the unit after a space owns it; None if no unit does, which is compiled
            separately.
        separable: bool[sentences], in which each ideograph is a unit; None if it is in none, which
            is compiled separately.
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
        limit = stop  # where the next ideograph begins
        if separable is not None and separable[sentence]:
            limit = next_ideograph(text, place, stop)
        while place < stop:
            begin, end, code, spaced = place, limit, -1, np.int64(0)
            if separable is not None and begin == limit:
                place, units = take_ideographs(memo, text, begin, stop, entries, units)
                limit = next_ideograph(text, place, stop)
                if place > begin:
                    continue
                code, size = read_character(text, begin)
                end = begin + size
                limit = next_ideograph(text, end, stop)
            elif own_space is not None:
                spaced = np.int64(text[begin] == own_space)
            unit = read_unit(text, begin, end, spaced)
            place = max(unit.end, begin + 1)
            if unit.end == begin:
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
            if separable is not None:
                note_ideograph(memo, code, entry)
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
