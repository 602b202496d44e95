"""Small table files, made by the libraries that users make them with, and read in plain Python."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.corpus.batches import ReadCounts
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions

Texts = Sequence[bytes | None] | Sequence[str | None]
Write = Callable[[Texts, int], bytes]


def table_of(texts: Texts, of: pa.DataType | None = None) -> pa.Table:
    """A column of text between two others; bytes that are no UTF-8 are put in unchecked."""
    column = pa.array(texts, pa.binary()).view(pa.string())
    numbers = pa.array(range(len(texts)), pa.int64())
    urls = pa.array([f"u{number}" for number in range(len(texts))])
    return pa.table({"id": numbers, "text": column.cast(of) if of else column, "url": urls})


def parquet(texts: Texts, rows: int, of: pa.DataType | None = None, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table_of(texts, of), sink, row_group_size=rows, **options)
    return sink.getvalue()


def arrow_file(texts: Texts, rows: int, of: pa.DataType | None = None, **options: Any) -> bytes:
    return _ipc(pa.ipc.new_file, table_of(texts, of), rows, **options)


def arrow_stream(texts: Texts, rows: int, of: pa.DataType | None = None, **options: Any) -> bytes:
    return _ipc(pa.ipc.new_stream, table_of(texts, of), rows, **options)


def _ipc(new: Callable[..., Any], table: pa.Table, rows: int, **options: Any) -> bytes:
    sink = io.BytesIO()
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def avro(texts: Sequence[object], rows: int, codec: str = "null") -> bytes:
    """Rows are flushed by hand; bytes stand where a text is no UTF-8."""
    fields = [
        {"name": "id", "type": "long"},
        {"name": "text", "type": ["null", "string", "bytes", "long"]},
    ]
    schema = {"type": "record", "name": "row", "fields": fields}
    sink = io.BytesIO()
    writer = fastavro.write.Writer(sink, schema, codec, sync_marker=bytes(range(16)))
    for number, text in enumerate(texts):
        writer.write({"id": number, "text": text})
        if number % rows == rows - 1:
            writer.dump()
    writer.flush()
    return sink.getvalue()


FORMATS: dict[str, tuple[str, Write]] = {
    "parquet": ("parquet", parquet),
    "Arrow file": ("arrow", arrow_file),
    "Arrow stream": ("arrow", arrow_stream),
    "Avro": ("avro", avro),
}


class CountingStream(io.BytesIO):
    """A file that knows how many bytes were read of it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


class Found:
    """All that was read of a file."""

    def __init__(self) -> None:
        self.documents: list[tuple[int, list[str]]] = []
        self.rejects: list[tuple[int, int, str, str]] = []
        self.counts = ReadCounts()

    @property
    def reasons(self) -> list[str]:
        return [reason for _, _, reason, _ in self.rejects]

    @property
    def sentences(self) -> list[str]:
        return [sentence for _, sentences in self.documents for sentence in sentences]


def read(data: bytes, options: DocumentOptions, cuts: Sequence[int] = ()) -> Found:
    """Read a file in the ranges that the cuts make, and check what holds for any file."""
    found = Found()
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(ends):
        for batch in read_corpus(io.BytesIO(data), FileRange("f", 3, options, start, end)):
            rows = batch.documents.to_pydict()
            found.documents += zip(rows["document"], rows["sentences"], strict=True)
            found.rejects += [(of.offset, of.length, of.reason, of.detail) for of in batch.rejects]
            found.counts += batch.counts
    counts = found.counts
    assert counts.bytes == len(data)
    assert counts.rows == counts.records + counts.rejected_rows
    assert counts.records - counts.empty_records == counts.documents - counts.cut_documents
    assert counts.documents == len(found.documents)
    assert counts.sentences == len(found.sentences)
    assert not any(number for name, number in asdict(counts).items() if name.endswith("lines"))
    return found


def reference(
    texts: Sequence[object], options: DocumentOptions
) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """Documents, and the reasons of rejects."""
    documents: list[tuple[int, list[str]]] = []
    reasons = []
    for row, text in enumerate(texts):
        if not isinstance(text, bytes | str):
            reasons.append("not-text")
            continue
        content = text.encode() if isinstance(text, str) else text
        try:
            lines = content.decode().split("\n")
        except UnicodeDecodeError:
            lines = []
            if len(content) <= options.max_line_bytes:
                reasons.append("invalid-utf-8")
        if len(content) > options.max_line_bytes:
            reasons.append("record-too-long")
            continue
        pieces = list(_cut([line.strip() for line in lines], options.max_document_bytes))
        ids = range(3 << 40 | row << 12, (3 << 40 | row << 12) + len(pieces))
        documents += zip(ids, pieces, strict=True)
    return documents, reasons


def _cut(sentences: list[str], limit: int) -> Iterator[list[str]]:
    piece: list[str] = []
    for sentence in filter(None, sentences):
        if piece and sum(len(of.encode()) for of in [*piece, sentence]) > limit:
            yield piece
            piece = []
        piece.append(sentence)
    if piece:
        yield piece
