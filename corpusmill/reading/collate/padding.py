"""How wide a batch is made, and the filling of its rows."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from corpusmill.errors import UserError
from corpusmill.reading.rows import Integers, Lists, mark_lists, pad_lists

Matrix = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Padding:
    """How wide a batch is made; the words are those of Hugging Face tokenizers.

    Attributes:
        pad_id: what fills the rows of input_ids up.
        padding: "longest" makes a batch as wide as its longest row, "max_length" as max_length.
        pad_to_multiple_of: makes it wider, up to a multiple; tensor cores are fastest with
            multiples of 8 or 64.
        max_length: tokens that the model can take; None compares nothing.
    """

    pad_id: int = 0
    padding: Literal["longest", "max_length"] = "longest"
    pad_to_multiple_of: int | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is out of range, or two do not go together.
        """
        multiple, longest = self.pad_to_multiple_of, self.max_length
        if self.padding not in {"longest", "max_length"}:
            cause = "there is no such padding"
            raise UserError(f'padding="{self.padding}"', cause, 'Give "longest" or "max_length"')
        for name, value in (("pad_to_multiple_of", multiple), ("max_length", longest)):
            if value is not None and value < 1:
                raise UserError(f"{name}={value}", "the value is out of range", "Give 1 or more")
        if self.padding == "max_length" and longest is None:
            cause = "it is not said how long that is"
            raise UserError('padding="max_length"', cause, "Give max_length")
        if multiple and longest and longest % multiple:
            cause = f"max_length={longest} is none of its multiples"
            raise UserError(f"pad_to_multiple_of={multiple}", cause, "Change one of the two")

    def width(self, lengths: Integers) -> int:
        """The columns of a batch whose rows have these lengths.

        Raises:
            UserError: a row is longer than max_length.

        Example:
            lengths [5, 9] give 9, and 16 with pad_to_multiple_of=8.
        """
        longest = int(lengths.max(initial=0))
        if self.max_length is not None and longest > self.max_length:
            cause = f"an example of the batch has {longest} tokens"
            cure = "Give a model that takes them, or build with a smaller --max-seq-length"
            raise UserError(f"max_length={self.max_length}", cause, cure)
        if self.padding == "max_length" and self.max_length is not None:
            return self.max_length
        return self.round_up(longest)

    def round_up(self, tokens: int) -> int:
        """The next multiple of pad_to_multiple_of; `tokens` itself where there is none."""
        multiple = self.pad_to_multiple_of or 1
        return -(-tokens // multiple) * multiple


def pad(lists: Lists, width: int, fill: int) -> Matrix:
    """int64[rows, width]: lists as rows, filled up at their ends.

    Example:
        lists [7, 8] and [9], width 3 and fill 0 give [[7, 8, 0], [9, 0, 0]].
    """
    matrix = np.empty((len(lists.offsets) - 1, width), np.int64)
    pad_lists(lists.values, lists.offsets, fill, matrix)
    return matrix


def attention_mask(lists: Lists, width: int) -> Matrix:
    """int64[rows, width]: 1 where a list reaches, 0 behind it.

    Example:
        lists [7, 8] and [9] and width 3 give [[1, 1, 0], [1, 0, 0]].
    """
    matrix = np.empty((len(lists.offsets) - 1, width), np.int64)
    mark_lists(lists.offsets, matrix)
    return matrix
