"""Examples as a reader holds them: columns of NumPy arrays, lists as values and offsets."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Lists(NamedTuple):
    """A column that has a list in each row.

    Attributes:
        values: any[total], all lists behind each other.
        offsets: int64[rows + 1], where they begin; that of the first row need not be 0.

    Example:
        values [7, 8, 9] and offsets [0, 2, 2, 3] are the rows [7, 8], [] and [9].
    """

    values: npt.NDArray[Any]
    offsets: Integers

    @property
    def lengths(self) -> Integers:
        """int64[rows]."""
        return np.diff(self.offsets)


Values = Lists | npt.NDArray[Any]


class Rows(Sequence[dict[str, Any]]):
    """Some examples of a data set, column by column.

    As a sequence it gives each example as a dictionary of numbers and arrays, as collators of other
    libraries take them.

    Args:
        columns: of equal numbers of rows, by name.
        samples: int64[rows], the examples' numbers in the data set.
        epochs: int64[rows], the epoch that each is read in, which together with its number is what
            masks are drawn by.
    """

    def __init__(self, columns: Mapping[str, Values], samples: Integers, epochs: Integers) -> None:
        self.columns, self.samples, self.epochs = dict(columns), samples, epochs

    def __len__(self) -> int:
        return len(self.samples)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "Rows": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | Rows":
        """One example, or consecutive ones without copying them."""
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                raise ValueError("rows are sliced without a step")
            return self._cut(begin, max(begin, end))
        place = range(len(self))[index]
        return {name: _value(column, place) for name, column in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[place] for place in range(len(self)))

    def lists(self, name: str) -> Lists:
        """A column of lists.

        Raises:
            TypeError: the column has one number a row.
        """
        column = self.columns[name]
        if not isinstance(column, Lists):
            raise TypeError(f"{name} has one number a row")
        return column

    def replace(self, columns: Mapping[str, Values]) -> "Rows":
        """The same rows with further columns, or others in place of those of the same names."""
        return Rows({**self.columns, **columns}, self.samples, self.epochs)

    def _cut(self, begin: int, end: int) -> "Rows":
        columns = {name: _slice(column, begin, end) for name, column in self.columns.items()}
        return Rows(columns, self.samples[begin:end], self.epochs[begin:end])


def _value(column: Values, place: int) -> Any:
    if isinstance(column, Lists):
        return column.values[column.offsets[place] : column.offsets[place + 1]]
    return column[place].item()


def _slice(column: Values, begin: int, end: int) -> Values:
    if isinstance(column, Lists):
        return Lists(column.values, column.offsets[begin : end + 1])
    return column[begin:end]
