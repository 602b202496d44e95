"""Rows of unequal length as two flat arrays: values, and the offsets at which rows begin.

    [[7, 8], [], [9]]   is   values = [7, 8, 9], offsets = [0, 2, 2, 3]

This is also Arrow's layout of a list column, so that converting between the two copies nothing. A
column with one number per row has the offsets 0, 1, 2, ...
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import INTEGERS, Column, arrow_schema
from corpusmill.arrays.kernel_cache import njit
from corpusmill.errors import UserError, option
from corpusmill.knobs import knob

# Offsets of Arrow's lists have 32 bits.
MOST_VALUES = 2**31 - 1

_INTEGERS = {
    pa.from_numpy_dtype(bounds.dtype): bounds
    for bounds in (
        np.iinfo(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)
    )
}


def from_arrow(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the two arrays of a list, string or binary column without nulls.

    Returns:
        values: the flat values (uint8 for strings and binary), or the inner pa.ListArray of nested
            lists.
        offsets: integers[rows + 1] into values; in a sliced column they do not begin at 0.
    """
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        inner = column.values
        nested = pa.types.is_nested(inner.type) or pa.types.is_string(inner.type)
        return (inner if nested else to_numpy(inner)), to_numpy(column.offsets)
    _, offsets_buffer, data = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data or b"", np.uint8), offsets


def to_arrow(values: np.ndarray | pa.Array, offsets: np.ndarray) -> pa.ListArray:
    """Return the rows as a list column, without copying `values`; offsets become int32."""
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32, copy=False)), pa.array(values)
    )


def to_numpy(column: pa.Array) -> np.ndarray:
    """Return the values of a column of numbers or booleans; numbers are not copied.

    Arrow's own method of this name imports pandas, where that is installed, for a fifth of a
    second.

    Raises:
        ValueError: it has nulls.
    """
    if column.null_count:
        raise ValueError(f"{column.null_count:,} values are null")
    if column.type != pa.bool_():
        return np.from_dlpack(column)
    bits = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    end = column.offset + len(column)
    return np.unpackbits(bits, count=end, bitorder="little")[column.offset :].view(np.bool_)


