"""Token ids remembered for each word, so that no word is tokenized twice.

Text is cut at ASCII spaces, and what lies between two of them, a *unit*, is looked up by its bytes.
A unit that is not known is given to the tokenizer. The memo never changes a result: a hash alone is
never trusted, and when the memo is full it is emptied. `corpusmill.word_memo_exactness` says for
which tokenizers the ids of a text are the ids of its units.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

# Longer units are rare, and most do not recur (addresses, or text without spaces).
LONGEST_UNIT = 64

# A table slot is 8 bytes, and there are two for each entry; 8 bytes each for the ends of its text
# and of its ids, 12 of text and 5 ids of 4 bytes.
_BYTES_PER_ENTRY = 64
_TEXT_PER_ENTRY, _IDS_PER_ENTRY = 12, 5
_FEWEST_ENTRIES = 16

_SPACE = 32
_ENCODED_EACH_TIME = -1
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_TAG = np.uint64(0xFFFFFFFF00000000)
_ENTRY = np.uint64(0xFFFFFFFF)
_ONE, _HALF = np.uint64(1), np.uint64(32)


class MemoArrays(NamedTuple):
    """What is remembered.

    Attributes:
        table: uint64[a power of two]; the upper half of the unit's hash and, below it, its entry +
            1; 0 is free.
        unit_ends: int64[entries + 1]; unit_bytes[unit_ends[e] : unit_ends[e + 1]] is the text of
            entry e.
        unit_bytes: uint8[...].
        id_ends: int64[entries + 1]; ids[id_ends[e] : id_ends[e + 1]] are its ids.
        ids: int32[...].
    """

    table: np.ndarray
    unit_ends: np.ndarray
    unit_bytes: np.ndarray
    id_ends: np.ndarray
    ids: np.ndarray


def allocate_memo(memory_bytes: int) -> MemoArrays:
    """An empty memo of at most `memory_bytes`; its entries are a power of two, and 16 at least."""
    fitting = max(_FEWEST_ENTRIES, memory_bytes // _BYTES_PER_ENTRY)
    entries = 1 << (fitting.bit_length() - 1)
    return MemoArrays(
        table=np.zeros(2 * entries, np.uint64),
        unit_ends=np.zeros(entries + 1, np.int64),
        unit_bytes=np.empty(_TEXT_PER_ENTRY * entries, np.uint8),
        id_ends=np.zeros(entries + 1, np.int64),
        ids=np.empty(_IDS_PER_ENTRY * entries, np.int32),
    )


@njit(cache=True, nogil=True)
def find_entry(
    table: np.ndarray,
    unit_ends: np.ndarray,
    unit_bytes: np.ndarray,
    text: np.ndarray,
    start: int,
    end: int,
    value: np.uint64,
) -> tuple[np.int64, np.int64]:
    """Look a unit up.

    Args:
        table: of the memo.
        unit_ends: of the memo.
        unit_bytes: of the memo.
        text: uint8[bytes].
        start: of the unit in the text.
        end: of the unit in the text.
        value: the unit's hash.

    Returns:
        entry: -1 where the unit is not known.
        slot: the slot of the table that holds it, or the free one where it belongs.
    """
    last = np.uint64(len(table) - 1)
    slot = (value ^ (value >> _HALF)) & last
    while table[slot]:
        if (table[slot] ^ value) & _TAG == 0:
            entry = np.int64(table[slot] & _ENTRY) - 1
            first = unit_ends[entry]
            if unit_ends[entry + 1] - first == end - start:
                same = 0
                while start + same < end and unit_bytes[first + same] == text[start + same]:
                    same += 1
                if start + same == end:
                    return entry, np.int64(slot)
        slot = (slot + _ONE) & last
    return np.int64(_ENCODED_EACH_TIME), np.int64(slot)


@njit(cache=True, nogil=True)
def look_up(
    memo: MemoArrays, known: int, longest: int, text: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Cut sentences at spaces and look each unit up.

    A new unit is given the entry that follows; its ids are for the caller to fill in.

    Args:
        memo: table, unit_ends and unit_bytes are filled for new units.
        known: entries there are.
        longest: bytes of the longest unit that is remembered.
        text: uint8[bytes].
        offsets: int64[sentences + 1] into text.

    Returns:
        entries: int32[units]; -1 for units that are too long, or for which there is no room left.
        unit_offsets: int64[sentences + 1] into the units.
        known: entries there are now.
        unremembered: int64[units of entry -1, 2], first byte and end of each.

    Example:
        an empty memo and "ab  c ab" as one sentence give entries [0, 1, 0], unit_offsets [0, 3],
        known 2.
    """
    table, unit_ends, unit_bytes = memo.table, memo.unit_ends, memo.unit_bytes
    most = (offsets[-1] - offsets[0] + len(offsets)) // 2
    entries = np.empty(most, np.int32)
    unremembered = np.empty((most, 2), np.int64)
    unit_offsets = np.zeros(len(offsets), np.int64)
    unit = others = 0
    for sentence in range(len(offsets) - 1):
        place, stop = offsets[sentence], offsets[sentence + 1]
        while place < stop:
            if text[place] == _SPACE:
                place += 1
                continue
            start, value = place, _FNV_OFFSET
            while place < stop and text[place] != _SPACE:
                value = (value ^ np.uint64(text[place])) * _FNV_PRIME
                place += 1
            entry = np.int64(_ENCODED_EACH_TIME)
            if place - start <= longest:
                entry, slot = find_entry(table, unit_ends, unit_bytes, text, start, place, value)
                first = unit_ends[known]
                end = first + place - start
                if entry < 0 and known + 1 < len(unit_ends) and end <= len(unit_bytes):
                    unit_bytes[first:end] = text[start:place]
                    entry = np.int64(known)
                    known += 1
                    unit_ends[known] = end
                    table[slot] = (value & _TAG) | np.uint64(known)
            if entry < 0:
                unremembered[others] = start, place
                others += 1
            entries[unit] = entry
            unit += 1
        unit_offsets[sentence + 1] = unit
    return entries[:unit], unit_offsets, known, unremembered[:others]


