"""Chunks of joined documents: T5's way from documents of any length to rows of one length.

Source: `select_random_chunk`, `reduce_concat_tokens` and `split_tokens` in t5/data/preprocessors.py
of Raffel et al. 2020. Of a long document one piece is drawn; 128 pieces are joined, with nothing
between them, and cut into chunks of equal length, of which only the last one of the 128 can be
shorter.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import derive_key, draw, to_below


class Chunks(NamedTuple):
    """Chunks of joined rows, which together hold all of their tokens.

    Attributes:
        bounds: int64[chunks, 2], where each begins and ends among the tokens.
        keys: uint64[chunks], random numbers, one for each chunk's draws.
        kinds: int64[chunks], the kind of each chunk.
        rows: int64[chunks], the row in which each begins.
        overlapped: int64[chunks], the rows of which each holds some tokens.
        ended: int64[chunks], the rows whose last token it holds.
    """

    bounds: np.ndarray
    keys: np.ndarray
    kinds: np.ndarray
    rows: np.ndarray
    overlapped: np.ndarray
    ended: np.ndarray


@njit
def cut_joined(
    offsets: np.ndarray, keys: np.ndarray, joined: int, lengths: np.ndarray, purpose: int
) -> Chunks:
    """Join rows, and cut them into chunks.

    Args:
        offsets: int64[rows + 1] into the tokens; no row is empty.
        keys: uint64[rows], a random number for each row.
        joined: how many rows are joined; then the next ones begin a chunk.
        lengths: int64[kinds], the length of chunks of each kind, at least 1. The kind of a chunk is
            drawn; all are equally likely.
        purpose: of the keys of chunks.

    Example:
        rows of 3 and 4 tokens, joined by two and cut into chunks of 5, give the bounds [0, 5] and
        [5, 7], rows [0, 1], overlapped [2, 1] and ended [1, 1].
    """
    num_rows = len(offsets) - 1
    most = (offsets[num_rows] - offsets[0]) // lengths.min() + -(-num_rows // joined)
    bounds, chunk_keys = np.empty((most, 2), np.int64), np.empty(most, np.uint64)
    kinds, rows = np.empty(most, np.int64), np.empty(most, np.int64)
    overlapped, ended = np.empty(most, np.int64), np.empty(most, np.int64)
    chunk = 0
    for first in range(0, num_rows, joined):
        stop = min(first + joined, num_rows)
        row, number, begin = first, 0, offsets[first]
        while begin < offsets[stop]:
            key = np.uint64(derive_key(0, keys[row], number, purpose))
            kind = to_below(draw(key, 0), len(lengths))
            end = min(begin + lengths[kind], offsets[stop])
            rows[chunk], kinds[chunk], chunk_keys[chunk] = row, kind, key
            bounds[chunk, 0], bounds[chunk, 1] = begin, end
            last = row
            while last < stop and offsets[last + 1] <= end:
                last += 1
            ended[chunk] = last - row
            overlapped[chunk] = last - row + (1 if last < stop and offsets[last] < end else 0)
            number = number + 1 if last == row else 0
            row, begin = last, end
            chunk += 1
    return Chunks(
        bounds[:chunk],
        chunk_keys[:chunk],
        kinds[:chunk],
        rows[:chunk],
        overlapped[:chunk],
        ended[:chunk],
    )


@njit
def draw_pieces(owners: np.ndarray, indices: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Draw one piece of each document.

    Args:
        owners: int64[pieces], the document of each piece, ascending.
        indices: integers[pieces], the place of each piece in its document.
        keys: uint64[documents], one for each document's draw.

    Returns:
        int64[documents with pieces], the drawn pieces.
    """
    drawn, number, begin = np.empty(len(owners), np.int64), 0, 0
    for piece in range(len(owners)):
        if piece + 1 == len(owners) or owners[piece + 1] != owners[piece]:
            count = indices[piece] + 1
            drawn[number] = begin + to_below(draw(keys[owners[piece]], 0), count)
            number, begin = number + 1, piece + 1
    return drawn[:number]
