"""Chinese phrases of many texts at once: which words of Unicode's rule belong to the one before.

The words of `cut_unicode` and the phrases of jieba are found in arrays of code points, and only
what can be joined to other characters is shown to the regular expression.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import regex

# What a character is: of the script Han; a word by itself, unless a mark follows; such a mark;
# white space.
_HAN, _ALONE, _MARK, _BLANK = 1, 2, 4, 8
_PATTERNS = {
    _HAN: r"\p{Script=Han}+",
    _ALONE: r"[\p{WB=Other}--\p{Extended_Pictographic}--\s]+",
    _MARK: r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]+",
    _BLANK: r"\s+",
}
_BREAK = 0x0A  # between texts: a blank that neither rule joins to anything
_BATCH = 2**18  # characters that are cut together


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """uint8[0x110000], what each code point is."""
    kinds = np.zeros(0x110000, np.uint8)
    text = _to_text(np.arange(len(kinds), dtype=np.uint32))
    for kind, pattern in _PATTERNS.items():
        for match in regex.finditer(pattern, text, regex.VERSION1):
            kinds[match.start() : match.end()] |= kind
    return kinds


def _to_text(codes: npt.NDArray[np.uint32]) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def find_joins(
    cut: Callable[[str], list[str]], words: "regex.Pattern[str]", texts: list[str]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Find the words that belong to the phrase of the word before them.

    Args:
        cut: cuts a text into phrases, one after the other; it never looks across a line break.
        words: matches the words of `cut_unicode`.
        texts: the texts.

    Returns:
        joins: bool[words], for each word of each text.
        counts: int64[texts], their words.
    """
    joins, counts = [np.zeros(0, np.bool_)], [np.zeros(0, np.int64)]
    bounds, size = [0], 0
    for number, text in enumerate(texts):
        size += len(text)
        if size >= _BATCH:
            bounds, size = [*bounds, number + 1], 0
    for first, last in zip(bounds, [*bounds[1:], len(texts)], strict=True):
        if first < last:
            found, number_of_words = _find_joins(cut, words, texts[first:last])
            joins.append(found)
            counts.append(number_of_words)
    return np.concatenate(joins), np.concatenate(counts)


def _find_joins(
    cut: Callable[[str], list[str]], words: "regex.Pattern[str]", texts: list[str]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    text = "\n".join(texts) + "\n"
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds()[codes]
    begins = _begin_words(codes, kinds, words)
    is_near = (kinds & _HAN) > 0
    has_han = bool(is_near.any())
    is_near[1:] |= is_near[:-1].copy()
    is_joined = np.zeros(len(codes), np.bool_)
    if has_han:
        phrases = cut(text)
        is_joined[:] = True
        ends = np.cumsum(np.fromiter(map(len, phrases), np.int64, len(phrases)))
        is_joined[ends[:-1]] = False
        is_joined &= is_near
        is_joined[0] = False
        is_joined[1:] &= (kinds[:-1] & _BLANK) == 0
    sizes = np.fromiter(map(len, texts), np.int64, len(texts)) + 1
    counts = np.add.reduceat(begins.astype(np.int64), np.cumsum(sizes) - sizes)
    return is_joined[begins], counts


def _begin_words(
    codes: npt.NDArray[np.uint32], kinds: npt.NDArray[np.uint8], words: "regex.Pattern[str]"
) -> npt.NDArray[np.bool_]:
    """bool[characters]: where words of `cut_unicode` begin."""
    begins = (kinds & _ALONE) > 0
    begins[:-1] &= (kinds[1:] & _MARK) == 0
    # All others, with a break in place of those in between.
    is_kept = ~begins
    is_kept[1:] |= ~begins[:-1]
    places = np.flatnonzero(is_kept)
    others = np.where(begins[places], np.uint32(_BREAK), codes[places])
    starts = [match.start() for match in words.finditer(_to_text(others))]
    begins[places[starts]] = True
    return begins


def join_marks(
    ids: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int64],
    joins: npt.NDArray[np.bool_],
    counts: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Mark the tokens of words that are joined to the one before.

    Args:
        ids: int32[tokens], marked by the words of `cut_unicode`; none is outside of a word.
        ends: int64[texts + 1] into ids.
        joins: bool[words], which of these words belong to the one before.
        counts: int64[texts], their words.

    Returns:
        The ids with their new marks; and bool[texts], whether a text has a word with which no token
        begins, so that it is not known which tokens belong to which word.
    """
    is_first = (ids & 1) == 0
    before = np.concatenate([[0], np.cumsum(is_first)])[ends]
    left = np.diff(before) != counts
    firsts = np.flatnonzero(is_first)[np.repeat(~left, np.diff(before))]
    marked = ids.copy()
    marked[firsts] |= joins[np.repeat(~left, counts)]
    return marked, left
