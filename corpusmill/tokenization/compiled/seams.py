"""Words cut into units at signs, and where no token reaches from one character to the next.

In scripts without spaces a word is a whole clause, which hardly recurs. By byte-level BPE a piece
of a text may be cut between two characters if no token of the vocabulary has both, or the last
bytes of one and the first of the other: no merge ever joins what is on both sides. In Chinese and
Japanese few neighbours are in a token together, and a vocabulary of another language has none.

Such a cut must leave the pieces on both sides as they are, or part one of them. By all known
patterns that is so between letters and before the first letter after a sign: a text that begins
with a letter begins with the same piece. (A mark is a letter to GPT-4o's and DeepSeek's patterns,
and a sign to others.) GPT-4o's pattern ends a word before a capital if it has small letters, so
that there nothing is cut after a letter that may have case. A sign after a letter begins a piece
anyway.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np

from corpusmill.arrays.intrinsics import borrow, load_word
from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled import byte_level_pieces as pieces
from corpusmill.tokenization.compiled.units import MULTIPLIER, ONE, PADDING, WORD_BYTES, join_texts

SIGNS = '!"(),-.:;=?['
_BLOCK = 64  # bytes that are looked at together, whether any begins a character of three
_HIGHEST_BITS = np.uint64(0x8080808080808080)


@njit
def mark_signs(text: np.ndarray, offsets: np.ndarray, cuts: np.ndarray, are_split: bool) -> None:
    """Mark each of SIGNS after a letter or digit of ASCII, and the last of several spaces.

    Words are then known whatever sign follows them, and however far their lines are indented.
    Written without branches, so that many bytes are looked at together.

    Args:
        text: uint8[bytes + PADDING], valid UTF-8.
        offsets: int64[sentences + 1] into text.
        cuts: uint8[bytes + PADDING], 1 is written there.
        are_split: whether to cut before the last of several spaces: before a letter or sign, it is
            part of their piece. Before an added token it is not, and all begin with < or [.
    """
    before, here, after, written = text[:-2], text[1:-1], text[2:], cuts[1:-1]
    for place in range(len(here)):
        last, byte, following = before[place], here[place], after[place]
        follows = (last >= 0x30) & (last <= 0x39)
        follows |= (last | 0x20 >= 0x61) & (last | 0x20 <= 0x7A)
        is_sign = (byte == 0x21) | (byte == 0x22) | (byte == 0x28) | (byte == 0x29)
        is_sign |= ((byte >= 0x2C) & (byte <= 0x2E)) | (byte == 0x3A) | (byte == 0x3B)
        is_sign |= (byte == 0x3D) | (byte == 0x3F) | (byte == 0x5B)
        begins = (following > 0x20) & (following < 0x7F) & (following != 0x3C) & (following != 0x5B)
        begins &= (following < 0x30) | (following > 0x39)
        is_last = (last == 0x20) & (byte == 0x20) & begins & are_split
        written[place] |= (follows & is_sign) | is_last
    for end in offsets[1:]:  # what follows is another sentence
        if end > 1 and text[end - 1] == text[end - 2] == 0x20:
            cuts[end - 1] = 0


# Thai and Lao, Burmese, Khmer, Chinese and Japanese, and their signs; and Hangul, of long words.
_SCRIPTS = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2010, 0x2027), (0x2E80, 0x9FFF),
    (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF00, 0xFFEF),
)  # fmt: skip
_OPEN_SYLLABLES = slice(0xAC00, 0xD7A4, 28)  # those of Hangul that may be joined to a consonant
# What characters are to a cut; 0 where none is made. After a gap a word begins anew.
_LETTER, _SIGN, _MARK, _GAP = 1, 2, 3, 4
# Bits of whole characters, by a hash, are followed by those of the last bytes of characters.
_HASH_SHIFT, _ENDINGS, _BYTES = np.uint64(64 - 20), 1 << 20, (1 << 17) + (1 << 13)


class Seams(NamedTuple):
    """Where words may be cut.

    Attributes:
        kinds: uint8[0x10000], one of the above for each code point.
        crossed: uint8[...], a bit for each hash of two neighbours that are in a token together
            (`cross`). Others of the same hash are not cut, which changes no ids.
        cased: whether nothing is cut after letters with case.
        splits_spaces: that of `mark_signs`.
    """

    kinds: np.ndarray
    crossed: np.ndarray
    cased: bool
    splits_spaces: bool


@njit(inline="always")
def bits_of(first: int, second: int) -> tuple[np.uint64, np.uint64]:
    """Return the bits of `Seams.crossed` of two code points.

    The second bit is that of the last byte of the first character, and two bytes of the other.
    """
    ending = np.uint64(_ENDINGS | (first & 0x3F) << 10 | second >> 6)
    return np.uint64(first << 16 | second) * MULTIPLIER >> _HASH_SHIFT, ending


@njit
def cross(text: np.ndarray, ends: np.ndarray, crossed: np.ndarray) -> None:
    """Note all neighbours of three bytes, or parts of them, that tokens have.

    Args:
        text: uint8[bytes], the tokens one after the other.
        ends: int64[tokens + 1] into text.
        crossed: that of `Seams`, written.
    """
    for token in range(len(ends) - 1):
        start, end = ends[token], ends[token + 1]
        for place in range(start + 1, end):
            if text[place] >= 0xE0 and text[place - 1] >= 0x80:
                is_whole, known = place - start >= 3 and text[place - 3] >= 0xE0, end - place
                first, code = np.int64(text[place - 3] & 0x0F), np.int64(text[place] & 0x0F)
                for byte in range(1, 3):
                    first = first << 6 | text[place + byte - 3] & 0x3F
                    code = code << 6 | (text[place + byte] & 0x3F if byte < known else 0)
                last = code + (1 << 6 * max(0, 3 - known))
                for second in range(code, last, 1 if is_whole else 64):
                    bit = bits_of(first, second)[0 if is_whole else 1]
                    crossed[bit >> 3] |= 1 << (bit & 7)


def find_seams(
    rules: pieces.PieceRules,
    orders: np.ndarray,
    tokens: Iterable[bytes],
    unmerged: list[str],
    added: list[str],
) -> Seams:
    """Find where the words of a byte-level tokenizer may be cut.

    Args:
        rules: the pattern's rules.
        orders: the combining classes of characters; empty without a normalizer.
        tokens: the bytes of the vocabulary's tokens.
        unmerged: tokens that no merges make, which are found if they are a whole piece.
        added: the texts of added tokens.
    """
    excluded = "".join([*unmerged, *added])
    kinds, crossed = np.zeros(0x10000, np.uint8), np.zeros(_BYTES, np.uint8)
    of_class = np.zeros(256, np.uint8)
    of_class[[pieces.SPACE, pieces.NUMBER]] = _GAP
    of_class[[pieces.LETTER, pieces.OTHER, pieces.MARK]] = _LETTER, _SIGN, _MARK
    if not rules.cased:  # whose capitals have the same class
        of_class[pieces.IDEOGRAPH] = _LETTER
    for first, last in _SCRIPTS:
        kinds[first : last + 1] = of_class[rules.classes[first : last + 1]]
    if len(orders):  # A normalizer may join a character with a mark, and change the order of marks.
        kinds[np.flatnonzero(orders[: len(kinds)])] = kinds[_OPEN_SYLLABLES] = 0
        decomposed = (normalize("NFD", chr(code)) for code in np.flatnonzero(kinds))
        excluded += "".join(one[0] for one in decomposed if len(one) > 1)
    kinds[[code for code in map(ord, excluded) if code < len(kinds)]] = 0
    cross(*join_texts(tokens), crossed)
    splits_spaces = all(content.startswith(("<", "[")) for content in added)
    return Seams(kinds, crossed, rules.cased, splits_spaces)


@njit
def mark_seams(seams: Seams, text: np.ndarray, cuts: np.ndarray) -> None:
    """Mark where words of scripts without spaces are cut.

    Args:
        seams: where they may be.
        text: uint8[bytes + PADDING], valid UTF-8.
        cuts: uint8[bytes + PADDING], 1 is written there.
    """
    kinds, crossed, cased = borrow(seams.kinds), borrow(seams.crossed), seams.cased
    text, cuts = borrow(text), borrow(cuts)
    last, last_kind, has_case, place, end = 0, 0, False, 0, len(text) - PADDING
    while place < end:
        stop, others = min(place + _BLOCK, end), np.uint64(0)
        for first in range(place, stop, WORD_BYTES):
            eight = load_word(text, first)
            others |= eight & eight << ONE & eight << ONE << ONE
        if not others & _HIGHEST_BITS:
            last_kind, has_case, place = 0, True, stop
            continue
        while place < stop:
            word: Any = np.int64(load_word(text, place))
            lead, code, kind, size = word & 0xFF, 0, 0, 1
            if lead & 0xF0 == 0xE0:
                code = (word & 0x0F) << 12 | (word >> 2 & 0xFC0) | word >> 16 & 0x3F
                kind, size = kinds[code], 3
                if kind == _LETTER:
                    bit, ending = bits_of(last, code)
                    is_crossed = crossed[bit >> 3] >> (bit & 7)
                    is_crossed |= crossed[ending >> 3] >> (ending & 7)
                    is_open = (last_kind > 0) & (last_kind < _GAP) & (not (cased & has_case))
                    cuts[place] |= is_open & ~is_crossed
                elif kind == _SIGN:
                    cuts[place] |= last_kind == _LETTER
            elif lead >= 0x80:
                size = 1 + (lead >= 0xC0) + 2 * (lead >= 0xF0)
            elif not 0x61 <= lead | 0x20 <= 0x7A:
                kind = _GAP
            has_case = (kind == 0) | (has_case & (kind != _SIGN) & (kind != _GAP))
            last, last_kind, place = code, kind, place + size
