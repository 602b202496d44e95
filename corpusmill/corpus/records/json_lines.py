"""Records that are lines: JSON lines, and one document a line.

A line is read by the range that holds its first byte, so that a plain file may be cut anywhere.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from corpusmill.corpus.batches import (
    REJECTS_PER_BATCH,
    DocumentBatch,
    ReadCounts,
    Reject,
    document_id,
)
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.records.documents import documents_of, no_such_field
from corpusmill.corpus.text.line_kernels import BLANK, INVALID_UTF_8, SENTENCE, join_text
from corpusmill.corpus.text.lines import (
    BYTE_ORDER_MARK,
    LineBlock,
    LineReader,
    is_utf_8,
    reject_line,
    seek_line_before,
)
from corpusmill.corpus.text.whole_documents import measure_breaks

# Enough for a first record; a longer one is met by the run itself.
_PROBE_BYTES = 2**20
# Of JSON at a time: its strings lie in the processor's cache until they are Arrow's.
_PARSED_BYTES = 2**18


class BadRecordError(Exception):
    """A record without a text.

    Args:
        reason: one of the reasons of the README's table.
        detail: what was found.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason, detail)


def parse_json(line: bytes, text_field: str) -> str:
    """The text of a record of JSON lines.

    Args:
        line: one JSON object.
        text_field: name of its member that holds the text.

    Raises:
        BadRecordError: it is no object, lacks the field, or has something else than text there.
    """
    # Nothing is looked at that a record as it should be does not need.
    try:
        text = orjson.loads(line)[text_field]
    except (orjson.JSONDecodeError, LookupError, TypeError):
        text = None
    if type(text) is str:
        return text
    raise _refusal(line, text_field)


def _refusal(line: bytes, text_field: str) -> BadRecordError:
    """What is wrong with a record that has no text."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        reason = "invalid-surrogate" if "surrogate" in str(error) else "invalid-json"
        return BadRecordError(reason, str(error))
    if not isinstance(record, dict):
        return BadRecordError("not-an-object", f"the line holds {_kind_of(record)}")
    if text_field not in record:
        return BadRecordError("missing-field", f"its fields are {', '.join(record) or 'none'}")
    return BadRecordError("not-text", f"{text_field} holds {_kind_of(record[text_field])}")


def _kind_of(value: object) -> str:
    """A JSON value in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


class _Texts(NamedTuple):
    """The texts of some lines.

    Attributes:
        texts: pa.large_string, arrays that follow each other, of the lines that have one.
        refused: the other lines' places in their block, and what is wrong with them.
    """

    texts: Sequence[pa.Array]
    refused: Sequence[tuple[int, BadRecordError]]


_TextsOf = Callable[[LineBlock, npt.NDArray[np.int64]], _Texts]


