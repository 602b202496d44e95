"""UTF-8 characters in compiled loops: code points, ideographs and marks."""

import numpy as np

from corpusmill.arrays.kernel_cache import njit

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
