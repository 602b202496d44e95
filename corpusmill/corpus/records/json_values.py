"""JSON files that are arrays of records, or records one after the other, on any number of lines.

The borders of records are found by counting braces outside of strings; a record is parsed by
itself, so that a file of any size is read in bounded memory.
"""

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.kernel_cache import njit
from corpusmill.corpus.batches import (
    BATCH_BYTES,
    DocumentBatch,
    FileRange,
    ReadCounts,
    UnreadableError,
)
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.json_lines import (
    PROBE_BYTES,
    check_records,
    keep_values,
    parse_json,
    take_text,
)
from corpusmill.corpus.records.record_documents import RecordCollector, to_array
from corpusmill.corpus.text.lines import BYTE_ORDER_MARK, collect_lines, is_utf_8
from corpusmill.errors import UserError, option

# Whether the records are elements of an array, how many brackets are open, whether this is within a
# string, and after a backslash there, and where the record begins that has not ended; -1 for none.
_IN_ARRAY, _DEPTH, _IN_STRING, _ESCAPED, _BEGIN = range(5)
_BETWEEN, _QUOTE, _OPEN_ARRAY, _OPEN_OBJECT, _CLOSE_ARRAY, _CLOSE_OBJECT, _COMMA = range(1, 8)
# What each byte is outside of strings; 0 is none of these.
_KINDS = np.zeros(256, np.uint8)
_KINDS[[*b'\t\n\r "[{]},']] = [
    *[_BETWEEN] * 4, _QUOTE, _OPEN_ARRAY, _OPEN_OBJECT, _CLOSE_ARRAY, _CLOSE_OBJECT, _COMMA,
]  # fmt: skip


@njit
def _skip_string(data: npt.NDArray[np.uint8], position: int, state: npt.NDArray[np.int64]) -> int:
    """Return the position after the end of a string, or after the data."""
    while position < data.size and state[_IN_STRING]:
        if state[_ESCAPED]:
            state[_ESCAPED] = 0
        elif data[position] == 0x5C:
            state[_ESCAPED] = 1
        elif data[position] == 0x22:
            state[_IN_STRING] = 0
        position += 1
    return position


