"""Small table files, written by the libraries that users write them with."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.corpus.document_options import DocumentOptions
from tests.tools.read_content import Content, read_ranges

Texts = Sequence[bytes | None] | Sequence[str | None]
Write = Callable[[Texts, int], bytes]


def table_of(texts: Texts, kind: pa.DataType | None = None) -> pa.Table:
    """Make a table with a column of text between two others; bytes may be other than UTF-8."""
    column = pa.array(texts, pa.binary()).view(pa.string())
    numbers = pa.array(range(len(texts)), pa.int64())
    urls = pa.array([f"u{number}" for number in range(len(texts))])
    return pa.table({"id": numbers, "text": column.cast(kind) if kind else column, "url": urls})


def parquet(texts: Texts, rows: int, kind: pa.DataType | None = None, **options: Any) -> bytes:
    return parquet_of(table_of(texts, kind), rows, **options)


def parquet_of(table: pa.Table, rows: int | None = None, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows, **options)
    return sink.getvalue()


def arrow_file(texts: Texts, rows: int, kind: pa.DataType | None = None, **options: Any) -> bytes:
    return arrow_of(table_of(texts, kind), rows, pa.ipc.new_file, **options)


def arrow_stream(texts: Texts, rows: int, kind: pa.DataType | None = None, **options: Any) -> bytes:
    return arrow_of(table_of(texts, kind), rows, pa.ipc.new_stream, **options)


def arrow_of(
    table: pa.Table,
    rows: int | None = None,
    new: Callable[..., Any] = pa.ipc.new_file,
    **options: Any,
) -> bytes:
    sink = io.BytesIO()
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def avro(texts: Sequence[object], rows: int, codec: str = "null") -> bytes:
    """Write blocks of some rows; bytes take the place of a text that is not UTF-8."""
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
    """A file that counts the bytes that are read.

    Attributes:
        bytes_read: so far.
    """

    bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


def read(data: bytes, options: DocumentOptions, cuts: Sequence[int] = ()) -> Content:
    """Read a file in the ranges between the cuts, and check what holds for any file."""
    content = read_ranges(data, options, cuts).balanced(len(data))
    counts = asdict(content.counts)
    assert not any(number for name, number in counts.items() if name.endswith("lines"))
    return content


def reference(
    texts: Sequence[object], options: DocumentOptions
) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """Return the documents and the reasons of the rejects, by the rules in plain Python."""
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
        pieces = list(cut_lines(lines, options.max_document_bytes))
        ids = range(3 << 40 | row << 12, (3 << 40 | row << 12) + len(pieces))
        documents += zip(ids, pieces, strict=True)
    return documents, reasons


def cut_lines(lines: list[str], limit: int) -> Iterator[list[str]]:
    """Yield the sentences of each document that a text is cut into."""
    piece: list[str] = []
    for sentence in filter(None, map(str.strip, lines)):
        if piece and sum(len(line.encode()) for line in [*piece, sentence]) > limit:
            yield piece
            piece = []
        piece.append(sentence)
    if piece:
        yield piece
