"""Documents and streams of tokens cut into pieces: overlapping windows, chunks, and examples.

Windows: documents cut into windows of a maximum length. Source: "BPE vocabulary and data loading
pipeline for training a large model from scratch" (`_tokenize_and_chunk_document_stream`): windows
of chunk_size tokens begin every chunk_size - overlap tokens until the document is covered; the last
one may be short. With a large length each document stays whole, and with an overlap of 0 it is cut
into pieces.

Chunks: T5's way from documents of any length to rows of one length. Source: `select_random_chunk`,
`reduce_concat_tokens` and `split_tokens` in t5/data/preprocessors.py of Raffel et al. 2020. Of a
long document one piece is drawn; 128 pieces are joined, with nothing between them, and cut into
chunks of equal length, of which only the last one of the 128 can be shorter.

Streams: examples are counted and located without reading the tokens. Source: "Building the Dataset
and DataLoader for training a large language model" (LLMDataset): example i of a stream of tokens is
`context_len` tokens from place i * stride, and its targets are the tokens one place later; there
are (tokens - context_len - 1) // stride + 1 examples.

A data set of documents that end with the end-of-text token is such a stream: the `input_ids` of its
shards in sequence. The manifest holds the number of tokens of each shard, so that nothing is read
to number the examples. Either the whole split is one stream, as in the source, and an example may
begin in one shard and end in the next; or each shard is a stream of its own, which leaves out up to
context_len + stride tokens per shard and needs one shard at a time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import derive_key, draw, to_below
from corpusmill.knobs import knob

MERGED_PIECE_TOKENS = knob("merged_piece_tokens", 65_536)
"""The tokens of a piece of a document that is merged with others; longer ones are cut, or T5 draws
one piece."""
SHUFFLED_TOKENS = knob("shuffled_tokens", 2**22)
"""The tokens of merged documents that are cut at a time, and whose rows are shuffled."""


@njit
def count_windows(tokens: int, length: int, overlap: int) -> int:
    """Return how many windows cover a document.

    Args:
        tokens: the tokens of the document.
        length: the most tokens of a window.
        overlap: the tokens that a window shares with the previous one, fewer than `length`.

    Example:
        10 tokens have 3 windows of length 4 with overlap 1: they begin at 0, 3 and 6.
    """
    if tokens <= 0:
        return 0
    stride = length - overlap
    return 1 + max(0, tokens - length + stride - 1) // stride


def locate_windows(
    document_offsets: np.ndarray,
    owners: np.ndarray,
    indices: np.ndarray,
    length: int,
    overlap: int,
    before: int = 0,
) -> np.ndarray:
    """Return where windows begin and end among the tokens, without those around documents.

    Args:
        document_offsets: int64[documents + 1] into the tokens.
        owners: int64[windows], the place of each window's document, as `cut_windows` returns it.
        indices: integers[windows], likewise.
        length: the most tokens of a window.
        overlap: the tokens that a window shares with the previous one.
        before: how many tokens were put before each document.

    Returns:
        int64[windows, 2]; a window of nothing but what is put around a document is empty.

    Example:
        a document of 3 tokens, windows of 2 and no overlap give [[0, 2], [2, 3]].
    """
    firsts, ends = document_offsets[owners], document_offsets[owners + 1]
    begins = firsts + indices.astype(np.int64) * (length - overlap) - before
    return np.stack([np.clip(begins, firsts, ends), np.clip(begins + length, firsts, ends)], axis=1)


def cut_windows(
    token_ids: np.ndarray,
    document_offsets: np.ndarray,
    length: int,
    overlap: int = 0,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut documents into windows, document after document.

    Args:
        token_ids: integers[tokens].
        document_offsets: int64[documents + 1] into token_ids.
        length: the most tokens of a window.
        overlap: the tokens that a window shares with the previous one, fewer than `length`.
        before: the ids that are put before each document before it is cut.
        after: the ids that are put after each document before it is cut.

    Returns:
        input_ids: the type of token_ids[total].
        offsets: int64[windows + 1] into input_ids.
        owners: int64[windows], the place of the window's document.
        indices: uint32[windows], the window's place in its document.

    Example:
        token_ids [5, 6, 7], document_offsets [0, 3], length 2, overlap 0 and after [9] give
        input_ids [5, 6, 7, 9] and offsets [0, 2, 4].
    """
    around = np.array([*before, *after], np.int64)
    cut: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] = _cut_windows(
        token_ids, document_offsets, length, overlap, around, len(before)
    )
    return cut


