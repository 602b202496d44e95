"""Token ids remembered for each word, so that no word is tokenized twice.

Text is cut into *units*, which are looked up by their bytes. A unit that is not known is passed to
the tokenizer. The memo never changes a result: units are compared by their bytes, not by hashes
alone. It grows as words come, and a full one is emptied.
`corpusmill.tokenization.compiled.exactness` explains for which tokenizers the ids of a text are the
ids of its units.

An entry, half a line of the processor's cache, holds up to 15 bytes of a unit and up to 4 ids. They
are read, found and written without a branch that depends on their length, so that the processor
waits for several entries at a time, and those that came first, which are the frequent ones, are
beside each other. The ids of other units are put between these afterwards.
"""

import threading
from typing import NamedTuple

import numpy as np

from corpusmill.arrays.intrinsics import borrow, load_word
from corpusmill.arrays.kernel_cache import njit
from corpusmill.knobs import knob
from corpusmill.tokenization.compiled.exactness import LineRule, mark_lines
from corpusmill.tokenization.compiled.seams import Seams, mark_seams, mark_signs
from corpusmill.tokenization.compiled.units import (
    HALF,
    MULTIPLIER,
    NO_SINGLE,
    NO_TABLE,
    ONE,
    PADDING,
    RUN,
    WORD_BYTES,
    EncodeSpans,
    UnitRule,
    find_cuts,
    list_cuts,
    note_singles,
    read_part,
    shift_of,
    write_run,
)

# For each entry: its 32 bytes, two slots of the index of 4 bytes each, 1 word of the bytes of long
# units, 4 ids beyond the entry.
_BYTES_PER_ENTRY, _ENTRY_WORDS, _TAIL_PER_ENTRY, _IDS_PER_ENTRY = 64, 4, 1, 4
_SLOTS_PER_ENTRY, _FEWEST_ENTRIES, _MOST_ENTRIES, _GROWTH = 2, 16, 1 << 28, 4
# Bytes and ids of a unit that are in its entry.
SHORT_UNIT, FEW_IDS = 2 * WORD_BYTES - 1, 4
# Above the last id of an entry: how many there are, plus 1; or that they are elsewhere, or unknown.
_COUNT, _ELSEWHERE = np.uint64(60), np.uint64(15)
_FIRST_HALF, _SECOND_HALF = np.uint64(2**32 - 1), np.uint64(2**64 - 2**32)
_LAST_ID, _ALL_BITS = np.uint64(2**28 - 1), np.uint64(2**64 - 1)
_ENTRIES, _TAILS, _IDS = 0, 1, 2
# What fills up the first 8 bytes of a unit of n bytes at 16 + n, and the next 8 at 8 + n.
_FILLING = np.array(
    [
        _ALL_BITS << np.uint64(8 * max(0, n - 2 * WORD_BYTES)) if n < 3 * WORD_BYTES else 0
        for n in range(4 * WORD_BYTES + 1)
    ],
    np.uint64,
)
_BLOCK = 1024  # bytes whose units are looked up together
_SECOND_MULTIPLIER, _TAG_SHIFT = np.uint64(0xD6E8FEB86659FD93), np.uint64(16)


class MemoArrays(NamedTuple):
    """The units in memory, and their ids.

    Attributes:
        slots: uint32[twice the entries], a hash table: an entry, from 1 on, below a tag of its
            hash; 0 is free.
        entries: uint64[a power of two times 4], four words each; entry 0 is none. The first two
            are a unit's bytes, filled up with 0xFF, which no text has. Of a unit with more than 15
            bytes they are its first 8 bytes, and a hash of the others, 31 bits, before where these
            are in `tails`. The other two words are four ids of 32 bits; the highest bits of the
            last one say how many they are, or that the first one is their place in `ids`, as for
            more than four ids, and where the fourth has more than 28 bits.
        tails: uint64[...], the bytes of long units after their first 8, filled up with 0xFF, at
            least one of which is the last, so that no unit's bytes begin another's.
        ids: int32[...], the number of a unit's ids, and these, where they are not in the entry.
        used: int64[3]: how many of `entries`, `tails` and `ids` are in use.
    """

    slots: np.ndarray
    entries: np.ndarray
    tails: np.ndarray
    ids: np.ndarray
    used: np.ndarray


