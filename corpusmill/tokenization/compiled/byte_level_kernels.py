"""Byte-level BPE in compiled loops: the bytes of each piece of a text merged to ids.

Merging is that of Sennrich et al. 2016 on bytes, as in GPT-2 (Radford et al. 2019): of all
neighbours that can be joined, those of the lowest rank first, the leftmost of them first. Merging
begins with characters, or their first bytes, where that is known to give the same
(`corpusmill.tokenization.compiled.byte_level_characters`); pieces that are tokens are not merged
(`corpusmill.tokenization.compiled.byte_level_tokens`).
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.borrowing import borrow
from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.byte_level_pieces import PieceRules, end_of_piece
from corpusmill.tokenization.compiled.byte_level_tokens import WholeTokens, find_token
from corpusmill.tokenization.compiled.characters import has_byte, read_character
from corpusmill.tokenization.compiled.pair_table import RANK_BITS, find_rank

# A piece with more bytes is left to the tokenizer, since merging takes the square of its length.
LONGEST_PIECE = 512
# The rows of a piece's workspace (see `merge_bytes`), and the key of neighbours never joined.
IDS, KEYS, JOINED, BEFORE, AFTER, LAST = 0, 1, 2, 3, 4, 5
WORKSPACE = (6, LONGEST_PIECE + 1)
PLACE_BITS, NEVER = 31 - int(RANK_BITS), np.int32(2**31 - 1)
NO_TOKEN = -1


class Merges(NamedTuple):
    """A vocabulary of byte-level BPE.

    Attributes:
        byte_ids: int32[256], the id of each byte.
        characters: int32[code points], the ids of characters with which merging may begin; -1 for
            others. Empty if it begins with bytes.
        prefixes: int32[code points / 64], the ids of all bytes but the last one of other
            characters, if merging may begin with these; or -1.
        pairs: uint32[a power of two], the hash table of pairs of ids (see `pair_table`).
        joined: int32[merges, 3]: by rank, the ids of a pair and of the joined token.
    """

    byte_ids: np.ndarray
    characters: np.ndarray
    prefixes: np.ndarray
    pairs: np.ndarray
    joined: np.ndarray


@njit(inline="always")
def look_up_pair(
    pairs: np.ndarray, joined: np.ndarray, piece: np.ndarray, place: int, after: int
) -> None:
    """Write the key and the id that two neighbouring tokens of a piece are joined to.

    Args:
        pairs: that of `Merges`.
        joined: likewise.
        piece: the workspace of `merge_bytes`.
        place: the left token.
        after: the right token.
    """
    rank = find_rank(pairs, joined, piece[IDS, place], piece[IDS, after])
    if rank >= 0:
        piece[KEYS, place] = np.int32(rank << PLACE_BITS | place)
        piece[JOINED, place] = joined[rank, 2]
    else:
        piece[KEYS, place] = NEVER


@njit(inline="always")
def begin_piece(merges: Merges, text: np.ndarray, start: int, end: int, piece: np.ndarray) -> int:
    """Write the tokens with which merging begins to a workspace, and return their number.

    Args:
        merges: the vocabulary.
        text: uint8[bytes]; the piece is valid UTF-8, unless merging begins with bytes alone.
        start: where the piece begins.
        end: where the piece ends.
        piece: the workspace of `merge_bytes`.
    """
    byte_ids, characters, prefixes = merges.byte_ids, merges.characters, merges.prefixes
    count, place = 0, start
    while place < end:
        token, joined, size = byte_ids[text[place]], 1, 1
        if text[place] >= 0x80 and len(characters):
            code, size = read_character(text, place)
            whole = characters[code] if code < len(characters) else NO_TOKEN
            block = code >> 6
            if whole != NO_TOKEN:
                token, joined = whole, size
            elif block < len(prefixes) and prefixes[block] != NO_TOKEN:
                token, joined = prefixes[block], size - 1
        piece[IDS, count] = token
        count += 1
        for byte in range(place + joined, place + size):
            piece[IDS, count] = byte_ids[text[byte]]
            count += 1
        place += size
    return count


@njit(inline="always")
def merge_bytes(
    merges: Merges, text: np.ndarray, start: int, end: int, piece: np.ndarray
) -> np.int64:
    """Write the ids of a piece to the beginning of the row IDS, and return their number.

    Each token is kept at the place of the first one that was merged to it, with the places of its
    neighbours; tokens never move, so that the search for the next pair is the same short loop each
    time.

    Args:
        merges: the vocabulary.
        text: uint8[bytes].
        start: where the piece begins.
        end: where the piece ends, at most LONGEST_PIECE later.
        piece: int32[WORKSPACE], the workspace. Besides IDS, its rows are, for each token: what it
            becomes together with the token after it (JOINED), the rank of that pair combined with
            its own place (KEYS), and the tokens before and after it. LAST begins with the ids of
            the pair that was joined last, and its rank.
    """
    count = begin_piece(merges, text, start, end, piece)
    if count == 1:
        return np.int64(count)
    pairs, joined = merges.pairs, merges.joined
    for place in range(count):
        piece[BEFORE, place], piece[AFTER, place] = place - 1, place + 1
        piece[KEYS, place] = NEVER
    for place in range(count - 1):
        look_up_pair(pairs, joined, piece, place, place + 1)
    while True:
        lowest = NEVER
        for place in range(count):
            lowest = min(lowest, piece[KEYS, place])
        if lowest == NEVER:
            break
        left = lowest & (2**PLACE_BITS - 1)
        right = piece[AFTER, left]
        before, after = piece[BEFORE, left], piece[AFTER, right]
        piece[LAST, 0], piece[LAST, 1] = piece[IDS, left], piece[IDS, right]
        piece[LAST, 2] = lowest >> PLACE_BITS
        piece[IDS, left], piece[AFTER, left] = piece[JOINED, left], after
        piece[KEYS, left] = piece[KEYS, right] = NEVER
        piece[BEFORE, after] = left
        if after < count:
            look_up_pair(pairs, joined, piece, left, after)
        if before >= 0:
            look_up_pair(pairs, joined, piece, before, left)
    written = place = 0
    while place < count:
        piece[IDS, written] = piece[IDS, place]
        written, place = written + 1, piece[AFTER, place]
    return np.int64(written)


@njit
def merge_tokens(
    merges: Merges, text: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the id that each of several pieces is merged to, and how.

    Args:
        merges: the vocabulary.
        text: uint8[bytes], the pieces one after the other, none longer than LONGEST_PIECE.
        ends: int64[pieces + 1] into text.

    Returns:
        merged: int32[pieces], -1 for pieces of several ids.
        last: int32[pieces, 3], the two ids that are joined last, and the rank of that pair; of no
            meaning for a single byte and for pieces of several ids.
    """
    merged, last = (
        np.full(len(ends) - 1, NO_TOKEN, np.int32),
        np.zeros((len(ends) - 1, 3), np.int32),
    )
    piece = np.zeros(WORKSPACE, np.int32)
    for token in range(len(merged)):
        if merge_bytes(merges, text, ends[token], ends[token + 1], piece) == 1:
            merged[token] = piece[IDS, 0]
            last[token] = piece[LAST, :3]
    return merged, last


