"""The one table that says what a column of a data set is, for writers and readers alike."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa


def smallest_integer(largest: int) -> np.dtype:
    """The smallest integer type that holds 0 to `largest`; signed where both have the size.

    Example:
        127 gives int8, 511 int16, 40000 uint16, 100000 int32.
    """
    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        if largest <= np.iinfo(name).max:
            return np.dtype(name)
    return np.dtype("int64")


# The width of lists that have no greatest length, and the pad of those that nothing can fill, which
# is no value of any column (labels of words are filled with -1).
ANY_LENGTH, NO_PAD = -1, -2


@dataclass(frozen=True)
class Column:
    """One column of a data set.

    Attributes:
        name: the name that trainers expect ("input_ids").
        dtype: NumPy name of the type of one value ("int16").
        meaning: one sentence for the manifest and the data set card.
        width: 0 for one number an example; otherwise a list an example, and the number of values
            to which the padded layout fills it; ANY_LENGTH where there is none.
        pad: the value that fills it; NO_PAD where none can be told from the row's own values.
    """

    name: str
    dtype: str
    meaning: str
    width: int = 0
    pad: int = 0

    def arrow_field(self, padded: bool) -> pa.Field:
        """The column's Arrow field; `padded` gives lists of fixed size."""
        value = pa.from_numpy_dtype(np.dtype(self.dtype))
        if self.width:
            element = pa.field("element", value, nullable=False)
            value = pa.list_(element, self.width) if padded else pa.list_(element)
        return pa.field(self.name, value, nullable=False)


def arrow_schema(columns: Iterable[Column], padded: bool = False) -> pa.Schema:
    """The Arrow schema of a table of columns."""
    return pa.schema([column.arrow_field(padded) for column in columns])


def pad_rows(values: np.ndarray, offsets: np.ndarray, width: int, pad: int) -> np.ndarray:
    """Ragged rows as a matrix.

    Args:
        values: any[total].
        offsets: integers[rows + 1].
        width: columns of the matrix, at least the longest row.
        pad: what fills the rest of a row.

    Returns:
        any[rows, width].

    Example:
        values [7, 8, 9], offsets [0, 2, 3], width 3, pad 0 give [[7, 8, 0], [9, 0, 0]].
    """
    lengths = np.diff(offsets)
    matrix = np.full((len(lengths), width), pad, values.dtype)
    matrix[np.arange(width) < lengths[:, None]] = values[offsets[0] : offsets[-1]]
    return matrix


# Which example a row is; every objective's `build` puts these columns first.
IDENTITY_SCHEMA = pa.schema(
    [
        pa.field("document", pa.uint64(), nullable=False),
        pa.field("repeat", pa.uint16(), nullable=False),
        pa.field("index", pa.uint32(), nullable=False),
    ]
)
