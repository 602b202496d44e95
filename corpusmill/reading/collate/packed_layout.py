"""The layout of packed rows in a batch, and the arguments that keep models inside a piece.

Positions restart at each piece, and `cu_seq_lens_q`, `cu_seq_lens_k`, `max_length_q` and
`max_length_k` say where pieces begin, as FlashAttention's functions for sequences of different
lengths take it: their kernels have no rows. The padding of a row is a separate piece.
"""

from dataclasses import dataclass

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import check_integers, longest_row
from corpusmill.errors import UserError
from corpusmill.reading.collate.options import Layout
from corpusmill.reading.collate.padding import Padding, pad
from corpusmill.reading.rows import Batch, Integers, Lists, Rows


@dataclass(frozen=True)
class PackedRows:
    """Rows of pieces as the arrays of a batch.

    Attributes:
        input_ids: int64[rows, width], or [1, tokens] if they are flattened.
        position_ids: int64 of the same shape, from 0 in each piece.
        begins: int64[rows + 1], the place where each row begins in the flat input_ids, and the end.
        lengths: cu_seq_lens_q and cu_seq_lens_k, int32[pieces + 1]; max_length_q and max_length_k,
            int64[].
    """

    input_ids: Integers
    position_ids: Integers
    begins: Integers
    lengths: Batch


def check_layout(layout: str, padding: Padding) -> None:
    """Refuse a layout that is unknown, or contradicts the padding.

    Raises:
        UserError: it is refused.
    """
    if layout not in {"rows", "flattened"}:
        cause = "layout is unknown"
        raise UserError(f'layout="{layout}"', cause, 'Give "rows" or "flattened"')
    if layout == "flattened" and padding.padding == "max_length":
        cause = "flattened rows cannot be padded to max_length"
        raise UserError('layout="flattened"', cause, 'Give padding="longest"')


def lay_out(
    rows: Rows, tokens: str, boundaries: str, padding: Padding, layout: Layout
) -> PackedRows:
    """Return packed rows as the arrays of a batch.

    Args:
        rows: packed rows.
        tokens: the name of the column of tokens.
        boundaries: the name of the column of the pieces' boundaries.
        padding: the width of batches.
        layout: "rows" puts each row of the data set into a padded row of the batch; "flattened"
            puts all of them into one row, which is only padded to a multiple.

    Raises:
        UserError: a row is longer than the padding's max_length.
        ValueError: the pieces of a row do not lead from its beginning to its end.
    """
    ids, marks = rows.lists(tokens), rows.lists(boundaries)
    check_integers(values=ids.values, offsets=ids.offsets)
    check_integers(marks=marks.values, mark_offsets=marks.offsets)
    if len(ids.offsets) != len(rows) + 1 or not are_pieces(*marks, ids.offsets):
        raise ValueError(f"{boundaries} must lead from 0 to the length of each row")
    width = padding.width(ids.lengths)
    if layout == "rows":
        input_ids, begins = pad(*ids, width, padding.pad_id), np.arange(len(rows) + 1) * width
    else:
        input_ids, begins = _flatten(ids, padding)
    position_ids = np.empty_like(input_ids)
    # A row has one piece less than marks, and may have padding; the last end is one more.
    cu_seq_lens = np.empty(int(marks.offsets[-1] - marks.offsets[0]) + 1, np.int32)
    pieces, longest = _number_pieces(*marks, begins, position_ids.reshape(-1), cu_seq_lens)
    lengths = {
        "cu_seq_lens_q": cu_seq_lens[: pieces + 1],
        "cu_seq_lens_k": cu_seq_lens[: pieces + 1],
        "max_length_q": np.array(longest),
        "max_length_k": np.array(longest),
    }
    return PackedRows(input_ids, position_ids, begins, lengths)


def _flatten(ids: Lists, padding: Padding) -> tuple[Integers, Integers]:
    """Return all rows as int64[1, tokens], and their begins and the end as int64[rows + 1]."""
    begins = ids.offsets - ids.offsets[0]
    tokens = int(begins[-1])
    begins[-1] = padding.round_up(tokens)
    input_ids = np.full((1, int(begins[-1])), padding.pad_id, np.int64)
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
    marks: np.ndarray,
    mark_offsets: np.ndarray,
    begins: np.ndarray,
    position_ids: np.ndarray,
    cu_seq_lens: np.ndarray,
) -> tuple[int, int]:
    """Number the tokens of each piece.

    Args:
        marks: integers[marks], where in its row each piece begins, and where the last one ends.
        mark_offsets: int64[rows + 1].
        begins: int64[rows + 1], the place where each row begins, and the end of the last one.
        position_ids: int64[places], filled.
        cu_seq_lens: int32[pieces + 1 or more], filled with the place where each piece begins.

    Returns:
        pieces: the number of pieces, with those of padding.
        longest: tokens of the longest piece.
    """
    pieces = longest = 0
    for i in range(len(begins) - 1):
        begin, end = begins[i], begins[i]
        for mark in range(mark_offsets[i] + 1, mark_offsets[i + 1] + 1):
            # After the last piece comes the padding.
            is_piece = mark < mark_offsets[i + 1]
            end = begins[i] + marks[mark] if is_piece else begins[i + 1]
            if is_piece or end > begin:
                longest = max(longest, end - begin)
                cu_seq_lens[pieces] = begin
                pieces += 1
            for place in range(begin, end):
                position_ids[place] = place - begin
            begin = end
    cu_seq_lens[pieces] = begins[-1]
    return pieces, longest
