"""Rows of several documents, which `pack` combines and masks: full sentences, packed rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.objectives.columns import SPANS
from corpusmill.objectives.examples.sentence_joins import join_rows
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.masking.tokens import row_keys


def join_documents(
    rows: Iterable[pa.RecordBatch], max_seq_length: int, border_ids: tuple[int, int]
) -> Iterator[pa.RecordBatch]:
    """Join the ends of documents into full rows; for the arguments see `join_rows`."""
    for joined in join_rows(rows, max_seq_length, *border_ids):
        columns = {
            "input_ids": ragged.to_arrow(joined.input_ids, joined.offsets),
            "sentence_lengths": empty_lists("uint16", joined.first_rows.num_rows),
            "documents": joined.documents.astype(np.uint16),
            "pieces": joined.pieces.astype(np.uint16),
            SPANS.name: joined.spans,
        }
        yield _replace_columns(joined.first_rows, columns)


def mask_combined(
    rows: pa.RecordBatch,
    masked_lm: MaskedLm,
    split_marks: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> pa.RecordBatch:
    """Mask combined rows.

    A row's key is unique and comes from the seed, so that a combined row is masked by the key of
    the piece that it begins with.

    Args:
        rows: the rows, with keys.
        masked_lm: how they are masked.
        split_marks: returns ids without marks, and whether each continues a word.
    """
    owners, indices = (rows.column(name).to_numpy() for name in ("key", "index"))
    token_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    input_ids, continues = split_marks(token_ids)
    input_ids = np.require(input_ids, requirements="W")  # Arrow's values are not writable
    keys = row_keys(np.uint64(0), owners, 0, indices)
    masked = masked_lm.build(input_ids, continues, offsets, keys)
    columns = {
        column.name: values for column, values in zip(masked_lm.columns, masked, strict=True)
    }
    return _replace_columns(rows, {"input_ids": ragged.to_arrow(input_ids, offsets), **columns})


def empty_lists(dtype: str, rows: int) -> pa.ListArray:
    """Return a column of empty lists, which is filled when rows are combined."""
    return ragged.to_arrow(np.empty(0, dtype), np.zeros(rows + 1, np.int32))


def _replace_columns(
    rows: pa.RecordBatch, columns: Mapping[str, np.ndarray | pa.Array]
) -> pa.RecordBatch:
    values = [columns.get(name, rows.column(name)) for name in rows.schema.names]
    return ragged.to_batch(values, rows.schema)