def allocate_memo(memory_bytes: int) -> MemoArrays:
    """Return an empty memo of at most `memory_bytes`, but at least 1 KiB.

    It has room for one unit less than a power of two.
    """
    number = _count_entries(memory_bytes)
    # Each entry lies within one line of the processor's cache.
    words = np.empty((number + 1) * _ENTRY_WORDS, np.uint64)
    skipped = -words.ctypes.data % (_ENTRY_WORDS * WORD_BYTES) // WORD_BYTES
    entries = words[skipped:][: number * _ENTRY_WORDS]
    entries[:_ENTRY_WORDS] = 0, 0, 0, _ELSEWHERE << _COUNT
    return MemoArrays(
        slots=np.zeros(_SLOTS_PER_ENTRY * number, np.uint32),
        entries=entries,
        tails=np.empty(_TAIL_PER_ENTRY * number, np.uint64),
        ids=np.empty(_IDS_PER_ENTRY * number, np.int32),
        used=np.array([1, 0, 0]),
    )


def _count_entries(memory_bytes: int) -> int:
    """Return how many entries a memo of at most `memory_bytes` has."""
    fitting = min(max(_FEWEST_ENTRIES, memory_bytes // _BYTES_PER_ENTRY), _MOST_ENTRIES)
    return 1 << (fitting.bit_length() - 1)


def grow_memo(memo: MemoArrays, memory_bytes: int) -> MemoArrays | None:
    """Return a memo with the units of another one and room for four times as many.

    Args:
        memo: the memo.
        memory_bytes: upper bound of the memory of the larger one.

    Returns:
        The larger memo, or None if there is no room for one that is larger.
    """
    known = len(memo.entries) // _ENTRY_WORDS
    entries = min(_GROWTH * known, _count_entries(memory_bytes))
    if entries <= known or memo.used[_IDS] > _IDS_PER_ENTRY * entries:
        return None
    larger = allocate_memo(entries * _BYTES_PER_ENTRY)
    larger.used[:] = entries_used, tails, ids = memo.used
    larger.entries[: entries_used * _ENTRY_WORDS] = memo.entries[: entries_used * _ENTRY_WORDS]
    larger.tails[:tails], larger.ids[:ids] = memo.tails[:tails], memo.ids[:ids]
    fill_index(larger)
    return larger


@njit
def fill_index(memo: MemoArrays) -> None:
    """Enter all units of a memo into its empty index, the first ones first."""
    last, shift = np.uint64(len(memo.slots) - 1), shift_of(len(memo.slots))
    for entry in range(1, memo.used[_ENTRIES]):
        first, second = memo.entries[entry * _ENTRY_WORDS], memo.entries[entry * _ENTRY_WORDS + 1]
        value = hash_unit(first, second & _SECOND_HALF if is_long(second) else second)
        slot = value >> shift
        while memo.slots[slot]:
            slot = (slot + ONE) & last
        memo.slots[slot] = tag_of(value, memo.slots) | np.uint32(entry)


@njit(inline="always")
def is_long(second: np.uint64) -> bool:
    """Whether a unit has more than 15 bytes, by the second word of its entry."""
    return bool(np.int64(second) >= 0)  # the last byte of shorter ones is 0xFF


@njit(inline="always")
def hash_unit(first: np.uint64, second: np.uint64) -> np.uint64:
    """Return the hash of a unit, by the first words of its entry, without a place in `tails`."""
    value = first * MULTIPLIER + second * _SECOND_MULTIPLIER
    return (value ^ value >> HALF) * MULTIPLIER


@njit(inline="always")
def entry_bits(index: np.ndarray) -> np.uint32:
    """Return the bits of a slot of an index that are the number of an entry."""
    return np.uint32(len(index) // _SLOTS_PER_ENTRY - 1)


@njit(inline="always")
def tag_of(value: np.uint64, index: np.ndarray) -> np.uint32:
    """Return the bits of a hash that are in a slot of an index, above the number of an entry."""
    tag: np.uint32 = np.uint32((value >> _TAG_SHIFT) & _FIRST_HALF) & ~entry_bits(index)
    return tag


@njit
def hash_tail(text: np.ndarray, start: int, end: int) -> np.uint64:
    """Return the second word of a long unit's entry, without a place in `tails`.

    Args:
        text: uint8[bytes + PADDING].
        start: where the unit begins.
        end: where it ends.
    """
    value = np.uint64(end - start)
    for place in range(start + WORD_BYTES, end + 1, WORD_BYTES):
        value = (value ^ read_part(text, place, end - place)) * MULTIPLIER
        value ^= value >> HALF
    return (value << HALF) >> ONE & _SECOND_HALF


@njit
def has_tail(memo: MemoArrays, entry: int, text: np.ndarray, span: tuple[int, int]) -> bool:
    """Whether the bytes of a long unit after its first 8 are those of an entry."""
    (start, end), tail = span, np.int64(memo.entries[entry * _ENTRY_WORDS + 1] & _FIRST_HALF)
    for place in range(start + WORD_BYTES, end + 1, WORD_BYTES):
        if memo.tails[tail] != read_part(text, place, end - place):
            return False
        tail += 1
    return True


@njit(inline="always")
def read_unit(text: np.ndarray, start: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Return the first two words of the entry of a unit, of up to 15 bytes."""
    size = np.uint64(min(end - start, 2 * WORD_BYTES))
    second = load_word(text, start + WORD_BYTES) | _FILLING[size + np.uint64(WORD_BYTES)]
    return load_word(text, start) | _FILLING[size + np.uint64(2 * WORD_BYTES)], second


@njit
def find_entry(
    memo: MemoArrays, text: np.ndarray, span: tuple[int, int]
) -> tuple[np.int64, np.uint64, np.uint64]:
    """Look up a unit of any length.

    Args:
        memo: the memo.
        text: uint8[bytes + PADDING].
        span: where the unit begins and ends.

    Returns:
        entry: 0 if the unit is not in memory.
        slot: its slot of the index, or the free one where it belongs.
        second: the second word of its entry, without a place in `tails`.
    """
    first, second = read_unit(text, span[0], span[1])
    compared = _ALL_BITS
    if span[1] - span[0] > SHORT_UNIT:
        second, compared = hash_tail(text, span[0], span[1]), _SECOND_HALF
    index, last, value = memo.slots, np.uint64(len(memo.slots) - 1), hash_unit(first, second)
    slot, tag, bits = value >> shift_of(len(index)), tag_of(value, index), entry_bits(index)
    while index[slot]:
        entry = np.int64(index[slot] & bits)
        begin = entry * _ENTRY_WORDS
        if (
            index[slot] & ~bits == tag
            and memo.entries[begin] == first
            and not (memo.entries[begin + 1] ^ second) & compared
            and (not is_long(second) or has_tail(memo, entry, text, span))
        ):
            return entry, slot, second
        slot = (slot + ONE) & last
    return np.int64(0), slot, second


@njit
def add_entry(
    memo: MemoArrays, slot: np.uint64, text: np.ndarray, span: tuple[int, int], second: np.uint64
) -> np.int64:
    """Add a unit, without its ids, and return its entry; return 0 if there is no room.

    Args:
        memo: written.
        slot: the free slot of the index where it belongs.
        text: uint8[bytes + PADDING].
        span: where the unit begins and ends.
        second: the second word of its entry, without a place in `tails`.
    """
    start, end = span
    entry, tail = memo.used[_ENTRIES], memo.used[_TAILS]
    words = (end - start) // WORD_BYTES if is_long(second) else 0
    if entry > entry_bits(memo.slots) or tail + words > len(memo.tails):
        return np.int64(0)
    first, begin = read_unit(text, start, end)[0], entry * _ENTRY_WORDS
    memo.slots[slot] = tag_of(hash_unit(first, second), memo.slots) | np.uint32(entry)
    memo.entries[begin] = first
    memo.entries[begin + 1] = second | np.uint64(tail) if words else second
    memo.entries[begin + 2], memo.entries[begin + 3] = np.uint64(0), _ELSEWHERE << _COUNT
    for place in range(start + WORD_BYTES, start + (words + 1) * WORD_BYTES, WORD_BYTES):
        memo.tails[tail] = read_part(text, place, end - place)
        tail += 1
    memo.used[_ENTRIES], memo.used[_TAILS] = entry + 1, tail
    return np.int64(entry)


@njit(inline="always")
def write_few(
    entries: np.ndarray, begin: np.uint64, ids: np.ndarray, place: np.uint64
) -> np.uint64:
    """Write an entry's ids, and return their number; what is written beyond it has no meaning."""
    third, fourth = entries[begin + np.uint64(2)], entries[begin + np.uint64(3)]
    ids[place] = third & _FIRST_HALF
    ids[place + ONE] = third >> HALF
    ids[place + np.uint64(2)] = fourth & _FIRST_HALF
    ids[place + np.uint64(3)] = fourth >> HALF & _LAST_ID
    count: np.uint64 = (fourth >> _COUNT) - ONE
    return count


class Found(NamedTuple):
    """The ids of sentences, most of them.

    Attributes:
        ids: integers[...]: those of units that have all of them in their entry.
        ends: int64[sentences + 1] into ids.
        waiting: int64[..., 4]: the other units: where each one begins and ends, its entry, or 0 if
            it is not remembered, and where its ids belong in `ids`.
        waiting_ends: int64[sentences + 1] into waiting.
        new: int64[...]: which of these are the first of their kind, whose entries lack ids.
    """

    ids: np.ndarray
    ends: np.ndarray
    waiting: np.ndarray
    waiting_ends: np.ndarray
    new: np.ndarray


BEGINS, DIFFERING, SECOND = 0, 1, 2  # rows of `compare_units`; the last one is a workspace


@njit(inline="always")
def compare_units(
    memo: MemoArrays, shift: np.uint64, text: np.ndarray, bounds: np.ndarray, probed: np.ndarray
) -> None:
    """Compare units with the entries of their first slots, in loops short enough to overlap.

    Args:
        memo: the memo.
        shift: that of its slots.
        text: uint8[bytes + PADDING].
        bounds: int64[units + 1], where units begin and the last one ends.
        probed: uint64[3, at least units], written: the rows above; 0 in DIFFERING is no difference.
    """
    slots, entries, bits = memo.slots, memo.entries, entry_bits(memo.slots)
    for unit in range(len(bounds) - 1):
        first, second = read_unit(text, bounds[unit], bounds[unit + 1])
        probed[DIFFERING, unit], probed[SECOND, unit] = first, second
        probed[BEGINS, unit] = hash_unit(first, second) >> shift
    for unit in range(len(bounds) - 1):
        entry = np.uint64(slots[probed[BEGINS, unit]] & bits)
        probed[BEGINS, unit] = entry * np.uint64(_ENTRY_WORDS)
    for unit in range(len(bounds) - 1):
        begin = probed[BEGINS, unit]
        probed[DIFFERING, unit] ^= entries[begin]
        probed[DIFFERING, unit] |= entries[begin + ONE] ^ probed[SECOND, unit]


@njit
def look_up(
    memo: MemoArrays,
    longest: int,
    text: np.ndarray,
    cuts: np.ndarray,
    offsets: np.ndarray,
    singles: np.ndarray,
    like: np.ndarray,
) -> Found:
    """Look up the units of sentences, and add new ones, whose ids the caller must fill in.

    Args:
        memo: written.
        longest: bytes of the longest unit that is remembered.
        text: uint8[bytes + PADDING], valid UTF-8; the last bytes have no meaning.
        cuts: those of `find_cuts`.
        offsets: int64[sentences + 1] into text.
        singles: the table of `find_ideographs`; empty for other rules.
        like: an empty array of the ids' type.
    """
    most = len(offsets) + int(cuts[: offsets[-1]].sum())
    all_ids = np.empty(FEW_IDS * most + (offsets[-1] if len(singles) else 0), like.dtype)
    all_waiting = np.empty((most, 4), np.int64)
    new, ends = np.empty(most, np.int64), np.zeros((2, len(offsets)), np.int64)
    memo = MemoArrays(
        borrow(memo.slots), borrow(memo.entries), borrow(memo.tails), borrow(memo.ids),
        borrow(memo.used),
    )  # fmt: skip
    entries, shift = memo.entries, shift_of(len(memo.slots))
    text, cuts, ids, waiting = borrow(text), borrow(cuts), borrow(all_ids), borrow(all_waiting)
    bounds, singles = np.empty(_BLOCK + 2 * WORD_BYTES, np.int64), borrow(singles)
    probed = np.empty((3, len(bounds)), np.uint64)
    written, waits, added = np.uint64(0), 0, 0
    for sentence in range(len(offsets) - 1):
        place, stop = offsets[sentence], offsets[sentence + 1]
        bounds[0] = place
        while place < stop:
            block, place = place, min(place + _BLOCK, stop)
            count = list_cuts(cuts, max(block, bounds[0] + 1), place, bounds)
            if place == stop:
                count += 1
                bounds[count] = stop
            # Where ideographs begin, few units are words.
            compared = 0 if cuts[bounds[0]] & RUN else count
            compare_units(memo, shift, text, bounds[: compared + 1], probed)
            probed[BEGINS, compared:count], probed[DIFFERING, compared:count] = 0, 1
            for unit in range(count):
                start, end, begin = bounds[unit], bounds[unit + 1], probed[BEGINS, unit]
                is_direct = entries[begin + np.uint64(3)] < _ELSEWHERE << _COUNT
                if (probed[DIFFERING, unit] == 0) & is_direct & (end - start <= SHORT_UNIT):
                    written += write_few(entries, begin, ids, written)
                    continue
                if cuts[start] & RUN:
                    written = write_run(singles, text, start, end, ids, written)
                    continue
                known = np.int64(0)
                if end - start <= longest:
                    known, slot, second = find_entry(memo, text, (start, end))
                    if not known:
                        known = add_entry(memo, slot, text, (start, end), second)
                        new[added] = waits
                        added += known > 0
                    elif entries[known * _ENTRY_WORDS + 3] < _ELSEWHERE << _COUNT:
                        written += write_few(entries, np.uint64(known * _ENTRY_WORDS), ids, written)
                        continue
                waiting[waits, 0], waiting[waits, 1] = start, end
                waiting[waits, 2], waiting[waits, 3] = known, written
                waits += 1
            bounds[0] = bounds[count]
        ends[0, sentence + 1], ends[1, sentence + 1] = written, waits
    return Found(all_ids[:written], ends[0], all_waiting[:waits], ends[1], new[:added])


@njit(inline="always")
def copy_ids(source: np.ndarray, first: int, last: int, ids: np.ndarray, written: int) -> int:
    """Copy a part of an array to another one, and return where the copy ends."""
    for place in range(last - first):  # a slice would take longer, if it is short
        ids[written + place] = source[first + place]
    return written + last - first


@njit
def put_ids(memo: MemoArrays, entries: np.ndarray, ids: np.ndarray, ends: np.ndarray) -> None:
    """Write the ids of new units.

    Args:
        memo: written; it has room for them.
        entries: int64[new units].
        ids: integers[...], one unit's after another's.
        ends: int64[new units + 1] into ids.
    """
    for unit in range(len(entries)):
        begin, count = ends[unit], ends[unit + 1] - ends[unit]
        third = fourth = np.uint64(0)
        is_large = count == FEW_IDS and np.uint64(ids[begin + FEW_IDS - 1]) > _LAST_ID
        if count > FEW_IDS or is_large:
            place = memo.used[_IDS]
            memo.ids[place] = count
            memo.used[_IDS] = copy_ids(ids, begin, begin + count, memo.ids, place + 1)
            third, fourth = np.uint64(place), _ELSEWHERE << _COUNT
        else:
            for number in range(count):
                word = np.uint64(ids[begin + number]) << (HALF if number & 1 else np.uint64(0))
                if number < 2:
                    third |= word
                else:
                    fourth |= word
            fourth |= np.uint64(count + 1) << _COUNT
        place = entries[unit] * _ENTRY_WORDS
        memo.entries[place + 2], memo.entries[place + 3] = third, fourth


@njit
def fill_in(
    memo: MemoArrays, found: Found, other_ids: np.ndarray, other_ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Put the ids of the units that wait between the others.

    Args:
        memo: the memo, with the ids of new units.
        found: what was found.
        other_ids: int32[...], those of units that are not remembered, one after the other.
        other_ends: int64[units of entry 0, + 1] into other_ids.

    Returns:
        token_ids: integers[tokens].
        token_offsets: int64[sentences + 1].
    """
    waiting, total = found.waiting, len(found.ids) + len(other_ids)
    for entry in waiting[:, 2]:
        count = np.int64(memo.entries[entry * _ENTRY_WORDS + 3] >> _COUNT) - 1
        if entry:
            place = np.int64(memo.entries[entry * _ENTRY_WORDS + 2])
            total += int(count if count <= FEW_IDS else memo.ids[place])
    all_ids, token_offsets = np.empty(total, found.ids.dtype), np.zeros_like(found.ends)
    token_ids, known = borrow(all_ids), borrow(found.ids)
    entries, ids = borrow(memo.entries), borrow(memo.ids)
    few, others, zero = np.empty(FEW_IDS, np.int32), borrow(other_ids), np.uint64(0)
    written = read = other = 0
    for sentence in range(len(token_offsets) - 1):
        for number in range(found.waiting_ends[sentence], found.waiting_ends[sentence + 1]):
            begin, place = waiting[number, 2] * _ENTRY_WORDS, waiting[number, 3]
            token_ids[written : written + place - read] = known[read:place]
            written, read = written + place - read, place
            if not begin:
                first, last = other_ends[other], other_ends[other + 1]
                written = copy_ids(others, first, last, token_ids, written)
                other += 1
            elif entries[begin + 3] >> _COUNT == _ELSEWHERE:
                first = int(entries[begin + 2]) + 1
                written = copy_ids(ids, first, first + ids[first - 1], token_ids, written)
            else:
                count = np.int64(write_few(entries, np.uint64(begin), few, zero))
                written = copy_ids(few, 0, count, token_ids, written)
        rest = found.ends[sentence + 1] - read
        token_ids[written : written + rest] = known[read : read + rest]
        written, read = written + rest, read + rest
        token_offsets[sentence + 1] = written
    return all_ids, token_offsets


MEMO_BYTES = knob("memo_bytes", 64 * 2**20, test=2**14)
"""The memory of the words whose ids are remembered, 1 KiB or more; a full memo is emptied."""
FIRST_MEMO_BYTES = knob("first_memo_bytes", 4 * 2**20, test=2**12)
"""The memory of a memo of few words; one that needs more grows to four times its size."""
# In bytes. Longer units are rare, and most do not recur (addresses, or text without spaces).
LONGEST_UNIT = 128


class WordMemo:
    """The ids of units seen before. Threads may share it; they take turns.

    Args:
        encode_spans: the tokenizer.
        rule: what a unit is.
        line_rule: at which line breaks a text is cut first.
        joints: the table of the rule "joined".
        seams: where words may be cut, too; None if they are not.
    """

    def __init__(
        self,
        encode_spans: EncodeSpans,
        rule: UnitRule = "words",
        line_rule: LineRule = "whole",
        joints: np.ndarray | None = None,
        seams: Seams | None = None,
    ) -> None:
        self._encode_spans, self._rule, self._line_rule = encode_spans, rule, line_rule
        self._seams, self._turn = seams, threading.Lock()
        self._table = NO_TABLE if joints is None else joints
        self.has_ideographs = rule == "ideographs"
        if self.has_ideographs:
            self._table = np.full(0x10000, NO_SINGLE, np.int32)
        self._memory_bytes = MEMO_BYTES
        self._memo = allocate_memo(min(FIRST_MEMO_BYTES, self._memory_bytes))

    def encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize sentences, as `SentenceTokenizer.encode` does."""
        with self._turn:
            try:
                return self._encode(text, offsets, dtype)
            except BaseException:
                self._forget()  # units without ids must not stay
                raise

    def _encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        text = np.append(text[offsets[0] : offsets[-1]], np.zeros(PADDING, np.uint8))
        offsets = offsets - offsets[0]
        cuts = find_cuts(self._rule, text, offsets, self._table)
        mark_lines(self._line_rule, text, offsets, cuts)
        if self._seams is not None:
            mark_signs(text, offsets, cuts, self._seams.splits_spaces)
            mark_seams(self._seams, text, cuts)
        singles = self._table if self.has_ideographs else NO_TABLE
        like = np.empty(0, dtype)
        found = look_up(self._memo, LONGEST_UNIT, text, cuts, offsets, singles, like)
        if not len(found.waiting):
            return found.ids.copy(), found.ends
        spans, entries = found.waiting[:, :2], found.waiting[:, 2]
        new = self._encode_spans(text, spans[found.new])
        if self.has_ideographs:
            note_singles(singles, text, spans[found.new], *new)
        # A memo without room for the ids is replaced by a larger one for this batch alone.
        counts, memo = np.diff(new[1]), self._memo
        needed = memo.used[_IDS] + (counts[counts >= FEW_IDS] + 1).sum()  # if the last are large
        if needed > len(memo.ids):
            memo = memo._replace(ids=np.resize(memo.ids, needed))
        put_ids(memo, entries[found.new], *new)
        others = spans[entries == 0]
        ids, ends = fill_in(memo, found, *self._encode_spans(text, others))
        no_room = memo is not self._memo
        is_full = no_room or bool((np.diff(others) <= LONGEST_UNIT).any())
        if is_full or _ENTRY_WORDS * memo.used[_ENTRIES] > len(memo.entries) * 3 // 4:
            if larger := grow_memo(memo, self._memory_bytes):
                self._memo = larger
            elif is_full:
                self._forget()
        return ids, ends

    def _forget(self) -> None:
        self._memo.slots.fill(0)
        self._memo.used[:] = 1, 0, 0
