"""Rows of many batches as one, in memory that the rows after them use again."""

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged

# The system gives memory when it is first written, so that a large array costs little before it is
# filled; one that grows is copied instead, and leaves holes that are too small for others.
_RESERVED_BYTES = 2**28
# What a column takes before that, as the system gives large arrays 2 MiB at a time: the columns of
# short shards would take 50 MiB of a worker together, as measured.
_FIRST_BYTES = 2**19


class RowBuffer:
    """Collects rows whose columns are numbers or lists of numbers, without nulls.

    A batch is copied when it comes, while the processor's cache still holds it. Memory that a
    process touches for the first time is slow, so that what rows took is kept for others.

    Args:
        schema: of all batches.
        reserved_bytes: the size that a column has before it grows. Many buffers at a time need a
            small one, as some systems count what is reserved.

    Attributes:
        schema: likewise.
    """

    def __init__(self, schema: pa.Schema, reserved_bytes: int = _RESERVED_BYTES) -> None:
        self.schema = schema
        self._columns = [_column_of(field.type, reserved_bytes) for field in schema]

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
        return ragged.to_batch(arrays, self.schema)

    def clear(self) -> None:
        """Remove all rows, and keep their memory."""
        for column in self._columns:
            column.clear()


class _Numbers:
    def __init__(self, dtype: np.dtype, reserved_bytes: int) -> None:
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
    def __init__(self, dtype: np.dtype, reserved_bytes: int) -> None:
        self._values = _Numbers(dtype, reserved_bytes)
        self._ends = _Numbers(np.dtype(np.int32), reserved_bytes)
        self.clear()

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._ends.nbytes

    def add(self, array: pa.Array) -> None:
        values, offsets = ragged.from_arrow(array)
        if self._values.size + int(offsets[-1] - offsets[0]) > ragged.MOST_VALUES:
            raise ValueError("rows must not have more than 2**31 - 1 values")
        self._ends.append(offsets[1:] + np.int32(self._values.size - offsets[0]))
        self._values.append(values[offsets[0] : offsets[-1]])

    def array(self) -> pa.Array:
        return ragged.to_arrow(self._values.array(), self._ends.array().to_numpy())

    def clear(self) -> None:
        self._values.clear()
        self._ends.clear()
        self._ends.append(np.zeros(1, np.int32))


def _column_of(kind: pa.DataType, reserved_bytes: int) -> _Numbers | _Lists:
    if pa.types.is_list(kind):
        return _Lists(_dtype_of(kind.value_type), reserved_bytes)
    return _Numbers(_dtype_of(kind), reserved_bytes)


def _dtype_of(kind: pa.DataType) -> np.dtype:
    # `DataType.to_pandas_dtype` needs pandas, which need not be installed.
    dtype: np.dtype = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    return dtype
