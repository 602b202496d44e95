"""Text broken into pieces in compiled loops, as byte-level BPE does before merging.

The pieces are those of the regular expressions of
`corpusmill.tokenization.compiled.byte_level_patterns`.
"""

import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.characters import read_character

# Classes of characters.
OTHER, LETTER, NUMBER, SPACE, UNKNOWN = 0, 1, 2, 3, 4

_LONG_S = 0x17F  # equals "s" if case does not matter
_APOSTROPHE, _BLANK = 0x27, 0x20
# The characters with Unicode's property White_Space, which \s matches.
_WHITE_SPACE = (
    *range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
    0x205F, 0x3000,
)  # fmt: skip
# After the last letters that are assigned.
_LAST_CODE = 0x34000


class PieceRules(NamedTuple):
    """What differs between patterns.

    Attributes:
        classes: uint8[code points].
        any_case: whether 'S is treated like 's, and a single character that is not a letter or
            number joins the letters after it, and line ends join the signs before them (GPT-4 and
            later).
        most_digits: most numbers in a piece.
    """

    classes: np.ndarray
    any_case: bool
    most_digits: int


@cache
def character_classes() -> npt.NDArray[np.uint8]:
    """The class of every code point, uint8[0x110000]; UNKNOWN if Unicode has not assigned it yet.

    The tokenizer may know a later Unicode.
    """
    classes = np.full(0x110000, UNKNOWN, np.uint8)
    by_category = {"L": LETTER, "N": NUMBER}
    categories = [unicodedata.category(chr(code)) for code in range(_LAST_CODE)]
    classes[:_LAST_CODE] = [
        UNKNOWN if category == "Cn" else by_category.get(category[0], OTHER)
        for category in categories
    ]
    classes[list(_WHITE_SPACE)] = SPACE
    return classes


@njit(inline="always")
def end_of_run(
    classes: np.ndarray, text: np.ndarray, place: int, stop: int, wanted: int, most: int
) -> int:
    """Return where a run of characters of one class ends; -1 if a class is unknown.

    Args:
        classes: uint8[code points].
        text: uint8[bytes].
        place: where the run begins; it may be empty.
        stop: where the text ends.
        wanted: the class.
        most: characters of the longest run.
    """
    while place < stop and most > 0:
        code, size = read_character(text, place)
        if classes[code] == UNKNOWN:
            return -1
        if classes[code] != wanted:
            break
        place, most = place + size, most - 1
    return place


@njit(inline="always")
def contraction_bytes(text: np.ndarray, place: int, stop: int, any_case: bool) -> int:
    """Return the size of 's, 't, 'm, 'd, 're, 've or 'll at a place, 0 for others, -1 if unsure."""
    if text[place] != _APOSTROPHE or place + 1 >= stop:
        return 0
    if any_case and read_character(text, place + 1)[0] == _LONG_S:
        return -1
    case = 0x20 if any_case else 0
    first = text[place + 1] | case if text[place + 1] >= 0x40 else 0
    if first in (0x73, 0x74, 0x6D, 0x64):
        return 2
    second = text[place + 2] | case if place + 2 < stop and text[place + 2] >= 0x40 else 0
    is_long = (first == 0x6C and second == 0x6C) or (first in (0x72, 0x76) and second == 0x65)
    return 3 if is_long else 0


@njit
def end_of_blank(rules: PieceRules, text: np.ndarray, place: int, stop: int) -> int:
    """Return where a piece of white space ends that is not joined to other text; -1 if unknown."""
    end: int = end_of_run(rules.classes, text, place, stop, SPACE, stop)
    if end < 0:
        return end
    line_end = last = place
    following = place
    while following < end:
        last = following
        code, size = read_character(text, following)
        following += size
        if code in (0x0A, 0x0D):
            line_end = following
    if rules.any_case and line_end > place:
        return line_end
    # The last character before other text is left to that text, unless it is the only one.
    return end if end == stop or last == place else last


@njit(inline="always")
def end_of_piece(rules: PieceRules, text: np.ndarray, place: int, stop: int) -> int:
    """Return where the piece that begins at a place ends; -1 if it depends on unknown characters.

    Args:
        rules: the pattern's rules.
        text: uint8[bytes], valid UTF-8.
        place: first byte.
        stop: where the text ends.
    """
    size = contraction_bytes(text, place, stop, rules.any_case)
    if size:
        return place + size if size > 0 else -1
    code, size = read_character(text, place)
    first = rules.classes[code]
    # A blank, or in later patterns any one sign, may precede letters; only a blank precedes signs.
    begin, kind, following = place, first, first
    if (code == _BLANK or (rules.any_case and first in (OTHER, SPACE))) and place + size < stop:
        following = rules.classes[read_character(text, place + size)[0]]
        leads = following == LETTER and code not in (0x0A, 0x0D)
        leads |= code == _BLANK and (
            following == OTHER or (following == NUMBER and not rules.any_case)
        )
        if leads:
            begin, kind = place + size, following
    if UNKNOWN in (kind, following):
        return -1
    if kind == SPACE:
        blank_end: int = end_of_blank(rules, text, place, stop)
        return blank_end
    most = rules.most_digits if kind == NUMBER else stop
    end: int = end_of_run(rules.classes, text, begin, stop, kind, most)
    if rules.any_case and kind == OTHER and end > 0:
        while end < stop and text[end] in (0x0A, 0x0D):
            end += 1
    return end
