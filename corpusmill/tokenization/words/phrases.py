"""Chinese phrases of many texts at once: which words of Unicode's rule belong to the one before.

The words of `cut_unicode` and the phrases of jieba are found in arrays of code points, and only
what can be joined to other characters is shown to the regular expression.
"""

from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.characters import read_character
from corpusmill.tokenization.words.jieba_cutter import FindPhrases, to_text

# What a character is: of the script Han; a word by itself, unless a mark follows; such a mark;
# white space.
_HAN, _ALONE, _MARK, _BLANK = 1, 2, 4, 8
# Beside these no other character is joined to anything but the marks that follow it.
_APART = _ALONE | _BLANK
_PATTERNS = {
    _HAN: r"\p{Script=Han}+",
    _ALONE: r"[\p{WB=Other}--\p{Extended_Pictographic}--\s]+",
    _MARK: r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]+",
    _BLANK: r"\s+",
}
_BREAK = 0x0A  # between texts: a blank that neither rule joins to anything
_FIRST_CONTROL, _LAST_CONTROL = 0x1C, 0x1F  # control characters that are white space to some
_BATCH = 2**18  # bytes that are cut together, so that they stay in the cache


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """uint8[0x110000], what each code point is."""
    kinds = np.zeros(0x110000, np.uint8)
    text = to_text(np.arange(len(kinds), dtype=np.uint32))
    for kind, pattern in _PATTERNS.items():
        for match in regex.finditer(pattern, text, regex.VERSION1):
            kinds[match.start() : match.end()] |= kind
    return kinds


class Joins(NamedTuple):
    """How the words of texts are joined to phrases.

    Attributes:
        joins: bool[words], whether a word belongs to the phrase of the word before it.
        counts: int64[texts], their words.
        has_controls: bool[texts], whether a text has control characters that are white space to
            some, of which BERT's tokenizer may make a token.
    """

    joins: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.int64]
    has_controls: npt.NDArray[np.bool_]


