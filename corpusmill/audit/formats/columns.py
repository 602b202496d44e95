"""Columns by their usual names, as rows of tokens."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusmill.arrays.ragged import to_numpy
from corpusmill.audit.formats.flat import cut_batches
from corpusmill.audit.token_files import DAMAGE, Aligned, TokenFile, TokenRows, explain

IDS, LENGTHS, BOUNDS = "ids", "lengths", "bounds"
"""Meanings of columns besides those of `Aligned`: the ids; lengths of documents in the row; where
they begin and end in it."""
# token_type_ids tell two sentences apart, and no documents.
_NAMES = {
    IDS: "input_ids tokens token_ids ids",
    Aligned.LABELS: "labels targets target_ids shift_labels",
    Aligned.LEARNED: "loss_mask completion_mask assistant_masks assistant_mask",
    Aligned.ATTENDED: "attention_mask input_mask",
    Aligned.POSITIONS: "position_ids",
    Aligned.SEGMENTS: "segment_ids sequence_id document_ids doc_ids seq_idx",
    LENGTHS: "seq_lengths seq_lens",
    BOUNDS: "cu_seqlens indices",
}

# The values of a column, any[total], and where those of each row begin, int64[rows + 1] from 0.
Lists = tuple[np.ndarray, np.ndarray]
# Consecutive rows of a file by their columns, some at a time; they are read when they are taken.
Part = Iterable[Mapping[str, Lists]]


def choose_columns(names: Iterable[str]) -> dict[str, str]:
    """Return the meanings of the columns that are read by their names, first that of the ids.

    Raises:
        ValueError: none holds ids.
    """
    present = {*names}
    if "masked_lm_positions" in present:  # BERT's segments are two sentences
        present.discard("segment_ids")
    meanings = {
        name: str(kind) for kind in _NAMES for name in _NAMES[kind].split() if name in present
    }
    ids = next((name for name in meanings if meanings[name] == IDS), None)
    if ids is None:
        raise ValueError(f"it has no lists of ids by a name such as {_NAMES[IDS].split()[0]}")
    return {name: kind for name, kind in meanings.items() if name == ids or kind != IDS}


@dataclass
class ColumnTokens(TokenFile):
    """Rows with columns.

    Attributes:
        meanings: what the columns are, by their names; the first of each meaning counts.
        list_parts: yields consecutive parts of the file.
        rows: how many there are, as something else says; None where nothing does.
        problems: how many there are of each, a plural noun with what is wrong.
    """

    meanings: Mapping[str, str] = field(default_factory=dict)
    list_parts: Callable[[], Iterable[Part]] = list
    rows: int | None = None
    problems: Counter[str] = field(default_factory=Counter)

    def read(self, every: int = 1) -> Iterator[TokenRows]:
        """Yield the rows."""
        row = 0
        self.problems.clear()
        try:
            for columns in chain.from_iterable(islice(self.list_parts(), 0, None, every)):
                rows = self._to_rows(columns)
                for begin, batch in cut_batches(rows.offsets, row):
                    piece = slice(begin, begin + int(batch.offsets[-1]))
                    aligned = {name: values[piece] for name, values in rows.columns.items()}
                    yield batch._replace(ids=rows.ids[piece], columns=aligned)
                row += len(rows.offsets) - 1
        except DAMAGE as error:
            self.faults.append(f"it cannot be read after {row:,} rows ({explain(error)})")
        if every == 1 and self.rows not in {None, row}:
            self.faults.append(f"it has {row:,} rows, and {self.rows} by its index")
        self.faults += [f"{number:,} {what}" for what, number in self.problems.items() if number]

    def _to_rows(self, columns: Mapping[str, Lists]) -> TokenRows:
        ids, offsets = columns[next(iter(self.meanings))]
        if ids.dtype.kind not in "iu":
            raise ValueError(f"its ids are of type {ids.dtype}")
        self.dtype = self.dtype or ids.dtype.name
        lengths, aligned = np.diff(offsets), dict[Aligned, np.ndarray]()
        for name, (values, ends) in columns.items():
            meaning = self.meanings[name]
            if meaning in {LENGTHS, BOUNDS}:
                segments, wrong = number_segments(values, ends, offsets, meaning == LENGTHS)
                self.problems[f"rows have {name} that do not fit their ids"] += wrong
                aligned.setdefault(Aligned.SEGMENTS, segments)
            elif (wrong := int(np.count_nonzero(np.diff(ends) != lengths))) == 0:
                if meaning != IDS:
                    aligned.setdefault(Aligned(meaning), values)
                if meaning == Aligned.LABELS and name not in self.label_names:
                    self.label_names += (name,)
            # Labels of their own lengths are those of a decoder.
            elif meaning != Aligned.LABELS or 2 * wrong < len(lengths):
                self.problems[f"rows have fewer or more {name} than ids"] += wrong
        return TokenRows(ids, offsets, aligned)

    def take_batch(self, batch: pa.RecordBatch) -> Mapping[str, Lists]:
        """Return the columns of a batch."""
        return {name: self._to_lists(name, batch.column(name)) for name in self.meanings}

    def _to_lists(self, name: str, column: pa.Array) -> Lists:
        """Return the numbers of lists, or of lists of lists; those that are null become 0.

        Example:
            [[7, 8], [9]] and [[[7], [8]], [[9]]] give [7, 8, 9] and [0, 2, 3].
        """
        column.validate(full=True)
        offsets, nulls = np.arange(len(column) + 1), 0
        while pa.types.is_nested(column.type):
            nulls += column.null_count
            lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0))
            offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))[offsets]
            column = column.flatten()
        if pa.types.is_null(column.type):  # all lists are empty
            column = column.cast(pa.int64())
        self.problems[f"values of {name} are null"] += nulls + column.null_count
        if column.null_count:
            column = pc.fill_null(column, pa.scalar(0).cast(column.type))
        return to_numpy(column), offsets


def number_segments(
    values: np.ndarray, ends: np.ndarray, offsets: np.ndarray, are_lengths: bool
) -> tuple[np.ndarray, int]:
    """Number the documents in rows.

    Args:
        values: integers[total], the lengths of documents, or where they begin and end.
        ends: int64[rows + 1] into values.
        offsets: int64[rows + 1] into ids.
        are_lengths: whether they are lengths.

    Returns:
        int64[ids], and of how many rows the values lead out or do not add up.

    Example:
        lengths [2, 1] of a row of 3, and [0, 2, 3], give [1, 1, 2].
    """
    places, lengths = values.astype(np.int64), np.diff(offsets)
    rows, is_wrong = np.repeat(np.arange(len(lengths)), np.diff(ends)), np.zeros(len(lengths), bool)
    if are_lengths:
        sums = np.append(0, np.cumsum(places))
        is_wrong = sums[ends[1:]] - sums[ends[:-1]] != lengths
        places = sums[1:] - sums[ends[:-1]][rows]
    is_outside = (places < 0) | (places > lengths[rows])
    is_wrong[rows[is_outside]] = True
    begins = np.zeros(offsets[-1] + 1, np.bool_)
    begins[(offsets[:-1][rows] + places)[~is_outside]] = True
    begins[offsets[:-1]] = True
    return np.cumsum(begins[:-1]), int(np.count_nonzero(is_wrong))
