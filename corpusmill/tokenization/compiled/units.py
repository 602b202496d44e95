"""Text cut at ASCII spaces into units, whose ids `word_memo` remembers, in compiled loops.

What a unit is depends on the tokenizer (`corpusmill.tokenization.compiled.exactness` chooses):

- "words": the text between two spaces.
- "ideographs": likewise, but each CJK ideograph is a unit, as BERT's normalizer separates it; the
  memo finds it by its code point. Before a mark, which belongs to the same word, an ideograph is
  no unit of its own but a part of the text around it.
- "spaced": a word with the space before it, as in byte-level tokenizers. If the space follows other
  white space, the words on both sides are one unit.
- "joined": likewise, as in unigram tokenizers; but which characters must stand beside a space is in
  a table, and line breaks may count as spaces.

Characters of UTF-8 are read as code points. Units are read in words of 8 bytes, and hashed. The
last word of a unit is filled up with spaces and holds at least one, so that no unit's words begin
another's: "ab" is one word, "abcdefgh" is two.
"""

from collections.abc import Callable, Iterable, Iterator
from threading import local
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.white_space import space_before
from corpusmill.limits import LIMITS, RefusalLimits
from corpusmill.tokenization.tokenizer_file import Part

FIRST_LEAD = 0xE3  # the lowest first byte of an ideograph
# First and last code points of what is common after ideographs and extends nothing: ideographs and
# kana, wide and small forms, Greek and Cyrillic letters, all signs except the marks among them.
_NEVER_EXTENDING = (
    (0x309B, 0xA66E), (0x2E00, 0x3029), (0xFF00, 0xFF9D), (0x00, 0xAC), (0x3030, 0x3098),
    (0x2010, 0x2027), (0xAE, 0x2FF), (0x2030, 0x205F), (0x2100, 0x2CEE), (0xE000, 0xFB1D),
    (0x20000, 0x3FFFF), (0xFE30, 0xFE6F), (0x370, 0x482),
)  # fmt: skip


@njit(inline="always")
def read_character(text: np.ndarray, place: int) -> tuple[int, int]:
    """Return the code point and the size in bytes of the UTF-8 character at a place."""
    lead: int = text[place]
    if lead < 0x80:
        return lead, 1
    second: int = text[place + 1] & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | second, 2
    third: int = text[place + 2] & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | second << 6 | third, 3
    fourth: int = text[place + 3] & 0x3F
    return (lead & 0x07) << 18 | second << 12 | third << 6 | fourth, 4


@njit
def has_byte(is_sought: np.ndarray, text: np.ndarray, start: int, stop: int) -> bool:
    """Whether a stretch of text contains one of the bytes in is_sought, bool[256]."""
    has = False
    for place in range(start, stop):
        has |= is_sought[text[place]]
    return has


@njit(inline="always")  # calls in loops count references to the text
def ideograph_bytes(text: np.ndarray, place: int) -> int:
    """Return the size of the character at a place if it is a CJK ideograph to BERT, else 0."""
    lead = text[place]
    if lead < FIRST_LEAD or 0xEA <= lead <= 0xEE:
        return 0
    code, size = read_character(text, place)
    return size if is_ideograph(code) else 0


@njit(inline="always")
def is_ideograph(code: int) -> bool:
    """Whether a code point is a CJK ideograph to BERT.

    The ranges are those of `_is_chinese_char` in the reference implementation (Devlin et al. 2019).
    """
    if code < 0x10000:
        return 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0xF900 <= code <= 0xFAFF
    return (
        0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B81F
        or 0x2B920 <= code <= 0x2CEAF  # the tokenizers library leaves out 256 of BERT's
        or 0x2F800 <= code <= 0x2FA1F
    )


@njit
def may_extend(code: int) -> bool:
    """Whether a character may belong to the one before it, like an accent.

    True for all of Unicode's Word_Break classes Extend, Format and ZWJ, and for others that are
    rare after an ideograph.
    """
    for first, last in _NEVER_EXTENDING:  # noqa: SIM110  numba has no all()
        if first <= code <= last:
            return False
    return True


