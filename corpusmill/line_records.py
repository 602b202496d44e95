"""Records that are lines: JSON lines, and one document a line.

A line is read by the range that holds its first byte, so that a plain file may be cut anywhere.
"""

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import BinaryIO

import numpy as np
import orjson
import pyarrow as pa

from corpusmill.decompression import DamagedStreamError
from corpusmill.documents import (
    REJECTS_PER_BATCH,
    DocumentBatch,
    DocumentOptions,
    ReadCounts,
    document_id,
)
from corpusmill.faults import Reject
from corpusmill.lines import LineBlock, LineReader, reject_line, seek_line_before
from corpusmill.records import documents_of, no_such_field
from corpusmill.scanning import BLANK, INVALID_UTF_8, SENTENCE

# Enough for a first record; a longer one is met by the run itself.
_PROBE_BYTES = 2**20


class BadRecordError(Exception):
    """A record without a text.

    Args:
        reason: one of the reasons of the README's table.
        detail: what was found.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason, detail)


ParseRecord = Callable[[bytes], str]


def parse_json(line: bytes, text_field: str) -> str:
    """The text of a record of JSON lines.

    Args:
        line: one JSON object.
        text_field: name of its member that holds the text.

    Raises:
        BadRecordError: it is no object, lacks the field, or has something else than text there.
    """
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        reason = "invalid-surrogate" if "surrogate" in str(error) else "invalid-json"
        raise BadRecordError(reason, str(error)) from None
    if not isinstance(record, dict):
        raise BadRecordError("not-an-object", f"the line holds {_kind_of(record)}")
    if text_field not in record:
        raise BadRecordError("missing-field", f"its fields are {', '.join(record) or 'none'}")
    text = record[text_field]
    if not isinstance(text, str):
        raise BadRecordError("not-text", f"{text_field} holds {_kind_of(text)}")
    return text


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


class _Collector:
    """Gathers the records of one range until they are taken as a batch."""

    def __init__(
        self, file: str, file_index: int, options: DocumentOptions, parse: ParseRecord
    ) -> None:
        self._file, self._file_index, self._options = file, file_index, options
        self._first_id, self._parse = np.uint64(document_id(file_index, 0)), parse
        self._clear()

    def _clear(self) -> None:
        self.ids = [np.empty(0, np.uint64)]
        self.texts: list[str] = []
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
        self._parse_lines(block, np.flatnonzero(ours & (block.kinds == SENTENCE)))
        # In the order of the file, whatever a block is.
        self.rejects[refused:] = sorted(self.rejects[refused:], key=attrgetter("offset"))
        self.counts += ReadCounts(
            bytes=int(np.diff(block.offsets)[ours].sum()),
            lines=int(ours.sum()),
            blank_lines=int((ours & (block.kinds == BLANK)).sum()),
            rejected_lines=len(self.rejects) - refused,
        )

    def _parse_lines(self, block: LineBlock, lines: np.ndarray) -> None:
        # Plain integers: those of NumPy take longer to make than a short record to parse.
        offsets, lengths = block.offsets[lines].tolist(), block.lengths[lines].tolist()
        bounds = zip(block.begins[lines].tolist(), block.ends[lines].tolist(), strict=True)
        parsed = []
        for place, (begin, end) in enumerate(bounds):
            try:
                self.texts.append(self._parse(block.data[begin:end]))
            except BadRecordError as bad:
                of_line = (offsets[place], lengths[place])
                self.rejects.append(Reject(self._file, *of_line, bad.reason, bad.detail))
            else:
                parsed.append(offsets[place])
                self.bytes += end - begin
        if parsed:
            document_id(self._file_index, parsed[-1])  # refuses an offset that does not fit an id
        self.ids.append(np.array(parsed, np.uint64) + self._first_id)

    def is_full(self, batch_bytes: int) -> bool:
        """Whether enough was gathered."""
        return self.bytes >= batch_bytes or len(self.rejects) >= REJECTS_PER_BATCH

    def take(self) -> DocumentBatch:
        """Give what was gathered."""
        batch = documents_of(
            np.concatenate(self.ids),
            pa.array(self.texts, pa.large_string()),
            self._options.max_document_bytes,
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
    parse: ParseRecord = bytes.decode
    if options.input_format == "json-lines":
        parse = partial(parse_json, text_field=options.text_field)
    lines = LineReader(stream, position, in_long_line, batch_bytes, options.max_line_bytes, False)
    collector = _Collector(file, file_index, options, parse)
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
