"""Text made ready to be cut at ASCII spaces into units, whose ids `word_memo` remembers.

What a unit is depends on the tokenizer (`corpusmill.tokenization.compiled.exactness` tells):

- "words": what lies between two spaces.
- "ideographs": likewise, with a CJK ideograph a unit of its own, as BERT's normalizer has it.
- "bare ideographs": likewise, but not in a sentence in which a mark may follow an ideograph, which
  belongs to its word.
- "spaced": a word with the space before it, as byte-level tokenizers have it. Where the space
  follows other white space, the words on both sides are one unit.
"""

from typing import Literal

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.byte_level_kernels import read_character

UnitRule = Literal["words", "ideographs", "bare ideographs", "spaced"]
LineRule = Literal["at-breaks", "around-breaks", "behind-breaks", "whole"]

# Bytes that may be read behind the last one, for units are read in words of this size.
WORD_BYTES = 8
# Stands for a space within a unit; no byte of UTF-8.
INNER_SPACE = 0xFF
_SPACE, _TAB, _NEWLINE, _SLASH = 0x20, 0x09, 0x0A, 0x2F
_LESS_THAN, _BRACKET = 0x3C, 0x5B  # added tokens begin with them: <|endoftext|>, [PAD]
_FIRST_LEAD = 0xE3  # the lowest first byte of an ideograph
# First and last of what stands behind ideographs and extends nothing: ideographs and kana, wide
# forms, all signs but the marks among them.
_NEVER_EXTENDING = (
    (0x309B, 0xA66E), (0x2E00, 0x3029), (0xFF00, 0xFF9D), (0x00, 0xAC), (0x3030, 0x3098),
    (0x2010, 0x2027), (0xAE, 0x2FF), (0x2030, 0x205F), (0x2100, 0x2CEE), (0xE000, 0xFB1D),
    (0x20000, 0x3FFFF),
)  # fmt: skip