def find_joins(
    find_phrases: FindPhrases,
    words: "regex.Pattern[str]",
    text: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
) -> Joins:
    """Find the words that belong to the phrase of the word before them.

    Args:
        find_phrases: finds where phrases begin; it never looks across a line break.
        words: matches the words of `cut_unicode`.
        text: uint8[bytes], valid UTF-8.
        offsets: int64[texts + 1] into text.
    """
    cuts = np.searchsorted(offsets, np.arange(offsets[0], offsets[-1], _BATCH))
    bounds = np.unique([0, *cuts, len(offsets) - 1])
    parts = [
        _find_joins(find_phrases, words, text, offsets[first : last + 1])
        for first, last in pairwise(bounds.tolist())
    ]
    flags, no_counts = np.zeros(0, np.bool_), np.zeros(0, np.int64)
    nothing = Joins(flags, no_counts, flags)
    return Joins(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def _find_joins(
    find_phrases: FindPhrases,
    words: "regex.Pattern[str]",
    text: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
) -> Joins:
    codes, sizes, has_controls = _read_codes(text, offsets)
    begins, kept, has_han = _find_plain_words(codes, _kinds())
    # The regular expression gets all others, with a break in place of those in between.
    others = to_text(_replace_by_breaks(codes, begins, kept))
    starts = np.array([match.start() for match in words.finditer(others)], np.int64)
    begins[kept[starts]] = True
    phrases = find_phrases(codes) if has_han else np.zeros(len(codes), np.bool_)
    joins, counts = _join_words(codes, _kinds(), begins, phrases, sizes)
    return Joins(joins, counts, has_controls)


@njit
def _read_codes(text: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the characters of texts.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[texts + 1] into text.

    Returns:
        codes: uint32[characters], with a break after each text.
        sizes: int64[texts], the characters of each, without the break.
        has_controls: bool[texts], as `Joins` has them.
    """
    texts = len(offsets) - 1
    codes, count = np.empty(offsets[-1] - offsets[0] + texts, np.uint32), 0
    sizes, has_controls = np.empty(texts, np.int64), np.zeros(texts, np.bool_)
    for i in range(texts):
        place, first, controls = offsets[i], count, 0
        while place < offsets[i + 1]:
            code, step = read_character(text, place)
            controls += _FIRST_CONTROL <= code <= _LAST_CONTROL
            codes[count] = code
            place, count = place + step, count + 1
        has_controls[i] = controls > 0
        sizes[i] = count - first
        codes[count] = _BREAK
        count += 1
    return codes[:count].copy(), sizes, has_controls


@njit
def _find_plain_words(codes: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Find the words of `cut_unicode` that no other character can belong to.

    Args:
        codes: uint32[characters].
        kinds: uint8[0x110000], what each code point is.

    Returns:
        begins: bool[characters], whether a character is such a word.
        kept: int64[n], the characters that are neither words nor white space, and those after them.
        has_han: whether a character is of the script Han.
    """
    size, has_han = len(codes), False
    begins, kept = np.zeros(size, np.bool_), np.empty(size, np.int64)
    before, this = np.uint8(_BLANK), kinds[codes[0]]
    count, was_settled = 0, True
    for i in range(size):
        after = kinds[codes[i + 1]] if i + 1 < size else np.uint8(_BLANK)
        has_han |= this & _HAN > 0
        is_apart = before & _APART > 0 and after & _APART > 0 and this & (_MARK | _BLANK) == 0
        begins[i] = is_apart or (this & _ALONE > 0 and after & _MARK == 0)
        is_settled = begins[i] or (this & _BLANK > 0 and after & _MARK == 0)
        if not (is_settled and was_settled):
            kept[count] = i
            count += 1
        before, this, was_settled = this, after, is_settled
    return begins, kept[:count].copy(), has_han


@njit
def _replace_by_breaks(codes: np.ndarray, begins: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return uint32[n], the kept characters, with a break in place of each that is a word."""
    others = np.empty(len(kept), np.uint32)
    for i in range(len(kept)):
        others[i] = _BREAK if begins[kept[i]] else codes[kept[i]]
    return others


@njit
def _join_words(
    codes: np.ndarray,
    kinds: np.ndarray,
    begins: np.ndarray,
    phrases: np.ndarray,
    text_sizes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the words that begin within a phrase, beside a character of the script Han.

    Args:
        codes: uint32[characters], with a break after each text.
        kinds: uint8[0x110000], what each code point is.
        begins: bool[characters], where words begin.
        phrases: bool[characters], where phrases begin.
        text_sizes: int64[texts], the characters of each, without the break.

    Returns:
        The first two attributes of `Joins`.
    """
    joins = np.empty(len(codes), np.bool_)
    counts = np.zeros(len(text_sizes), np.int64)
    words, i, before = 0, 0, np.uint8(_BLANK)
    for text in range(len(text_sizes)):
        first = words
        for _ in range(text_sizes[text] + 1):
            this = kinds[codes[i]]
            if begins[i]:
                is_near = (this | before) & _HAN > 0
                joins[words] = is_near and not phrases[i] and before & _BLANK == 0
                words += 1
            before = this
            i += 1
        counts[text] = words - first
    return joins[:words].copy(), counts


@njit
def join_marks(
    ids: np.ndarray,
    ends: np.ndarray,
    joins: np.ndarray,
    counts: np.ndarray,
    has_controls: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mark the tokens of words that are joined to the one before.

    Where fewer words have tokens than there are, it is not known which: BERT's normalizer may have
    removed all characters of one, or a token may cover several.

    Args:
        ids: int32[tokens], marked by the words of `cut_unicode`; none is outside of a word.
        ends: int64[texts + 1] into ids.
        joins: bool[words], as `Joins` has them.
        counts: int64[texts], likewise.
        has_controls: bool[texts], likewise.

    Returns:
        The ids with their new marks; and bool[texts], whether it is not known which tokens of a
        text belong to which word.
    """
    marked, left, end = ids.copy(), np.zeros(len(counts), np.bool_), 0
    for text in range(len(counts)):
        word, end = end, end + counts[text]
        firsts = 0
        for token in range(ends[text], ends[text + 1]):
            firsts += 1 - (ids[token] & 1)
        left[text] = has_controls[text] or counts[text] != firsts
        if left[text]:
            continue
        for token in range(ends[text], ends[text + 1]):
            if ids[token] & 1:
                continue
            marked[token] |= joins[word]
            word += 1
    return marked, left
