"""Chinese phrases of many texts at once: which words of Unicode's rule belong to the one before.

The words of `cut_unicode` and the phrases of jieba are found in arrays of code points, and only
what can be joined to other characters is shown to the regular expression.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from corpusmill.arrays.kernel_cache import njit

# What a character is: of the script Han; a word by itself, unless a mark follows; such a mark;
# white space; one that BERT's normalizer may remove.
_HAN, _ALONE, _MARK, _BLANK, _REMOVED = 1, 2, 4, 8, 16
# Beside these no other character is joined to anything but the marks that follow it.
_APART = _ALONE | _BLANK
_PATTERNS = {
    _HAN: r"\p{Script=Han}+",
    _ALONE: r"[\p{WB=Other}--\p{Extended_Pictographic}--\s]+",
    _MARK: r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]+",
    _BLANK: r"\s+",
    _REMOVED: r"[\p{C}\p{Mn}\ufffd]+",
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


class Joins(NamedTuple):
    """How the words of texts are joined to phrases.

    Attributes:
        joins: bool[words], whether a word belongs to the phrase of the word before it.
        may_vanish: bool[words], whether BERT's normalizer may remove all of its characters.
        counts: int64[texts], their words.
    """

    joins: npt.NDArray[np.bool_]
    may_vanish: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.int64]


def find_joins(
    cut: Callable[[str], list[str]], words: "regex.Pattern[str]", texts: list[str]
) -> Joins:
    """Find the words that belong to the phrase of the word before them.

    Args:
        cut: cuts a text into phrases, one after the other; it never looks across a line break.
        words: matches the words of `cut_unicode`.
        texts: the texts.
    """
    bounds, size = [0], 0
    for number, text in enumerate(texts):
        size += len(text)
        if size >= _BATCH:
            bounds, size = [*bounds, number + 1], 0
    parts = [
        _find_joins(cut, words, texts[first:last])
        for first, last in zip(bounds, [*bounds[1:], len(texts)], strict=True)
        if first < last
    ]
    nothing = Joins(np.zeros(0, np.bool_), np.zeros(0, np.bool_), np.zeros(0, np.int64))
    return Joins(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def _find_joins(
    cut: Callable[[str], list[str]], words: "regex.Pattern[str]", texts: list[str]
) -> Joins:
    text = "\n".join(texts) + "\n"
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    begins, kept, has_han = _find_plain_words(codes, _kinds())
    # The regular expression gets all others, with a break in place of those in between.
    others = _to_text(_replace_by_breaks(codes, begins, kept))
    starts = np.array([match.start() for match in words.finditer(others)], np.int64)
    begins[kept[starts]] = True
    phrases = cut(text) if has_han else [text]
    phrase_sizes = np.fromiter(map(len, phrases), np.int64, len(phrases))
    text_sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return Joins(*_join_words(codes, _kinds(), begins, phrase_sizes, text_sizes))


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
    phrase_sizes: np.ndarray,
    text_sizes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the words that begin within a phrase, beside a character of the script Han.

    Args:
        codes: uint32[characters], with a break after each text.
        kinds: uint8[0x110000], what each code point is.
        begins: bool[characters], where words begin.
        phrase_sizes: int64[phrases], characters of each.
        text_sizes: int64[texts], likewise, without the breaks.

    Returns:
        As `Joins` has them.
    """
    joins, may_vanish = np.empty(len(codes), np.bool_), np.empty(len(codes), np.bool_)
    counts = np.zeros(len(text_sizes), np.int64)
    phrase, words, i = 0, 0, 0
    end_of_phrase, before = phrase_sizes[0], np.uint8(_BLANK)
    for text in range(len(text_sizes)):
        first = words
        for _ in range(text_sizes[text] + 1):
            this, is_within = kinds[codes[i]], i != end_of_phrase
            if not is_within:
                phrase += 1
                end_of_phrase += phrase_sizes[phrase]
            if begins[i]:
                is_near = (this | before) & _HAN > 0
                joins[words] = is_near and is_within and before & _BLANK == 0
                may_vanish[words] = this & _REMOVED > 0
                words += 1
            elif words > first and this & (_REMOVED | _BLANK) == 0:
                may_vanish[words - 1] = False
            before = this
            i += 1
        counts[text] = words - first
    return joins[:words].copy(), may_vanish[:words].copy(), counts


@njit
def join_marks(
    ids: np.ndarray,
    ends: np.ndarray,
    joins: np.ndarray,
    may_vanish: np.ndarray,
    counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mark the tokens of words that are joined to the one before.

    Where fewer words have tokens than there are, those without may be the ones that may vanish, if
    there are as many.

    Args:
        ids: int32[tokens], marked by the words of `cut_unicode`; none is outside of a word.
        ends: int64[texts + 1] into ids.
        joins: bool[words], as `Joins` has them.
        may_vanish: bool[words], likewise.
        counts: int64[texts], likewise.

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
        vanishing = 0
        if firsts != counts[text]:
            for other in range(word, end):
                vanishing += may_vanish[other]
        left[text] = counts[text] - vanishing != firsts
        if left[text]:
            continue
        for token in range(ends[text], ends[text + 1]):
            if ids[token] & 1:
                continue
            is_joined = joins[word]
            while vanishing and may_vanish[word]:
                word += 1
                is_joined = is_joined and joins[word]
            marked[token] |= is_joined
            word += 1
    return marked, left
