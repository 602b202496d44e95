"""Pieces of text that byte-level BPE merges to a single token, found by their bytes.

In text like that on which a vocabulary was trained, these are most pieces: 98 of 100 in English, 93
in Thai, 61 in Chinese. Finding one takes as long as a merge or two.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.hash_table import MULTIPLIER
from corpusmill.tokenization.compiled.pair_table import find_rank, hash_pairs
from corpusmill.tokenization.compiled.unit_words import load_word
from corpusmill.tokenization.compiled.units import WORD_BYTES

# Most bytes of a token that is found; a piece is read in two words, and a longer one in four.
LONGEST_TOKEN = 4 * WORD_BYTES
_SHORT = 2 * WORD_BYTES
_ALL_BITS = np.uint64(2**64 - 1)
_BEGINNING_SHIFT = np.uint64(64 - 16)


class WholeTokens(NamedTuple):
    """Tokens by the bytes that are merged to them.

    Attributes:
        begins_long: bool[65536], by a hash of the first 8 bytes, whether a token has more of them.
            Where words are long, as in Chinese, nearly all pieces are refused by this.
        pairs: uint32[a power of two], the hash table of two numbers (see `pair_table`).
        joined: uint64[tokens, 5]: both numbers of each token, its id, and its last two words.
            The numbers are the first two words, into which these are mixed if there are more.
    """

    begins_long: np.ndarray
    pairs: np.ndarray
    joined: np.ndarray


@njit(inline="always")
def read_part(text: np.ndarray, place: int, size: int) -> np.uint64:
    """Read up to 8 bytes, the first one lowest, filled up with 0xFF.

    Args:
        text: uint8[bytes]; 8 of them may be read from `place` on.
        place: first byte.
        size: their number; more than 8 are like 8, and fewer than none like none.
    """
    half = np.uint64(4 * max(0, min(WORD_BYTES, size)))  # a shift by 64 bits is undefined
    word: np.uint64 = load_word(text, place)
    return word | (_ALL_BITS << half) << half


@njit(inline="always")
def find_token(tokens: WholeTokens, text: np.ndarray, start: int, end: int) -> np.int64:
    """Return the id of a piece that is a token; -1 for others, and if the text ends soon.

    Args:
        tokens: the tokens.
        text: uint8[bytes], valid UTF-8.
        start: where the piece begins.
        end: where the piece ends.
    """
    size = end - start
    if size > LONGEST_TOKEN or start + LONGEST_TOKEN > len(text):
        return np.int64(-1)
    first = read_part(text, start, size)
    if size > WORD_BYTES and not tokens.begins_long[first * MULTIPLIER >> _BEGINNING_SHIFT]:
        return np.int64(-1)
    second = read_part(text, start + WORD_BYTES, size - WORD_BYTES)
    third = fourth = _ALL_BITS
    if size > _SHORT:
        third = read_part(text, start + _SHORT, size - _SHORT)
        fourth = read_part(text, start + _SHORT + WORD_BYTES, size - _SHORT - WORD_BYTES)
        first, second = first ^ third * MULTIPLIER, second ^ fourth * MULTIPLIER
    rank = find_rank(tokens.pairs, tokens.joined, first, second)
    if rank < 0 or tokens.joined[rank, 3] != third or tokens.joined[rank, 4] != fourth:
        return np.int64(-1)
    return np.int64(tokens.joined[rank, 2])


@njit
def collect_tokens(text: np.ndarray, ends: np.ndarray, ids: np.ndarray) -> WholeTokens:
    """Return the tokens that are found.

    Args:
        text: uint8[bytes + LONGEST_TOKEN], the tokens one after the other, and more of no meaning.
        ends: int64[tokens + 1] into text.
        ids: int32[tokens], what the bytes of each are merged to; if that is not a single token, -1.
    """
    begins_long, words = np.zeros(1 << 16, np.bool_), np.empty(4, np.uint64)
    joined = np.empty((len(ids), 5), np.uint64)
    count = 0
    for token in range(len(ids)):
        start, end = ends[token], ends[token + 1]
        # 0xFF is not a byte of UTF-8, and fills up words.
        if ids[token] < 0 or end - start > LONGEST_TOKEN or (text[start:end] == 0xFF).any():
            continue
        for word in range(4):
            size = end - start - word * WORD_BYTES
            words[word] = read_part(text, start + word * WORD_BYTES, size)
        if end - start > WORD_BYTES:
            begins_long[words[0] * MULTIPLIER >> _BEGINNING_SHIFT] = True
        if end - start > _SHORT:
            words[0] ^= words[2] * MULTIPLIER
            words[1] ^= words[3] * MULTIPLIER
        joined[count, :2], joined[count, 2], joined[count, 3:] = words[:2], ids[token], words[2:]
        count += 1
    joined = joined[:count].copy()
    return WholeTokens(begins_long, hash_pairs(joined), joined)
