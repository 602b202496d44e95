"""Examples in memory, as columns of NumPy arrays with lists as values and offsets; and batches."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import check_integers, longest_row
from corpusmill.arrays.randomness import MAX_SEED, derive_key
from corpusmill.errors import UserError

# The label of a token that is not predicted, for models of Hugging Face and losses of PyTorch.
NOT_PREDICTED = -100
# The largest number of a sample, all epochs counted.
MOST_SAMPLES = 2**63 - 1


def check_epoch(name: str, epoch: int, size: int) -> None:
    """Refuse the number of an epoch whose samples cannot be numbered.

    Args:
        name: the keyword.
        epoch: the number.
        size: samples of an epoch.

    Raises:
        UserError: it is negative, or too large.
    """
    most = MOST_SAMPLES // max(1, size) - 1
    if not 0 <= epoch <= most:
        raise UserError(f"{name}={epoch}", "there is no such epoch", f"Give 0 to {most}")


def check_minimum(name: str, value: int | None, minimum: int) -> None:
    """Refuse a number below the minimum, which is 0 or 1, or beyond 63 bits; None is accepted.

    Args:
        name: the keyword.
        value: its value.
        minimum: the smallest accepted value.

    Raises:
        UserError: the value is out of range.
    """
    if value is not None and value > MOST_SAMPLES:
        cause = "there are never so many samples"
        raise UserError(f"{name}={value}", cause, f"Give {MOST_SAMPLES} or less")
    if value is not None and value < minimum:
        cause = f"{name} must {'be positive' if minimum else 'not be negative'}"
        raise UserError(f"{name}={value}", cause, f"Give {minimum} or more")


def check_seed(seed: int) -> None:
    """Refuse a seed that is not an unsigned 64-bit integer.

    Raises:
        UserError: the seed is out of range.
    """
    if not 0 <= seed <= MAX_SEED:
        raise UserError(f"seed={seed}", "the seed is out of range", f"Give 0 to {MAX_SEED}")


def check_share(name: str, value: float) -> None:
    """Refuse a share that is not from 0 to 1.

    Raises:
        UserError: the value is out of range.
    """
    if not 0 <= value <= 1:
        raise UserError(f"{name}={value}", "it is not a share", "Give 0 to 1")


Integers = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

# The arguments of a model, by name.
Batch = dict[str, npt.NDArray[Any]]


class Lists(NamedTuple):
    """A column with a list in each row.

    Attributes:
        values: any[total], the values of all lists, one list after another.
        offsets: int64[rows + 1], where the lists begin; the first offset need not be 0.

    Example:
        values [7, 8, 9] and offsets [0, 2, 2, 3] are the rows [7, 8], [] and [9].
    """

    values: npt.NDArray[Any]
    offsets: Integers

    @property
    def lengths(self) -> Integers:
        """The lengths of the lists, int64[rows]."""
        return np.diff(self.offsets)

    @property
    def flat(self) -> npt.NDArray[Any]:
        """The values of the lists alone, any[sum of their lengths]."""
        return self.values[self.offsets[0] : self.offsets[-1]]

    @property
    def nbytes(self) -> int:
        """The size of both arrays in bytes."""
        return self.values.nbytes + self.offsets.nbytes


Values = Lists | npt.NDArray[Any]


class Rows(Sequence[dict[str, Any]]):
    """Some examples of a data set, stored by column.

    As a sequence it yields each example as a dictionary of numbers and arrays, which is what
    collators of other libraries take.

    Args:
        columns: the columns by name, all with the same number of rows.
        samples: int64[rows], the examples' numbers in the data set.
        epochs: int64[rows], the epoch in which each example is read; masks are drawn by epoch and
            number.
        mask_shares: float64[rows, 3], the `MaskShares` of the stage of a training in which each is
            read, -1 for those that it does not give; None if no stage gives any.
    """

    def __init__(
        self,
        columns: Mapping[str, Values],
        samples: Integers,
        epochs: Integers,
        mask_shares: Shares | None = None,
    ) -> None:
        self.columns, self.samples, self.epochs = dict(columns), samples, epochs
        self.mask_shares = mask_shares

    def __len__(self) -> int:
        return len(self.samples)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "Rows": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | Rows":
        """Return one example, or consecutive ones without copying them."""
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                raise ValueError("rows can only be sliced with a step of 1")
            end = max(begin, end)
            columns = {
                name: Lists(column.values, column.offsets[begin : end + 1])
                if isinstance(column, Lists)
                else column[begin:end]
                for name, column in self.columns.items()
            }
            shares = None if self.mask_shares is None else self.mask_shares[begin:end]
            return Rows(columns, self.samples[begin:end], self.epochs[begin:end], shares)
        row = range(len(self))[index]
        return {
            name: column.values[column.offsets[row] : column.offsets[row + 1]]
            if isinstance(column, Lists)
            else column[row].item()
            for name, column in self.columns.items()
        }

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def lists(self, name: str) -> Lists:
        """Return a column of lists, by which no kernel reads beside its arrays.

        Raises:
            TypeError: the column has one number per row, or its offsets are not integers.
            ValueError: its offsets do not fit the rows or the values.
        """
        column = self.columns[name]
        if not isinstance(column, Lists):
            raise TypeError(f"{name} has one number per row, not a list")
        check_integers(offsets=column.offsets)
        is_flat = np.ndim(column.values) == 1 and len(column.offsets) == len(self) + 1
        if not is_flat or longest_row(column.offsets, len(column.values)) < 0:
            raise ValueError(f"{name} must have offsets that ascend, of its rows and values")
        return column


class Collator(Protocol):
    """Turns rows into the arguments of a model."""

    def prepare(self, rows: Rows) -> Rows:
        """Do what is done row by row for many rows at once, such as masking; by default nothing."""
        return rows

    @abstractmethod
    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch, from prepared rows."""


