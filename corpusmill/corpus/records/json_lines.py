"""Records that are lines: JSON lines, and files with one document a line.

A line is read by the range that holds its first byte, so a plain file may be cut anywhere.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from corpusmill.corpus.batches import DocumentBatch, FileRange, ReadCounts, UnreadableError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.nested_fields import MISSING, find_value, list_names, name_fields
from corpusmill.corpus.records.record_documents import (
    NoTextError,
    RecordCollector,
    check_made_field,
    make_text,
    no_such_field,
    no_such_kept_field,
    to_array,
    to_text,
)
from corpusmill.corpus.text.line_kernels import SENTENCE, find_invalid_utf_8, join_text
from corpusmill.corpus.text.lines import (
    BYTE_ORDER_MARK,
    LineBlock,
    LineReader,
    collect_lines,
    count_lines,
    refuse_lines,
)
from corpusmill.errors import UserError, option
from corpusmill.knobs import knob

PARSED_BYTES = knob("parsed_bytes", 2**18, test=125)
"""The JSON lines whose strings are made at once, while the processor's cache holds them."""
# Enough for a first record; a longer one is judged by the run itself. So much of that shows whether
# it is a table.
PROBE_BYTES, _SHAPE_BYTES = 2**20, 2**18
# Index in its block of a line that holds no text, reason and detail. An exception would keep the
# frames that it passed through.
_Refused = list[tuple[int, str, str]]
# What messages call the values of JSON.
KINDS = {
    type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "a string",
    list: "an array", dict: "an object",
}  # fmt: skip


