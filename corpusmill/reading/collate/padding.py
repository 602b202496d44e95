"""The width of a batch, and the matrices of its rows."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from corpusmill.arrays.kernel_cache import njit
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


@njit
def pad(values: np.ndarray, offsets: np.ndarray, width: int, fill: int) -> np.ndarray:
    """Return lists as the rows of a matrix, filled at their ends.

    Args:
        values: integers[total].
        offsets: int64[rows + 1].
        width: columns of the matrix, at least the length of the longest list.
        fill: the value after the end of a list.

    Returns:
        int64[rows, width].

    Example:
        the lists [7, 8] and [9], width 3 and fill 0 give [[7, 8, 0], [9, 0, 0]].
    """
    matrix = np.empty((len(offsets) - 1, width), np.int64)
    for i in range(len(offsets) - 1):
        begin = offsets[i]
        length = offsets[i + 1] - begin
        for j in range(length):
            matrix[i, j] = values[begin + j]
        for j in range(length, width):
            matrix[i, j] = fill
    return matrix


@njit
def attention_mask(offsets: np.ndarray, width: int) -> np.ndarray:
    """Return a matrix with 1 at the values of a list and 0 after them.

    Args:
        offsets: int64[rows + 1].
        width: columns of the matrix.

    Returns:
        int64[rows, width].

    Example:
        offsets [0, 2, 3] and width 3 give [[1, 1, 0], [1, 0, 0]].
    """
    matrix = np.empty((len(offsets) - 1, width), np.int64)
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        for j in range(width):
            matrix[i, j] = 1 if j < length else 0
    return matrix


@njit
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

    Example:
        position [1] and label [42] of one row and width 3 give [[-100, 42, -100]].
    """
    matrix = np.full((len(position_offsets) - 1, width), -100, np.int64)
    for i in range(len(position_offsets) - 1):
        begin = position_offsets[i]
        for j in range(position_offsets[i + 1] - begin):
            matrix[i, positions[begin + j]] = labels[label_offsets[i] + j]
    return matrix