# Texts to int32 ids, those of one text after those of another, and their int64[texts + 1] offsets.
EncodeTexts = Callable[[list[str]], tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]
# A text, uint8[bytes] of valid UTF-8, and the first byte and end of stretches in it, int64[n, 2],
# to the ids, int32[...], of one stretch after those of another, and their int64[n + 1] offsets.
# Each stretch is tokenized as a text of its own.
EncodeSpans = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
# Likewise, with a third array bool[n]: stretches left without ids, because the tokenizer does not
# know them.
EncodeKnownSpans = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Cuts(local):
    """How many stretches of text this thread has cut so far."""

    number = 0


CUTS = Cuts()


def encode_spans_by(
    encode_texts: EncodeTexts, limits: RefusalLimits = LIMITS.refusals
) -> EncodeSpans:
    """Turn a tokenizer of texts into one of stretches of a text, in bounded memory.

    Args:
        encode_texts: the tokenizer.
        limits: how long a text may be, and where a longer one is cut.
    """
    most = limits.most_characters

    def encode_spans(text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        view = text.data
        texts = [str(view[start:end], "utf-8") for start, end in spans.tolist()]
        if max(map(len, texts), default=0) <= most:
            return encode_texts(texts)
        CUTS.number += sum(len(each) > most for each in texts)
        parts = [[encode_texts([part])[0] for part in _cut_long(long, limits)] for long in texts]
        ids = [np.concatenate(each) for each in parts]
        return np.concatenate(ids), np.cumsum([0, *map(len, ids)])

    return encode_spans


def _cut_long(text: str, limits: RefusalLimits) -> Iterator[str]:
    begin = 0
    while len(text) - begin > limits.most_characters:
        end = begin + limits.most_characters
        space = text.rfind(" ", max(begin + 1, end - limits.sought_characters), end)
        end = space if space > 0 else end
        yield text[begin:end]
        begin = end
    yield text[begin:]


def completed(encode_known: EncodeKnownSpans, encode_plainly: EncodeSpans) -> EncodeSpans:
    """Turn a tokenizer of the stretches that it knows into one of all stretches.

    Args:
        encode_known: the tokenizer.
        encode_plainly: returns the same ids; tokenizes the stretches that the first one leaves.
    """

    def encode_spans(text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids, ends, left = encode_known(text, spans)
        if not left.any():
            return ids, ends
        others, other_ends = encode_plainly(text, spans[left])
        # Each stretch's ids are a row of `ids` or of `others`.
        rows = np.arange(len(spans))
        rows[left] = len(spans) + np.arange(len(other_ends) - 1)
        offsets = np.concatenate([ends, len(ids) + other_ends[1:]]).astype(np.int32)
        ids, ends = ragged.take(np.concatenate([ids, others]), offsets, rows)
        return ids, ends.astype(np.int64)

    return encode_spans


def first_bytes(tokens: Iterable[Part]) -> npt.NDArray[np.bool_]:
    """bool[256], True for the first bytes of added tokens."""
    is_first = np.zeros(256, np.bool_)
    is_first[[token["content"].encode()[0] for token in tokens]] = True
    return is_first


UnitRule = Literal["words", "ideographs", "spaced", "joined"]

# Units are read in words of this many bytes, so that as many may be read after the last byte.
WORD_BYTES = 8
# Replaces a space within a unit; not a byte of UTF-8.
INNER_SPACE = 0xFF
_SPACE = 0x20
_BLOCK = 32  # bytes that are looked at together


@njit
def hide_inner_spaces(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    r"""Hide each space after other white space, so that text may be cut at every remaining space.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        uint8[bytes + WORD_BYTES]: the text with INNER_SPACE in place of such spaces.

    Example:
        with _ for INNER_SPACE, "a  b c" gives "a _b c" and "a\t b" gives "a\t_b".
    """
    hidden = np.zeros(len(text) + WORD_BYTES, np.uint8)
    hidden[: len(text)] = text
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        for block in range(start + 1, stop, _BLOCK):
            here = text[block : min(block + _BLOCK, stop)]
            before = text[block - 1 : block - 1 + len(here)]
            suspects = 0  # few blocks have any, and counting them takes next to no time
            for i in range(len(here)):
                suspects += (here[i] == _SPACE) & ((before[i] <= _SPACE) | (before[i] >= 0x80))
            if not suspects:
                continue
            for place in range(block, block + len(here)):
                if text[place] == _SPACE and space_before(text, start, place):
                    hidden[place] = INNER_SPACE
    return hidden


# How a character stands beside a space at which a text may be cut: whether it may end a word, or
# begin one; whether it depends on the character before it, which must then be one that stays as it
# is, at least before characters of three bytes; whether it is an ASCII character that counts as a
# space.
ENDS, BEGINS, DEPENDS, STAYS, STAYS_TO_WIDE, GAP = 1, 2, 4, 8, 16, 32
WIDE = 0x800  # the first code point of three bytes


@njit
def ends_word(joints: np.ndarray, text: np.ndarray, start: int, place: int) -> bool:
    """Whether a word may end before a place, by the characters before it."""
    needed = ENDS
    while place > start:
        place -= 1
        while text[place] & 0xC0 == 0x80:
            place -= 1
        code, _ = read_character(text, place)
        joint = joints[code] if code < len(joints) else 0
        if not joint & (DEPENDS if joint & DEPENDS and needed != ENDS else needed):
            return False
        if not joint & DEPENDS:
            return True
        needed = STAYS if code < WIDE else STAYS | STAYS_TO_WIDE
    return False


@njit
def hide_joined_spaces(joints: np.ndarray, text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    r"""Hide each space at which text may not be cut, and write others that count as spaces as such.

    Args:
        joints: uint8[code points], of the bits above; other characters may not be beside a space.
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        uint8[bytes + WORD_BYTES]: the text with INNER_SPACE in place of such spaces.

    Example:
        with _ for INNER_SPACE, "a  b\nc" gives "a _b c" if a line break counts as a space.
    """
    hidden = np.zeros(len(text) + WORD_BYTES, np.uint8)
    hidden[: len(text)] = text
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        for place in range(start, stop):
            byte = text[place]
            if byte > _SPACE or not joints[byte] & GAP:
                continue
            is_cut = place == start or ends_word(joints, text, start, place)
            if is_cut and place + 1 < stop:
                code, _ = read_character(text, place + 1)
                is_cut = code < len(joints) and joints[code] & BEGINS != 0
            if is_cut:
                hidden[place] = _SPACE
            elif byte == _SPACE:
                hidden[place] = INNER_SPACE
    return hidden


@njit
def find_separable(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Find the sentences whose CJK ideographs are units.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        bool[sentences]; False also for most sentences without ideographs.
    """
    separable = np.zeros(len(offsets) - 1, np.bool_)
    for sentence in range(len(separable)):
        start, stop = offsets[sentence], offsets[sentence + 1]
        suspects = 0  # in most scripts few sentences have any
        for place in range(start, stop):
            suspects += text[place] >= FIRST_LEAD
        separable[sentence] = suspects > 0
    return separable


def prepare_units(
    rule: UnitRule, text: np.ndarray, offsets: np.ndarray, joints: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Prepare text so that every ASCII space is a place to cut.

    Args:
        rule: what a unit is.
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.
        joints: the table of the rule "joined" (`hide_joined_spaces`).

    Returns:
        keys: uint8[n + WORD_BYTES], to be cut.
        source: uint8[at least n], the text at the same places for the tokenizer.
        offsets: int64[sentences + 1] into both.
        separable: bool[sentences], which of them are also to be cut around each ideograph; None if
            none is, by the rule.
    """
    text, offsets = text[offsets[0] : offsets[-1]], offsets - offsets[0]
    if joints is not None:
        return hide_joined_spaces(joints, text, offsets), text, offsets, None
    if rule == "spaced":
        return hide_inner_spaces(text, offsets), text, offsets, None
    padded = np.append(text, np.zeros(WORD_BYTES, np.uint8))
    if rule == "words":
        return padded, padded, offsets, None
    return padded, padded, offsets, find_separable(padded, offsets)


MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio
HALF, ONE = np.uint64(32), np.uint64(1)


@njit(inline="always")  # calls in loops count references to the table
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
