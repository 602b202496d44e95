"""The width of a batch, and the matrices of its rows."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba.core.errors import TypingError

from corpusmill.arrays.columns import LONGEST_ROW
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import are_integers, longest_row
from corpusmill.errors import UserError
from corpusmill.reading.keywords import check_minimum
from corpusmill.reading.rows import Integers


@dataclass(frozen=True)
class Padding:
    """The width of a batch, in the terms of Hugging Face tokenizers.

    Attributes:
        pad_id: the token that fills the rows of input_ids.
        padding: "longest" makes a batch as wide as its longest row, "max_length" as max_length.
        pad_to_multiple_of: widens it to a multiple; tensor cores are fastest with multiples of 8
            or 64.
        max_length: the most tokens that the model takes; None means no limit.
    """

    pad_id: int = 0
    padding: Literal["longest", "max_length"] = "longest"
    pad_to_multiple_of: int | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is out of range, or two contradict each other.
        """
        multiple, max_length = self.pad_to_multiple_of, self.max_length
        if self.padding not in {"longest", "max_length"}:
            cause = "padding is unknown"
            raise UserError(f'padding="{self.padding}"', cause, 'Give "longest" or "max_length"')
        check_minimum("pad_to_multiple_of", multiple, 1)
        check_minimum("max_length", max_length, 1)
        if self.padding == "max_length" and max_length is None:
            raise UserError('padding="max_length"', "max_length is unknown", "Give max_length")
        if multiple and max_length and max_length % multiple:
            cause = f"max_length={max_length} is not a multiple"
            raise UserError(f"pad_to_multiple_of={multiple}", cause, "Change one of the two")

    def width(self, lengths: Integers) -> int:
        """Return the width of a batch whose rows have these lengths, int64[rows].

        Raises:
            UserError: a row is longer than max_length.

        Example:
            lengths [5, 9] give 9, and 16 with pad_to_multiple_of=8.
        """
        longest = int(lengths.max(initial=0))
        if self.max_length is not None and longest > self.max_length:
            cause = f"an example of the batch has {longest} tokens"
            cure = "Use a model with a larger limit, or build with a smaller --max-seq-length"
            raise UserError(f"max_length={self.max_length}", cause, cure)
        if self.padding == "max_length" and self.max_length is not None:
            return self.max_length
        return self.round_up(longest)

    def round_up(self, tokens: int) -> int:
        """Round a number of tokens up to a multiple of pad_to_multiple_of, if there is one."""
        multiple = self.pad_to_multiple_of or 1
        return -(-tokens // multiple) * multiple


def pad(values: np.ndarray, offsets: np.ndarray, width: int, fill: int) -> np.ndarray:
    """Return lists as the rows of a matrix, filled at their ends.

    Args:
        values: integers[total].
        offsets: int64[rows + 1].
        width: columns of the matrix, at least the length of the longest list.
        fill: the value after the end of a list.

    Returns:
        int64[rows, width].

    Raises:
        TypeError: an argument is not a flat array of integers, or not an integer.
        ValueError: the offsets do not fit the values, or a list is longer than the width, which
            is 2**28 at most.

    Example:
        the lists [7, 8] and [9], width 3 and fill 0 give [[7, 8, 0], [9, 0, 0]].
    """
    try:
        padded: Integers = _pad(values, offsets, width, fill)
    except TypingError as error:
        message = "values and offsets must be flat arrays of integers, width and fill integers"
        raise TypeError(message) from error
    return padded


@njit
def _pad(values: np.ndarray, offsets: np.ndarray, width: int, fill: int) -> np.ndarray:
    """Return lists as rows, as `pad` describes."""
    longest = longest_row(offsets, len(values))
    if longest < 0 or not are_integers(values) or not are_integers(offsets):
        raise ValueError("offsets must ascend, and not exceed the number of values")
    if not longest <= width <= LONGEST_ROW:
        raise ValueError("width must be from the length of the longest list to 2**28")
    fill ^= 0  # only integers have this operation
    matrix = np.empty((len(offsets) - 1, width), np.int64)
    for i in range(len(offsets) - 1):
        # Indices of slices start at 0, which spares a check for negative ones at each value: three
        # times as fast.
        row, source = matrix[i], values[offsets[i] : offsets[i + 1]]
        for j in range(len(source)):
            row[j] = source[j]
        row[len(source) :] = fill
    return matrix


def attention_mask(offsets: np.ndarray, width: int) -> np.ndarray:
    """Return a matrix with 1 at the values of a list and 0 after them.

    Args:
        offsets: int64[rows + 1].
        width: columns of the matrix.

    Returns:
        int64[rows, width].

    Raises:
        TypeError: an argument is not a flat array of integers, or not an integer.
        ValueError: the offsets do not ascend, or a list is longer than the width, which
            is 2**28 at most.

    Example:
        offsets [0, 2, 3] and width 3 give [[1, 1, 0], [1, 0, 0]].
    """
    try:
        mask: Integers = _mark(offsets, width)
    except TypingError as error:
        message = "offsets must be a flat array of integers, and width an integer"
        raise TypeError(message) from error
    return mask


@njit
def _mark(offsets: np.ndarray, width: int) -> np.ndarray:
    """Return a mask, as `attention_mask` describes."""
    longest = longest_row(offsets, -1)
    if longest < 0 or not are_integers(offsets):
        raise ValueError("offsets must ascend from 0 or more")
    if not longest <= width <= LONGEST_ROW:
        raise ValueError("width must be from the length of the longest list to 2**28")
    matrix = np.empty((len(offsets) - 1, width), np.int64)
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        for j in range(width):
            matrix[i, j] = 1 if j < length else 0
    return matrix


def scatter_labels(
    positions: np.ndarray,
    position_offsets: np.ndarray,
    labels: np.ndarray,
    label_offsets: np.ndarray,
    width: int,
) -> np.ndarray:
    """Return a matrix with the labels at the predicted positions and -100 elsewhere.

    Args:
        positions: integers[predictions], columns of the matrix.
        position_offsets: int64[rows + 1].
        labels: integers[predictions].
        label_offsets: int64[rows + 1], of the same lengths.
        width: columns of the matrix.

    Returns:
        int64[rows, width].

    Raises:
        TypeError: an argument is not a flat array of integers, or not an integer.
        ValueError: offsets do not fit their values, a row's positions and labels differ in number,
            a position is not a column of the matrix, or the width exceeds 2**28.

    Example:
        position [1] and label [42] of one row and width 3 give [[-100, 42, -100]].
    """
    try:
        matrix: Integers = _scatter(positions, position_offsets, labels, label_offsets, width)
    except TypingError as error:
        message = "all but width must be flat arrays of integers, and width an integer"
        raise TypeError(message) from error
    return matrix


@njit
def _scatter(
    positions: np.ndarray,
    position_offsets: np.ndarray,
    labels: np.ndarray,
    label_offsets: np.ndarray,
    width: int,
) -> np.ndarray:
    """Return labels at their positions, as `scatter_labels` describes."""
    if longest_row(position_offsets, len(positions)) < 0 or not are_integers(positions):
        raise ValueError("position_offsets must ascend, and not exceed the number of positions")
    if longest_row(label_offsets, len(labels)) < 0 or not are_integers(labels):
        raise ValueError("label_offsets must ascend, and not exceed the number of labels")
    if len(label_offsets) != len(position_offsets):
        raise ValueError("label_offsets must have as many rows as position_offsets")
    if not 0 <= width <= LONGEST_ROW:
        raise ValueError("width must be from 0 to 2**28")
    matrix = np.full((len(position_offsets) - 1, width), -100, np.int64)
    for i in range(len(position_offsets) - 1):
        row, columns = matrix[i], positions[position_offsets[i] : position_offsets[i + 1]]
        row_labels = labels[label_offsets[i] : label_offsets[i + 1]]
        if len(row_labels) != len(columns):
            raise ValueError("labels must be as many in each row as positions")
        for j in range(len(columns)):
            if not 0 <= columns[j] < width:
                raise ValueError("positions must be columns of the matrix")
            row[columns[j]] = row_labels[j]
    return matrix
