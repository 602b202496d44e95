"""Rows of several pieces of documents, packed in bounded memory.

Pieces are built as rows of their own, and a part of a shard's sorted rows is packed at a time
(`corpusmill.objectives.examples.best_fit_packing`, `close_fit_packing`). A packed row says where
its pieces begin, so that models can keep attention and positions inside a piece.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.objectives.columns import SPANS
from corpusmill.objectives.examples.best_fit_packing import pack_best_fit
from corpusmill.objectives.examples.close_fit_packing import pack_close_fit
from corpusmill.objectives.examples.spans import join_lists

# How much is packed at a time: on WikiText-2, with 512 to 8192 tokens per row, four times as much
# saves at most 0.2 per mille of padding, and a quarter costs up to 0.6 % (rows of 8192 tokens).
_PACKED_TOKENS, _PACKED_ROWS, _MOST_PACKED_TOKENS = 2**22, 256, 2**25

# The most pieces in memory for close fit: on WikiText-2's articles, repeated to 98 MB, rows of 8192
# tokens have 0.09 % of padding with 2**24 tokens, and 0.13 % with 2**22.
_STOCKED_ROWS, _MOST_STOCKED_TOKENS = 2048, 2**24


def mark_pieces(offsets: np.ndarray) -> pa.ListArray:
    """Return the boundaries of rows that are one piece each, which begins at 0.

    Args:
        offsets: integers[rows + 1] into the rows' tokens.

    Example:
        offsets [0, 2, 5] give [[0, 2], [0, 3]].
    """
    return ragged.to_arrow(*cumulate(np.diff(offsets), np.arange(len(offsets))))


def pack_pieces(rows: Iterable[pa.RecordBatch], max_seq_length: int) -> Iterator[pa.RecordBatch]:
    """Pack pieces into rows by best fit; rows do not depend on how pieces are batched.

    Args:
        rows: pieces in their final order, each at most `max_seq_length` tokens, with the columns
            `input_ids` and `cu_seqlens` (`mark_pieces`), and any others.
        max_seq_length: the longest row.

    Yields:
        Rows of the same columns. A row has the tokens of its pieces in their order, their
        boundaries, their spans if there is the column SPANS, and everything else of its first
        piece.
    """
    tokens = max(_PACKED_TOKENS, min(_PACKED_ROWS * max_seq_length, _MOST_PACKED_TOKENS))
    for window in cut_into_groups(rows, "input_ids", tokens, tokens):
        yield _combine(window, *pack_best_fit(_lengths_of(window), max_seq_length))


def pack_pieces_closely(
    rows: Iterable[pa.RecordBatch], max_seq_length: int
) -> Iterator[pa.RecordBatch]:
    """Pack pieces into rows by close fit; for all else see `pack_pieces`.

    Half of the pieces in memory are left for later, so that there is always a piece that fits.
    """
    tokens = max(_PACKED_TOKENS, min(_STOCKED_ROWS * max_seq_length, _MOST_STOCKED_TOKENS)) // 2
    stock: pa.RecordBatch | None = None
    for added in cut_into_groups(rows, "input_ids", tokens, tokens):
        stock = added if stock is None else pa.concat_batches([stock, added])
        pieces, row_offsets = pack_close_fit(_lengths_of(stock), max_seq_length, tokens)
        if len(pieces):
            yield _combine(stock, pieces, row_offsets)
            stock = ragged.take_rows(stock, np.delete(np.arange(stock.num_rows), pieces))
    if stock is not None and stock.num_rows:
        yield _combine(stock, *pack_close_fit(_lengths_of(stock), max_seq_length))


def _lengths_of(rows: pa.RecordBatch) -> np.ndarray:
    lengths: np.ndarray = np.diff(ragged.from_arrow(rows.column("input_ids"))[1]).astype(np.int64)
    return lengths


def _combine(rows: pa.RecordBatch, pieces: np.ndarray, row_offsets: np.ndarray) -> pa.RecordBatch:
    """Combine pieces, int64[pieces], into rows, which begin at `row_offsets` among them."""
    token_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    token_ids, offsets = ragged.take(token_ids, offsets, pieces)
    columns: dict[str, pa.Array] = {
        "input_ids": ragged.to_arrow(token_ids, offsets[row_offsets]),
        "cu_seqlens": ragged.to_arrow(*cumulate(np.diff(offsets).astype(np.int64), row_offsets)),
    }
    if SPANS.name in rows.schema.names:
        columns[SPANS.name] = join_lists(rows.column(SPANS.name), pieces, row_offsets)
    others = rows.select([name for name in rows.schema.names if name not in columns])
    firsts = ragged.take_rows(others, pieces[row_offsets[:-1]])
    columns |= dict(zip(firsts.schema.names, firsts.columns, strict=True))
    return ragged.to_batch([columns[name] for name in rows.schema.names], rows.schema)


def cumulate(lengths: np.ndarray, row_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the pieces of each row begin, and where the last one ends.

    Args:
        lengths: int64[pieces], the tokens of each piece, row after row.
        row_offsets: int64[rows + 1] into the pieces.

    Returns:
        marks: int64[pieces + rows]: for each row, [0, ..., the row's length].
        offsets: int64[rows + 1] into marks.

    Example:
        lengths [2, 6, 3], row_offsets [0, 2, 3] give [0, 2, 8, 0, 3] and [0, 3, 5].
    """
    sums = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(len(row_offsets) - 1), np.diff(row_offsets) + 1)
    # The last mark of a row and the first one of the next row are the same sum.
    marks = sums[np.arange(len(rows)) - rows] - sums[row_offsets[rows]]
    return marks, row_offsets + np.arange(len(row_offsets))
