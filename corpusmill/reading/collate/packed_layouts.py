"""Packed rows as the arrays of a batch, by the names and types of those that read them.

    rows          rows of one width. The names are those of transformers' models: position_ids,
                  which restart at each document; cu_seq_lens_q, cu_seq_lens_k, max_length_q and
                  max_length_k, the arguments of FlashAttention's functions for sequences of
                  different lengths, whose kernels have no rows; and seq_idx, by which Mamba and
                  gated delta nets begin anew.
    flattened     the same, with all rows in one.
    torchtitan    rows of one width: input, positions and labels.
    grain         rows of one width, by Grain's names after packing, which MaxText takes: inputs,
                  inputs_segment_ids, inputs_positions, and the same of targets. Segments count from
                  1, and 0 is no text; segments of targets are 0 where nothing is predicted.
    megatron      one row of documents, each padded to a multiple, as context parallelism needs it:
                  tokens, labels, loss_mask and position_ids, and the fields of PackedSeqParams for
                  the format "thd".

Padding at the end of a row is a document of its own, except in the last two.

Sources of the names and types: DataCollatorWithFlattening in data/data_collator.py of transformers
5.23; torchtitan/components/data/collators.py of torchtitan; packing_packed_batch.py of Grain
0.2.18; megatron/core/packed_seq_params.py of Megatron-LM.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.reading.collate.collators import Layout, Padding
from corpusmill.reading.rows import NOT_PREDICTED, Batch, Integers, Rows


def is_shifted(layout: Layout) -> bool:
    """Return whether models of the next token take it at each place, without shifting labels."""
    return layout not in {"rows", "flattened"}


@dataclass(frozen=True)
class PackedRows:
    """Where the tokens of packed rows are in a batch.

    Attributes:
        layout: the layout of the batch.
        shape: rows and width, or 1 and tokens.
        begins: int64[documents], the place in the flat batch where each document begins.
        lengths: int64[documents], its tokens.
        bounds: int64[pieces + 1], the places where documents and padding begin, and the end.
    """

    layout: Layout
    shape: tuple[int, int]
    begins: Integers
    lengths: Integers
    bounds: Integers

    def spread(self, values: npt.NDArray[Any], fill: int, dtype: str) -> npt.NDArray[Any]:
        """Return values as a batch.

        Args:
            values: any[tokens], those of all tokens, one document after another.
            fill: the value of padding.
            dtype: the type of the batch.
        """
        flat = np.full(self.shape[0] * self.shape[1], fill, dtype)
        _spread(values, self.begins, self.lengths, flat)
        return flat.reshape(self.shape)

    def label(self, values: npt.NDArray[Any], shift: bool, is_causal: bool = False) -> Integers:
        """Return the labels of a batch.

        Args:
            values: integers[tokens], what is predicted of each token; -100 for nothing.
            shift: whether a label is at the place before its token.
            is_causal: whether the first token of a document is not predicted, as nothing is before
                it.
        """
        flat = np.full(self.shape[0] * self.shape[1] + 1, NOT_PREDICTED, np.int64)
        _spread(values, self.begins, self.lengths, flat)
        if is_causal or shift:
            flat[self.begins[self.lengths > 0]] = NOT_PREDICTED
        return (flat[1:] if shift else flat[:-1]).reshape(self.shape)

    def name_arrays(
        self,
        tokens: npt.NDArray[Any],
        pad_id: int,
        labels: Integers | None,
        label: str = "labels",
    ) -> Batch:
        """Return the arrays of a batch by the names of its layout.

        Args:
            tokens: integers[tokens], the input.
            pad_id: the token of padding.
            labels: the labels of the batch, -100 where nothing is predicted; None if there are
                none.
            label: their name in the layouts of transformers.
        """
        if self.layout == "grain":
            return self._name_for_grain(self.spread(tokens, pad_id, "int32"), labels)
        input_ids, sizes = self.spread(tokens, pad_id, "int64"), np.diff(self.bounds)
        positions, numbers = self._number(self.bounds[:-1], sizes, "int64")
        if self.layout == "torchtitan":
            batch = {"input": input_ids, "positions": positions}
            return batch if labels is None else {**batch, "labels": labels}
        if self.layout == "megatron":
            batch = {"tokens": input_ids, "position_ids": positions, "seq_idx": numbers}
            return batch | self._name_for_megatron(labels)
        bounds, longest = self.bounds.astype(np.int32), np.array(sizes.max(initial=0))
        return {
            "input_ids": input_ids,
            "position_ids": positions,
            "seq_idx": numbers,
            **({} if labels is None else {label: labels}),
            "cu_seq_lens_q": bounds,
            "cu_seq_lens_k": bounds,
            "max_length_q": longest,
            "max_length_k": longest,
        }

    def _name_for_grain(self, inputs: npt.NDArray[Any], labels: Integers | None) -> Batch:
        positions, numbers = self._number(self.begins, self.lengths, "int32", 1)
        batch = {"inputs": inputs, "inputs_segment_ids": numbers, "inputs_positions": positions}
        if labels is not None:
            is_predicted = labels != NOT_PREDICTED
            batch["targets"] = np.where(is_predicted, labels, 0).astype(np.int32)
            batch["targets_segment_ids"] = np.where(is_predicted, numbers, np.int32(0))
            batch["targets_positions"] = positions
        return batch

    def _name_for_megatron(self, labels: Integers | None) -> Batch:
        batch: Batch = {}
        if labels is not None:
            is_predicted = labels != NOT_PREDICTED
            batch["labels"] = np.where(is_predicted, labels, 0)
            batch["loss_mask"] = is_predicted.astype(np.float32)
        ends = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int32)
        padded, longest = self.bounds.astype(np.int32), np.diff(self.bounds).max(initial=0)
        for side in ("q", "kv"):
            batch[f"cu_seqlens_{side}"] = ends
            batch[f"cu_seqlens_{side}_padded"] = padded
            batch[f"max_seqlen_{side}"] = np.array(longest)
        return batch

    def _number(
        self, begins: Integers, lengths: Integers, dtype: str, first: int = 0
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Return the place of each token in its piece, and the number of the piece in its row.

        Args:
            begins: int64[pieces], ascending.
            lengths: int64[pieces].
            dtype: the type of the places.
            first: the number of the first piece of a row; what is in no piece has 0.
        """
        positions, numbers = np.zeros(self.shape, dtype), np.zeros(self.shape, np.int32)
        flat = (positions.reshape(-1), numbers.reshape(-1))
        _number_pieces(begins, lengths, self.shape[1], first, *flat)
        return positions, numbers


