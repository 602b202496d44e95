"""ERNIE's text: one example per line, in gzip, as the original's trainer reads it.

    token_ids;sentence_type_ids;position_ids;seg_labels;next_sentence_label

A space separates the numbers of a field. Compiled loops convert between numbers and lines.

Source: README and reader/pretraining.py of PaddlePaddle/ERNIE. In the text the label is 1 if the
second segment follows the first; in the column it is 1 if that segment is from a random document.
So each is 1 minus the other. The bytes contain neither a time nor a name.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import LONGEST_ROW, Column, arrow_schema
from corpusmill.arrays.kernel_cache import njit
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import (
    Columns,
    DataSetContents,
    ShardFormat,
    ShardWriter,
    Sink,
    Sinks,
    Sources,
)
from corpusmill.knobs import knob

_SPACE, _SEMICOLON, _NEWLINE = 32, 59, 10
_MINUS, _ZERO, _NINE = 45, 48, 57


@njit
def _write_numbers(text: np.ndarray, place: int, numbers: np.ndarray) -> int:
    """Write numbers, with a space after each; return the place after the last space."""
    for signed in numbers:
        number = np.int64(signed)
        if number < 0:
            text[place] = _MINUS
            place += 1
            number = -number
        power = 10
        end = place + 1
        while number >= power:
            end += 1
            power *= 10
        for i in range(end - 1, place - 1, -1):
            text[i] = _ZERO + number % 10
            number //= 10
        text[end] = _SPACE
        place = end + 1
    return place


@njit
def write_positions(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Write the positions of the longest sequence, of which those of any other are the beginning.

    Args:
        length: of the longest sequence.

    Returns:
        text: uint8[bytes].
        ends: int64[length + 1], where the text of 0, 1, 2, ... positions ends, space included.

    Example:
        11 gives the bytes of "0 1 2 3 4 5 6 7 8 9 10 " and [0, 2, 4, ... 20, 23].
    """
    text = np.empty(length * 20, np.uint8)
    ends = np.zeros(length + 1, np.int64)
    for i in range(length):
        ends[i + 1] = _write_numbers(text, ends[i], np.arange(i, i + 1))
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
    """Write the lines of a batch of sequences.

    Args:
        input_ids: integers[tokens], not negative.
        token_types: int8[tokens], 0 or 1.
        seg_labels: int8[tokens], -1, 0 or 1.
        offsets: integers[rows + 1] into these three; rows are not empty.
        next_sentence_labels: int8[rows], 1 for a random second segment; the text has 0 for it.
        positions_text: from `write_positions`, at least as long as the longest row needs.
        positions_ends: likewise.
        digits: of the longest id.

    Returns:
        uint8[bytes].

    Example:
        one row with the ids [1, 28, 2, 9, 2], types [0, 0, 0, 1, 1], seg_labels [-1, 0, -1, 0, -1]
        and the label 1 gives the bytes of "1 28 2 9 2;0 0 0 1 1;0 1 2 3 4;-1 0 -1 0 -1;0" and a
        newline.
    """
    size = 0
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        size += length * (digits + 1 + 2 + 3) + positions_ends[length] + 2
    text = np.empty(size, np.uint8)
    place = 0
    for i in range(len(offsets) - 1):
        start, end = offsets[i], offsets[i + 1]
        place = _write_numbers(text, place, input_ids[start:end])
        text[place - 1] = _SEMICOLON
        place = _write_numbers(text, place, token_types[start:end])
        text[place - 1] = _SEMICOLON
        for j in range(positions_ends[end - start]):
            text[place + j] = positions_text[j]
        place += positions_ends[end - start]
        text[place - 1] = _SEMICOLON
        place = _write_numbers(text, place, seg_labels[start:end])
        text[place - 1] = _SEMICOLON
        text[place] = _ZERO + 1 - next_sentence_labels[i]
        text[place + 1] = _NEWLINE
        place += 2
    return text[:place]


