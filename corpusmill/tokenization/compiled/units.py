"""Text cut at ASCII spaces into units, whose ids `word_memo` remembers, in compiled loops.

What a unit is depends on the tokenizer (`corpusmill.tokenization.compiled.exactness` chooses):

- "words": a word with the space before it.
- "ideographs": likewise, but each CJK ideograph is a unit, as BERT's normalizer separates it.
  Before a mark, which belongs to the same word, an ideograph is no unit of its own but a part of
  the text around it.
- "spaced": as "words", for byte-level tokenizers. If the space follows other white space, the words
  on both sides are one unit.
- "joined": likewise, for unigram tokenizers; but which characters must stand beside a space is in a
  table, and line breaks may count as spaces.

Characters of UTF-8 are read as code points.
"""

from collections.abc import Callable, Iterable, Iterator
from threading import local
from typing import Literal

import numpy as np
import numpy.typing as npt

from corpusmill.arrays import ragged
from corpusmill.arrays.intrinsics import borrow, load_word, trailing_zeros
from corpusmill.arrays.kernel_cache import njit
from corpusmill.knobs import knob
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


_PAIRS_OF_BYTES = 1 << 16


@njit
def may_have_token(starts: np.ndarray, text: np.ndarray, start: int, stop: int) -> bool:
    """Whether a stretch of text may contain an added token, by the table of `token_starts`."""
    begins = False  # few texts have such a first byte, and these bytes are few lines of the cache
    for place in range(start, stop):
        begins |= starts[_PAIRS_OF_BYTES + text[place]]
    if not begins:
        return False
    may = starts[text[stop - 1]] if stop > start else False
    for place in range(start, stop - 1):
        may |= starts[text[place] | np.int64(text[place + 1]) << 8]
    return bool(may)


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


@njit(inline="always")
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


MOST_CHARACTERS = knob("most_characters", 2**21)
"""A longer text is cut before the tokenizers library gets it, which takes some 300 bytes of memory
for each character; the ids at the cuts may differ."""
SOUGHT_CHARACTERS = knob("sought_characters", 2**16)
"""The last characters of such a part, where a space is looked for to cut before it."""


