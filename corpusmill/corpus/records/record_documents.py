"""Documents from records: the text of a record is a document, and its lines are the sentences.

With the sentence rule "document", the text is one sentence, as it stands. The formats of records
(JSON lines, tables, archives, ...) give texts and their places; they become documents here.

The values of fields that are kept beside a text become text, too. Strings stay as they are;
numbers, truth values and nested values become JSON, dates and times what ISO 8601 writes, and a
missing value is null.
"""

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.corpus.batches import (
    Collector,
    DocumentBatch,
    FileRange,
    ReadCounts,
    UnreadableError,
    add_facts,
    text_batch,
)
from corpusmill.corpus.document_options import DROP_REASONS, DocumentOptions
from corpusmill.corpus.records.nested_fields import list_names
from corpusmill.corpus.text.line_kernels import find_newline, join_text, strip_line
from corpusmill.errors import UserError, option
from corpusmill.knobs import knob

BATCH_ROWS = knob("batch_rows", 8192, test=125)
"""The records of a batch of documents, where a file holds records; more make more batches."""


def to_text(value: object) -> str | None:
    """Return a value as text.

    Example:
        "a", 1.5, True, [1, "b"] and None give "a", "1.5", "true", '[1,"b"]' and None.
    """
    match value:
        case None:
            return None
        case str():
            # Avro's readers put what is not UTF-8 into surrogates.
            return value if value.isascii() else _encodable(value)
        case bytes():
            return value.decode(errors="replace")
        case dt.date() | dt.time():  # a datetime is a date, too
            return value.isoformat()
        case bool() | int() | float() | list() | tuple() | dict():
            return _to_json(value)
    return str(value)


