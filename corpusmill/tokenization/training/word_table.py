"""Distinct words and their counts in a hash table of bytes, without a Python object for any word.

Open addressing with linear probing (Knuth, volume 3, 6.4). A slot is half a line of the processor's
cache and holds the first bytes of its word and the count, so that a short word costs one access to
memory. Words are compared by their bytes, not by hashes alone.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.intrinsics import load_word
from corpusmill.arrays.kernel_cache import njit
from corpusmill.knobs import knob
from corpusmill.tokenization.compiled.units import HALF, MULTIPLIER, ONE

# The columns of a slot: the first 8 bytes, filled up with zeros; the length and the hash (0 for a
# free slot, because no word is empty); where the word begins in the text; its count.
FIRST, IDENTITY, BEGIN, COUNT = 0, 1, 2, 3
_WORD_BYTES = 8

WORDS_AT_ONCE = knob("words_at_once", 2**14, test=64)
"""The words that are added in one step, while the processor's cache holds them; 3 or more, as a
character may end a word and be two more."""
FIRST_SLOTS = knob("first_slots", 2**14, test=4)
"""The slots of a new table, a power of two from 4 on; three quarters are filled."""
FIRST_TEXT_BYTES = knob("first_text_bytes", 2**17, test=64)
"""The text of the words in a new table; one that needs more grows."""
MANY_SLOTS = knob("many_slots", 2**21, test=512)
"""A table of fewer slots grows to four times its size, and one of more to twice its size."""
_LOW_HALF = np.uint64(0xFFFFFFFF)


class WordArrays(NamedTuple):
    """The table.

    Attributes:
        slots: uint64[a power of two, 4].
        text: uint8[...], the words one after the other.
        used: int64[2], the number of words and of bytes of text.
    """

    slots: np.ndarray
    text: np.ndarray
    used: np.ndarray


@njit(inline="always")  # calls take longer than the work
def load_bytes(text: np.ndarray, place: int, size: int) -> np.uint64:
    """Return up to 8 bytes, the first one lowest, filled up with zeros."""
    if place + _WORD_BYTES > len(text):
        word = np.uint64(0)
        for i in range(min(size, _WORD_BYTES)):
            word |= np.uint64(text[place + i]) << np.uint64(8 * i)
        return word
    whole: np.uint64 = load_word(text, np.int64(place))
    return whole if size >= _WORD_BYTES else whole & ((ONE << np.uint64(8 * size)) - ONE)


@njit(inline="always")  # calls take longer than the work
def hash_bytes(first: np.uint64, text: np.ndarray, place: int, size: int) -> np.uint64:
    """Return a hash of 32 bits of a word whose first 8 bytes are loaded."""
    value = (first ^ np.uint64(size)) * MULTIPLIER
    value ^= value >> HALF
    for i in range(_WORD_BYTES, size, _WORD_BYTES):
        value = (value ^ load_bytes(text, place + i, size - i)) * MULTIPLIER
        value ^= value >> HALF
    return (value * MULTIPLIER) >> HALF


@njit(inline="always")  # calls take longer than the work
def put_span(spans: np.ndarray, number: int, text: np.ndarray, place: int, size: int) -> None:
    """Write a word as the row `number` of spans, which `add_spans` adds."""
    first = load_bytes(text, place, size)
    spans[number, FIRST] = first
    spans[number, IDENTITY] = np.uint64(size) << HALF | hash_bytes(first, text, place, size)
    spans[number, BEGIN] = place


# Words whose slots are read at once.
_BLOCK = 32


@njit
def read_slots(slots: np.ndarray, spans: np.ndarray, begin: int, ahead: np.ndarray) -> None:
    """Read the slots of a block of words: the processor waits for many of them at a time."""
    last = np.uint64(len(slots) - 1)
    for number in range(min(len(ahead), len(spans) - begin)):
        slot = spans[begin + number, IDENTITY] & _LOW_HALF & last
        ahead[number] = slots[slot, IDENTITY]


@njit
def add_spans(
    words: WordArrays, text: np.ndarray, spans: np.ndarray, counts: np.ndarray, begin: int
) -> int:
    """Add words from number `begin` on, and return how many are done when there is no more room.

    Args:
        words: the table.
        text: uint8[bytes], another array than the table's.
        spans: uint64[n, 3], for each word the columns FIRST, IDENTITY and BEGIN, as of a slot.
        counts: int64[at least n], how often each occurs.
        begin: the number of the first.
    """
    slots, known, used = words
    last, ahead = np.uint64(len(slots) - 1), np.empty(_BLOCK, np.uint64)
    for number in range(begin, len(spans)):
        if (number - begin) % _BLOCK == 0:
            read_slots(slots, spans, number, ahead)
        first, identity = spans[number, FIRST], spans[number, IDENTITY]
        size, place = np.int64(identity >> HALF), np.int64(spans[number, BEGIN])
        slot, is_known = identity & _LOW_HALF & last, False
        while slots[slot, IDENTITY] and not is_known:
            if slots[slot, IDENTITY] == identity and slots[slot, FIRST] == first:
                same, there = _WORD_BYTES, np.int64(slots[slot, BEGIN])
                while same < size and known[there + same] == text[place + same]:
                    same += 1
                is_known = bool(same >= size)
            if not is_known:
                slot = (slot + np.uint64(1)) & last
        if is_known:
            slots[slot, COUNT] += np.uint64(counts[number])
            continue
        written = used[1]
        if 4 * used[0] >= 3 * len(slots) or written + size > len(known):
            return number
        for i in range(size):
            known[written + i] = text[place + i]
        slots[slot, FIRST], slots[slot, IDENTITY] = first, identity
        slots[slot, BEGIN], slots[slot, COUNT] = written, counts[number]
        used[0] += 1
        used[1] += size
    return len(spans)


@njit
def list_spans(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return words as `add_spans` takes them, none of them empty.

    Args:
        text: uint8[bytes].
        offsets: integers[n + 1] into text.
    """
    spans = np.empty((len(offsets) - 1, 3), np.uint64)
    for number in range(len(spans)):
        size = offsets[number + 1] - offsets[number]
        put_span(spans, number, text, offsets[number], size)
    return spans


