"""Examples as a reader holds them: columns of NumPy arrays, lists as values and offsets."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit

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


@njit
def measure_rows(
    offsets: np.ndarray, rows: np.ndarray, places: np.ndarray, lengths: np.ndarray
) -> None:
    """Write the lengths of some rows of a shard.

    Args:
        offsets: int64[rows of the shard + 1].
        rows: int64[n], which rows.
        places: int64[n], where each length goes.
        lengths: int64[any], filled at `places`.
    """
    for i in range(len(rows)):
        lengths[places[i]] = offsets[rows[i] + 1] - offsets[rows[i]]


@njit
def gather_lists(
    values: np.ndarray,
    offsets: np.ndarray,
    rows: np.ndarray,
    places: np.ndarray,
    gathered: np.ndarray,
    gathered_offsets: np.ndarray,
) -> None:
    """Copy some rows of a shard to their places among gathered ones.

    Args:
        values: any[total], the shard's.
        offsets: int64[rows of the shard + 1].
        rows: int64[n], which rows.
        places: int64[n], the place of each among the gathered rows.
        gathered: any[total of the gathered rows], filled.
        gathered_offsets: int64[gathered rows + 1].
    """
    for i in range(len(rows)):
        begin, end = offsets[rows[i]], offsets[rows[i] + 1]
        to = gathered_offsets[places[i]]
        # Places in slices count from 0, so that no negative one is looked for at each value: four
        # times as fast.
        source, target = values[begin:end], gathered[to : to + end - begin]
        for j in range(len(source)):
            target[j] = source[j]


@njit
def pad_lists(values: np.ndarray, offsets: np.ndarray, pad: int, matrix: np.ndarray) -> None:
    """Write lists as the rows of a matrix, filled up at their ends.

    Args:
        values: integers[total].
        offsets: int64[rows + 1].
        pad: what fills a row up.
        matrix: integers[rows, width], filled; what is longer than its width is an error of the
            caller's.

    Example:
        values [7, 8, 9], offsets [0, 2, 3] and pad 0 fill a matrix of width 3 with
        [[7, 8, 0], [9, 0, 0]].
    """
    width = matrix.shape[1]
    for i in range(len(offsets) - 1):
        begin = offsets[i]
        length = offsets[i + 1] - begin
        for j in range(length):
            matrix[i, j] = values[begin + j]
        for j in range(length, width):
            matrix[i, j] = pad


@njit
def mark_lists(offsets: np.ndarray, matrix: np.ndarray) -> None:
    """Write an attention mask: 1 where a list reaches, 0 behind it.

    Args:
        offsets: int64[rows + 1].
        matrix: integers[rows, width], filled.

    Example:
        offsets [0, 2, 3] fill a matrix of width 3 with [[1, 1, 0], [1, 0, 0]].
    """
    width = matrix.shape[1]
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        for j in range(width):
            matrix[i, j] = 1 if j < length else 0


@njit
def scatter_labels(
    positions: np.ndarray,
    position_offsets: np.ndarray,
    labels: np.ndarray,
    label_offsets: np.ndarray,
    matrix: np.ndarray,
) -> None:
    """Write labels of predictions into a matrix, -100 elsewhere.

    Args:
        positions: integers[predictions], columns of the matrix.
        position_offsets: int64[rows + 1].
        labels: integers[predictions].
        label_offsets: int64[rows + 1], of the same lengths.
        matrix: int64[rows, width], filled.

    Example:
        positions [1], labels [42] of a single row fill a matrix of width 3 with [[-100, 42, -100]].
    """
    for i in range(len(position_offsets) - 1):
        for j in range(matrix.shape[1]):
            matrix[i, j] = -100
        begin = position_offsets[i]
        for j in range(position_offsets[i + 1] - begin):
            matrix[i, positions[begin + j]] = labels[label_offsets[i] + j]


def take_lists(lists: Lists, places: Integers) -> Lists:
    """A copy of some lists, with offsets from 0.

    Example:
        places [2, 0] of the lists [7, 8], [] and [9] give [9] and [7, 8].
    """
    offsets = np.zeros(len(places) + 1, np.int64)
    np.cumsum(lists.lengths[places], out=offsets[1:])
    gathered = np.empty(int(offsets[-1]), lists.values.dtype)
    order = np.arange(len(places))
    gather_lists(lists.values, lists.offsets, places, order, gathered, offsets)
    return Lists(gathered, offsets)


def join_values(parts: Sequence[tuple[Integers, Values]], rows: int) -> Values:
    """The parts of a column, put together.

    Args:
        parts: values, each with the places of its rows among all.
        rows: of all parts.
    """
    lists = [(places, part) for places, part in parts if isinstance(part, Lists)]
    plain = [(places, part) for places, part in parts if not isinstance(part, Lists)]
    dtype = np.result_type(*(part.values for _, part in lists), *(part for _, part in plain))
    if plain:
        numbers = np.empty(rows, dtype)
        for places, values in plain:
            numbers[places] = values
        return numbers
    offsets = np.zeros(rows + 1, np.int64)
    for places, part in lists:
        offsets[places + 1] = part.lengths
    np.cumsum(offsets, out=offsets)
    gathered = np.empty(int(offsets[-1]), dtype)
    for places, part in lists:
        order = np.arange(len(places))
        gather_lists(part.values, part.offsets, order, places, gathered, offsets)
    return Lists(gathered, offsets)
