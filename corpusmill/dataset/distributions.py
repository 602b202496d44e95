"""The distributions of a data set's rows, counted again from its columns.

An objective's `measure` counts them before the examples are written; here they come from what was
written, ragged or padded, so that the two can be compared.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column, Role
from corpusmill.arrays.ragged import is_padded, matrix_of, row_lengths

# [CLS] first [SEP], and second [SEP] where there is a second segment or an empty one.
_FIRST_SPECIAL, _SECOND_SPECIAL = 2, 1
# Counts take memory for each value up to the largest, which is refused beyond this or the longest
# row of the manifest.
_LARGEST = 2**16
_LENGTHS = {Role.TOKEN_IDS: "length", Role.TARGET_IDS: "target_length"}

Counts = npt.NDArray[np.int64]


def _row_counts(
    column: pa.Array, compare: Callable[[np.ndarray, int], np.ndarray] = np.greater
) -> Counts:
    """int64[rows]: how many values of each row are above 0, or compare otherwise with it."""
    if is_padded(column):
        return np.asarray(compare(matrix_of(column), 0).sum(axis=1, dtype=np.int64))
    values, offsets = ragged.from_arrow(column)
    # A fifth of the time of running sums.
    places = np.flatnonzero(compare(values, 0))
    return np.diff(np.searchsorted(places, offsets)).astype(np.int64)


def recount(
    batch: pa.RecordBatch, columns: Iterable[Column], longest: int = _LARGEST
) -> dict[str, Counts]:
    """The distributions that the columns of a batch give.

    Args:
        batch: rows as they are in a shard.
        columns: those to count, the tokens first.
        longest: the most tokens of a row.

    Returns:
        {"length": counts by value, "first_segment_length": ..., "second_segment_length": ...,
        "words": ..., "predictions": ..., "target_length": ..., "pieces": ...} as far as there are
        columns of these roles, and one of each class by the column's name; each
        int64[largest value + 1].

    Raises:
        ValueError: a value is negative or too large.

    Example:
        One row with input_ids [2, 10, 11, 3, 12, 3] and token_type_ids [0, 0, 0, 0, 1, 1] gives
        "length" [0, 0, 0, 0, 0, 0, 1], "first_segment_length" [0, 0, 1] and
        "second_segment_length" [0, 1].
    """
    rows: dict[str, Counts] = {}
    for column in columns:
        array = batch.column(column.name)
        match column.role:
            case Role.TOKEN_IDS | Role.TARGET_IDS:
                rows[_LENGTHS[column.role]] = row_lengths(array, column.pad)
            case Role.SEGMENTS:
                second = _row_counts(array)
                rows["first_segment_length"] = rows["length"] - second - _FIRST_SPECIAL
                rows["second_segment_length"] = np.maximum(0, second - _SECOND_SPECIAL)
            case Role.WORDS:
                # 0 is a word's first token; padding is -1.
                rows["words"] = _row_counts(array, np.equal)
            case Role.POSITIONS:
                # Position 0 holds [CLS], which is never predicted, so that a 0 is padding.
                rows["predictions"] = _row_counts(array)
            case Role.BOUNDARIES:
                # All of a row's boundaries but the first are above 0, and padding is not.
                rows["pieces"] = _row_counts(array)
            case Role.CLASS:
                rows[column.name] = array.to_numpy()
    for name, values in rows.items():
        largest = int(values.max(initial=0))
        if largest > max(longest, _LARGEST):
            raise ValueError(f"a row has the {name} {largest:,}, above {max(longest, _LARGEST):,}")
    return {name: np.bincount(values) for name, values in rows.items()}


def as_mapping(counts: Counts) -> dict[int, int]:
    """The counts of the values that occur; [0, 4, 0, 3] gives {1: 4, 3: 3}."""
    values = np.flatnonzero(counts)
    return dict(zip(values.tolist(), counts[values].tolist(), strict=True))


def from_mapping(numbers: Mapping[int, int]) -> Counts:
    """The counts of all values up to the largest; {1: 4, 3: 3} gives [0, 4, 0, 3]."""
    counts = np.zeros(1 + max(numbers, default=-1), np.int64)
    for value, number in numbers.items():
        counts[value] = number
    return counts


def add_counts(total: Counts, more: Counts) -> Counts:
    """The sum of two distributions of unequal length; [1] and [0, 2] give [1, 2]."""
    if len(total) < len(more):
        total, more = more, total
    result = total.astype(np.int64)
    result[: len(more)] += more
    return result


def add_all(totals: dict[str, Counts], more: Mapping[str, Counts]) -> None:
    """Add distributions to the totals of the same names."""
    for name, counts in more.items():
        totals[name] = add_counts(totals.get(name, counts[:0]), counts)


def weigh_segments(distributions: Mapping[str, Counts | Mapping[int, int]]) -> int:
    """The tokens of both segments of all rows, without special tokens; 0 where rows have none."""
    names = ("first_segment_length", "second_segment_length")
    return sum(weigh(distributions[name]) for name in names if name in distributions)


def weigh(counts: Counts | Mapping[int, int]) -> int:
    """The sum of all values of a distribution; [4, 0, 3] and {0: 4, 2: 3} give 6."""
    if isinstance(counts, Mapping):
        return sum(value * number for value, number in counts.items())
    return int(counts @ np.arange(len(counts)))