def _encodable(text: str) -> str:
    try:
        return text.encode(errors="surrogateescape").decode(errors="replace")
    except UnicodeEncodeError:  # JSON may escape halves of surrogate pairs
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _to_json(value: object) -> str:
    import orjson  # noqa: PLC0415  readers of data sets import this module, and need none

    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)  # NaN or Infinity, which orjson would make null
    try:
        return orjson.dumps(value, _to_simple, orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # of numbers above 64 bits, and of surrogates
        text = json.dumps(value, default=_to_simple, ensure_ascii=False, separators=(",", ":"))
        return _encodable(text)


def _to_simple(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def to_array(values: Sequence[object]) -> pa.Array:
    """Return values of a field as pa.string."""
    try:
        # Most fields hold texts alone, and of these nothing is to be converted.
        return pa.array(values, pa.string())
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([to_text(value) for value in values], pa.string())


def no_such_kept_field(value: str | option, file: str, fields: Iterable[str]) -> UserError:
    """Make the error for a field that is to be kept and does not exist.

    Args:
        value: the option that names it.
        file: path of the file.
        fields: the names of the existing ones.
    """
    cause = f"{file} has no such field; its fields are {list_names(fields)}"
    return UserError(value, cause, "Name fields that it has")


_Bounds = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


class RecordCollector(Collector):
    """Gathers the records of a range until they are taken as a batch of documents.

    A text above the limit of documents is cut between lines, into pieces whose ids follow that of
    the first. A record must therefore own as many ids as its text has bytes, or `max_pieces`.

    Args:
        part: the range.
        max_pieces: the most pieces of a text; the last one has all that is left.

    Attributes:
        rows: records that were added since the last `take`.
    """

    def __init__(self, part: FileRange, max_pieces: int = 2**62) -> None:
        super().__init__(part)
        self._max_pieces = max_pieces

    def _start_batch(self) -> None:
        super()._start_batch()
        self.rows, self._ids = 0, [np.empty(0, np.uint64)]
        self._lengths = [np.empty(0, np.int64)]
        self._texts: list[pa.Array] = []
        self._field_arrays: list[list[pa.Array]] = [[] for _ in range(self.part.options.num_fields)]

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a batch, in text, records or rejects."""
        return self.rows >= BATCH_ROWS or super().is_full

    def add(
        self,
        offsets: npt.NDArray[np.int64],
        texts: Sequence[pa.Array],
        lengths: npt.NDArray[np.int64] | None = None,
        fields: Sequence[pa.Array] = (),
    ) -> None:
        """Add records.

        Args:
            offsets: int64[records], ascending; the low bits of their ids.
            texts: pa.large_string or pa.large_binary without nulls, in all as many.
            lengths: int64[records], the bytes of each record from its offset to its end, or 1 where
                offsets are not bytes; None if they are not known.
            fields: the values of each kept field, as pa.string, and what is judged of the records,
                if they are; empty if the format has no fields.
        """
        if not len(offsets):
            return
        self._lengths.append(np.zeros(len(offsets), np.int64) if lengths is None else lengths)
        for field, values in zip(
            self._field_arrays, fields or repeat(_nulls(len(offsets))), strict=False
        ):
            field.append(values)
        self._ids.append(self.part.ids(offsets))
        self._texts.extend(texts)
        self.rows += len(offsets)
        self.text_bytes += sum(some.nbytes for some in (*texts, *fields))

    def take(self) -> DocumentBatch:
        """Return the records as documents, with what was counted and refused."""
        ids = np.concatenate(self._ids)
        text, offsets = ragged.from_arrow(join_arrays(self._texts))
        cut = cut_texts if self.part.options.keeps_text else split_texts
        limits = self.part.options.max_document_bytes, self._max_pieces
        begins, ends, pieces = cut(text, offsets, *limits)
        record, piece, sentences = pieces.T
        with_text = int((piece == 0).sum())
        self.counts += ReadCounts(
            records=len(ids),
            empty_records=len(ids) - with_text,
            sentences=len(begins),
            documents=len(pieces),
            cut_documents=len(pieces) - with_text,
        )
        joined = join_text(text, begins, ends)
        ids = ids[record] + piece.astype(np.uint64)
        documents = text_batch(ids, sentences, ends - begins, joined)
        documents = self._add_facts(documents, record, piece)
        judge = self.part.options.judge
        if judge is None or not len(ids):
            return self._to_batch(documents)
        verdicts = judge.judge(pa.concat_arrays(self._field_arrays[-1]))[record]
        if not verdicts.any():  # a copy of all text takes longer than to judge it
            return self._to_batch(documents)
        batch = self._to_batch(documents.filter(pa.array(verdicts == 0)))
        dropped = Counter(DROP_REASONS[verdict] for verdict in verdicts[verdicts > 0].tolist())
        lost = int(sentences[verdicts > 0].sum())
        return replace(batch, dropped=dropped, dropped_sentences=lost)

    def _add_facts(
        self,
        documents: pa.RecordBatch,
        record: npt.NDArray[np.int64],
        piece: npt.NDArray[np.int64],
    ) -> pa.RecordBatch:
        """Add the facts of the pieces' records."""
        lengths = np.concatenate(self._lengths)[record]
        # A piece's place is that of its record and its number. The record ends where it ends.
        lengths = np.maximum(lengths - piece, np.minimum(lengths, 1)).astype(np.uint64)
        kept = len(self.part.options.keep_fields)
        fields = [pa.concat_arrays([_nulls(0), *field]) for field in self._field_arrays[:kept]]
        if len(record) != self.rows or piece.any():
            rows = pa.array(record)
            fields = [field.take(rows) for field in fields]
        return add_facts(documents, lengths, fields, self.part.options.keep_fields)


def _nulls(number: int) -> pa.Array:
    return pa.nulls(number, pa.string())


def join_arrays(texts: list[pa.Array]) -> pa.Array:
    """Join arrays of one type; a single one is not copied."""
    if len(texts) == 1:
        return texts[0]
    return pa.concat_arrays(texts) if texts else pa.array([], pa.large_binary())


def no_such_field(file: str, text_field: str, fields: Iterable[str]) -> "NoTextError":
    """Make the error for records that lack the text field.

    Args:
        file: path of the file.
        text_field: its name, as the user wrote it.
        fields: the names of the first record's fields.
    """
    names = tuple(fields)
    cause = f"the first record of {file} has no such field; its fields are {list_names(names)}"
    cure = "Name the field that holds the text"
    return NoTextError(option("text_field", text_field), cause, cure, names)


def make_text(
    record: Mapping[str, Any], options: DocumentOptions, others: tuple[str, ...] = ()
) -> str:
    """Make the text of a record, which is never cut.

    Args:
        record: the fields of which the text is made.
        options: with what makes it.
        others: the names of its other fields.

    Raises:
        UnreadableError: no text is made of it, or it is too long for a document.
    """
    assert options.text_maker  # noqa: S101  the callers know that there is one
    try:
        text, most = options.text_maker(record, others), options.max_document_bytes
    except RecursionError:
        raise UnreadableError("invalid-json", "it is nested too deep") from None
    if 4 * len(text) > most and (size := len(text.encode(errors="replace"))) > most:
        detail = f"{size} bytes, above --max-document-bytes {most}"
        raise UnreadableError("record-too-long", detail)
    return text


def make_text_bytes(
    record: Mapping[str, Any], options: DocumentOptions, others: tuple[str, ...] = ()
) -> bytes | UnreadableError:
    """Return the text of a record of a table, perhaps not UTF-8, or why none is made of it."""
    try:
        return make_text(record, options, others).encode(errors="surrogatepass")
    except UnreadableError as error:
        return error.with_traceback(None)  # which would keep the record


def check_made_field(file: str, names: Sequence[str], options: DocumentOptions) -> None:
    """Refuse a file whose records have no fields of which a text is made.

    Args:
        file: its path.
        names: of the fields that it has.
        options: with what makes texts.

    Raises:
        UserError: names the existing fields.
    """
    if options.text_maker and (lack := options.text_maker.explain_lack(names)):
        raise UserError(option("input", file), lack[0] + list_names(names), lack[1])


class NoTextError(UserError):
    """The first record of a file has no text in the field that is to hold it.

    Args:
        value: as of `UserError`, as are the others.
        names: of the fields that it has.
    """

    def __init__(
        self, value: str | option, cause: str, cure: str, names: Iterable[str] = ()
    ) -> None:
        super().__init__(value, cause, cure)
        self.names = tuple(names)


@njit
def split_texts(
    text: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    max_document_bytes: int,
    max_pieces: int,
) -> _Bounds:
    r"""Cut texts at newlines into sentences, and group these into documents.

    Args:
        text: uint8[bytes], the texts one after the other.
        offsets: int64[texts + 1] into text.
        max_document_bytes: a document is cut before the sentence that would exceed this.
        max_pieces: the most documents of a text; the last one has all that is left.

    Returns:
        begins: int64[sentences], where the stripped text of each begins; blank lines are left out.
        ends: int64[sentences].
        documents: int64[documents, 3], index of the text, index of the piece in it, and the number
            of sentences.

    Example:
        "a\n\n b" and "" with offsets [0, 5, 5] give begins [0, 4], ends [1, 5] and
        documents [[0, 0, 2]].
    """
    most = len(offsets) - 1
    for byte in text[offsets[0] : offsets[-1]]:
        most += byte == 10
    begins, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    documents = np.empty((most, 3), np.int64)
    sentence = document = 0
    for index in range(len(offsets) - 1):
        piece = sentences = size = 0
        start = offsets[index]
        while start < offsets[index + 1]:
            end = find_newline(text, start, offsets[index + 1])
            begin, stop = strip_line(text, start, end)
            start = end + 1
            if begin == stop:
                continue
            is_full = size + stop - begin > max_document_bytes and piece + 1 < max_pieces
            if sentences and is_full:
                documents[document] = index, piece, sentences
                document += 1
                piece, sentences, size = piece + 1, 0, 0
            begins[sentence], ends[sentence] = begin, stop
            sentence += 1
            sentences += 1
            size += stop - begin
        if sentences:
            documents[document] = index, piece, sentences
            document += 1
    return begins[:sentence], ends[:sentence], documents[:document]


@njit
def cut_texts(
    text: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    max_document_bytes: int,
    max_pieces: int,
) -> _Bounds:
    r"""Cut texts that are too long after newlines; keep the others as they are.

    Args:
        text: uint8[bytes], the texts one after the other.
        offsets: int64[texts + 1] into text.
        max_document_bytes: a text is cut before the line that would exceed this.
        max_pieces: the most pieces of a text; the last one has all that is left.

    Returns:
        begins: int64[pieces], where each begins in the text; those of white space are left out.
        ends: int64[pieces].
        documents: int64[pieces, 3], index of the text, index of the piece in it, and 1 sentence.

    Example:
        " a\nb\n" and " " with offsets [0, 5, 6] give begins [0], ends [5], documents [[0, 0, 1]];
        with at most 3 bytes, begins [0, 3], ends [3, 5] and documents [[0, 0, 1], [0, 1, 1]].
    """
    most = len(offsets) - 1 + 2 * (offsets[-1] - offsets[0]) // max_document_bytes
    begins, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    documents = np.empty((most, 3), np.int64)
    count = 0
    for index in range(len(offsets) - 1):
        piece, begin = 0, offsets[index]
        while begin < offsets[index + 1]:
            end = offsets[index + 1]
            if end - begin > max_document_bytes and piece + 1 < max_pieces:
                end = _end_of_lines(text, begin, end, max_document_bytes)
            start, stop = strip_line(text, begin, end)
            if start < stop:
                begins[count], ends[count] = begin, end
                documents[count] = index, piece, 1
                count, piece = count + 1, piece + 1
            begin = end
    return begins[:count], ends[:count], documents[:count]


@njit
def _end_of_lines(text: npt.NDArray[np.uint8], begin: int, end: int, most: int) -> int:
    """Return the end of the last line that ends within `most` bytes, or else of the first line."""
    for position in range(begin + most, begin, -1):
        if text[position - 1] == 10:
            return position
    newline: int = find_newline(text, begin + most, end)
    return min(newline + 1, end)