def encode_spans_by(encode_texts: EncodeTexts) -> EncodeSpans:
    """Turn a tokenizer of texts into one of stretches of a text, in bounded memory."""

    def encode_spans(text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        view = text.data
        texts = [str(view[start:end], "utf-8") for start, end in spans.tolist()]
        if max(map(len, texts), default=0) <= MOST_CHARACTERS:
            return encode_texts(texts)
        CUTS.number += sum(len(each) > MOST_CHARACTERS for each in texts)
        parts = [[encode_texts([part])[0] for part in cut_long(long)] for long in texts]
        ids = [np.concatenate(each) for each in parts]
        return np.concatenate(ids), np.cumsum([0, *map(len, ids)])

    return encode_spans


def cut_long(text: str) -> Iterator[str]:
    """Yield the parts of a text that the tokenizers library gets one after the other."""
    begin = 0
    while len(text) - begin > MOST_CHARACTERS:
        end = begin + MOST_CHARACTERS
        space = text.rfind(" ", max(begin + 1, end - SOUGHT_CHARACTERS), end)
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
        if not len(spans):  # as in most batches of text that is known
            return np.empty(0, np.int32), np.zeros(1, np.int64)
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


def token_starts(tokens: Iterable[Part]) -> npt.NDArray[np.bool_]:
    """bool[65536 + 256], True for the first two bytes of added tokens, the second one higher.

    A token of a single byte has all second ones; after a text there is none, which counts as 0.
    The last 256 are True for the first bytes alone.
    """
    starts = np.zeros((256, 256), np.bool_)
    for first, *others in (token["content"].encode() for token in tokens):
        starts[others[0] if others else slice(None), first] = True
    return np.append(starts, starts.any(axis=0))


def join_texts(texts: Iterable[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of texts, one after the other, and int64[texts + 1], where each begins."""
    texts = [*texts]
    return np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)])


UnitRule = Literal["words", "ideographs", "spaced", "joined"]

# Units are read in words of this many bytes, so that text has as many of them after its last byte.
WORD_BYTES = 8
PADDING = 2 * WORD_BYTES
_SPACE = 0x20


@njit(inline="always")
def is_cut(before: int, second: int, third: int, byte: int) -> bool:
    """Whether a byte is a space after no white space, by the three bytes before it, last first.

    Written without branches, so that many bytes are looked at together. White space is that of
    `corpusmill.arrays.intrinsics`, but all control characters count as such.
    """
    wide = (third == 0xE2) & (second == 0x80)
    wide &= (before <= 0x8A) | (before == 0xA8) | (before == 0xA9) | (before == 0xAF)
    wide |= (third == 0xE2) & (second == 0x81) & (before == 0x9F)
    wide |= (third == 0xE3) & (second == 0x80) & (before == 0x80)
    wide |= (third == 0xE1) & (second == 0x9A) & (before == 0x80)
    wide |= (second == 0xC2) & ((before == 0x85) | (before == 0xA0))
    return (byte == _SPACE) & (before > _SPACE) & (not wide)


@njit
def find_spaces(text: np.ndarray) -> np.ndarray:
    r"""Find the spaces that follow no white space.

    Args:
        text: uint8[bytes], valid UTF-8.

    Returns:
        uint8[bytes], 1 for them.

    Example:
        "a  b c" and "a\t b c" give 1 for the first and the last space, and for the last one.
    """
    found = np.zeros(len(text), np.uint8)
    for place in range(1, min(len(text), 3)):
        second = text[place - 2] if place == 2 else _SPACE
        found[place] = is_cut(text[place - 1], second, _SPACE, text[place])
    if len(text) > 3:
        before, second, third = text[2:-1], text[1:-2], text[:-3]
        here, cuts = text[3:], found[3:]
        for place in range(len(here)):
            cuts[place] = is_cut(before[place], second[place], third[place], here[place])
    return found


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
def find_joints(joints: np.ndarray, text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    r"""Find the characters that count as spaces, and at which text may be cut.

    Args:
        joints: uint8[code points], of the bits above; other characters may not be beside a space.
        text: uint8[bytes + PADDING], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        uint8[bytes + PADDING], 1 for them.

    Example:
        "a  b\nc" gives 1 for the first space, and for the line break if it counts as a space.
    """
    found = np.zeros(len(text), np.uint8)
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
            found[place] = is_cut
    return found


# A cut, and one where a run begins: characters of three bytes, each of which is a unit with one id.
CUT, RUN = 1, 2
SINGLE, NO_SINGLE = 3, -(2**31)


@njit(inline="always")
def single_at(singles: np.ndarray, text: np.ndarray, place: int) -> int:
    """Return what the table of `find_ideographs` has for the character at a place."""
    lead, second, third = text[place], text[place + 1], text[place + 2]
    is_one = 0xE0 <= lead < 0xF0
    code = (lead & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
    value: int = singles[code] if is_one else NO_SINGLE
    return value


@njit(inline="always")
def end_of_ideographs(singles: np.ndarray, text: np.ndarray, place: int, stop: int) -> int:
    """Return where the run that begins at a place ends; a run without characters is none.

    It begins with an ideograph. A sign is part of it between two ideographs or at the text's end.
    """
    end = place
    while end < stop:
        value = single_at(singles, text, end)
        if value < 0 and (
            value == NO_SINGLE
            or end == place
            or (end + SINGLE < stop and single_at(singles, text, end + SINGLE) < 0)
        ):
            break
        end += SINGLE
    if place < end < stop and may_extend(read_character(text, end)[0]):
        end -= SINGLE
        if end > place and single_at(singles, text, end - SINGLE) < 0:
            end -= SINGLE
    return end


@njit
def find_ideographs(singles: np.ndarray, text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Find the spaces, and where the ideographs without a mark after them begin and end.

    Runs of those whose ids are known are left together.

    Args:
        singles: int32[0x10000]: of ideographs that have one id this id, of other characters that
            have one and extend no ideograph ~id, and NO_SINGLE of those whose ids are not known.
        text: uint8[bytes + PADDING], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        uint8[bytes + PADDING], CUT there, CUT | RUN where a run begins.
    """
    found: np.ndarray = (text == _SPACE).view(np.uint8)
    singles, text, cuts = borrow(singles), borrow(text), borrow(found)
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        suspects = 0  # in most scripts few sentences have any
        for place in range(start, stop):
            suspects += text[place] >= FIRST_LEAD
        place = start if suspects else stop
        while place < stop:
            end, kind = end_of_ideographs(singles, text, place, stop), CUT | RUN
            if end == place:
                code, size = read_character(text, place)
                end, kind = place + size, CUT
                if not is_ideograph(code) or (
                    end < stop and may_extend(read_character(text, end)[0])
                ):
                    place = end
                    continue
            cuts[place], cuts[end] = kind, CUT
            place = end
    return found


@njit
def note_singles(
    singles: np.ndarray, text: np.ndarray, spans: np.ndarray, ids: np.ndarray, ends: np.ndarray
) -> None:
    """Write the ids of new units that are a single character into the table of these.

    Args:
        singles: the table of `find_ideographs`, written.
        text: uint8[bytes + PADDING].
        spans: int64[new units, 2], where each begins and ends.
        ids: integers[...], one unit's after another's.
        ends: int64[new units + 1] into ids.
    """
    for unit in range(len(spans)):
        code, size = read_character(text, spans[unit, 0])
        has_one_id = ends[unit + 1] - ends[unit] == 1
        if size == SINGLE == spans[unit, 1] - spans[unit, 0] and has_one_id:
            if is_ideograph(code):
                singles[code] = ids[ends[unit]]
            elif not may_extend(code):
                singles[code] = ~ids[ends[unit]]


@njit(inline="always")
def write_run(
    singles: np.ndarray, text: np.ndarray, start: int, end: int, ids: np.ndarray, written: np.uint64
) -> np.uint64:
    """Write the ids of a run of single characters, and return the number of ids written."""
    for place in range(start, end, SINGLE):
        value = single_at(singles, text, place)
        ids[written] = value ^ value >> 31  # ~id is below 0
        written += ONE
    return written


NO_TABLE = np.empty(0, np.int32)


def find_cuts(
    rule: UnitRule, text: np.ndarray, offsets: np.ndarray, table: np.ndarray = NO_TABLE
) -> np.ndarray:
    """Find where units begin within sentences.

    Args:
        rule: what a unit is.
        text: uint8[bytes + PADDING], valid UTF-8.
        offsets: int64[sentences + 1] into text.
        table: that of the rule "joined" (`find_joints`) or "ideographs" (`find_ideographs`).

    Returns:
        uint8[bytes + PADDING], 1 there; at the beginnings of sentences it only has a meaning where
        a run begins (`find_ideographs`).
    """
    if rule == "words":
        cuts: np.ndarray = (text == _SPACE).view(np.uint8)
    elif rule == "spaced":
        cuts = find_spaces(text)
    else:
        find = find_joints if rule == "joined" else find_ideographs
        cuts = find(table, text, offsets)
    return cuts


MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio
HALF, ONE = np.uint64(32), np.uint64(1)


@njit(inline="always")
def shift_of(slots: int) -> np.uint64:
    """Return how far a hash is shifted for its slot, of a power of two."""
    shift = np.uint64(64)
    while slots > 1:
        slots, shift = slots >> 1, shift - ONE
    return shift


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


_ALL_BITS, _LAST_BYTE = np.uint64(2**64 - 1), np.uint64(56)


@njit(inline="always")
def read_part(text: np.ndarray, place: int, size: int) -> np.uint64:
    """Read up to 8 bytes, the first one lowest, filled up with 0xFF.

    Args:
        text: uint8[bytes]; 8 of them may be read from `place` on.
        place: first byte.
        size: their number; more than 8 are like 8, and fewer than none like none.
    """
    half = np.uint64(4 * max(0, min(WORD_BYTES, size)))  # a shift by 64 bits is undefined
    word: np.uint64 = load_word(text, place)
    return word | (_ALL_BITS << half) << half


_LOWEST_BITS = np.uint64(0x0101010101010101)


_NEWLINES, _LOW_BITS = np.uint64(0x0A0A0A0A0A0A0A0A), np.uint64(0x7F7F7F7F7F7F7F7F)


@njit(inline="always")
def find_newlines(text: np.ndarray, place: int) -> np.uint64:
    """Return a word with the highest bit of each of the 8 bytes at a place that is a line break."""
    apart = load_word(text, place) ^ _NEWLINES
    found: np.uint64 = ~(((apart & _LOW_BITS) + _LOW_BITS) | apart | _LOW_BITS)
    return found


@njit(inline="always")
def list_cuts(cuts: np.ndarray, place: int, stop: int, bounds: np.ndarray) -> int:
    """List where units begin in a stretch of text, and return their number.

    Args:
        cuts: uint8[bytes + PADDING], odd where units begin.
        place: first byte.
        stop: where the stretch ends.
        bounds: int64[at least bytes + PADDING], written from 1 on.
    """
    count = 0
    for first in range(place, stop, WORD_BYTES):
        shift = np.uint64(4 * max(0, WORD_BYTES - (stop - first)))
        word = (load_word(cuts, first) & _LOWEST_BITS) << shift << shift >> shift >> shift
        more = int((word * _LOWEST_BITS) >> _LAST_BYTE)
        # Nearly all words have at most two. What is written beyond the count is overwritten.
        bounds[count + 1] = first + (trailing_zeros(word) >> 3)
        word &= word - ONE
        bounds[count + 2] = first + (trailing_zeros(word) >> 3)
        for number in range(2, more):
            word &= word - ONE
            bounds[count + 1 + number] = first + (trailing_zeros(word) >> 3)
        count += more
    return count
