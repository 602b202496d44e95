"""Rows of any layout as flat numbers and offsets, and back.

    [[7, 8], [], [9]]   is   values = [7, 8, 9], offsets = [0, 2, 2, 3]

and a column with one number per row has the offsets 0, 1, 2, ...
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import INTEGERS, Column, arrow_schema
from corpusmill.errors import UserError

# How many numbers are encoded at a time: the result stays in the processor's cache, and the cost of
# calls does not matter.
_CHUNK_NUMBERS = 2**18


def flatten(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a column.

    Args:
        array: numbers, lists or lists of fixed size, without nulls.

    Returns:
        values: integers[total], not writable.
        offsets: int64[rows + 1]; in a sliced column they do not begin at 0.
    """
    if pa.types.is_fixed_size_list(array.type):
        values = array.flatten().to_numpy(zero_copy_only=True)
        return values, np.arange(len(array) + 1, dtype=np.int64) * array.type.list_size
    if pa.types.is_list(array.type):
        values, offsets = ragged.from_arrow(array)
        return values, offsets.astype(np.int64)
    return array.to_numpy(zero_copy_only=True), np.arange(len(array) + 1, dtype=np.int64)


def restore(
    columns: Sequence[Column], rows: Sequence[tuple[np.ndarray, np.ndarray]], padded: bool
) -> pa.RecordBatch:
    """Return a batch in the schema of the columns, from numbers that were read.

    Args:
        columns: the table of columns.
        rows: for each column, values int64[total] and offsets int64[rows + 1] from 0.
        padded: whether lists have a fixed size.

    Raises:
        ValueError: a row has too many or too few numbers, or a number exceeds the column's type.
    """
    schema = arrow_schema(columns, padded)
    arrays = [
        _restore_column(column, values, offsets, padded)
        for column, (values, offsets) in zip(columns, rows, strict=True)
    ]
    return ragged.to_batch(arrays, schema)


def _restore_column(
    column: Column, values: np.ndarray, offsets: np.ndarray, padded: bool
) -> pa.Array | np.ndarray:
    narrow = values.astype(column.dtype)
    wrong = values[narrow != values]
    if len(wrong):
        raise ValueError(f"{column.name} holds {wrong[0]}, which does not fit {column.dtype}")
    lengths = np.diff(offsets)
    fixed = (column.width if padded else -1) if column.width else 1
    if fixed >= 0 and (lengths != fixed).any():
        length = lengths[lengths != fixed][0]
        raise ValueError(f"{column.name} has {length} numbers in a row instead of {fixed}")
    if not column.width:
        return narrow
    if padded:
        return pa.FixedSizeListArray.from_arrays(narrow, column.width)
    return ragged.to_arrow(narrow, offsets)


def chunk_rows(columns: Sequence[Column]) -> int:
    """Return how many rows are encoded at a time, which depends only on the columns."""
    return max(1, _CHUNK_NUMBERS // sum(max(1, column.width) for column in columns))


def cut_chunks(
    columns: Sequence[tuple[np.ndarray, np.ndarray]], rows: int
) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
    """Cut flattened columns after every `rows` rows.

    Args:
        columns: of each, values any[total] and offsets int64[rows + 1].
        rows: of a chunk; the last one may have fewer.
    """
    for start in range(0, len(columns[0][1]) - 1, rows):
        yield [(values, offsets[start : start + rows + 1]) for values, offsets in columns]


def check_numbers(columns: Sequence[Column], output_format: str) -> None:
    """Check that all columns hold integers of up to 64 bits with a sign, as TFRecord and Avro do.

    Raises:
        UserError: a column holds other values.
    """
    for column in columns:
        if column.dtype not in INTEGERS:
            cause = f"the column {column.name} has the type {column.dtype}, which the format lacks"
            raise UserError(f"--output-format {output_format}", cause, "Choose parquet")
