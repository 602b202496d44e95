"""Byte-level BPE in compiled loops: the bytes of each piece of a text merged to ids.

Merging is that of Sennrich et al. 2016 on bytes, as in GPT-2 (Radford et al. 2019): of all
neighbours that can be joined, those of the lowest rank first, the leftmost of them first.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.byte_level_pieces import PieceRules, end_of_piece
from corpusmill.tokenization.compiled.characters import has_byte
from corpusmill.tokenization.compiled.hash_table import HALF, find_slot

# A piece with more bytes is left to the tokenizer, since merging takes the square of its length.
LONGEST_PIECE = 512
# The rows of a piece's workspace (see `merge_bytes`), and the key of neighbours never joined.
IDS, KEYS, JOINED, BEFORE, AFTER = 0, 1, 2, 3, 4
PLACE_BITS, NEVER = 9, np.int32(2**31 - 1)
MOST_MERGES = 2 ** (31 - PLACE_BITS)


class Merges(NamedTuple):
    """A vocabulary of byte-level BPE.

    Attributes:
        byte_ids: int32[256], the id of each byte.
        pairs: a `hash_table`. A key is a pair of ids, the left one in the upper half; its value is
            the pair's rank, in the upper half, and the id of the joined token.
    """

    byte_ids: np.ndarray
    pairs: np.ndarray


@njit
def look_up_pair(merges: Merges, piece: np.ndarray, place: int, after: int) -> None:
    """Write the key and the id that two neighbouring tokens of a piece are joined to.

    Args:
        merges: the vocabulary.
        piece: the workspace of `merge_bytes`.
        place: the left token.
        after: the right token.
    """
    pair = np.uint64(piece[IDS, place]) << HALF | np.uint64(piece[IDS, after])
    slot = find_slot(merges.pairs, pair)
    if merges.pairs[slot, 0]:
        value = merges.pairs[slot, 1]
        piece[KEYS, place] = np.int32(np.int64(value >> HALF) << PLACE_BITS | place)
        piece[JOINED, place] = np.int32(value & np.uint64(0xFFFFFFFF))
    else:
        piece[KEYS, place] = NEVER


@njit
def merge_bytes(
    merges: Merges, text: np.ndarray, start: int, end: int, piece: np.ndarray
) -> np.int64:
    """Write the ids of a piece to the beginning of the row IDS, and return their number.

    A token is kept at the place of its first byte, with the places of its neighbours; tokens never
    move, so that the search for the next pair is the same short loop each time.

    Args:
        merges: the vocabulary.
        text: uint8[bytes].
        start: where the piece begins.
        end: where the piece ends, at most LONGEST_PIECE later.
        piece: int32[5, LONGEST_PIECE + 1], the workspace. Besides IDS, its rows are, for each
            token: what it becomes together with the token after it (JOINED), the rank of that pair
            combined with its own place (KEYS), and the tokens before and after it.
    """
    count = end - start
    for place in range(count):
        piece[IDS, place] = merges.byte_ids[text[start + place]]
        piece[BEFORE, place], piece[AFTER, place] = place - 1, place + 1
        piece[KEYS, place] = NEVER
    for place in range(count - 1):
        look_up_pair(merges, piece, place, place + 1)
    while True:
        lowest = NEVER
        for place in range(count):
            lowest = min(lowest, piece[KEYS, place])
        if lowest == NEVER:
            break
        left = lowest & (2**PLACE_BITS - 1)
        right = piece[AFTER, left]
        before, after = piece[BEFORE, left], piece[AFTER, right]
        piece[IDS, left], piece[AFTER, left] = piece[JOINED, left], after
        piece[KEYS, left] = piece[KEYS, right] = NEVER
        piece[BEFORE, after] = left
        if after < count:
            look_up_pair(merges, piece, left, after)
        if before >= 0:
            look_up_pair(merges, piece, before, left)
    written = place = 0
    while place < count:
        piece[IDS, written] = piece[IDS, place]
        written, place = written + 1, piece[AFTER, place]
    return np.int64(written)


@njit
def merge_tokens(merges: Merges, text: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the id that each of several pieces is merged to.

    Args:
        merges: the vocabulary.
        text: uint8[bytes], the pieces one after the other, none longer than LONGEST_PIECE.
        ends: int64[pieces + 1] into text.

    Returns:
        int32[pieces], -1 for pieces of several ids.
    """
    merged = np.full(len(ends) - 1, -1, np.int32)
    piece = np.empty((5, LONGEST_PIECE + 1), np.int32)
    for token in range(len(merged)):
        if merge_bytes(merges, text, ends[token], ends[token + 1], piece) == 1:
            merged[token] = piece[IDS, 0]
    return merged


@njit
def encode_spans(
    rules: PieceRules,
    merges: Merges,
    is_token_start: np.ndarray,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of stretches of text, each tokenized as a text of its own.

    Args:
        rules: the pattern's rules.
        merges: the vocabulary.
        is_token_start: bool[256], bytes with which added tokens begin.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each stretch.

    Returns:
        ids: int32[...], one stretch's after another's.
        ends: int64[n + 1] into the ids.
        left: bool[n], stretches that are left to the tokenizer and have no ids here.
    """
    ids = np.empty((spans[:, 1] - spans[:, 0]).sum(), np.int32)
    ends, left = np.zeros(len(spans) + 1, np.int64), np.zeros(len(spans), np.bool_)
    piece = np.empty((5, LONGEST_PIECE + 1), np.int32)
    written = 0
    for span in range(len(spans)):
        place, stop = spans[span]
        left[span] = has_byte(is_token_start, text, place, stop)
        while place < stop and not left[span]:
            end = end_of_piece(rules, text, place, stop)
            if end < 0 or end - place > LONGEST_PIECE:
                left[span] = True
                break
            count = merge_bytes(merges, text, place, end, piece)
            ids[written : written + count] = piece[IDS, :count]
            written, place = written + count, end
        if left[span]:
            written = ends[span]
        ends[span + 1] = written
    return ids[:written], ends, left
