"""Batches for models that predict the next token: windows, separate rows, packed rows.

Hugging Face models shift `labels` themselves: labels are the input_ids, with -100 where nothing is
predicted. Other loops prefer `targets`, which hold the next token at each place. Every collator
here gives one or the other.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import check_integers, longest_row
from corpusmill.errors import UserError
from corpusmill.reading.collate.padding import Padding, attention_mask, pad
from corpusmill.reading.load.batches import Collator
from corpusmill.reading.rows import Batch, Integers, Lists, Rows
from corpusmill.reading.token_windows import TOKENS

NOT_PREDICTED = -100

Predicted = Literal["labels", "targets"]


@dataclass(frozen=True)
class CausalLmCollator(Collator):
    """Rows of different lengths, each a separate text: GPT's windows and documents.

    Attributes:
        padding: the width of batches.
        predicted: "labels" or "targets", explained above.

    Example:
        rows [5, 6, 7] and [8, 9] give input_ids [[5, 6, 7], [8, 9, 0]], attention_mask
        [[1, 1, 1], [1, 1, 0]] and labels [[5, 6, 7], [8, 9, -100]], or targets
        [[6, 7, -100], [9, -100, -100]]; all are int64.
    """

    padding: Padding
    predicted: Predicted = "labels"

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Raises:
            UserError: a row is longer than the padding's max_length.
        """
        ids = rows.lists("input_ids")
        width = self.padding.width(ids.lengths)
        labels = pad(*ids, width + (self.predicted == "targets"), NOT_PREDICTED)
        return {
            "input_ids": pad(*ids, width, self.padding.pad_id),
            "attention_mask": attention_mask(ids.offsets, width),
            self.predicted: labels if self.predicted == "labels" else labels[:, 1:],
        }


@dataclass(frozen=True)
class WindowCollator(Collator):
    """Windows of a token stream (`corpusmill.reading.token_windows`), which need no padding.

    Attributes:
        predicted: "labels" or "targets", explained above. `input_ids` and `targets` are views of
            one array, as a copy would cost as much as all other work; `labels` are a copy.

    Example:
        windows [5, 6, 7] and [7, 8, 9] give input_ids [[5, 6], [7, 8]] and targets
        [[6, 7], [8, 9]], or labels [[5, 6], [7, 8]]; all are int64.
    """

    predicted: Predicted = "labels"

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Raises:
            ValueError: windows differ in length.
        """
        tokens = rows.lists(TOKENS)
        check_integers(values=tokens.values, offsets=tokens.offsets)
        longest = longest_row(tokens.offsets, len(tokens.values))
        if longest < 0 or longest * len(rows) != tokens.offsets[-1] - tokens.offsets[0]:
            raise ValueError("windows must have one length")
        stored = tokens.values[tokens.offsets[0] : tokens.offsets[-1]].reshape(len(rows), -1)
        if self.predicted == "targets":
            windows = stored.astype(np.int64)
            return {"input_ids": windows[:, :-1], "targets": windows[:, 1:]}
        input_ids = stored[:, :-1].astype(np.int64)
        return {"input_ids": input_ids, "labels": input_ids.copy()}


@dataclass(frozen=True)
class PackedCollator(Collator):
    """Rows of several pieces of text that must not attend to one another: `gpt --mode pack`.

    Positions restart at each piece, and the first token of a piece is not predicted. There is no
    attention_mask: without one, and with use_cache=False, which suits training, Hugging Face models
    recognize pieces by their position_ids. The padding of a row is a separate piece.

    Attributes:
        padding: the width of batches.
        layout: "rows" puts each row of the data set into a padded row of the batch; "flattened"
            puts all of them into one row, which is only padded to a multiple.
        predicted: "labels" or "targets", explained above.

    Example:
        a row of the pieces [5, 6, 7] and [8, 9], padded to 6, gives input_ids [[5, 6, 7, 8, 9, 0]],
        labels [[-100, 6, 7, -100, 9, -100]], position_ids [[0, 1, 2, 0, 1, 0]], cu_seq_lens_q and
        cu_seq_lens_k [0, 3, 5, 6], max_length_q and max_length_k 3. FlashAttention's functions for
        sequences of different lengths take these four, as its kernels have no rows. The first two
        of the four are int32, the others int64[]; all other arrays are int64.
    """

    padding: Padding
    layout: Literal["rows", "flattened"] = "rows"
    predicted: Predicted = "labels"

    def __post_init__(self) -> None:
        """Check the layout.

        Raises:
            UserError: the layout is unknown, or contradicts the padding.
        """
        if self.layout not in {"rows", "flattened"}:
            cause = "layout is unknown"
            raise UserError(f'layout="{self.layout}"', cause, 'Give "rows" or "flattened"')
        if self.layout == "flattened" and self.padding.padding == "max_length":
            cause = "flattened rows cannot be padded to max_length"
            raise UserError('layout="flattened"', cause, 'Give padding="longest"')

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Raises:
            UserError: a row is longer than the padding's max_length.
            ValueError: the pieces of a row do not lead from its beginning to its end.
        """
        ids, marks = rows.lists("input_ids"), rows.lists("cu_seqlens")
        check_integers(values=ids.values, offsets=ids.offsets)
        check_integers(marks=marks.values, mark_offsets=marks.offsets)
        if len(ids.offsets) != len(rows) + 1 or not are_pieces(*marks, ids.offsets):
            raise ValueError("cu_seqlens must lead from 0 to the length of each row")
        width = self.padding.width(ids.lengths)
        if self.layout == "rows":
            input_ids = pad(*ids, width, self.padding.pad_id)
            begins = np.arange(len(rows) + 1) * width
        else:
            input_ids, begins = self._flatten(ids)
        position_ids = np.empty_like(input_ids)
        labels = np.full(input_ids.size + 1, NOT_PREDICTED, np.int64)
        # A row has one piece less than marks, and may have padding; the last end is one more.
        cu_seq_lens = np.empty(int(marks.offsets[-1] - marks.offsets[0]) + 1, np.int32)
        pieces, longest = _number_pieces(
            input_ids.reshape(-1), *marks, begins, position_ids.reshape(-1), labels, cu_seq_lens
        )
        # The first token of a piece is never predicted, so targets are labels shifted by one.
        shifted = labels[:-1] if self.predicted == "labels" else labels[1:]
        return {
            "input_ids": input_ids,
            "position_ids": position_ids,
            self.predicted: shifted.reshape(input_ids.shape),
            "cu_seq_lens_q": cu_seq_lens[: pieces + 1],
            "cu_seq_lens_k": cu_seq_lens[: pieces + 1],
            "max_length_q": np.array(longest),
            "max_length_k": np.array(longest),
        }

    def _flatten(self, ids: Lists) -> tuple[Integers, Integers]:
        """Return all rows as int64[1, tokens], and their begins and the end as int64[rows + 1]."""
        begins = ids.offsets - ids.offsets[0]
        tokens = int(begins[-1])
        begins[-1] = self.padding.round_up(tokens)
        input_ids = np.full((1, int(begins[-1])), self.padding.pad_id, np.int64)
        input_ids[0, :tokens] = ids.values[ids.offsets[0] : ids.offsets[-1]]
        return input_ids, begins


