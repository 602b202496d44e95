"""Texts of many lines cut at line breaks, where that leaves the ids the same.

`corpusmill.tokenization.compiled.exactness` chooses the rule for a tokenizer.
"""

from typing import Literal

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.white_space import space_at, space_before

LineRule = Literal["at-breaks", "around-breaks", "after-breaks", "whole"]

_SPACE, _TAB, _NEWLINE, _SLASH = 0x20, 0x09, 0x0A, 0x2F
_LESS_THAN, _BRACKET = 0x3C, 0x5B  # added tokens begin with them: <|endoftext|>, [PAD]


def cut_at_lines(
    rule: LineRule, text: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Cut texts into texts whose ids, one after the other, are those of the whole.

    Args:
        rule: where to cut.
        text: uint8[bytes], valid UTF-8.
        offsets: int64[sentences + 1] into text.

    Returns:
        int64[texts + 1] into text; int64[sentences + 1] into the former.

    Example:
        "a\n\nb" is cut "around-breaks" into "a", "\n", "\n" and "b", and "after-breaks" into
        "a\n\n" and "b".
    """
    if rule == "whole":
        return offsets, np.arange(len(offsets))
    newlines = offsets[0] + np.flatnonzero(text[offsets[0] : offsets[-1]] == _NEWLINE)
    if not len(newlines):
        return offsets, np.arange(len(offsets))
    cuts, firsts = _cut(text, offsets, newlines, rule == "around-breaks", rule == "at-breaks")
    return cuts, firsts


@njit
def _cut(
    text: np.ndarray, offsets: np.ndarray, newlines: np.ndarray, around: bool, anywhere: bool
) -> tuple[np.ndarray, np.ndarray]:
    cuts, firsts = np.empty(len(offsets) + 2 * len(newlines), np.int64), np.zeros_like(offsets)
    count = number = 0
    cuts[0] = offsets[0]
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        while number < len(newlines) and newlines[number] < stop:
            place = newlines[number]
            number += 1
            if around:
                before, after = _cuts_around(text, start, stop, place)
            else:
                before, after = False, _is_cut_after(text, stop, place, anywhere)
            if before:
                count += 1
                cuts[count] = place
            if after:
                count += 1
                cuts[count] = place + 1
        count += 1
        cuts[count], firsts[sentence + 1] = stop, count
    return cuts[: count + 1], firsts


@njit
def _cuts_around(text: np.ndarray, start: int, stop: int, newline: int) -> tuple[bool, bool]:
    """Whether to cut before and after a newline with text before or after it."""
    before = newline > start and not space_before(text, start, newline)
    after = newline + 1 < stop and not space_at(text, newline + 1, stop)
    # White space before a token that is taken out of the text is one piece to its end.
    if after and not before and text[newline + 1] in (_LESS_THAN, _BRACKET):
        return False, False
    return newline > start and (before or after), after


@njit
def _is_cut_after(text: np.ndarray, stop: int, newline: int, anywhere: bool) -> bool:
    """Whether to cut after a newline; unless anywhere is true, only before a line with text."""
    if anywhere or newline + 1 == stop:
        return newline + 1 < stop
    place = newline + 1
    while place < stop and (text[place] in (_SPACE, _TAB)):
        place += 1
    # GPT-4o joins slashes after line breaks to the signs before them.
    return not (place == stop or text[newline + 1] == _SLASH or space_at(text, place, stop))
