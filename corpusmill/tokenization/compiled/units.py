"""Text prepared to be cut at ASCII spaces into units, whose ids `word_memo` remembers.

What a unit is depends on the tokenizer (`corpusmill.tokenization.compiled.exactness` chooses):

- "words": the text between two spaces.
- "ideographs": likewise, but each CJK ideograph is a unit, as BERT's normalizer separates it.
- "bare ideographs": likewise, except in sentences where a mark may follow an ideograph, whose word
  then includes it.
- "spaced": a word with the space before it, as in byte-level tokenizers. If the space follows other
  white space, the words on both sides are one unit.
"""

from typing import Literal

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.white_space import space_before
from corpusmill.tokenization.compiled.characters import FIRST_LEAD, ideograph_bytes, may_extend

UnitRule = Literal["words", "ideographs", "bare ideographs", "spaced"]

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


@njit
def separate_ideographs(
    text: np.ndarray, offsets: np.ndarray, only_bare: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Put a space before and after each CJK ideograph.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.
        only_bare: whether to leave a sentence unchanged if a character that `may_extend` follows an
            ideograph.

    Returns:
        uint8[bytes + two for each ideograph + WORD_BYTES], and the int64[sentences + 1] offsets.
    """
    counts = np.zeros(len(offsets) - 1, np.int64)
    for sentence in range(len(counts)):
        start, stop = offsets[sentence], offsets[sentence + 1]
        suspects = 0  # in most scripts few sentences have any
        for place in range(start, stop):
            suspects += text[place] >= FIRST_LEAD
        extended = False
        if suspects:
            for place in range(start, stop):
                size = ideograph_bytes(text, place)
                counts[sentence] += size > 0
                if only_bare and size and place + size < stop:
                    extended |= may_extend(text, place + size)
        if extended:
            counts[sentence] = 0
    separated = np.zeros(len(text) + 2 * counts.sum() + WORD_BYTES, np.uint8)
    new_offsets = offsets.copy()
    new_offsets[1:] += 2 * np.cumsum(counts)
    for sentence in range(len(counts)):
        target = separated[new_offsets[sentence] : new_offsets[sentence + 1]]
        source = text[offsets[sentence] : offsets[sentence + 1]]
        if counts[sentence]:
            separate_sentence(source, target)
        else:
            target[:] = source
    return separated, new_offsets


@njit
def separate_sentence(text: np.ndarray, separated: np.ndarray) -> None:
    """Put a space before and after each ideograph of a sentence.

    Args:
        text: uint8[bytes].
        separated: uint8[bytes + two for each ideograph], written.
    """
    written = end = 0  # `end` is where the last ideograph ends
    for place in range(len(text)):
        size = ideograph_bytes(text, place)
        if size:
            separated[written] = _SPACE
            written, end = written + 1, place + size
        separated[written] = text[place]
        written += 1
        if place + 1 == end:
            separated[written] = _SPACE
            written += 1


def prepare_units(
    rule: UnitRule, text: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prepare text so that every ASCII space is a place to cut.

    Args:
        rule: what a unit is.
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        keys: uint8[n + WORD_BYTES], to be cut.
        source: uint8[at least n], the text at the same places for the tokenizer.
        offsets: int64[sentences + 1] into both.
    """
    text, offsets = text[offsets[0] : offsets[-1]], offsets - offsets[0]
    if rule == "spaced":
        return hide_inner_spaces(text, offsets), text, offsets
    if rule in {"ideographs", "bare ideographs"}:
        separated, offsets = separate_ideographs(text, offsets, rule == "bare ideographs")
        return separated, separated, offsets
    padded = np.append(text, np.zeros(WORD_BYTES, np.uint8))
    return padded, padded, offsets
