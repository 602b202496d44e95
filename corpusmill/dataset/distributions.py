"""The distributions of a data set's rows, worked out again from its columns.

An objective's `measure` takes them from the examples before they are written; here they come from
what was written, ragged or padded, so that one can be held against the other.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.ragged import is_padded, matrix_of, row_lengths

# [CLS] first [SEP], and second [SEP], where there is a second segment or an empty one.
_FIRST_SPECIAL, _SECOND_SPECIAL = 2, 1


def _row_counts(
    column: pa.Array, compare: Callable[[np.ndarray, int], np.ndarray] = np.greater
) -> np.ndarray:
    """int64[rows]: how many values of each row are above 0, or compare otherwise with it."""
    if is_padded(column):
        return np.asarray(compare(matrix_of(column), 0).sum(axis=1, dtype=np.int64))
    values, offsets = ragged.from_arrow(column)
    before = np.zeros(len(values) + 1, np.int64)
    np.cumsum(compare(values, 0), out=before[1:])
    sums: np.ndarray = np.diff(before[offsets])
    return sums


def recount(batch: pa.RecordBatch, pad_id: int) -> dict[str, np.ndarray]:
    """The distributions that the columns of a batch give.

    Args:
        batch: rows as they are in a shard; what is not among its columns is not counted.
        pad_id: the id that fills padded rows.

    Returns:
        {"length": counts by value, "first_segment_length": ..., "second_segment_length": ...,
        "words": ..., "predictions": ..., "next_sentence_label": ..., "sentence_order_label": ...},
        each int64[largest value + 1].

    Raises:
        ValueError: a value is negative where none can be.

    Example:
        one row with input_ids [2, 10, 11, 3, 12, 3] and token_type_ids [0, 0, 0, 0, 1, 1] gives
        "length" [0, 0, 0, 0, 0, 0, 1], "first_segment_length" [0, 0, 1] and
        "second_segment_length" [0, 1].
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    found: dict[str, np.ndarray] = {}
    if "input_ids" in columns:
        found["length"] = row_lengths(columns["input_ids"], pad_id)
    if "input_ids" in columns and "token_type_ids" in columns:
        of_second = _row_counts(columns["token_type_ids"])
        found["first_segment_length"] = found["length"] - of_second - _FIRST_SPECIAL
        found["second_segment_length"] = np.maximum(0, of_second - _SECOND_SPECIAL)
    if "cu_seqlens" in columns:
        # All of a row's marks but the first are above 0, and what fills a padded row is not.
        found["pieces"] = _row_counts(columns["cu_seqlens"])
    if "seg_labels" in columns:
        # 0 is a word's first token; a padded row is filled with -1.
        found["words"] = _row_counts(columns["seg_labels"], np.equal)
    if "masked_lm_positions" in columns:
        # Place 0 holds [CLS], which is never predicted, so that a 0 is a padded row's filling.
        found["predictions"] = _row_counts(columns["masked_lm_positions"])
    for label in ("next_sentence_label", "sentence_order_label"):
        if label in columns:
            found[label] = columns[label].to_numpy()
    return {name: np.bincount(values) for name, values in found.items()}


def add_counts(total: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The sum of two distributions of unequal length; [1] and [0, 2] give [1, 2]."""
    if len(total) < len(more):
        total, more = more, total
    result = total.astype(np.int64)
    result[: len(more)] += more
    return result