def integers(name: str, numbers: Any) -> Integers:
    """Return numbers as int64[n].

    Raises:
        TypeError: they are not a flat array of integers.
    """
    if isinstance(numbers, np.ndarray) and numbers.ndim == 1 and numbers.dtype == np.int64:
        return numbers
    array = np.asarray(numbers)
    # An empty list becomes an array of floats.
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be a flat array of integers")
    return array.astype(np.int64, copy=False)


def group(numbers: Integers, starts: Integers) -> list[tuple[int, Integers, Integers]]:
    """Group numbers by the stretches that they belong to, in the order of the stretches.

    Args:
        numbers: int64[n].
        starts: int64[stretches + 1], where each stretch begins, and where the last one ends.

    Returns:
        for each stretch that has any: its place among the stretches; its numbers, counted from its
        own beginning, int64[m]; their places among all numbers, int64[m].

    Example:
        numbers [7, 0, 5] and starts [0, 5, 9] give (0, [0], [1]) and (1, [2, 0], [0, 2]).
    """
    stretches = np.searchsorted(starts, numbers, side="right") - 1
    # Sorted once, however many stretches there are; the places of each stay in their order.
    order = np.argsort(stretches, kind="stable")
    found, begins = np.unique(stretches[order], return_index=True)
    places = np.split(order, begins[1:]) if len(found) else []
    return [
        (one, numbers[at] - starts[one], at) for one, at in zip(found.tolist(), places, strict=True)
    ]


class Part(NamedTuple):
    """Some rows of a column, and their places in a gathered column.

    Attributes:
        values: the column.
        rows: int64[n], the chosen rows.
        places: int64[n], the place of each chosen row in the gathered column.
    """

    values: Values
    rows: Integers
    places: Integers

    @property
    def lists(self) -> Lists:
        """The values of a column of lists."""
        assert isinstance(self.values, Lists)  # noqa: S101  the callers know their columns
        return self.values


