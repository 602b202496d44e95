"""Lines of ERNIE's text to numbers and back, compiled.

A line is `token_ids;sentence_type_ids;position_ids;seg_labels;next_sentence_label`, the numbers of
a field with a space between two.
"""

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column, arrow_schema
from corpusmill.arrays.kernel_cache import njit

SPACE, SEMICOLON, NEWLINE = 32, 59, 10
_MINUS, _ZERO, _NINE = 45, 48, 57


@njit
def write_number(text: np.ndarray, place: int, number: int) -> int:
    """Write a number's digits from `place` on; gives the place behind them."""
    digits = 1
    power = 10
    while number >= power:
        digits += 1
        power *= 10
    behind = place + digits
    for i in range(behind - 1, place - 1, -1):
        text[i] = _ZERO + number % 10
        number //= 10
    return behind


@njit
def write_positions(length: int) -> tuple[np.ndarray, np.ndarray]:
    """The positions of the longest sequence as text; a shorter one's are the beginning of it.

    Args:
        length: of the longest sequence.

    Returns:
        text: uint8[bytes].
        ends: int64[length + 1], where the text of so many positions ends, its last space included.

    Example:
        11 gives the bytes of "0 1 2 3 4 5 6 7 8 9 10 " and [0, 2, 4, ... 20, 23].
    """
    text = np.empty(length * 20, np.uint8)
    ends = np.zeros(length + 1, np.int64)
    for i in range(length):
        place = write_number(text, ends[i], i)
        text[place] = SPACE
        ends[i + 1] = place + 1
    return text[: ends[length]], ends


@njit
def write_lines(
    input_ids: np.ndarray,
    token_types: np.ndarray,
    seg_labels: np.ndarray,
    offsets: np.ndarray,
    next_sentence_labels: np.ndarray,
    positions_text: np.ndarray,
    positions_ends: np.ndarray,
    digits: int,
) -> np.ndarray:
    """The lines of a batch of sequences.

    Args:
        input_ids: integers[tokens], not negative.
        token_types: int8[tokens], 0 or 1.
        seg_labels: int8[tokens], -1, 0 or 1.
        offsets: integers[rows + 1] into these three; no row is empty.
        next_sentence_labels: int8[rows], 1 for a random second segment, which is 0 in the text.
        positions_text: from `write_positions`, as long as the longest row needs.
        positions_ends: likewise.
        digits: most digits of an id.

    Returns:
        uint8[bytes].

    Example:
        one row with the ids [1, 28, 2, 9, 2], types [0, 0, 0, 1, 1], seg_labels [-1, 0, -1, 0, -1]
        and the label 1 gives the bytes of "1 28 2 9 2;0 0 0 1 1;0 1 2 3 4;-1 0 -1 0 -1;0" and of a
        line's end.
    """
    size = 0
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        size += length * (digits + 1 + 2 + 3) + positions_ends[length] + 2
    text = np.empty(size, np.uint8)
    place = 0
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        for j in range(begin, end):
            place = write_number(text, place, input_ids[j])
            text[place] = SPACE
            place += 1
        text[place - 1] = SEMICOLON
        for j in range(begin, end):
            text[place] = _ZERO + token_types[j]
            text[place + 1] = SPACE
            place += 2
        text[place - 1] = SEMICOLON
        for j in range(positions_ends[end - begin]):
            text[place + j] = positions_text[j]
        place += positions_ends[end - begin]
        text[place - 1] = SEMICOLON
        for j in range(begin, end):
            if seg_labels[j] < 0:
                text[place] = _MINUS
                place += 1
            text[place] = _ZERO + abs(seg_labels[j])
            text[place + 1] = SPACE
            place += 2
        text[place - 1] = SEMICOLON
        text[place] = _ZERO + 1 - next_sentence_labels[i]
        text[place + 1] = NEWLINE
        place += 2
    return text[:place]


@njit
def parse_numbers(text: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """The numbers of a text, and the byte behind each.

    Args:
        text: uint8[bytes].

    Returns:
        values: int64[numbers].
        ends: uint8[numbers], each a space, a semicolon or a newline.
        fine: whether there is nothing else in the text, and no number of more than 10 digits;
            behind the place where there is, nothing is parsed.

    Example:
        the bytes of "12 -1;0" and a newline give [12, -1, 0], the bytes of " ;" and a newline, and
        True.
    """
    most = (len(text) + 1) // 2  # A number takes two bytes or more.
    values = np.empty(most, np.int64)
    ends = np.empty(most, np.uint8)
    count = number = digits = 0
    negative = False
    for byte in text:
        if _ZERO <= byte <= _NINE and digits < 10:
            number = number * 10 + (byte - _ZERO)
            digits += 1
        elif byte == _MINUS and not digits and not negative:
            negative = True
        elif digits and byte in (SPACE, SEMICOLON, NEWLINE):
            values[count] = -number if negative else number
            ends[count] = byte
            count += 1
            number, digits, negative = 0, 0, False
        else:
            return values[:count], ends[:count], False
    return values[:count], ends[:count], not digits and not negative


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
