"""Token ids remembered for each word, so that no word is tokenized twice.

Text is cut at ASCII spaces into *units*, which are looked up by their bytes. A unit that is not
known is passed to the tokenizer. The memo never changes a result: units are compared by their
bytes, not by hashes alone. It grows as words come, and a full one is emptied.
`corpusmill.tokenization.compiled.exactness` explains for which tokenizers the ids of a text are the
ids of its units.
"""

import threading
from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.limits import TokenLimits
from corpusmill.tokenization.compiled.exactness import LineRule, cut_at_lines
from corpusmill.tokenization.compiled.units import (
    FIRST_LEAD,
    HALF,
    MULTIPLIER,
    ONE,
    WORD_BYTES,
    EncodeSpans,
    Unit,
    UnitRule,
    hash_word,
    ideograph_bytes,
    may_extend,
    prepare_units,
    read_character,
    read_unit,
    read_word,
)

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


def grow_memo(memo: MemoArrays, num_words: int, memory_bytes: int) -> MemoArrays | None:
    """Return a memo with the entries of another one and room for four times as many.

    Args:
        memo: the memo.
        num_words: the number of its entries.
        memory_bytes: upper bound of the memory of the larger one.

    Returns:
        The larger memo, or None if there is no room for one that is larger.
    """
    ends = min(_GROWTH * len(memo.id_ends), _count_ends(memory_bytes))
    tails, ids = memo.tail_ends[num_words], memo.id_ends[num_words]
    if ends <= len(memo.id_ends) or ids > _IDS_PER_ENTRY * ends:
        return None
    larger = allocate_memo(ends * _BYTES_PER_ENTRY)
    larger.tail_ends[: num_words + 1] = memo.tail_ends[: num_words + 1]
    larger.tails[:tails] = memo.tails[:tails]
    larger.id_ends[: num_words + 1] = memo.id_ends[: num_words + 1]
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


_FOUR_BYTES = 0xF0
_TABLE_BYTES = 3  # of each ideograph in the table

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
def add_entry(memo: MemoArrays, num_words: int, slot: int, text: np.ndarray, unit: Unit) -> bool:
    """Add a unit, without its ids, as entry `num_words`; return False if there is no room.

    Args:
        memo: table, tail_ends and tails are written.
        num_words: the number of entries.
        slot: a free row of the table.
        text: uint8[bytes].
        unit: the unit.
    """
    tail = memo.tail_ends[min(num_words, len(memo.tail_ends) - 1)]
    tail_words = (unit.end - unit.start) // WORD_BYTES
    if num_words + 1 >= len(memo.tail_ends) or tail + tail_words > len(memo.tails):
        return False
    memo.table[slot, 0] = unit.first
    memo.table[slot, 1] = 2 * (num_words + 1) + unit.spaced
    for place in range(unit.start + WORD_BYTES, unit.end + 1, WORD_BYTES):
        memo.tails[tail], _ = read_word(text, place, unit.end)
        tail += 1
    memo.tail_ends[num_words + 1] = tail
    return True


@njit(inline="always")
def next_ideograph(text: np.ndarray, place: int, stop: int) -> int:
    """Return the place of the first ideograph without a mark after it, or `stop`."""
    while place < stop:
        size = ideograph_bytes(text, place)
        if size and not is_extended(text, place + size, stop):
            break
        place += 1
    return place


@njit(inline="always")
def is_extended(text: np.ndarray, end: int, stop: int) -> bool:
    """Whether a character may belong to the one that ends where it begins."""
    return end < stop and may_extend(read_character(text, end)[0])


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
    table, first = memo.ideographs, place  # a table in the loop would count references to it
    while place < stop and FIRST_LEAD <= text[place] < _FOUR_BYTES:
        code, size = read_character(text, place)
        entry = table[code] - 1
        if entry < 0:
            break
        entries[units] = entry
        place, units = place + size, units + 1
    if place > first and is_extended(text, place, stop):
        place, units = place - _TABLE_BYTES, units - 1
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
        separable: bool[sentences], in which each ideograph without a mark is a unit; None if it is
            in none, which is compiled separately.
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


# In bytes. Longer units are rare, and most do not recur (addresses, or text without spaces).
LONGEST_UNIT = 64


class WordMemo:
    """The ids of units seen before. Threads may share it; they take turns.

    Args:
        encode_spans: the tokenizer.
        limits: its first size, which leaves the processor's cache to others, and its largest one,
            each at least 1 KiB; a rule of ideographs takes another 256 KiB.
        rule: what a unit is.
        line_rule: at which line breaks a text is cut first.
        joints: the table of the rule "joined".
    """

    def __init__(
        self,
        encode_spans: EncodeSpans,
        limits: TokenLimits,
        rule: UnitRule = "words",
        line_rule: LineRule = "whole",
        joints: np.ndarray | None = None,
    ) -> None:
        self._encode_spans, self._rule, self._line_rule = encode_spans, rule, line_rule
        self._joints = joints
        self.has_ideographs = rule == "ideographs"
        first_bytes = min(limits.first_memo_bytes, limits.memo_bytes)
        self._memo, self._known = allocate_memo(first_bytes, self.has_ideographs), 0
        self._memory_bytes = limits.memo_bytes
        self._turn = threading.Lock()

    def encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize sentences, as `SentenceTokenizer.encode` does."""
        cuts, firsts = cut_at_lines(self._line_rule, text, offsets)
        with self._turn:
            try:
                ids, ends = self._encode(text, cuts, dtype)
                return ids, ends[firsts]
            except BaseException:
                self._forget()  # entries without ids must not stay
                raise

    def _encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        keys, text, offsets, separable = prepare_units(self._rule, text, offsets, self._joints)
        memo, known = self._memo, self._known
        own_space = 0x20 if self._rule in {"spaced", "joined"} else None
        entries, unit_offsets, new, unremembered = look_up(
            memo, known, LONGEST_UNIT, own_space, separable, keys, offsets
        )
        new_ids, new_ends = self._encode_spans(text, new)
        first, now_known = memo.id_ends[known], known + len(new)
        memo.id_ends[known : now_known + 1] = first + new_ends
        no_room = first + len(new_ids) > len(memo.ids)
        if no_room:
            # Larger for this batch alone; then the memo is emptied.
            memo = memo._replace(ids=np.concatenate([memo.ids[:first], new_ids]))
        else:
            memo.ids[first : first + len(new_ids)] = new_ids
        self._known = now_known
        other_ids, other_ends = self._encode_spans(text, unremembered)
        token_ids, token_offsets = emit_ids(
            memo, entries, unit_offsets, other_ids, other_ends, np.empty(0, dtype)
        )
        is_full = no_room or bool((np.diff(unremembered) <= LONGEST_UNIT).any())
        if is_full or 4 * now_known > 3 * len(memo.id_ends):
            self._make_room(memo, is_full)
        return token_ids, token_offsets

    def _make_room(self, memo: MemoArrays, is_full: bool) -> None:
        """Let a memo grow, or empty one that is full and may not."""
        if larger := grow_memo(memo, self._known, self._memory_bytes):
            self._memo = larger
        elif is_full:
            self._forget()

    def _forget(self) -> None:
        self._memo.table.fill(0)
        self._memo.ideographs.fill(0)
        self._known = 0