def gather_lengths(parts: Sequence[Part], size: int) -> Integers:
    """Return the lengths of the rows of a gathered column of lists, int64[size]."""
    lengths = np.empty(size, np.int64)
    for part in parts:
        measure_rows(part.lists.offsets, part.rows, part.places, lengths)
    return lengths


def gather_lists(parts: Sequence[Part], size: int, dtype: str | None = None) -> Lists:
    """Copy lists into a new column.

    Args:
        parts: the rows to copy; each place of the new column belongs to one of them.
        size: the number of rows of the new column.
        dtype: the type of its values; None for the smallest that holds those of all parts.

    Example:
        the part ([7, 8], [], [9]) with rows [2, 0] and places [0, 1] gives [9] and [7, 8].
    """
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(gather_lengths(parts, size), out=offsets[1:])
    result_type = dtype or np.result_type(*(part.lists.values for part in parts))
    gathered = np.empty(int(offsets[-1]), result_type)
    for part in parts:
        copy_lists(*part.lists, part.rows, part.places, gathered, offsets)
    return Lists(gathered, offsets)


def gather(parts: Sequence[Part], size: int) -> Values:
    """Copy a column of lists or of numbers, from one part or more."""
    is_list = isinstance(parts[0].values, Lists)
    return gather_lists(parts, size) if is_list else gather_numbers(parts, size)


def gather_numbers(parts: Sequence[Part], size: int, dtype: str | None = None) -> npt.NDArray[Any]:
    """Copy numbers into a new column, as `gather_lists` does with lists."""
    gathered = np.empty(size, dtype or np.result_type(*(part.values for part in parts)))
    for values, rows, places in parts:
        gathered[places] = np.asarray(values)[rows]
    return gathered


@njit
def derive_sample_keys(
    seed: int, samples: np.ndarray, epochs: np.ndarray, purpose: int
) -> np.ndarray:
    """Return the keys by which samples are changed in their epochs, as by masks.

    Args:
        seed: 0 to 2**64 - 1.
        samples: int64[rows], the numbers of the samples.
        epochs: int64[rows], the epoch in which each is read.
        purpose: what is drawn.

    Returns:
        uint64[rows].
    """
    keys = np.empty(len(samples), np.uint64)
    for i in range(len(samples)):
        keys[i] = derive_key(seed, samples[i], epochs[i], purpose)
    return keys


@njit
def measure_rows(
    offsets: np.ndarray, rows: np.ndarray, places: np.ndarray, lengths: np.ndarray
) -> None:
    """Write the lengths of some rows of a shard.

    Args:
        offsets: int64[rows of the shard + 1].
        rows: int64[n], the rows to measure.
        places: int64[n], the place of each length.
        lengths: int64[any], filled at `places`.
    """
    for i in range(len(rows)):
        lengths[places[i]] = offsets[rows[i] + 1] - offsets[rows[i]]


@njit
def copy_lists(
    values: np.ndarray,
    offsets: np.ndarray,
    rows: np.ndarray,
    places: np.ndarray,
    gathered: np.ndarray,
    gathered_offsets: np.ndarray,
) -> None:
    """Copy some rows of a shard to their places among gathered ones.

    Args:
        values: any[total], the values of the shard.
        offsets: int64[rows of the shard + 1].
        rows: int64[n], the rows to copy.
        places: int64[n], the place of each row among the gathered ones.
        gathered: any[total of the gathered rows], filled.
        gathered_offsets: int64[gathered rows + 1].
    """
    for i in range(len(rows)):
        begin, end = offsets[rows[i]], offsets[rows[i] + 1]
        target_begin = gathered_offsets[places[i]]
        # Indices of slices start at 0, which spares a check for negative ones at each value: four
        # times as fast.
        source, target = values[begin:end], gathered[target_begin : target_begin + end - begin]
        for j in range(len(source)):
            target[j] = source[j]
