"""The texts of tokens in compiled loops, found by their bytes."""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit

_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


class TokenTexts(NamedTuple):
    """The texts of tokens, with room for more.

    Attributes:
        texts: uint8[room], the UTF-8 of the tokens in the order of their ids.
        ends: int64[most tokens + 1], where each begins, and where the last one ends.
        rows: int32[a power of two], a hash table of ids + 1, with 0 for free rows.
        prefix: uint8[bytes], what a token begins with if it continues a word; lost when it is
            joined to the token before it.
    """

    texts: np.ndarray
    ends: np.ndarray
    rows: np.ndarray
    prefix: np.ndarray


@njit
def find_text(tokens: TokenTexts, start: int, end: int) -> np.int64:
    """Return the row for the token with a text, or the free row where it belongs.

    The hash is FNV-1a (Fowler, Noll, Vo), and texts of equal hashes are compared.

    Args:
        tokens: the tokens, with the text among their bytes.
        start: where the text begins.
        end: where it ends.
    """
    texts, last = tokens.texts, np.uint64(len(tokens.rows) - 1)
    state = _FNV_OFFSET
    for place in range(start, end):
        state = (state ^ np.uint64(texts[place])) * _FNV_PRIME
    slot = np.int64((state ^ state >> np.uint64(32)) & last)
    while tokens.rows[slot]:
        other = tokens.ends[tokens.rows[slot] - 1]
        size = tokens.ends[tokens.rows[slot]] - other
        if size == end - start:
            same = 0
            while same < size and texts[other + same] == texts[start + same]:
                same += 1
            if same == size:
                break
        slot = (slot + 1) & np.int64(last)
    return slot


@njit
def index_tokens(tokens: TokenTexts, count: int) -> None:
    """Enter the first tokens, whose texts are distinct, into the rows."""
    for token in range(count):
        tokens.rows[find_text(tokens, tokens.ends[token], tokens.ends[token + 1])] = token + 1


@njit
def _text_size(tokens: TokenTexts, token: int) -> np.int64:
    return np.int64(tokens.ends[token + 1] - tokens.ends[token])


@njit
def prefix_size(tokens: TokenTexts, token: int) -> int:
    """Return the bytes of a token's prefix, 0 without one."""
    start, prefix = tokens.ends[token], tokens.prefix
    if _text_size(tokens, token) < len(prefix):
        return 0
    for place in range(len(prefix)):
        if tokens.texts[start + place] != prefix[place]:
            return 0
    return len(prefix)


@njit
def make_room(tokens: TokenTexts, left: int, right: int, count: int) -> TokenTexts:
    """Return the tokens with room for the text of two of them after the last one."""
    texts = tokens.texts
    needed = tokens.ends[count] + _text_size(tokens, left) + _text_size(tokens, right)
    if needed > len(texts):
        texts = np.empty(2 * needed, np.uint8)
        for place in range(len(tokens.texts)):
            texts[place] = tokens.texts[place]
    return TokenTexts(texts, tokens.ends, tokens.rows, tokens.prefix)


@njit
def join_texts(tokens: TokenTexts, left: int, right: int, count: int) -> np.int64:
    """Return the id of the token whose text is that of two joined; a new one if there is none.

    Args:
        tokens: the tokens, with room (see `make_room`).
        left: the id of the first part.
        right: the id of the second part.
        count: the number of tokens, which is a new token's id.
    """
    written = tokens.ends[count]
    for place in range(tokens.ends[left], tokens.ends[left + 1]):
        tokens.texts[written] = tokens.texts[place]
        written += 1
    start = tokens.ends[right] + prefix_size(tokens, right)
    for place in range(start, tokens.ends[right + 1]):
        tokens.texts[written] = tokens.texts[place]
        written += 1
    slot = find_text(tokens, tokens.ends[count], written)
    if not tokens.rows[slot]:
        tokens.rows[slot], tokens.ends[count + 1] = count + 1, written
    return np.int64(tokens.rows[slot] - 1)