@njit
def _cut_windows(
    token_ids: np.ndarray,
    document_offsets: np.ndarray,
    length: int,
    overlap: int,
    around: np.ndarray,
    before: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut documents, as `cut_windows` describes; `around` begins with what is put before them."""
    num_documents, stride = len(document_offsets) - 1, length - overlap
    windows = total = 0
    for document in range(num_documents):
        tokens = document_offsets[document + 1] - document_offsets[document] + len(around)
        count = count_windows(tokens, length, overlap)
        windows += count
        total += tokens + max(0, count - 1) * overlap
    input_ids = np.empty(total, token_ids.dtype)
    offsets = np.zeros(windows + 1, np.int64)
    owners, indices = np.empty(windows, np.int64), np.empty(windows, np.uint32)
    row = place = 0
    for document in range(num_documents):
        first, stop = document_offsets[document], document_offsets[document + 1]
        size = stop - first
        for index in range(count_windows(size + len(around), length, overlap)):
            # Places are counted from the document's first token.
            begin = index * stride - before
            end = min(begin + length, size + len(around) - before)
            for i in range(begin, min(end, 0)):
                input_ids[place] = around[i + before]
                place += 1
            begin = max(begin, 0)
            text_end = min(end, size)
            if text_end > begin:
                input_ids[place : place + text_end - begin] = token_ids[
                    first + begin : first + text_end
                ]
                place += text_end - begin
            for i in range(max(begin, size), end):
                input_ids[place] = around[i - size + before]
                place += 1
            row += 1
            offsets[row], owners[row - 1], indices[row - 1] = place, document, index
    return input_ids, offsets, owners, indices


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


def count_examples(tokens: int, context_len: int, stride: int) -> int:
    """Return the number of examples in a stream of tokens.

    Args:
        tokens: the tokens of the stream.
        context_len: the tokens of an example's input, at least 1; its targets end one token later.
        stride: the tokens from the beginning of an example to that of the next, at least 1.

    Example:
        10 tokens have 2 examples of context_len 4 with stride 4: inputs from 0 and 4, targets from
        1 and 5.
    """
    return max(0, (tokens - context_len - 1) // stride + 1)


def count_shard_examples(
    shard_tokens: Sequence[int], context_len: int, stride: int
) -> npt.NDArray[np.int64]:
    """Return the number of examples in each shard, if each is a stream of its own.

    Returns:
        int64[shards].
    """
    counts = [count_examples(tokens, context_len, stride) for tokens in shard_tokens]
    return np.array(counts, np.int64)


def locate_in_shards(
    examples: npt.NDArray[np.int64], shard_tokens: Sequence[int], context_len: int, stride: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Locate the beginnings of examples, if each shard is a stream of its own.

    Args:
        examples: int64[n], numbered consecutively through all shards.
        shard_tokens: the tokens of each shard.
        context_len: as in `count_examples`.
        stride: as in `count_examples`.

    Returns:
        shards: int64[n].
        begins: int64[n], the first token's place in its shard.

    Raises:
        IndexError: an example does not exist.

    Example:
        shards with 6 and 9 tokens have the examples 0 and 1, 2 with context_len 4 and stride 4;
        example 2 begins at token 4 of shard 1.
    """
    ends = np.cumsum(count_shard_examples(shard_tokens, context_len, stride))
    count = int(ends[-1]) if len(ends) else 0
    if ((examples < 0) | (examples >= count)).any():
        raise IndexError(f"there are {count} examples, numbered from 0")
    shards = np.searchsorted(ends, examples, side="right")
    firsts = np.concatenate([[0], ends[:-1]])
    return shards, (examples - firsts[shards]) * stride