def _texts_in_json(block: LineBlock, lines: npt.NDArray[np.int64], text_field: str) -> _Texts:
    """The texts of lines that are JSON objects."""
    arrays, refused = [], []
    cuts = np.flatnonzero(np.diff(block.begins[lines] // _PARSED_BYTES)) + 1
    for few in np.split(lines, cuts):
        texts = []
        # Plain integers: those of NumPy take longer to make than a short record to parse.
        places = (few.tolist(), block.begins[few].tolist(), block.ends[few].tolist())
        for line, begin, end in zip(*places, strict=True):
            try:
                texts.append(parse_json(block.data[begin:end], text_field))
            except BadRecordError as bad:
                refused.append((line, bad))
        arrays.append(pa.array(texts, pa.large_string()))
    return _Texts(arrays, refused)


def _whole_lines_as_texts(block: LineBlock, lines: npt.NDArray[np.int64]) -> _Texts:
    r"""The lines as they stand, without the line breaks ("\n", "\r\n")."""
    data = np.frombuffer(block.data, np.uint8)
    bounds = block.offsets - block.offsets[0]
    begins, ends = (
        bounds[:-1].copy(),
        bounds[1:] - measure_breaks(data, bounds, block.lengths, block.kinds),
    )
    if block.offsets[0] == 0 and block.data.startswith(BYTE_ORDER_MARK):
        begins[0] = len(BYTE_ORDER_MARK)
    return _stretches(block, begins[lines], ends[lines])


def _lines_as_texts(block: LineBlock, lines: npt.NDArray[np.int64]) -> _Texts:
    """The lines themselves, without the white space around them."""
    return _stretches(block, block.begins[lines], block.ends[lines])


def _stretches(
    block: LineBlock, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> _Texts:
    text = join_text(np.frombuffer(block.data, np.uint8), begins, ends)
    offsets = np.zeros(len(begins) + 1, np.int64)
    np.cumsum(ends - begins, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return _Texts([pa.Array.from_buffers(pa.large_string(), len(begins), buffers)], ())


class _Collector:
    """Gathers the records of one range until they are taken as a batch."""

    def __init__(
        self, file: str, file_index: int, options: DocumentOptions, texts_of: _TextsOf
    ) -> None:
        self._file, self._file_index, self._options = file, file_index, options
        self._first_id, self._texts_of = np.uint64(document_id(file_index, 0)), texts_of
        self._clear()

    def _clear(self) -> None:
        self.ids = [np.empty(0, np.uint64)]
        self.texts = [pa.array([], pa.large_string())]
        self.rejects: list[Reject] = []
        self.counts = ReadCounts()
        self.bytes = 0

    def add(self, block: LineBlock, start: int, end: int) -> None:
        """Take the lines of a block that begin in the range."""
        ours = (block.offsets[:-1] >= start) & (block.offsets[:-1] < end)
        refused = len(self.rejects)
        limit = self._options.max_line_bytes
        for line in np.flatnonzero(ours & (block.kinds >= INVALID_UTF_8)).tolist():
            self.rejects.append(reject_line(self._file, block, line, limit))
        self._add_texts(block, np.flatnonzero(ours & (block.kinds == SENTENCE)))
        # In the order of the file, whatever a block is.
        self.rejects[refused:] = sorted(self.rejects[refused:], key=attrgetter("offset"))
        self.counts += ReadCounts(
            bytes=int(np.diff(block.offsets)[ours].sum()),
            lines=int(ours.sum()),
            blank_lines=int((ours & (block.kinds == BLANK)).sum()),
            rejected_lines=len(self.rejects) - refused,
        )

    def _add_texts(self, block: LineBlock, lines: npt.NDArray[np.int64]) -> None:
        texts, refused = self._texts_of(block, lines)
        self.rejects.extend(self._reject(block, line, bad) for line, bad in refused)
        lines = np.setdiff1d(lines, [line for line, _ in refused], assume_unique=True)
        offsets = block.offsets[lines]
        if len(offsets):
            # Refuses an offset that does not fit an id.
            document_id(self._file_index, int(offsets[-1]))
        self.ids.append(offsets.astype(np.uint64) + self._first_id)
        self.texts.extend(texts)
        self.bytes += int((block.ends[lines] - block.begins[lines]).sum())

    def _reject(self, block: LineBlock, line: int, bad: BadRecordError) -> Reject:
        text = block.data[block.begins[line] : block.ends[line]]
        if not is_utf_8(text, len(text)):
            return reject_line(self._file, block, line, self._options.max_line_bytes)
        offset, length = int(block.offsets[line]), int(block.lengths[line])
        return Reject(self._file, offset, length, bad.reason, bad.detail)

    def is_full(self, batch_bytes: int) -> bool:
        """Whether enough was gathered; half the wish, as blocks arrive with as much text each."""
        return 2 * self.bytes >= batch_bytes or len(self.rejects) >= REJECTS_PER_BATCH

    def take(self) -> DocumentBatch:
        """Give what was gathered."""
        batch = documents_of(
            np.concatenate(self.ids),
            pa.concat_arrays(self.texts),
            self._options,
            self.rejects,
            self.counts,
        )
        self._clear()
        return batch


def check_json_field(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse a text field that the first record of JSON lines does not have.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        options: with the text field.

    Raises:
        UserError: with the fields that exist. A first line that is no record is left to the run.
    """
    lines = stream.read(_PROBE_BYTES).lstrip().split(b"\n", 1)
    try:
        record = orjson.loads(lines[0])
    except orjson.JSONDecodeError:
        return
    if isinstance(record, dict) and options.text_field not in record:
        raise no_such_field(file, options.text_field, list(record))


def read_line_records(
    stream: BinaryIO,
    file: str,
    file_index: int,
    start: int,
    end: int | None,
    options: DocumentOptions,
    batch_bytes: int = 2**20,
) -> Iterator[DocumentBatch]:
    """Read the records whose first byte lies in a byte range of a file.

    Args:
        stream: the file's bytes, decompressed; sought in only if a part of the file is asked for.
        file: path for the rejects.
        file_index: index of the file in the sorted list of inputs, for the documents' ids.
        start: first byte of the range.
        end: byte after the range; None for the end of the file.
        options: format ("json-lines" or "lines"), text field and limits.
        batch_bytes: how much is read at a time, and about how much text a batch has.

    Yields:
        At least one batch.

    Raises:
        UserError: for a file index or an offset that does not fit a document id.
    """
    position, in_long_line = 0, False
    if start > 0:
        position, in_long_line = seek_line_before(stream, start, options.max_line_bytes)
    elif end is not None:
        stream.seek(0)
    last = 2**62 if end is None else end
    is_json = options.input_format == "json-lines"
    texts_of: _TextsOf = _whole_lines_as_texts if options.keeps_text else _lines_as_texts
    if is_json:
        texts_of = partial(_texts_in_json, text_field=options.text_field)
    lines = LineReader(
        stream, position, in_long_line, batch_bytes, options.max_line_bytes,
        titles=False, check_utf_8=not is_json,
    )  # fmt: skip
    collector = _Collector(file, file_index, options, texts_of)
    try:
        for block in lines:
            collector.add(block, start, last)
            if collector.is_full(batch_bytes):
                yield collector.take()
            if block.offsets[-1] >= last:
                break
    except DamagedStreamError as damage:
        reject = Reject(file, lines.position, -1, "damaged-compression", str(damage))
        collector.rejects.append(reject)
    yield collector.take()