@njit
def encode_spans(
    rules: PieceRules,
    merges: Merges,
    tokens: WholeTokens,
    is_token_start: np.ndarray,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of stretches of text, each tokenized as a text of its own.

    Args:
        rules: the pattern's rules.
        merges: the vocabulary.
        tokens: pieces that need no merging.
        is_token_start: bool[256], bytes with which added tokens begin.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each stretch.

    Returns:
        ids: int32[...], one stretch's after another's.
        ends: int64[n + 1] into the ids.
        left: bool[n], stretches that are left to the tokenizer and have no ids here.
    """
    text, rules = borrow(text), PieceRules(borrow(rules.classes), rules.any_case, rules.most_digits)
    merges = Merges(
        borrow(merges.byte_ids), borrow(merges.characters), borrow(merges.prefixes),
        borrow(merges.pairs), borrow(merges.joined),
    )  # fmt: skip
    tokens = WholeTokens(borrow(tokens.begins_long), borrow(tokens.pairs), borrow(tokens.joined))
    ids = np.empty((spans[:, 1] - spans[:, 0]).sum(), np.int32)
    ends, left = np.zeros(len(spans) + 1, np.int64), np.zeros(len(spans), np.bool_)
    piece = np.empty(WORKSPACE, np.int32)
    written = 0
    for span in range(len(spans)):
        place, stop = spans[span]
        left[span] = has_byte(is_token_start, text, place, stop)
        while place < stop and not left[span]:
            end = end_of_piece(rules, text, place, stop)
            if end < 0 or end - place > LONGEST_PIECE:
                left[span] = True
                break
            whole = find_token(tokens, text, place, end)
            if whole >= 0:
                ids[written] = whole
                written, place = written + 1, end
                continue
            count = merge_bytes(merges, text, place, end, piece)
            for token in range(count):  # a slice would take longer
                ids[written + token] = piece[IDS, token]
            written, place = written + count, end
        if left[span]:
            written = ends[span]
        ends[span + 1] = written
    return ids[:written], ends, left