def to_batch(columns: list[np.ndarray | pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without nulls, with the columns cast to the schema's types."""
    kinds = [field.type for field in schema]
    arrays = [_conform(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _conform(column: np.ndarray | pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column cast to a type. A call of Arrow's own `cast` takes as long as a small batch.

    Raises:
        ValueError: a number is out of the type's range.
    """
    if isinstance(column, np.ndarray):
        array = pa.array(_narrow(column, kind))
    elif column.type != kind and _holds_numbers(column, kind):
        values, offsets = column.values, column.offsets
        if values.type != kind.value_type:
            numbers, ends = from_arrow(column)
            values = pa.array(_narrow(numbers[ends[0] : ends[-1]], kind.value_type))
            offsets = pa.array(ends - ends[0])
        array = pa.ListArray.from_arrays(offsets, values, type=kind)
    else:
        array = column
    return array if array.type == kind else array.cast(kind)


def _narrow(values: np.ndarray, kind: pa.DataType) -> np.ndarray:
    """Return integers in the type of integers that is wanted; other values as they are."""
    bounds = _INTEGERS.get(kind)
    if bounds is None or values.dtype == bounds.dtype or values.dtype.kind not in "iu":
        return values
    if len(values):
        smallest, largest = int(values.min()), int(values.max())
        if not bounds.min <= smallest <= largest <= bounds.max:
            raise ValueError(f"numbers from {smallest} to {largest} do not fit into {bounds.dtype}")
    return values.astype(bounds.dtype)


def _holds_numbers(column: pa.Array, kind: pa.DataType) -> bool:
    """Return whether a column holds lists of integers without nulls, and the type is of such."""
    return (
        pa.types.is_list(kind)
        and pa.types.is_list(column.type)
        and pa.types.is_integer(kind.value_type)
        and pa.types.is_integer(column.type.value_type)
        and not column.null_count
        and not column.values.null_count
    )


def check_integers(**arrays: np.ndarray) -> None:
    """Refuse what compiled kernels do not expect.

    Raises:
        TypeError: an argument, which the message names, is not a flat array of integers.
    """
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            raise TypeError(f"{name} must be a flat array of integers")


@njit
def longest_row(offsets: np.ndarray, total: int) -> int:
    """Return the length of the longest row, or -1 if the offsets are not those of rows.

    Args:
        offsets: integers[rows + 1]; those of rows ascend from 0 or more to `total` or less.
        total: the number of values; -1 for any number.

    Example:
        [0, 2, 2, 3] gives 2 for 3 values or more, and -1 for 2 values.
    """
    if not len(offsets) or offsets[0] < 0 or (total >= 0 and offsets[-1] > total):
        return -1
    longest = 0
    for i in range(len(offsets) - 1):
        if offsets[i + 1] < offsets[i]:
            return -1
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


def cut_rows(offsets: np.ndarray, size: int) -> np.ndarray:
    """Return the offsets of rows cut into parts of `size` values; a row's last part may be shorter.

    Args:
        offsets: int64[rows + 1].
        size: at least 1.

    Returns:
        int64[parts + 1].

    Example:
        offsets [0, 5, 5, 7] and size 2 give [0, 2, 4, 5, 7].
    """
    parts = -(np.diff(offsets) // -size)
    places = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(np.repeat(offsets[:-1], parts) + size * places, offsets[-1])


def take(
    values: np.ndarray, offsets: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in the given order.

    Args:
        values: any[total].
        offsets: int32[n + 1] into values.
        rows: int64[m], each in [0, n).

    Returns:
        values: any[total of these rows].
        offsets: int32[m + 1].

    Raises:
        TypeError: an argument is not a flat array, or not of integers.
        ValueError: there is no such row, the offsets do not fit the values, or the rows have more
            than 2**31 - 1 values.

    Example:
        values [7, 8, 9], offsets [0, 2, 2, 3], rows [2, 0] give [9, 7, 8] and [0, 1, 3].
    """
    check_integers(offsets=offsets, rows=rows)
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        raise TypeError("values must be a flat array")
    taken: tuple[np.ndarray, np.ndarray] = _take(values, offsets, rows)
    return taken


@njit
def _take(
    values: np.ndarray, offsets: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows, as `take` describes."""
    total = 0
    for row in rows:
        if not 0 <= row < len(offsets) - 1:
            raise ValueError("rows must be numbers of rows")
        start, end = offsets[row], offsets[row + 1]
        if not 0 <= start <= end <= len(values):
            raise ValueError("offsets must ascend, and not exceed the number of values")
        total += end - start
        if total > MOST_VALUES:
            raise ValueError("rows must not have more than 2**31 - 1 values")
    new_offsets = np.zeros(len(rows) + 1, np.int32)
    for i in range(len(rows)):
        new_offsets[i + 1] = new_offsets[i] + offsets[rows[i] + 1] - offsets[rows[i]]
    new_values = np.empty(new_offsets[-1], values.dtype)
    for i in range(len(rows)):
        # Indices that may be negative would be checked for it at each value, and a slice that is
        # assigned to another one takes as long as a short row.
        start, place = np.uint64(offsets[rows[i]]), np.uint64(new_offsets[i])
        for value in range(np.uint64(new_offsets[i + 1]) - place):
            new_values[place + value] = values[start + value]
    return new_values, new_offsets


def take_rows(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    """Return rows of a batch; Arrow's `take` would move the values of a list one by one.

    Args:
        batch: its columns are numbers, lists of numbers or lists of such lists, all without nulls,
            or texts or bytes.
        rows: int64[m], each in [0, rows of the batch).

    Raises:
        TypeError: the rows are not a flat array of integers.
        ValueError: there is no such row, or a column of numbers or lists has nulls.
    """
    check_integers(rows=rows)
    if len(rows) and not 0 <= rows.min() <= rows.max() < batch.num_rows:
        raise ValueError("rows must be numbers of rows")
    return to_batch([_take_column(column, rows) for column in batch.columns], batch.schema)


def _take_column(column: pa.Array, rows: np.ndarray) -> np.ndarray | pa.Array:
    kinds = pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary
    if any(is_kind(column.type) for is_kind in kinds):
        return column.take(pa.array(rows))
    if column.null_count:
        raise ValueError("batch must not have nulls")
    return _take_lists(column, rows) if pa.types.is_list(column.type) else column.to_numpy()[rows]


def _take_lists(column: pa.ListArray, rows: np.ndarray) -> pa.ListArray:
    values, offsets = from_arrow(column)
    if not pa.types.is_list(column.type.value_type):
        return to_arrow(*take(values, offsets, rows))
    if column.values.null_count:
        raise ValueError("batch must not have nulls")
    # The inner lists of a row are contiguous, and so are its values.
    inner_values, inner_offsets = from_arrow(values)
    lengths, new_offsets = take(np.diff(inner_offsets), offsets, rows)
    new_values, _ = take(inner_values, inner_offsets[offsets], rows)
    new_inner_offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=new_inner_offsets[1:])
    return to_arrow(to_arrow(new_values, new_inner_offsets), new_offsets)


def matrix_of(column: pa.Array) -> np.ndarray:
    """Return the rows of a padded column (lists of fixed size): any[rows, width], not copied."""
    return to_numpy(column.flatten()).reshape(len(column), column.type.list_size)


def is_padded(column: pa.Array) -> bool:
    """Return whether a list column's rows are padded to one width."""
    return bool(pa.types.is_fixed_size_list(column.type))


def row_lengths(input_ids: pa.Array, pad_id: int) -> np.ndarray:
    """Return the number of tokens of each example.

    Args:
        input_ids: a list column, ragged or padded.
        pad_id: the id that fills a padded row after its last token.

    Returns:
        int64[rows].

    Example:
        [[2, 9, 3, 0], [2, 3, 0, 0]], padded with 0, gives [3, 2].
    """
    if not is_padded(input_ids):
        return np.diff(from_arrow(input_ids)[1]).astype(np.int64)
    tokens = matrix_of(input_ids) != pad_id
    num_pads = tokens[:, ::-1].argmax(axis=1)
    return np.where(tokens.any(axis=1), tokens.shape[1] - num_pads, 0)


def count_in_rows(
    column: pa.Array, compare: Callable[[np.ndarray, int], np.ndarray] = np.greater, bound: int = 0
) -> np.ndarray:
    """Return how many values of each row are above a bound, or compare otherwise with it.

    Args:
        column: a list column, ragged or padded.
        compare: compares values with the bound.
        bound: the bound.

    Returns:
        int64[rows].

    Example:
        [[1, 0, 1], [], [0]] gives [2, 0, 0].
    """
    if is_padded(column):
        return np.asarray(compare(matrix_of(column), bound).sum(axis=1, dtype=np.int64))
    values, offsets = from_arrow(column)
    # A fifth of the time of running sums.
    places = np.flatnonzero(compare(values, bound))
    return np.diff(np.searchsorted(places, offsets)).astype(np.int64)


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
        values, offsets = from_arrow(array)
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
    return to_batch(arrays, schema)


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
    return to_arrow(narrow, offsets)


CHUNK_NUMBERS = knob("chunk_numbers", 2**18)
"""The numbers that Avro and TFRecord encode at once; a block of Avro has no more rows. The
result stays in the processor's cache, and the cost of calls does not matter."""


def chunk_rows(columns: Sequence[Column]) -> int:
    """Return how many rows are encoded at a time, which depends only on the columns."""
    return max(1, CHUNK_NUMBERS // sum(max(1, column.width) for column in columns))


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
            raise UserError(option("output_format", output_format), cause, "Choose parquet")


# What a column takes before it reserves memory, as the system gives large arrays 2 MiB at a time:
# the columns of short shards would take 50 MiB of a worker together, as measured.
_FIRST_BYTES = 2**19


class RowBuffer:
    """Collects rows whose columns are numbers or lists of numbers, without nulls.

    A batch is copied when it comes, while the processor's cache still holds it. Memory that a
    process touches for the first time is slow, so that what rows took is kept for others.

    Args:
        schema: of all batches.
        reserved_bytes: the size that a column has before it grows by doubling. The system gives
            memory when it is first written, so that a large array costs little before it is filled;
            one that grows is copied instead, and leaves holes that are too small for others. Many
            buffers at a time need a small one, as some systems count what is reserved.

    Attributes:
        schema: likewise.
    """

    def __init__(self, schema: pa.Schema, reserved_bytes: int) -> None:
        self.schema = schema
        self._columns = [
            (_Lists if pa.types.is_list(field.type) else _Numbers)(field.type, reserved_bytes)
            for field in schema
        ]

    @property
    def nbytes(self) -> int:
        """The size of the rows."""
        return sum(column.nbytes for column in self._columns)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            ValueError: a column has nulls.
        """
        if any(array.null_count for array in batch.columns):
            raise ValueError("batch must not have nulls")
        for column, array in zip(self._columns, batch.columns, strict=True):
            column.add(array)

    def rows(self) -> pa.RecordBatch:
        """All rows, which are valid until the buffer is cleared and others are added."""
        arrays: list[np.ndarray | pa.Array] = [column.array() for column in self._columns]
        return to_batch(arrays, self.schema)

    def clear(self) -> None:
        """Remove all rows, and keep their memory."""
        for column in self._columns:
            column.clear()


class _Numbers:
    def __init__(self, kind: pa.DataType, reserved_bytes: int) -> None:
        # `DataType.to_pandas_dtype` needs pandas, which need not be installed.
        dtype: np.dtype = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
        self._reserved, first = reserved_bytes // dtype.itemsize, _FIRST_BYTES // dtype.itemsize
        self._values, self.size = np.empty(min(first, self._reserved), dtype), 0

    @property
    def nbytes(self) -> int:
        return self.size * self._values.itemsize

    def add(self, array: pa.Array) -> None:
        self.append(array.to_numpy(zero_copy_only=True))

    def append(self, values: np.ndarray) -> None:
        size = self.size + len(values)
        if size > len(self._values):
            most = max(size, self._reserved, 2 * len(self._values))
            larger = np.empty(most, self._values.dtype)
            larger[: self.size] = self._values[: self.size]
            self._values = larger
        self._values[self.size : size] = values
        self.size = size

    def array(self) -> pa.Array:
        return pa.array(self._values[: self.size])

    def clear(self) -> None:
        self.size = 0


class _Lists:
    def __init__(self, kind: pa.ListType, reserved_bytes: int) -> None:
        self._values = _Numbers(kind.value_type, reserved_bytes)
        self._ends = _Numbers(pa.int32(), reserved_bytes)
        self.clear()

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._ends.nbytes

    def add(self, array: pa.Array) -> None:
        values, offsets = from_arrow(array)
        if self._values.size + int(offsets[-1] - offsets[0]) > MOST_VALUES:
            raise ValueError("rows must not have more than 2**31 - 1 values")
        self._ends.append(offsets[1:] + np.int32(self._values.size - offsets[0]))
        self._values.append(values[offsets[0] : offsets[-1]])

    def array(self) -> pa.Array:
        return to_arrow(self._values.array(), self._ends.array().to_numpy())

    def clear(self) -> None:
        self._values.clear()
        self._ends.clear()
        self._ends.append(np.zeros(1, np.int32))