@njit
def are_pieces(marks: np.ndarray, mark_offsets: np.ndarray, offsets: np.ndarray) -> bool:
    """Return whether the marks of each row lead from 0 to the row's length, never backwards.

    Args:
        marks: integers[marks].
        mark_offsets: int64[rows + 1].
        offsets: int64[rows + 1], of the rows' tokens.

    Example:
        marks [0, 3, 5] of a row of 5 tokens do; [0, 3], [3, 5] and [0, 6, 5] do not.
    """
    if longest_row(mark_offsets, len(marks)) < 0 or longest_row(offsets, -1) < 0:
        return False
    if len(mark_offsets) != len(offsets):
        return False
    for i in range(len(offsets) - 1):
        first, last = mark_offsets[i], mark_offsets[i + 1] - 1
        if last < first or marks[first] != 0 or marks[last] != offsets[i + 1] - offsets[i]:
            return False
        for mark in range(first, last):
            if marks[mark] > marks[mark + 1]:
                return False
    return True


@njit
def _number_pieces(
    input_ids: np.ndarray,
    marks: np.ndarray,
    mark_offsets: np.ndarray,
    begins: np.ndarray,
    position_ids: np.ndarray,
    labels: np.ndarray,
    cu_seq_lens: np.ndarray,
) -> tuple[int, int]:
    """Number the tokens of each piece, and write the labels of those that are predicted.

    Args:
        input_ids: int64[places], all rows with their padding, one row after another.
        marks: integers[marks], where in its row each piece begins, and where the last one ends.
        mark_offsets: int64[rows + 1].
        begins: int64[rows + 1], the place where each row begins, and the end of the last one.
        position_ids: int64[places], filled.
        labels: int64[places or more], -100 everywhere; changed where a token is predicted.
        cu_seq_lens: int32[pieces + 1 or more], filled with the place where each piece begins.

    Returns:
        pieces: the number of pieces, with those of padding.
        longest: tokens of the longest piece.
    """
    pieces = longest = 0
    for i in range(len(begins) - 1):
        begin, end = begins[i], begins[i]
        for mark in range(mark_offsets[i] + 1, mark_offsets[i + 1]):
            end = begins[i] + marks[mark]
            for place in range(begin + 1, end):
                labels[place] = input_ids[place]
            longest = max(longest, end - begin)
            cu_seq_lens[pieces] = begin
            pieces += 1
            for place in range(begin, end):
                position_ids[place] = place - begin
            begin = end
        if begins[i + 1] > end:
            longest = max(longest, begins[i + 1] - end)
            cu_seq_lens[pieces] = end
            pieces += 1
            for place in range(end, begins[i + 1]):
                position_ids[place] = place - end
    cu_seq_lens[pieces] = begins[-1]
    return pieces, longest