def parse_json(line: bytes) -> Any:
    """Return the value of a text in JSON.

    What JSON does not allow but programs write is read, too: NaN, infinite numbers, and halves of
    surrogate pairs. Only a field that someone asks for may have to be refused for it.

    Raises:
        UnreadableError: it is not JSON, or nested too deep.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        message = str(error)
    # Versions of Python allow different depths.
    if not message.startswith("depth"):
        with suppress(ValueError, RecursionError):
            return json.loads(line.decode(), parse_int=_parse_integer)
    raise UnreadableError("invalid-json", message)


def _parse_integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # thousands of digits, which take long
        return float(digits)


def take_text(record: Any, options: DocumentOptions) -> str:
    """Return the text of a record.

    Args:
        record: a value of JSON, from `parse_json`.
        options: with the name of its field that holds the text, in which nested fields are named
            with dots, or with what makes the text.

    Raises:
        UnreadableError: the record is not an object, has no text in that field, or half of a
            surrogate pair in it.
    """
    if type(record) is not dict:
        raise UnreadableError("not-an-object", f"the line holds {KINDS[type(record)]}")
    text_field = options.text_field
    if maker := options.text_maker:
        values = ((name, find_value(record, name)) for name in maker.fields)
        heads = {*maker.fields, *options.keep_fields}
        others = (
            name
            for name, value in record.items()
            if name not in heads and value not in (None, "", [], {})
        )
        made = {name: value for name, value in values if value is not MISSING}
        text = make_text(made, options, tuple(others))
    else:
        text = record[text_field] if text_field in record else find_value(record, text_field)
    if type(text) is not str:
        if text is MISSING:
            detail = f"its fields are {list_names(_names_of([record]))}"
            raise UnreadableError("missing-field", detail)
        raise UnreadableError("not-text", f"{text_field} holds {KINDS[type(text)]}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UnreadableError("invalid-surrogate", str(error)) from None
    return text


def keep_values(record: dict[str, Any], options: DocumentOptions) -> list[str | None]:
    """Return the values that are kept of a record, as text, and what is judged of it, if it is.

    A field that it lacks is None.

    Raises:
        UnreadableError: a value is nested too deep.
    """
    values: list[str | None] = []
    for name in options.keep_fields:
        value = record[name] if name in record else find_value(record, name)
        # The surrogates of a string are replaced when all values of the field are joined.
        if type(value) is not str:
            try:
                value = None if value is MISSING else to_text(value)
            except RecursionError:
                detail = "a kept field is nested too deep"
                raise UnreadableError("invalid-json", detail) from None
        values.append(value)
    if judge := options.judge:
        values.append(to_text({name: record[name] for name in judge.choose(record)}))
    return values


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if type(value) is dict else ()


def _parse_lines(
    block: LineBlock, lines: npt.NDArray[np.int64], part: FileRange
) -> tuple[list[pa.Array], list[pa.Array], _Refused]:
    """Return texts, in one or several arrays, and kept fields of lines that are JSON objects."""
    arrays: list[pa.Array] = []
    # Made here, as imports of this module must not wait for pandas, which Arrow looks for.
    columns = range(part.options.num_fields)
    fields: list[list[pa.Array]] = [[pa.nulls(0, pa.string())] for _ in columns]
    refused = _Refused()
    cuts = np.flatnonzero(np.diff(block.begins[lines] // PARSED_BYTES)) + 1
    for some in np.split(lines, cuts):
        try:
            texts, kept, bad = _parse_some(block, some, part.options, checks_text=False)
            array = pa.array(texts, pa.large_string())
        except UnicodeEncodeError:  # rare enough that a check of each text would cost more
            texts, kept, bad = _parse_some(block, some, part.options, checks_text=True)
            array = pa.array(texts, pa.large_string())
        arrays.append(array)
        refused += bad
        for number, field in enumerate(fields):
            field.append(to_array([values[number] for values in kept]))
    return arrays, [pa.concat_arrays(field) for field in fields], refused


def _parse_some(
    block: LineBlock, lines: npt.NDArray[np.int64], options: DocumentOptions, checks_text: bool
) -> tuple[list[str], list[list[str | None]], _Refused]:
    texts, kept, refused = list[str](), list[list[str | None]](), _Refused()
    text_field, num_fields = options.text_field, options.num_fields
    is_made = options.text_maker is not None
    # Plain integers: those of NumPy take longer to make than a short record to parse.
    places = (lines.tolist(), block.begins[lines].tolist(), block.ends[lines].tolist())
    for line, begin, end in zip(*places, strict=True):
        try:
            record = parse_json(block.data[begin:end])
            # Most records are like this, and a call takes a tenth of the time of a short one.
            text = record.get(text_field) if type(record) is dict else None
            if is_made or checks_text or type(text) is not str:
                text = take_text(record, options)
            if num_fields:
                kept.append(keep_values(record, options))
        except UnreadableError as error:
            refused.append((line, error.reason, error.detail))
            continue
        texts.append(text)
    return texts, kept, refused


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
        text = join_text(block.view, begins[lines], ends[lines])
        offsets = np.append(0, np.cumsum(ends[lines] - begins[lines]))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        return [pa.Array.from_buffers(pa.large_string(), len(lines), buffers)], ends

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
    """Refuse fields that the first records of JSON lines show to be the wrong ones.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        options: with the text field and the kept fields.

    Raises:
        UserError: the first record has no text field or none that holds text, or none of the
            records has a kept field; names the existing fields. Lines that are not records are left
            to the run.
    """
    start = stream.read(PROBE_BYTES)
    if b"\n" not in start:  # a whole table may be one object, on a line that is too long to train
        start += stream.read(options.max_line_bytes)
    start = start.removeprefix(BYTE_ORDER_MARK)
    check_records([*_parse_records(start)], start, file, options)


def _parse_records(start: bytes) -> Iterator[dict[str, Any]]:
    for line in start.split(b"\n"):
        with suppress(UnreadableError):
            record = parse_json(line)
            if type(record) is dict:
                yield record


# Programs write a whole table as one object: records in a field of it, or columns, rows or cells by
# their names, as `DataFrame.to_json` of pandas does by default.
# Fields inside others are looked into so deep.
_LEVELS = 3
_MARK = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],]', re.DOTALL)
_BY_COLUMNS = "(first(.[]) | keys_unsorted[]) as $row | map_values(.[$row])"
_BY_CELLS = ".columns as $names | .data[] | [$names, .] | transpose | map({(.[0]): .[1]}) | add"
_BY_LISTS = "range(first(.[]) | length) as $row | map_values(.[$row])"
_PANDAS = 'in pandas, to_json(orient="records", lines=True) writes them so'


def _close_json(start: str) -> Any:
    """Return what the beginning of a value in JSON holds, without what is cut off, or None.

    Example:
        '{"data": [{"a": 1}, {"a"' gives {"data": [{"a": 1}]}.
    """
    open_marks, end, closing = list[str](), 0, ""
    for mark in _MARK.finditer(start):
        if mark[0] in "{[":
            open_marks.append("}" if mark[0] == "{" else "]")
        elif mark[0] in "}]" and open_marks:
            open_marks.pop()
        if mark[0] in ",}]":
            end = mark.start() if mark[0] == "," else mark.end()
            closing = "".join(reversed(open_marks))
    with suppress(ValueError, RecursionError):
        return json.loads(start[:end] + closing)
    return None


def _explain_table(record: dict[str, Any], file: str) -> NoTextError | None:
    """Return why an object is a table of columns, rows or cells; None if it may be a record.

    Args:
        record: the only object of a file.
        file: its path.
    """
    values = [*record.values()]
    inner = values[0] if values and isinstance(values[0], dict) else {}
    if inner and all(isinstance(value, dict) for value in values):
        if _are_numbers(inner) and all(value.keys() == inner.keys() for value in values):
            return _explain_shape(
                file, "each of its fields holds a column, row by row", _BY_COLUMNS
            )
        if _are_numbers(record):
            return _explain_shape(file, "each of its fields holds a record", ".[]")
    columns, rows = record.get("columns"), record.get("data")
    if isinstance(columns, list) and isinstance(rows, list) and rows and isinstance(rows[0], list):
        return _explain_shape(file, "its field data is an array of rows without names", _BY_CELLS)
    return None


def _explain_records(record: dict[str, Any], file: str) -> NoTextError | None:
    """Return where the records are that an object without a text holds; None if it holds none.

    Args:
        record: the only object of a file.
        file: its path.
    """
    # Of several, as in pandas' "table", the outermost one, or the longest.
    if arrays := sorted(_find_records(record, "", 1)):
        path = arrays[0][2]
        cause = f"its field {path.removeprefix('.')} is an array of records"
        return _explain_shape(file, cause, f"{path}[]")
    lists = [value for value in record.values() if isinstance(value, list)]
    if lists and len(lists) == len(record) and len({*map(len, lists)}) == 1:
        return _explain_shape(file, "each of its fields is an array, of a whole column", _BY_LISTS)
    inner = [value.keys() for value in record.values() if isinstance(value, dict)]
    if len(inner) == len(record) > 1 and all(keys == inner[0] for keys in inner):
        return _explain_shape(file, "each of its fields holds a record", ".[]")
    return None


def _are_numbers(names: dict[str, Any]) -> bool:
    return all(map(str.isdecimal, names))


def _find_records(value: dict[str, Any], path: str, level: int) -> Iterator[tuple[int, int, str]]:
    """Yield how deep arrays of objects are, their lengths below zero, and paths as jq has them."""
    for name, inner in value.items():
        step = f".{name}" if re.fullmatch(r"[A-Za-z_]\w*", name) else f".{json.dumps(name)}"
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            yield level, -len(inner), path + step
        elif isinstance(inner, dict) and level < _LEVELS:
            yield from _find_records(inner, path + step, level + 1)


def _explain_shape(file: str, cause: str, program: str) -> NoTextError:
    command = f"jq -c {shlex.quote(program)} {shlex.quote(file)} > records.jsonl"
    cure = f"Write one record a line, as by: {command} ({_PANDAS})"
    return NoTextError(option("input", file), f"{cause}, and the file has to hold records", cure)


def check_records(
    records: Sequence[dict[str, Any]], start: bytes, file: str, options: DocumentOptions
) -> None:
    """Refuse fields that the first records of a file show to be the wrong ones.

    Args:
        records: the objects of JSON at its start; of none that is too long nothing is known.
        start: the bytes of its start, which hold the beginning of that one.
        file: its path.
        options: with the text field and the kept fields.

    Raises:
        UserError: as of `check_json_field`, or the first object is a table, or holds the records.
    """
    if not records:
        # Nobody can hold a record that long, unless it is the whole of a table.
        shape = _close_json(start[:_SHAPE_BYTES].decode(errors="ignore"))
        if type(shape) is dict and (
            problem := _explain_table(shape, file) or _explain_records(shape, file)
        ):
            raise problem
        return
    if len(records) == 1 and (problem := _explain_table(records[0], file)):
        raise problem
    try:
        _check_fields(records, file, options)
    except UserError as error:
        # Records one after the other may have arrays of objects, such as conversations.
        if len(records) == 1 and (problem := _explain_records(records[0], file)):
            problem.names = error.names if isinstance(error, NoTextError) else ()
            raise problem from None
        raise


def _check_fields(records: Sequence[dict[str, Any]], file: str, options: DocumentOptions) -> None:
    if options.text_maker:
        check_made_field(file, list(_names_of(records[:1])), options)
    name = options.text_field
    held = "" if options.text_maker else find_value(records[0], name)
    if held is MISSING:
        raise no_such_field(file, name, _names_of(records[:1]))
    if held is not None and type(held) is not str:  # a text may be null now and then
        cause = f"in the first record of {file} this field holds {KINDS[type(held)]}"
        cure = "Name a field that holds text, and give each record as an object of its own"
        raise NoTextError(option("text_field", name), cause, cure, _names_of(records[:1]))
    for name in options.keep_fields:
        if all(find_value(record, name) is MISSING for record in records):
            raise no_such_kept_field(options.mention_field(name), file, _names_of(records))


def _names_of(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (name for record in records for name, _ in name_fields(record, _members))


def read_line_records(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the records whose first byte lies in a byte range of a file.

    Args:
        stream: the file's bytes, decompressed; sought in only to read a part of the file.
        part: the range, with the format ("json-lines" or "lines") and text field.

    Yields:
        At least one batch. The length of a document is that of its line without white space at its
        end.

    Raises:
        UserError: an offset does not fit a document id.
    """
    lines = LineReader(stream, part, check_utf_8=part.options.input_format != "json-lines")
    records = _LineRecords(part)
    return collect_lines(lines, lines, records.add_lines, records)