def lay_out(
    rows: Rows, tokens: str, boundaries: str, padding: Padding, layout: Layout
) -> PackedRows:
    """Return where the tokens of packed rows are in a batch.

    Args:
        rows: packed rows.
        tokens: the name of the column of tokens.
        boundaries: the name of the column of the documents' boundaries.
        padding: the width of batches.
        layout: the layout.

    Raises:
        UserError: a row is longer than the padding's max_length.
        ValueError: the documents of a row do not lead from its beginning to its end.
    """
    ids, marks = rows.lists(tokens), rows.lists(boundaries)
    if not are_pieces(*marks, ids.offsets):
        raise ValueError(f"{boundaries} must lead from 0 to the length of each row")
    width = padding.width(ids.lengths)
    values = marks.values[marks.offsets[0] : marks.offsets[-1]].astype(np.int64)
    # What is between two marks is a document, unless a row ends at the first of the two.
    is_begin = np.ones(len(values), np.bool_)
    is_begin[marks.offsets[1:] - marks.offsets[0] - 1] = False
    lengths = np.diff(values, append=0)[is_begin]
    owners = np.repeat(np.arange(len(rows)), marks.lengths - 1)
    if layout == "megatron":
        bounds = np.concatenate([[0], np.cumsum(padding.round_up(lengths))])
        begins, shape = bounds[:-1], (1, int(bounds[-1]))
    else:
        row_begins, shape = np.arange(len(rows)) * width, (len(rows), width)
        if layout == "flattened":
            row_begins = ids.offsets[:-1] - ids.offsets[0]
            shape = (1, padding.round_up(int(lengths.sum())))
        begins = row_begins[owners] + values[is_begin]
        row_ends = row_begins + ids.lengths
        limits = np.append(row_begins[1:], shape[0] * shape[1])
        starts_of_padding = row_ends[row_ends < limits]
        bounds = np.sort(np.concatenate([begins, starts_of_padding, [shape[0] * shape[1]]]))
    return PackedRows(layout, shape, begins, lengths, bounds)


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
    for i in range(len(offsets) - 1):
        first, last = mark_offsets[i], mark_offsets[i + 1] - 1
        if last < first or marks[first] != 0 or marks[last] != offsets[i + 1] - offsets[i]:
            return False
        for mark in range(first, last):
            if marks[mark] > marks[mark + 1]:
                return False
    return True


@njit
def _spread(values: np.ndarray, begins: np.ndarray, lengths: np.ndarray, flat: np.ndarray) -> None:
    """Copy the values of documents, one after another, to the places where these begin."""
    read = 0
    for i in range(len(begins)):
        # Indices of slices start at 0, which spares a check for negative ones at each value.
        source = values[read : read + lengths[i]]
        target = flat[begins[i] : begins[i] + lengths[i]]
        for j in range(len(source)):
            target[j] = source[j]
        read += lengths[i]


@njit
def _number_pieces(
    begins: np.ndarray,
    lengths: np.ndarray,
    width: int,
    first: int,
    positions: np.ndarray,
    numbers: np.ndarray,
) -> None:
    """Write places in pieces, and numbers of pieces in rows, as `PackedRows._number` describes."""
    row_end, number = 0, first
    for i in range(len(begins)):
        if lengths[i] == 0:
            continue
        while begins[i] >= row_end:
            row_end, number = row_end + width, first
        places = positions[begins[i] : begins[i] + lengths[i]]
        owners = numbers[begins[i] : begins[i] + lengths[i]]
        for j in range(len(places)):
            places[j] = j
            owners[j] = number
        number += 1