@njit
def hide_inner_spaces(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    r"""Hide each space behind other white space, so that text may be cut at every space left.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        uint8[bytes + WORD_BYTES]: the text with INNER_SPACE for such spaces.

    Example:
        with _ for INNER_SPACE, "a  b c" gives "a _b c" and "a\t b" gives "a\t_b".
    """
    hidden = np.zeros(len(text) + WORD_BYTES, np.uint8)
    hidden[: len(text)] = text
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        suspects = 0  # few sentences have any, and to count them takes next to no time
        for place in range(start + 1, stop):
            before = text[place - 1]
            suspects += (text[place] == _SPACE) & ((before <= _SPACE) | (before >= 0x80))
        if not suspects:
            continue
        for place in range(start + 1, stop):
            if text[place] == _SPACE and is_blank_before(text, start, place):
                hidden[place] = INNER_SPACE
    return hidden


@njit
def is_blank_before(text: np.ndarray, start: int, place: int) -> bool:
    """Whether the character before a place is white space, as `str.isspace` has it."""
    last: int = text[place - 1]
    if last < 0x80:
        return last == _SPACE or 0x09 <= last <= 0x0D or 0x1C <= last <= 0x1F
    if place - start < 2:
        return False
    if text[place - 2] == 0xC2:  # U+0085, U+00A0
        return last in (0x85, 0xA0)
    if place - start < 3:
        return False
    first: int = text[place - 3]
    second: int = text[place - 2]
    if first == 0xE2 and second == 0x80:  # U+2000 to U+200A, U+2028, U+2029, U+202F
        return last <= 0x8A or last in (0xA8, 0xA9, 0xAF)
    return (
        (first == 0xE1 and second == 0x9A and last == 0x80)  # U+1680
        or (first == 0xE2 and second == 0x81 and last == 0x9F)  # U+205F
        or (first == 0xE3 and second == 0x80 and last == 0x80)  # U+3000
    )


@njit
def is_blank_at(text: np.ndarray, start: int, place: int) -> bool:
    """Whether the character at a place is white space, as `str.isspace` has it."""
    lead: int = text[place]
    size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    is_blank: bool = is_blank_before(text, start, place + size)
    return is_blank


def cut_at_lines(
    rule: LineRule, text: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Cut texts into texts whose ids, one after the other, are those of the whole.

    Args:
        rule: where that is so.
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        int64[texts + 1] into text; int64[sentences + 1] into the former.

    Example:
        "a\n\nb" is cut "around-breaks" into "a", "\n", "\n" and "b", and "behind-breaks" into
        "a\n\n" and "b".
    """
    newlines = 0 if rule == "whole" else int((text[offsets[0] : offsets[-1]] == _NEWLINE).sum())
    if not newlines:
        return offsets, np.arange(len(offsets))
    cut = _cut_around if rule == "around-breaks" else _cut_behind
    cuts, firsts = cut(text, offsets, newlines, rule == "at-breaks")
    return cuts, firsts


@njit
def _cut_around(
    text: np.ndarray, offsets: np.ndarray, newlines: int, _anywhere: bool
) -> tuple[np.ndarray, np.ndarray]:
    cuts, firsts = np.empty(len(offsets) + 2 * newlines, np.int64), np.zeros_like(offsets)
    count = 0
    cuts[0] = offsets[0]
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        for at in range(start, stop):
            if text[at] != _NEWLINE:
                continue
            before = at > start and not is_blank_before(text, start, at)
            behind = at + 1 < stop and not is_blank_at(text, start, at + 1)
            # White space before a token that is taken out of the text is one piece to its end.
            if behind and not before and text[at + 1] in (_LESS_THAN, _BRACKET):
                continue
            if at > start and (before or behind):
                count += 1
                cuts[count] = at
            if behind:
                count += 1
                cuts[count] = at + 1
        count += 1
        cuts[count], firsts[sentence + 1] = stop, count
    return cuts[: count + 1], firsts


@njit
def _cut_behind(
    text: np.ndarray, offsets: np.ndarray, newlines: int, anywhere: bool
) -> tuple[np.ndarray, np.ndarray]:
    cuts, firsts = np.empty(len(offsets) + newlines, np.int64), np.zeros_like(offsets)
    count = 0
    cuts[0] = offsets[0]
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        for at in range(start, stop - 1):
            if text[at] != _NEWLINE:
                continue
            place = at + 1
            while not anywhere and place < stop and (text[place] in (_SPACE, _TAB)):
                place += 1
            # GPT-4o takes slashes behind line breaks along with the signs before them.
            goes_on = place == stop or text[at + 1] == _SLASH or is_blank_at(text, start, place)
            if anywhere or not goes_on:
                count += 1
                cuts[count] = at + 1
        count += 1
        cuts[count], firsts[sentence + 1] = stop, count
    return cuts[: count + 1], firsts


@njit
def ideograph_bytes(text: np.ndarray, place: int) -> int:
    """Bytes of the character at a place if BERT takes it for a CJK ideograph, else 0.

    The ranges are those of `_is_chinese_char` in the reference implementation (Devlin et al. 2019).
    """
    lead = text[place]
    if lead < _FIRST_LEAD or 0xEA <= lead <= 0xEE:
        return 0
    code = (lead & 0x0F) << 12 | (text[place + 1] & 0x3F) << 6 | (text[place + 2] & 0x3F)
    if lead < 0xF0:
        listed = 0x3400 <= code <= 0x4DBF or 0x4E00 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF
        return 3 if listed else 0
    code = (lead & 0x07) << 18 | code << 6 | (text[place + 3] & 0x3F)
    listed = (
        0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B81F
        or 0x2B920 <= code <= 0x2CEAF  # the tokenizers library leaves out 256 of BERT's
        or 0x2F800 <= code <= 0x2FA1F
    )
    return 4 if listed else 0


@njit
def may_extend(text: np.ndarray, place: int) -> bool:
    """Whether the character at a place may belong to the one before it, as an accent does.

    True for all of Unicode's Word_Break classes Extend, Format and ZWJ, and for others that are not
    usual behind an ideograph.
    """
    code, _ = read_character(text, place)
    for first, last in _NEVER_EXTENDING:  # noqa: SIM110  numba knows no all()
        if first <= code <= last:
            return False
    return True


@njit
def part_ideographs(
    text: np.ndarray, offsets: np.ndarray, only_bare: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Put a space before and behind each CJK ideograph.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.
        only_bare: whether a sentence stays as it is in which an ideograph has a character behind it
            that `may_extend`.

    Returns:
        uint8[bytes + two for each ideograph + WORD_BYTES], and the int64[sentences + 1] offsets.
    """
    counts = np.zeros(len(offsets) - 1, np.int64)
    for sentence in range(len(counts)):
        start, stop = offsets[sentence], offsets[sentence + 1]
        suspects = 0  # few sentences of most scripts have any
        for place in range(start, stop):
            suspects += text[place] >= _FIRST_LEAD
        extended = False
        if suspects:
            for place in range(start, stop):
                size = ideograph_bytes(text, place)
                counts[sentence] += size > 0
                if only_bare and size and place + size < stop:
                    extended |= may_extend(text, place + size)
        if extended:
            counts[sentence] = 0
    parted = np.zeros(len(text) + 2 * counts.sum() + WORD_BYTES, np.uint8)
    parted_offsets = offsets.copy()
    parted_offsets[1:] += 2 * np.cumsum(counts)
    for sentence in range(len(counts)):
        part = parted[parted_offsets[sentence] : parted_offsets[sentence + 1]]
        whole = text[offsets[sentence] : offsets[sentence + 1]]
        if counts[sentence]:
            part_sentence(whole, part)
        else:
            part[:] = whole
    return parted, parted_offsets


@njit
def part_sentence(text: np.ndarray, parted: np.ndarray) -> None:
    """Put a space before and behind each ideograph of a sentence.

    Args:
        text: uint8[bytes].
        parted: uint8[bytes + two for each ideograph], written.
    """
    written = behind = 0  # `behind` is where the last ideograph ends
    for place in range(len(text)):
        size = ideograph_bytes(text, place)
        if size:
            parted[written] = _SPACE
            written, behind = written + 1, place + size
        parted[written] = text[place]
        written += 1
        if place + 1 == behind:
            parted[written] = _SPACE
            written += 1


def prepare_units(
    rule: UnitRule, text: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Text in which every ASCII space may be cut at.

    Args:
        rule: what a unit is.
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        keys: uint8[n + WORD_BYTES], to be cut.
        source: uint8[n at least], what stands at the same places for the tokenizer.
        offsets: int64[sentences + 1] into both.
    """
    text, offsets = text[offsets[0] : offsets[-1]], offsets - offsets[0]
    if rule == "spaced":
        return hide_inner_spaces(text, offsets), text, offsets
    if rule in {"ideographs", "bare ideographs"}:
        parted, offsets = part_ideographs(text, offsets, rule == "bare ideographs")
        return parted, parted, offsets
    padded = np.append(text, np.zeros(WORD_BYTES, np.uint8))
    return padded, padded, offsets
