"""Records that are lines: JSON lines, and files with one document a line.

A line is read by the range that holds its first byte, so a plain file may be cut anywhere.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from corpusmill.corpus.batches import DocumentBatch, FileRange, ReadCounts, UnreadableError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.record_documents import RecordCollector, no_such_field, to_array
from corpusmill.corpus.text.line_kernels import SENTENCE, find_invalid_utf_8, join_text
from corpusmill.corpus.text.lines import (
    LineBlock,
    LineReader,
    collect_lines,
    count_lines,
    refuse_lines,
)

# Enough for a first record; a longer one is judged by the run itself.
_PROBE_BYTES = 2**20
# Index in its block of a line that holds no text, reason and detail. An exception would keep the
# frames that it passed through.
_Refused = list[tuple[int, str, str]]
_KINDS = {
    type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "a string",
    list: "an array", dict: "an object",
}  # fmt: skip


def parse_json(line: bytes, text_field: str) -> dict[str, Any]:
    """Return a record of JSON lines.

    Args:
        line: one JSON object.
        text_field: name of its member that holds the text.

    Raises:
        UnreadableError: it is not an object, or has no string in that field.
    """
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        message = str(error)
        # Without the cause, which would keep the frames that it passed through.
        raise UnreadableError(_name_fault(message), message) from None
    text = record.get(text_field) if type(record) is dict else None
    if type(text) is str:
        return cast(dict[str, Any], record)
    raise _refusal(record, text_field)


def _name_fault(message: str) -> str:
    return "invalid-surrogate" if "surrogate" in message else "invalid-json"


def _refusal(record: Any, text_field: str) -> UnreadableError:
    """Say what is wrong with a record that has no text."""
    if not isinstance(record, dict):
        return UnreadableError("not-an-object", f"the line holds {_KINDS[type(record)]}")
    if text_field not in record:
        return UnreadableError("missing-field", f"its fields are {', '.join(record) or 'none'}")
    return UnreadableError("not-text", f"{text_field} holds {_KINDS[type(record[text_field])]}")


def _parse_lines(
    block: LineBlock, lines: npt.NDArray[np.int64], part: FileRange
) -> tuple[list[pa.Array], list[pa.Array], _Refused]:
    """Return texts, in one or several arrays, and kept fields of lines that are JSON objects."""
    arrays: list[pa.Array] = []
    # Made here, as imports of this module must not wait for pandas, which Arrow looks for.
    options = part.options
    fields: list[list[pa.Array]] = [[pa.nulls(0, pa.string())] for _ in options.keep_fields]
    text_field, refused = options.text_field, _Refused()
    cuts = np.flatnonzero(np.diff(block.begins[lines] // part.limits.corpus.parsed_bytes)) + 1
    for some in np.split(lines, cuts):
        texts = list[str]()
        kept: list[tuple[str, list[Any]]] = [(name, []) for name in options.keep_fields]
        # Plain integers: those of NumPy take longer to make than a short record to parse.
        places = (some.tolist(), block.begins[some].tolist(), block.ends[some].tolist())
        for line, begin, end in zip(*places, strict=True):
            try:
                record = parse_json(block.data[begin:end], text_field)
            except UnreadableError as error:
                refused.append((line, error.reason, error.detail))
                continue
            texts.append(record[text_field])
            for name, values in kept:
                values.append(record.get(name))
        arrays.append(pa.array(texts, pa.large_string()))
        for field, (_, values) in zip(fields, kept, strict=True):
            field.append(to_array(values))
    return arrays, [pa.concat_arrays(field) for field in fields], refused


def _join_pieces(
    block: LineBlock, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> pa.Array:
    text = join_text(block.view, begins, ends)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - begins)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.large_string(), len(begins), buffers)


class _LineRecords(RecordCollector):
    """Gathers records that are lines.

    Args:
        part: the range.
    """

    # Half a batch is enough, as each block of lines has as much text as a whole one.
    enough = 0.5

    def add_lines(self, block: LineBlock) -> bool:
        """Add the lines that begin in the range; return whether more of them may follow."""
        ours = self.part.holds(block.offsets[:-1])
        count_lines(self, block, ours)
        lines = np.flatnonzero(ours & (block.kinds == SENTENCE))
        options = self.part.options
        if options.input_format == "json-lines":
            texts, fields, refused = _parse_lines(block, lines, self.part)
            ends = block.ends
        else:
            (texts, ends), fields, refused = self._whole_lines(block, lines), [], _Refused()
        if refused:
            self._refuse(block, refused)
            lines = np.setdiff1d(lines, [line for line, _, _ in refused], assume_unique=True)
        rejected = self.counts.rejected_lines + len(refused)
        self.counts = replace(self.counts, sentence_lines=0, rejected_lines=rejected)
        lengths = ends[lines] + block.offsets[0] - block.offsets[lines]
        self.add(block.offsets[lines], texts, lengths, fields)
        return bool(block.offsets[-1] < self.part.bounds[1])

    def _whole_lines(
        self, block: LineBlock, lines: npt.NDArray[np.int64]
    ) -> tuple[list[pa.Array], npt.NDArray[np.int64]]:
        """Return the texts of some lines, and where the text of each line of the block ends."""
        begins, ends = block.begins, block.ends
        if self.part.options.keeps_text:
            begins, ends = block.whole_lines()
            ends = ends - block.line_breaks()
        return [_join_pieces(block, begins[lines], ends[lines])], ends

    def _refuse(self, block: LineBlock, refused: _Refused) -> None:
        lines = np.array([line for line, _, _ in refused], np.int64)
        invalid = find_invalid_utf_8(block.view, block.begins[lines], block.ends[lines])
        refuse_lines(self, block, lines[invalid])
        by_reason: dict[str, list[tuple[int, str]]] = {}
        for (line, reason, detail), is_invalid in zip(refused, invalid.tolist(), strict=True):
            if not is_invalid:
                by_reason.setdefault(reason, []).append((line, detail))
        for reason, found in by_reason.items():
            some, details = np.array([line for line, _ in found]), [text for _, text in found]
            places = block.offsets[some], block.lengths[some]
            self.refuse_many(*places, reason, details.__getitem__)
        size = int(np.diff(block.offsets)[lines[~invalid]].sum())
        self.counts += ReadCounts(rejected_bytes=size)


def check_json_field(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse a text field that the first record of JSON lines does not have.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        options: with the text field.

    Raises:
        UserError: names the existing fields. A first line that is not a record is left to the run.
    """
    lines = stream.read(_PROBE_BYTES).lstrip().split(b"\n", 1)
    try:
        record = orjson.loads(lines[0])
    except orjson.JSONDecodeError:
        return
    if isinstance(record, dict) and options.text_field not in record:
        raise no_such_field(file, options.text_field, list(record))


def read_line_records(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the records whose first byte lies in a byte range of a file.

    Args:
        stream: the file's bytes, decompressed; sought in only to read a part of the file.
        part: the range, with the format ("json-lines" or "lines"), text field and limits.

    Yields:
        At least one batch. The length of a document is that of its line without white space at its
        end.

    Raises:
        UserError: an offset does not fit a document id.
    """
    lines = LineReader(stream, part, check_utf_8=part.options.input_format != "json-lines")
    records = _LineRecords(part)
    return collect_lines(lines, lines, records.add_lines, records)
