"""Records that are rows of an Arrow file or stream: a record batch is a block.

Feather (version 2) is Arrow's file format, and Hugging Face's `save_to_disk` writes streams of it.
The headers of the messages are read here, as Arrow's own readers either need a footer or decode
every batch on the way; the batches themselves are decoded by Arrow. The format is that of
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.ipc

from corpusmill.corpus.tables.table import (
    MAX_BLOCK_BYTES,
    BadTableError,
    Block,
    TableStream,
    TextRows,
    cut_texts,
    is_text_type,
    too_large,
)

_MAGIC, _FEATHER_1 = b"ARROW1", b"FEA1"
_FOOTER_TAIL = struct.Struct("<i6s")
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # types of messages
_MAX_HEADER_BYTES = 2**28


class _Message(NamedTuple):
    """Place and header of a message; `rows` of a record batch, 0 of others."""

    kind: int
    offset: int
    header: bytes  # the flatbuffer
    length: int  # with prefix, header and body
    body_bytes: int
    rows: int


class _FlatTable:
    """A table of a flatbuffer: fields are reached over an index at its start.

    Args:
        data: the buffer.
        at: where the table is; None for the root.
    """

    def __init__(self, data: bytes, at: int | None = None) -> None:
        self.data = data
        self.at = self._read("<I", 0) if at is None else at
        self._index = self.at - self._read("<i", self.at)
        self._index_bytes = self._read("<H", self._index)

    def _read(self, layout: str, at: int) -> int:
        number: int = struct.unpack_from(layout, self.data, at)[0]
        return number

    def place(self, field: int) -> int:
        """Where the value of a field is, 0 where the field is not given."""
        entry = 4 + 2 * field
        offset = self._read("<H", self._index + entry) if entry < self._index_bytes else 0
        return self.at + offset if offset else 0

    def number(self, field: int, layout: str) -> int:
        """A number, 0 by default."""
        place = self.place(field)
        return self._read(layout, place) if place else 0

    def reference(self, field: int) -> int:
        """Where the table or vector is that a field refers to."""
        place = self.place(field)
        return place + self._read("<I", place)


def _record_batch_of(header: bytes, kind: int) -> _FlatTable:
    message = _FlatTable(header)
    table = _FlatTable(header, message.reference(2))
    return table if kind == _BATCH else _FlatTable(header, table.reference(1))


def _decoded_bytes(message: _Message, body: memoryview) -> int:
    """Bytes of all buffers of a batch once they are decompressed."""
    batch = _record_batch_of(message.header, message.kind)
    if not batch.place(3):
        return len(body)
    vector = batch.reference(2)
    (count,) = struct.unpack_from("<I", message.header, vector)
    total = 0
    for at in range(vector + 4, vector + 4 + 16 * count, 16):
        offset, length = struct.unpack_from("<qq", message.header, at)
        decoded = struct.unpack_from("<q", body, offset)[0] if length else 0
        total += length if decoded < 0 else decoded  # -1 marks what did not get smaller
    return total


class ArrowTable:
    """An Arrow file or stream; see `corpusmill.corpus.tables.table.Table`.

    Args:
        stream: the file.
        size: its bytes.
        text_field: name of the column to read.

    Raises:
        BadTableError: it does not begin as Arrow.
    """

    def __init__(self, stream: TableStream, size: int, text_field: str) -> None:
        self._stream, self._size = stream, size
        self._batches: dict[int, _Message] = {}
        self._dictionaries: list[_Message] = []
        self._prefix = (-1, b"")
        with stream.damage_is("damaged-file"):
            self._is_file, begin, self._end, self._fault = self._find_messages()
            self._schema = self._read_message(begin)
            if self._schema.kind != _SCHEMA:
                raise BadTableError("damaged-file", "it does not begin with a schema")
            content = self._read(begin, self._schema.length)
            schema = pa.ipc.read_schema(pa.py_buffer(content))
            self.fields = {of.name: str(of.type) for of in schema}
            self.text_fields = tuple(of.name for of in schema if is_text_type(of.type))
        found = schema.get_all_field_indices(text_field)[:1]
        self._options = pa.ipc.IpcReadOptions(included_fields=found, use_threads=False)

    def _read(self, offset: int, length: int) -> bytes:
        self._stream.seek(offset)
        return self._stream.read(length)

    def _find_messages(self) -> tuple[bool, int, int, BadTableError | None]:
        """Whether this is the file format, where its messages begin and end, and what is amiss."""
        start = self._read(0, 8)
        if start.startswith(_FEATHER_1):
            detail = "it is Feather version 1, which pyarrow.feather.read_table reads"
            raise BadTableError("damaged-file", detail)
        if not start.startswith(_MAGIC):
            return False, 0, self._size, None
        tail = self._read(max(8, self._size - _FOOTER_TAIL.size), _FOOTER_TAIL.size)
        if tail.endswith(_MAGIC) and len(tail) == _FOOTER_TAIL.size:
            end = self._size - _FOOTER_TAIL.size - _FOOTER_TAIL.unpack(tail)[0]
            if 8 < end < self._size:
                return True, 8, end, None
        return True, 8, self._size, BadTableError("damaged-file", "it ends without a footer")

    def _read_message(self, offset: int) -> _Message:
        """The message at an offset; its kind is 0 where it is the mark of the end."""
        start = self._read(offset, 8)
        # Before Arrow 0.15 there was no mark in front of the length.
        skip = 4 if start.startswith(b"\xff\xff\xff\xff") else 0
        if len(start) < skip + 4:
            raise EOFError("the file ends in a message")
        header_bytes = struct.unpack_from("<i", start, skip)[0]
        if header_bytes == 0:
            return _Message(0, offset, b"", skip + 4, 0, 0)
        if not 0 < header_bytes <= _MAX_HEADER_BYTES:
            raise ValueError(f"a header of {header_bytes} bytes")
        header = self._read(offset + skip + 4, header_bytes)
        if len(header) < header_bytes:
            raise EOFError("the file ends in the header of a message")
        message = _FlatTable(header)
        kind, body_bytes = message.number(1, "<B"), message.number(3, "<q")
        rows = _record_batch_of(header, kind).number(0, "<q") if kind == _BATCH else 0
        if body_bytes < 0 or rows < 0:
            raise ValueError(f"{rows} rows in {body_bytes} bytes")
        return _Message(
            kind, offset, header, skip + 4 + header_bytes + body_bytes, body_bytes, rows
        )

    def blocks(self) -> Iterator[Block]:
        """The record batches."""
        found = self._walk()
        # In a file, unlike in a stream, dictionaries may stand behind the batches that they are of.
        yield from list(found) if self._is_file else found

    def _walk(self) -> Iterator[Block]:
        at, index = self._schema.length + self._schema.offset, 0
        while at < self._end:
            try:
                with self._stream.damage_is("damaged-block"):
                    message = self._read_message(at)
            except BadTableError as fault:
                yield self._last_block(index, at, 0, fault)
                return
            if at + message.length > self._end:
                cut = BadTableError("damaged-block", "the file ends in it")
                yield self._last_block(index, at, message.rows, cut)
                return
            at += message.length
            if message.kind == 0:
                break
            if message.kind == _DICTIONARY:
                self._dictionaries.append(message)
            elif message.kind == _BATCH:
                self._batches[index] = message
                yield Block(index, message.offset, message.length, message.rows)
                index += 1
        if not self._is_file and at < self._size:
            self._fault = BadTableError("damaged-block", "more follows the end of the stream")
        if self._fault:
            yield self._last_block(index, at, 0, self._fault)

    def _last_block(self, index: int, at: int, rows: int, fault: BadTableError) -> Block:
        """What cannot be read, to the end of the file."""
        offset = min(at, self._size - 1)
        return Block(index, offset, self._size - offset, rows, fault)

    def texts(self, block: Block) -> Iterator[TextRows]:
        """The rows of a record batch, decoded at once without the other columns."""
        message = self._batches.pop(block.index)
        ahead = [of for of in self._dictionaries if self._is_file or of.offset < message.offset]
        held = sum(of.length for of in (self._schema, *ahead, message))
        if held > MAX_BLOCK_BYTES:
            raise too_large(held)
        with self._stream.damage_is("damaged-block"):
            prefix = self._read_prefix(ahead)
            data = bytearray(len(prefix) + message.length)
            data[: len(prefix)] = prefix
            with memoryview(data) as view:
                self._stream.read_into(view[len(prefix) :], message.offset)
            self._check_decoded(data, [*ahead, message])
            with pa.ipc.open_stream(pa.py_buffer(data), options=self._options) as reader:
                batch = reader.read_next_batch()
            yield from cut_texts(batch.column(0))

    def _read_prefix(self, dictionaries: list[_Message]) -> bytes:
        """The schema and the dictionaries as a stream has them in front of a batch."""
        if self._prefix[0] != len(dictionaries):
            parts = [self._read(of.offset, of.length) for of in (self._schema, *dictionaries)]
            self._prefix = (len(dictionaries), b"".join(parts))
        return self._prefix[1]

    def _check_decoded(self, data: bytearray, messages: list[_Message]) -> None:
        at, decoded = self._schema.length, 0
        for message in messages:
            at += message.length
            decoded += _decoded_bytes(message, memoryview(data)[at - message.body_bytes : at])
        if decoded > MAX_BLOCK_BYTES:
            raise too_large(decoded)