@njit
def _parse_numbers(text: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Parse the numbers of a text, up to anything that is not a number.

    Args:
        text: uint8[bytes].

    Returns:
        values: int64[numbers].
        ends: uint8[numbers], the byte after each number: a space, a semicolon or a newline.
        is_valid: whether the text holds nothing but numbers of at most ten digits.

    Example:
        the bytes of "12 -1;0" and a newline give [12, -1, 0], the bytes of " ;" and a newline, and
        True.
    """
    max_numbers = (len(text) + 1) // 2  # A number takes at least two bytes.
    values = np.empty(max_numbers, np.int64)
    ends = np.empty(max_numbers, np.uint8)
    count = number = digits = 0
    negative = False
    for byte in text:
        if _ZERO <= byte <= _NINE and digits < 10:
            number = number * 10 + (byte - _ZERO)
            digits += 1
        elif byte == _MINUS and not digits and not negative:
            negative = True
        elif digits and byte in (_SPACE, _SEMICOLON, _NEWLINE):
            values[count] = -number if negative else number
            ends[count] = byte
            count += 1
            number, digits, negative = 0, 0, False
        else:
            return values[:count], ends[:count], False
    return values[:count], ends[:count], not digits and not negative


def parse_lines(text: bytes, columns: tuple[Column, ...], first_line: int) -> pa.RecordBatch:
    """Parse whole lines to rows.

    Args:
        text: ends with a newline.
        columns: of the data set; `next_sentence_label` is 1 where the text has 0.
        first_line: number of the first line, for messages.

    Raises:
        ValueError: a line is malformed.
    """
    values, ends, is_valid = _parse_numbers(np.frombuffer(text, np.uint8))
    if not is_valid:
        line = first_line + int((ends == _NEWLINE).sum())
        raise ValueError(f"line {line:,}: it has something other than numbers of up to 10 digits")
    lengths = _field_lengths(ends, first_line)
    rows = np.arange(len(lengths))
    fields = np.repeat(np.tile(np.arange(5, dtype=np.int8), len(rows)), lengths.ravel())
    ids, types, positions, seg_labels, labels = (values[fields == field] for field in range(5))
    rows_of_tokens = np.repeat(rows, lengths[:, 0])
    offsets = np.concatenate([[0], np.cumsum(lengths[:, 0])])
    largest = next(np.iinfo(column.dtype).max for column in columns if column.name == "input_ids")
    places = np.arange(len(ids)) - offsets[rows_of_tokens]
    for is_wrong, row_numbers, cause in (
        ((ids < 0) | (ids > largest), rows_of_tokens, f"a token id is not in 0 to {largest:,}"),
        ((types < 0) | (types > 1), rows_of_tokens, "a sentence type is not 0 or 1"),
        (positions != places, rows_of_tokens, "its positions are not 0, 1, 2 and so on"),
        (abs(seg_labels) > 1, rows_of_tokens, "a seg_label is not -1, 0 or 1"),
        ((labels < 0) | (labels > 1), rows, "its label is not 0 or 1"),
    ):
        if is_wrong.any():
            line = first_line + int(row_numbers[is_wrong.argmax()])
            raise ValueError(f"line {line:,}: {cause}")
    lists = {"input_ids": ids, "token_type_ids": types, "seg_labels": seg_labels}
    arrays = [
        ragged.to_arrow(lists[column.name].astype(column.dtype), offsets)
        if column.width
        else 1 - labels
        for column in columns
    ]
    return ragged.to_batch(arrays, arrow_schema(columns))


def _field_lengths(ends: npt.NDArray[np.uint8], first_line: int) -> npt.NDArray[np.int64]:
    """Return int64[rows, 5], how many numbers each field has: four times the same, and 1."""
    stops = np.flatnonzero(ends != _SPACE) + 1
    field_ends = np.resize(np.array([_SEMICOLON] * 4 + [_NEWLINE]), len(stops))
    is_wrong = ends[stops - 1] != field_ends
    if is_wrong.any():
        line = first_line + int(is_wrong.argmax()) // 5
        raise ValueError(f"line {line:,}: it does not have five fields")
    lengths = np.diff(stops, prepend=0).reshape(-1, 5)
    is_wrong = (lengths[:, :4] != lengths[:, :1]).any(axis=1) | (lengths[:, 4] != 1)
    if is_wrong.any():
        line = first_line + int(is_wrong.argmax())
        raise ValueError(f"line {line:,}: its fields do not have the same number of values")
    return lengths


_NAMES = ("input_ids", "token_type_ids", "seg_labels", "next_sentence_label")

# How many rows become text at a time.
_ROWS = 512
_MAX_LINE_BYTES = 2**24
# The four numbers of a token, at most: 10 digits, 1, 10, and 2, with what separates them.
_TOKEN_BYTES = 11 + 2 + 11 + 3

# The original's scripts look for files of these names.
_FILE_LISTS = {"train": "train_filelist", "validation": "valid_filelist"}
_VOCABULARY = "vocab.txt"


class ErnieTextFormat(ShardFormat):
    """Lines of ERNIE's columns without masks."""

    name = "ernie-text"
    file_suffixes = (".gz",)
    compressions = ("gzip",)
    # Four times as fast as 6, and 10 % larger.
    level = 4
    companion_names = (*_FILE_LISTS.values(), _VOCABULARY)

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse what a line has no field for.

        Raises:
            UserError: the columns are not ERNIE's without masks, or rows are padded.
        """
        names = tuple(column.name for column in columns)
        if set(names) != set(_NAMES):
            masked = any(name.startswith("masked_lm") for name in names)
            cause = (
                "its trainer masks the sequences itself, so that a line has no field for masks"
                if masked and set(_NAMES) <= set(names)
                else f"a line holds {', '.join(_NAMES)}, and this data set has {', '.join(names)}"
            )
            cure = (
                f"Leave out {option('mask', 'static')}"
                if masked and "seg_labels" in names
                else "Take parquet"
            )
            raise UserError(option("output_format", "ernie-text"), cause, cure)
        if options.is_padded:
            raise UserError(
                option("padding", "max_length"),
                "the lines of ernie-text have no padding; its trainer pads each batch",
                "Leave it out",
            )

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer of lines."""
        return _Writer(sinks[0], columns, cast(int, options.compression_level))

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Parse the lines.

        Raises:
            ValueError: a line, named by its number, is malformed.
            OSError: the gzip is damaged.
        """
        line, most = 1, min(_MAX_LINE_BYTES, longest * _TOKEN_BYTES + 4)
        try:
            for text in _whole_lines(sources[0], most):
                rows = parse_lines(text, columns, line)
                line += rows.num_rows
                for begin in range(0, rows.num_rows, batch_rows):
                    yield rows.slice(begin, batch_rows)
        except (EOFError, zlib.error) as error:
            raise OSError(str(error)) from None

    def companion_files(self, contents: DataSetContents) -> dict[str, bytes]:
        """Return the lists of files and the vocabulary with which the original's trainer starts.

        A list's line is "train-00000-of-00002.gz", a tab, and the share of examples in which words
        are masked, "1.0".
        """
        # Other objectives with these columns always mask words.
        share = contents.objective_options.get("mask_word_prob", 1.0)
        companions = {
            name: "".join(f"{shard.file}\t{share}\n" for shard in shards).encode()
            for split, name in _FILE_LISTS.items()
            if (shards := contents.shards.get(split))
        }
        vocabulary = _vocabulary(json.loads(contents.tokenizer_json))
        return companions if vocabulary is None else {**companions, _VOCABULARY: vocabulary}


class _Writer:
    def __init__(self, sink: Sink, columns: Columns, level: int) -> None:
        width = next(column.width for column in columns if column.name == "input_ids")
        self._positions = write_positions(width)
        # Without a name and with the time 0 the bytes depend on the rows alone.
        self._text = gzip.GzipFile("", "wb", level, cast(BinaryIO, sink), mtime=0)

    def write(self, rows: pa.RecordBatch) -> None:
        for begin in range(0, rows.num_rows, _ROWS):
            self._text.write(self._lines(rows.slice(begin, _ROWS)))

    def close(self) -> None:
        self._text.close()

    def _lines(self, rows: pa.RecordBatch) -> memoryview:
        lists = [ragged.from_arrow(rows.column(name)) for name in _NAMES[:3]]
        values = [flat[offsets[0] : offsets[-1]] for flat, offsets in lists]
        offsets = lists[0][1]
        digits = len(str(values[0].max(initial=0)))
        labels = rows.column("next_sentence_label").to_numpy()
        lines = write_lines(*values, offsets - offsets[0], labels, *self._positions, digits)
        return memoryview(lines)


TEXT_BYTES = knob("text_bytes", 2**20, test=100)
"""How much of a file of text is decompressed and parsed at once."""


def _whole_lines(stream: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    rest = b""
    with gzip.GzipFile(fileobj=stream, mode="rb") as text:
        while block := text.read(TEXT_BYTES):
            lines, newline, start = block.rpartition(b"\n")
            if newline:
                yield rest + lines + newline
                rest = start
            else:
                rest += block
            if len(rest) > max_bytes:
                raise ValueError(f"a line is longer than {max_bytes:,} bytes")
    if rest:
        yield rest + b"\n"


def _vocabulary(tokenizer: Mapping[str, Any]) -> bytes | None:
    """Return the tokens of a WordPiece tokenizer by their ids; None for any other tokenizer.

    The trainer looks for [PAD], [CLS], [SEP] and [MASK] by these names.
    """
    if tokenizer["model"].get("type") != "WordPiece":
        return None
    added = {token["content"]: token["id"] for token in tokenizer.get("added_tokens", [])}
    ids = {**tokenizer["model"]["vocab"], **added}
    by_id = sorted(ids.items(), key=lambda item: item[1])
    return "".join(f"{token}\t{number}\n" for token, number in by_id).encode()