@njit
def find_values(
    data: npt.NDArray[np.uint8], start: int, state: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find the records that end in a piece of a file.

    A record is an element of an array that nothing encloses, or else a value that nothing encloses.

    Args:
        data: uint8[bytes], which begins with the record that has not ended, if there is one.
        start: the first byte that was not seen before.
        state: int64[5], of the scan; changed.

    Returns:
        begins: int64[records], where each begins in data.
        ends: int64[records].

    Example:
        '[{"a": 1}, 2]' gives begins [1, 11] and ends [9, 12].
    """
    begins = np.empty(data.size - start + 1, np.int64)
    ends = np.empty(data.size - start + 1, np.int64)
    count, position = 0, start
    while position < data.size:
        if state[_IN_STRING]:
            end = position = _skip_string(data, position, state)
            may_end = not state[_IN_STRING]
        else:
            kind, end = _KINDS[data[position]], position
            is_outside = state[_DEPTH] == state[_IN_ARRAY]
            may_end = kind == _BETWEEN or (is_outside and kind in (_COMMA, _CLOSE_ARRAY))
            position += 1
            if kind == _OPEN_ARRAY and not state[_DEPTH] and state[_BEGIN] < 0:
                state[_IN_ARRAY] = state[_DEPTH] = 1
            elif not may_end:
                state[_BEGIN] = end if state[_BEGIN] < 0 else state[_BEGIN]
                state[_IN_STRING] = kind == _QUOTE
                state[_DEPTH] += kind in (_OPEN_ARRAY, _OPEN_OBJECT)
                if kind in (_CLOSE_ARRAY, _CLOSE_OBJECT):
                    state[_DEPTH] = max(state[_IN_ARRAY], state[_DEPTH] - 1)
                    end, may_end = position, True
        if may_end and state[_DEPTH] == state[_IN_ARRAY]:
            if state[_BEGIN] >= 0:
                begins[count], ends[count] = state[_BEGIN], end
                count += 1
                state[_BEGIN] = -1
            if end < position and kind == _CLOSE_ARRAY:
                state[_IN_ARRAY] = state[_DEPTH] = 0
    return begins[:count], ends[:count]


class _Values(NamedTuple):
    """n records that follow each other in a file.

    Attributes:
        data: bytes of the file in which they lie; without those of a record too long to be held.
        start: the byte of the file at which the data begin.
        offsets: int64[n], the byte of the file at which each begins.
        lengths: int64[n].
    """

    data: bytes
    start: int
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def contents(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the offset, the length and the bytes of each."""
        for offset, length in zip(self.offsets.tolist(), self.lengths.tolist(), strict=True):
            yield offset, length, self.data[offset - self.start : offset - self.start + length]


class _ValueReader:
    """Yields the records of a file, holding none that is too long.

    Args:
        stream: the file's bytes, decompressed, read forward only.
        part: the whole file.

    Attributes:
        position: byte of the file up to which the stream was read.
        end: byte of the file after the last record that was yielded.
    """

    def __init__(self, stream: BinaryIO, part: FileRange) -> None:
        self._stream, self._max_bytes = stream, part.options.max_line_bytes
        self.position = self.end = 0

    def __iter__(self) -> Iterator[_Values]:
        state = np.array([0, 0, 0, 0, -1])
        rest, lost = b"", 0
        # Reading as much again as is left over keeps the work linear where records are long.
        least = max(BATCH_BYTES, len(BYTE_ORDER_MARK))
        while block := self._stream.read(max(least, len(rest))):
            data, self.position = rest + block, self.position + len(block)
            base = self.position - len(data)
            mark = BYTE_ORDER_MARK if not base and data.startswith(BYTE_ORDER_MARK) else b""
            state[_BEGIN] = min(0, state[_BEGIN])
            start = max(len(mark), len(rest))
            begins, ends = find_values(np.frombuffer(data, np.uint8), start, state)
            self.end = base + int(ends[-1]) if len(ends) else self.end
            if lost and len(ends):
                # The first one began in bytes that are gone.
                yield _Values(b"", base, np.array([base - lost]), ends[:1] + lost)
                begins, ends, lost = begins[1:], ends[1:], 0
            if len(ends):
                yield _Values(data, base, begins + base, ends - begins)
            rest = data[state[_BEGIN] :] if state[_BEGIN] >= 0 else b""
            if len(rest) > self._max_bytes:
                lost, rest = lost + len(rest), b""
        if rest or lost:
            size = len(rest) + lost
            begin = self.position - size
            yield _Values(rest, begin + lost, np.array([begin]), np.array([size]))


class _Records(RecordCollector):
    """Gathers records.

    Args:
        part: the file.
        reader: yields its records.
    """

    def __init__(self, part: FileRange, reader: _ValueReader) -> None:
        super().__init__(part)
        self._reader, self._counted = reader, 0

    def close(self) -> None:
        self._reader.end = self._reader.position

    def take(self) -> DocumentBatch:
        self.counts += ReadCounts(bytes=self._reader.end - self._counted)
        self._counted = self._reader.end
        return super().take()

    def add_values(self, values: _Values) -> bool:
        """Add records that follow each other; those that hold no text are refused."""
        options, rejected = self.part.options, 0
        offsets, lengths, texts = list[int](), list[int](), list[str]()
        kept = list[list[str | None]]()
        for offset, length, content in values.contents():
            try:
                if length > options.max_line_bytes:
                    detail = f"{length} bytes, above --max-line-bytes {options.max_line_bytes}"
                    raise UnreadableError("record-too-long", detail)
                record = _parse(content)
                text = take_text(record, options)
                fields = keep_values(record, options)
            except UnreadableError as error:
                self.refuse(offset, length, error.reason, error.detail)
                rejected += length
                continue
            offsets.append(offset)
            lengths.append(length)
            texts.append(text)
            kept.append(fields)
        rows = len(values.offsets)
        refused = rows - len(texts)
        self.counts += ReadCounts(rows=rows, rejected_rows=refused, rejected_bytes=rejected)
        columns = [to_array([each[n] for each in kept]) for n in range(options.num_fields)]
        array, places = pa.array(texts, pa.large_string()), np.array(offsets, np.int64)
        self.add(places, [array], np.array(lengths, np.int64), columns)
        return True


def _parse(content: bytes) -> Any:
    try:
        return parse_json(content)
    except UnreadableError:
        if is_utf_8(content, len(content)):
            raise
    raise UnreadableError("invalid-utf-8", "the record is not UTF-8")


def read_json(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the records of a file: the elements of an array, or objects one after the other.

    Args:
        stream: the file's bytes, decompressed, read forward only.
        part: the whole file, with text field; `max_line_bytes` limits a record.

    Yields:
        At least one batch. Ids hold the byte at which a record begins. A record is counted as a
        row; all bytes of the stream are counted, those between records as well.

    Raises:
        UserError: an offset does not fit a document id.
    """
    reader = _ValueReader(stream, part)
    records = _Records(part, reader)
    return collect_lines(reader, reader, records.add_values, records)


def check_json(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse fields that the first records of a file show to be the wrong ones.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        options: with the text field and the kept fields.

    Raises:
        UserError: the first record is not an object, or lacks a field; names the existing fields.
    """
    start = stream.read(PROBE_BYTES)
    records = _parse_values(start, file, options)
    if not records:  # a whole table may be one object
        start += stream.read(options.max_line_bytes)
        records = _parse_values(start, file, options)
    if records and type(records[0]) is not dict:
        cause = "its first record is no object, whose fields have names"
        value = ".[0]" if type(records[0]) is list else "."
        cure = f"Give objects, alone or in an array, as by: jq -c '.[] | {{text: {value}}}'"
        raise UserError(option("input", file), cause, cure)
    objects = [record for record in records if type(record) is dict]
    check_records(objects, start.removeprefix(BYTE_ORDER_MARK), file, options)


def _parse_values(start: bytes, file: str, options: DocumentOptions) -> list[Any]:
    """Return the values of JSON that the start of a file holds."""
    records = list[Any]()
    for values in _ValueReader(BytesIO(start), FileRange(file, 0, options)):
        for _, _, content in values.contents():
            with suppress(UnreadableError):
                records.append(parse_json(content))
    return records