@njit(cache=True, nogil=True)
def emit_ids(
    memo: MemoArrays,
    entries: np.ndarray,
    unit_offsets: np.ndarray,
    other_ids: np.ndarray,
    other_ends: np.ndarray,
    like: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The ids of each sentence's units, one behind the other.

    Args:
        memo: what is remembered.
        entries: int32[units], -1 for a unit whose ids are the next of `other_ids`.
        unit_offsets: int64[sentences + 1] into the units.
        other_ids: int32[...].
        other_ends: int64[units of entry -1, + 1] into other_ids.
        like: an empty array of the type wanted.

    Returns:
        token_ids: the type of like[tokens].
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


class WordMemo:
    """The ids of units seen before. Threads may share it; they take turns.

    Args:
        encode_texts: the tokenizer: texts to int32 ids, one text's behind the other's, and their
            int64 offsets.
        memory_bytes: upper bound of what is kept; 1 KiB where it is less.
        longest_unit: bytes of the longest unit that is remembered.
    """

    def __init__(
        self,
        encode_texts: Callable[[list[str]], tuple[np.ndarray, np.ndarray]],
        memory_bytes: int,
        longest_unit: int = LONGEST_UNIT,
    ) -> None:
        self._encode_texts, self._longest = encode_texts, longest_unit
        self._memo, self._known = allocate_memo(memory_bytes), 0
        self._turn = threading.Lock()

    def encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `corpusmill.tokenization.SentenceTokenizer.encode`."""
        with self._turn:
            try:
                return self._encode(text, offsets, dtype)
            except BaseException:
                self._forget()  # entries without ids must not stay
                raise

    def _encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        memo, known = self._memo, self._known
        entries, unit_offsets, found, unremembered = look_up(
            memo, known, self._longest, text, offsets
        )
        new_ids, new_ends = self._encode_spans(memo.unit_bytes, memo.unit_ends[known : found + 1])
        first = memo.id_ends[known]
        memo.id_ends[known : found + 1] = first + new_ends
        no_room = first + len(new_ids) > len(memo.ids)
        if no_room:
            # For this batch alone; then the memo is emptied.
            memo = memo._replace(ids=np.concatenate([memo.ids[:first], new_ids]))
        else:
            memo.ids[first : first + len(new_ids)] = new_ids
        self._known = found
        other_ids, other_ends = self._encode_spans(text, unremembered.ravel(), step=2)
        token_ids, token_offsets = emit_ids(
            memo, entries, unit_offsets, other_ids, other_ends, np.empty(0, dtype)
        )
        if no_room or (np.diff(unremembered) <= self._longest).any():
            self._forget()
        return token_ids, token_offsets

    def _encode_spans(
        self, text: np.ndarray, bounds: np.ndarray, step: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        # bounds: starts at every step-th place, each followed by its end
        starts, ends = bounds[:-1:step].tolist(), bounds[1::step].tolist()
        if not starts:
            return np.empty(0, np.int32), np.zeros(1, np.int64)
        view = np.ascontiguousarray(text).data
        texts = [str(view[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]
        return self._encode_texts(texts)

    def _forget(self) -> None:
        self._memo.table.fill(0)
        self._known = 0