@njit
def hash_words(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return another hash of 32 bits of each word, uint64[words], than the one that finds its slot.

    Args:
        text: uint8[bytes].
        offsets: integers[words + 1] into text.
    """
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for number in range(len(hashes)):
        place, size = offsets[number], offsets[number + 1] - offsets[number]
        first = load_bytes(text, place, size)
        hashes[number] = (hash_bytes(first, text, place, size) * MULTIPLIER) >> HALF
    return hashes


@njit
def _move_slots(slots: np.ndarray, larger: np.ndarray) -> None:
    last = np.uint64(len(larger) - 1)
    for number in range(len(slots)):
        if slots[number, IDENTITY]:
            slot = slots[number, IDENTITY] & _LOW_HALF & last
            while larger[slot, IDENTITY]:
                slot = (slot + np.uint64(1)) & last
            larger[slot] = slots[number]


@njit
def _copy_words(
    words: WordArrays, numbers: np.ndarray, offsets: np.ndarray, copied: np.ndarray
) -> None:
    slots, text, _ = words
    for row in range(len(numbers)):
        begin, start = np.int64(slots[numbers[row], BEGIN]), offsets[row]
        for i in range(offsets[row + 1] - start):
            copied[start + i] = text[begin + i]


class WordTable:
    """Distinct words and their counts. It grows as far as it must; `clear` empties it."""

    def __init__(self) -> None:
        self.arrays = WordArrays(
            np.zeros((FIRST_SLOTS, 4), np.uint64),
            np.empty(FIRST_TEXT_BYTES, np.uint8),
            np.zeros(2, np.int64),
        )

    def __len__(self) -> int:
        return int(self.arrays.used[0])

    @property
    def text_bytes(self) -> int:
        """The size of all distinct words together."""
        return int(self.arrays.used[1])

    def grow(self, bytes_needed: int) -> None:
        """Make room for more words, and for a word of a size."""
        slots, text, used = self.arrays
        if 4 * len(self) >= 3 * len(slots):
            times = 4 if len(slots) < MANY_SLOTS else 2
            larger = np.zeros((times * len(slots), 4), np.uint64)
            _move_slots(slots, larger)
            slots = larger
        if self.text_bytes + bytes_needed > len(text):
            longer = np.empty(max(2 * len(text), self.text_bytes + bytes_needed), np.uint8)
            longer[: self.text_bytes] = text[: self.text_bytes]
            text = longer
        self.arrays = WordArrays(slots, text, used)

    def add(
        self,
        text: npt.NDArray[np.uint8],
        spans: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.int64],
    ) -> None:
        """Add `WORDS_AT_ONCE` words at most, as `add_spans` takes them."""
        begin = 0
        while (begin := add_spans(self.arrays, text, spans, counts, begin)) < len(spans):
            self.grow(int(spans[begin, IDENTITY] >> HALF))

    def add_words(
        self,
        text: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.integer],
        counts: npt.NDArray[np.int64],
    ) -> None:
        """Add counted words, distinct or not, but not empty.

        Args:
            text: uint8[bytes].
            offsets: integers[n + 1] into text.
            counts: int64[n].
        """
        for first in range(0, len(counts), WORDS_AT_ONCE):
            part = slice(first, first + WORDS_AT_ONCE)
            spans = list_spans(text, offsets[first : first + WORDS_AT_ONCE + 1])
            self.add(text, spans, counts[part])

    def numbers(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the slots with words, int64[words], in no useful order."""
        numbers: npt.NDArray[np.int64] = np.flatnonzero(self.arrays.slots[:, IDENTITY])
        return numbers

    def hashes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return the hash of each word's bytes, uint64[words] below 2**32."""
        hashes: npt.NDArray[np.uint64] = self.arrays.slots[numbers, IDENTITY] & _LOW_HALF
        return hashes

    def other_hashes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return the hash of each word's bytes that `hash_words` makes, uint64[words].

        The words of a slot, or of a partition, have hashes in common, but not these.
        """
        return self.hashes(numbers) * MULTIPLIER >> HALF

    def sizes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the bytes of each word, int64[words]."""
        sizes: npt.NDArray[np.int64] = self.arrays.slots[numbers, IDENTITY] >> HALF
        return sizes.astype(np.int64)

    def counts(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the count of each word, int64[words]."""
        counts: npt.NDArray[np.int64] = self.arrays.slots[numbers, COUNT].astype(np.int64)
        return counts

    def words(self, numbers: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
        """Return words in the order of their numbers."""
        offsets = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(self.sizes(numbers), out=offsets[1:])
        copied = np.empty(offsets[-1], np.uint8)
        _copy_words(self.arrays, numbers, offsets, copied)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(copied)]
        return pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)

    def clear(self) -> None:
        """Forget all words, and keep the memory."""
        self.arrays.slots.fill(0)
        self.arrays.used.fill(0)
