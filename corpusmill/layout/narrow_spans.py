"""The spans of rows in fewer bytes, while rows are sorted.

Rows tell of which tokens of which documents they are made in a column of lists of uint64, three
numbers for each span: the document, the first token, and the number of tokens
(`corpusmill.objectives.examples.spans`). Most spans are of the document from which the row was
built, whose id is in the row anyway. So a narrow list has numbers of 32 bits:

    the first token, the number of tokens                               of the row's own document
    the first token, the number of tokens + 2**31, and two of the id    of another one

The lower half of an id comes first. A third or half of the bytes remains, of those that are
written, read and moved most often while provenance is kept.
"""

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit

_IS_OTHER = np.uint64(2**31)
_HALF, _LOWER = np.uint64(32), np.uint64(2**32 - 1)
_WIDE, _NARROW = (
    pa.list_(pa.field("element", kind, nullable=False)) for kind in (pa.uint64(), pa.uint32())
)


def narrow_schema(schema: pa.Schema, column: str) -> pa.Schema:
    """Return the schema of narrow rows.

    Args:
        schema: of rows, with the column of their documents.
        column: the name of the column of spans.
    """
    place = schema.get_field_index(column)
    narrow: pa.Schema = schema.set(place, schema.field(column).with_type(_NARROW))
    return narrow


def narrow_rows(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Return rows with narrow spans.

    Args:
        rows: with the column `document` and the column of spans.
        column: the name of the column of spans.

    Raises:
        ValueError: a span begins after 2**32 tokens of its document, or has 2**31 tokens.
    """
    values, offsets = ragged.from_arrow(rows.column(column))
    narrow, ends, is_valid = narrow_spans(values, offsets, rows.column("document").to_numpy())
    if not is_valid:
        raise ValueError("spans must begin before token 2**32, and have fewer than 2**31 tokens")
    return _replace(rows, column, narrow, ends)


def widen_rows(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Return rows that `narrow_rows` has made narrow as they were.

    Args:
        rows: with the column `document` and the column of narrow spans.
        column: the name of the column of spans.
    """
    values, offsets = ragged.from_arrow(rows.column(column))
    spans, ends = widen_spans(values, offsets, rows.column("document").to_numpy())
    return _replace(rows, column, spans, ends)


def _replace(
    rows: pa.RecordBatch, column: str, values: np.ndarray, offsets: np.ndarray
) -> pa.RecordBatch:
    kind = _WIDE if values.dtype == np.uint64 else _NARROW
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), type=kind)
    place = rows.schema.get_field_index(column)
    replaced: pa.RecordBatch = rows.set_column(
        place, rows.schema.field(column).with_type(kind), lists
    )
    return replaced


@njit
def narrow_spans(
    values: np.ndarray, offsets: np.ndarray, documents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Narrow the spans of rows.

    Args:
        values: uint64[numbers], three for each span.
        offsets: int32[rows + 1] into the numbers.
        documents: uint64[rows], the document of each row.

    Returns:
        narrow: uint32[narrow numbers].
        offsets: int32[rows + 1] into these.
        is_valid: whether all numbers fit.

    Example:
        [7, 4, 2, 9, 0, 1] of a row of the document 7 gives [4, 2, 0, 2**31 + 1, 9, 0].
    """
    begin = offsets[0]
    narrow = np.empty((offsets[-1] - begin) // 3 * 4, np.uint32)
    ends = np.zeros(len(offsets), np.int32)
    written, too_large = 0, np.uint64(0)
    for row in range(len(documents)):
        for place in range(offsets[row], offsets[row + 1], 3):
            document, first, tokens = values[place], values[place + 1], values[place + 2]
            too_large |= first >> _HALF | tokens >> np.uint64(31)
            narrow[written] = np.uint32(first & _LOWER)
            if document == documents[row]:
                narrow[written + 1] = np.uint32(tokens & _LOWER)
                written += 2
            else:
                narrow[written + 1] = np.uint32((tokens | _IS_OTHER) & _LOWER)
                narrow[written + 2] = np.uint32(document & _LOWER)
                narrow[written + 3] = np.uint32(document >> _HALF)
                written += 4
        ends[row + 1] = written
    return narrow[:written], ends, too_large == 0


@njit
def widen_spans(
    narrow: np.ndarray, offsets: np.ndarray, documents: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Widen the spans of rows, as they were before `narrow_spans`.

    Args:
        narrow: uint32[narrow numbers].
        offsets: int32[rows + 1] into these.
        documents: uint64[rows], the document of each row.

    Returns:
        values: uint64[numbers], three for each span.
        offsets: int32[rows + 1] into these.

    Example:
        [4, 2, 0, 2**31 + 1, 9, 0] of a row of the document 7 gives [7, 4, 2, 9, 0, 1].
    """
    values = np.empty((offsets[-1] - offsets[0]) // 2 * 3, np.uint64)
    ends = np.zeros(len(offsets), np.int32)
    written = 0
    for row in range(len(documents)):
        place = offsets[row]
        while place < offsets[row + 1]:
            tokens = np.uint64(narrow[place + 1])
            values[written + 1] = narrow[place]
            if tokens & _IS_OTHER:
                upper = np.uint64(narrow[place + 3])
                values[written] = upper << _HALF | np.uint64(narrow[place + 2])
                place += 4
            else:
                values[written] = documents[row]
                place += 2
            values[written + 2] = tokens & ~_IS_OTHER
            written += 3
        ends[row + 1] = written
    return values[:written], ends
