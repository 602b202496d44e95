"""Lines of ERNIE's text as rows, with each mistake of a line named."""

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column, arrow_schema
from corpusmill.formats.ernie_text_kernels import NEWLINE, SEMICOLON, SPACE, parse_numbers

_FIELD_ENDS = np.array([SEMICOLON] * 4 + [NEWLINE], np.uint8)


def parse_lines(text: bytes, columns: tuple[Column, ...], first_line: int) -> pa.RecordBatch:
    """The rows of some whole lines.

    Args:
        text: the last line ends in a newline, too.
        columns: of the data set; `next_sentence_label` is 1 where the text says 0.
        first_line: number of the first line, for messages.

    Raises:
        ValueError: a line is not as it must be.
    """
    values, ends, fine = parse_numbers(np.frombuffer(text, np.uint8))
    if not fine:
        line = first_line + int((ends == NEWLINE).sum())
        raise ValueError(f"line {line:,}: it holds something that is no number in its place")
    lengths = _field_lengths(ends, first_line)
    rows = len(lengths)
    of_field = np.repeat(np.tile(np.arange(5, dtype=np.int8), rows), lengths.ravel())
    ids, types, positions, seg_labels, labels = (values[of_field == field] for field in range(5))
    row_of_token = np.repeat(np.arange(rows), lengths[:, 0])
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths[:, 0], out=offsets[1:])
    largest = next(np.iinfo(column.dtype).max for column in columns if column.name == "input_ids")
    places = np.arange(len(ids)) - offsets[row_of_token]
    for wrong, row_of, what in (
        ((ids < 0) | (ids > largest), row_of_token, f"a token id is not from 0 to {largest:,}"),
        ((types < 0) | (types > 1), row_of_token, "a sentence type is not 0 or 1"),
        (positions != places, row_of_token, "its positions are not 0, 1, 2 and so on"),
        ((seg_labels < -1) | (seg_labels > 1), row_of_token, "a seg_label is not -1, 0 or 1"),
        ((labels < 0) | (labels > 1), np.arange(rows), "its label is not 0 or 1"),
    ):
        if wrong.any():
            raise ValueError(f"line {first_line + int(row_of[wrong.argmax()]):,}: {what}")
    lists = {"input_ids": ids, "token_type_ids": types, "seg_labels": seg_labels}
    arrays = [
        ragged.to_arrow(lists[column.name].astype(column.dtype), offsets)
        if column.width
        else 1 - labels
        for column in columns
    ]
    return ragged.to_batch(arrays, arrow_schema(columns))


def _field_lengths(ends: np.ndarray, first_line: int) -> np.ndarray:
    """int64[rows, 5]: how many numbers each field has; the first four have the same, the last 1."""
    stops = np.flatnonzero(ends != SPACE) + 1
    kinds = ends[stops - 1]
    strange = kinds != np.resize(_FIELD_ENDS, len(kinds))
    if strange.any():
        line = first_line + int(strange.argmax()) // 5
        raise ValueError(f"line {line:,}: it has not five fields")
    lengths: np.ndarray = np.diff(stops, prepend=0).reshape(-1, 5)
    unequal = (lengths[:, :4] != lengths[:, :1]).any(axis=1) | (lengths[:, 4] != 1)
    if unequal.any():
        line = first_line + int(unequal.argmax())
        raise ValueError(f"line {line:,}: its fields have not the same number of values")
    return lengths
