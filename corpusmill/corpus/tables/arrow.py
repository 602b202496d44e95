"""Arrow files and streams: a record batch is a block.

Feather (version 2) is Arrow's file format, and Hugging Face's `save_to_disk` writes streams. The
headers of the messages are read here, as Arrow's own readers either need a footer or decode every
batch on the way; the batches themselves are decoded by Arrow. The format is that of
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.ipc

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.tables import table
from corpusmill.limits import RefusalLimits

_MAGIC, _FEATHER_1 = b"ARROW1", b"FEA1"
_FOOTER_TAIL = struct.Struct("<i6s")
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # types of messages
_BLOCK = struct.Struct("<qi4xq")  # where a message lies, in the footer
_MARK = b"\xff\xff\xff\xff"  # stands before the length of a message


class _Message(NamedTuple):
    """A message of the file, without its body.

    Attributes:
        kind: type of the message; 0 for the mark of the end.
        offset: its first byte in the file.
        header: the flatbuffer.
        length: bytes of prefix, header and body.
        body_bytes: bytes of the body.
        rows: of a record batch; 0 for other messages.
    """

    kind: int
    offset: int
    header: bytes
    length: int
    body_bytes: int
    rows: int


class _FlatTable:
    """A table of a flatbuffer, whose fields are reached through an index at its start.

    Args:
        data: the buffer.
        start: position of the table; None for the root.
    """

    def __init__(self, data: bytes, start: int | None = None) -> None:
        self._data = data
        self._start = self._read("<I", 0) if start is None else start
        self._index = self._start - self._read("<i", self._start)
        self._index_bytes = self._read("<H", self._index)

    def _read(self, layout: str, position: int) -> int:
        number: int = struct.unpack_from(layout, self._data, position)[0]
        return number

    def place(self, field: int) -> int:
        """Return the position of a field's value; 0 if the field is absent."""
        entry = 4 + 2 * field
        offset = self._read("<H", self._index + entry) if entry < self._index_bytes else 0
        return self._start + offset if offset else 0

    def number(self, field: int, layout: str) -> int:
        """Return a number, 0 by default."""
        place = self.place(field)
        return self._read(layout, place) if place else 0

    def reference(self, field: int) -> int:
        """Return the position of the table or vector that a field refers to."""
        place = self.place(field)
        return place + self._read("<I", place)


def _record_batch(header: bytes, kind: int) -> _FlatTable:
    """Return the description of the batch, or of the dictionary's values, in a header."""
    message = _FlatTable(header)
    content = _FlatTable(header, message.reference(2))
    return content if kind == _BATCH else _FlatTable(header, content.reference(1))


def _decoded_bytes(message: _Message, body: memoryview) -> int:
    """Return the bytes of all buffers of a batch after decompression."""
    batch = _record_batch(message.header, message.kind)
    if not batch.place(3):
        return len(body)
    vector = batch.reference(2)
    (count,) = struct.unpack_from("<I", message.header, vector)
    total = 0
    for position in range(vector + 4, vector + 4 + 16 * count, 16):
        offset, length = struct.unpack_from("<qq", message.header, position)
        decoded = struct.unpack_from("<q", body, offset)[0] if length else 0
        total += length if decoded < 0 else decoded  # -1 marks a buffer that is not compressed
    return total


class ArrowTable:
    """An Arrow file or stream, as a `corpusmill.corpus.tables.table.Table`.

    Args:
        stream: the file.
        size: its bytes.
        options: with the names of the columns to read.
        limits: what is too large, and how much is decoded at once.

    Raises:
        UnreadableError: it does not begin as Arrow does.
    """

    def __init__(
        self,
        stream: table.TableStream,
        size: int,
        options: DocumentOptions,
        limits: RefusalLimits,
    ) -> None:
        self._stream, self._size, self._limits = stream, size, limits
        self._batches: dict[int, _Message] = {}
        self._dictionaries: list[_Message] = []
        self._prefix = (-1, b"")
        with stream.damage_is("damaged-file"):
            self._is_file, begin, self._end, self._fault = self._find_messages()
            self._schema, self._schema_bytes = self._read_schema(begin)
            schema = pa.ipc.read_schema(pa.py_buffer(self._schema_bytes))
            self.fields = table.fields_of_schema(schema, options)
        self._max_line_bytes = options.max_line_bytes
        columns = sorted({schema.get_field_index(path[0]) for path in self.fields.paths})
        self._options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)

    def _find_messages(self) -> tuple[bool, int, int, UnreadableError | None]:
        """Return whether this is the file format, begin and end of its messages, and its fault."""
        start = self._stream.read_at(0, 8)
        if start.startswith(_FEATHER_1):
            detail = "it is Feather version 1, which pyarrow.feather.read_table reads"
            raise UnreadableError("damaged-file", detail)
        if not start.startswith(_MAGIC):
            return False, 0, self._size, None
        tail = self._stream.read_at(max(8, self._size - _FOOTER_TAIL.size), _FOOTER_TAIL.size)
        if tail.endswith(_MAGIC) and len(tail) == _FOOTER_TAIL.size:
            end = self._size - _FOOTER_TAIL.size - _FOOTER_TAIL.unpack(tail)[0]
            if 8 < end < self._size:
                return True, 8, end, None
        return True, 8, self._size, UnreadableError("damaged-file", "it ends without a footer")

    def _read_schema(self, begin: int) -> tuple[_Message, bytes]:
        """Return the first message of the file, and its bytes as a stream has them."""
        try:
            schema = self._read_message(begin)
            content = self._stream.read_at(begin, schema.length)
        except (struct.error, ValueError, EOFError):
            if not self._is_file or self._fault:
                raise
            # Polars 2 writes no mark and no length, but the flatbuffer alone. It reaches to the
            # first block that the footer lists.
            size = self._first_block() - begin
            if not 0 < size <= self._limits.arrow_header_bytes:
                raise
            header = self._stream.read_at(begin, size)
            content = _MARK + struct.pack("<i", size) + header
            kind = _FlatTable(header).number(1, "<B")
            schema = _Message(kind, begin + size - len(content), header, len(content), 0, 0)
        if schema.kind != _SCHEMA:
            raise UnreadableError("damaged-file", "it does not begin with a schema")
        return schema, content

    def _first_block(self) -> int:
        """Return the first byte of what the footer lists, or the end of the messages."""
        size = self._size - self._end - _FOOTER_TAIL.size
        if size > self._limits.arrow_header_bytes:
            raise ValueError(f"a footer of {size} bytes")
        data = self._stream.read_at(self._end, size)
        footer, first = _FlatTable(data), self._end
        for field in (2, 3):  # dictionaries and record batches
            if footer.place(field):
                vector = footer.reference(field)
                (count,) = struct.unpack_from("<I", data, vector)
                for offset, *_ in _BLOCK.iter_unpack(data[vector + 4 :][: _BLOCK.size * count]):
                    first = min(first, offset)
        return first

    def _read_message(self, offset: int) -> _Message:
        """Read the message at an offset."""
        start = self._stream.read_at(offset, 8)
        # Since Arrow 0.15 there is a mark before the length.
        skip = 4 if start.startswith(_MARK) else 0
        if len(start) < skip + 4:
            raise EOFError("the file ends in a message")
        header_bytes = struct.unpack_from("<i", start, skip)[0]
        if header_bytes == 0:
            return _Message(0, offset, b"", skip + 4, 0, 0)
        if not 0 < header_bytes <= self._limits.arrow_header_bytes:
            raise ValueError(f"a header of {header_bytes} bytes")
        header = self._stream.read_at(offset + skip + 4, header_bytes)
        if len(header) < header_bytes:
            raise EOFError("the file ends in the header of a message")
        message = _FlatTable(header)
        kind, body_bytes = message.number(1, "<B"), message.number(3, "<q")
        rows = _record_batch(header, kind).number(0, "<q") if kind == _BATCH else 0
        if body_bytes < 0 or rows < 0:
            raise ValueError(f"{rows} rows in {body_bytes} bytes")
        return _Message(
            kind, offset, header, skip + 4 + header_bytes + body_bytes, body_bytes, rows
        )

    def blocks(self) -> Iterator[table.Block]:
        """Yield the record batches."""
        blocks = self._walk()
        # In a file, unlike in a stream, a dictionary may come after the batches that use it.
        yield from list(blocks) if self._is_file else blocks

    def _walk(self) -> Iterator[table.Block]:
        position, index = self._schema.length + self._schema.offset, 0
        while position < self._end:
            try:
                with self._stream.damage_is("damaged-block"):
                    message = self._read_message(position)
            except UnreadableError as error:
                yield self._last_block(index, position, 0, error)
                return
            if position + message.length > self._end:
                cut = UnreadableError("damaged-block", "the file ends in it")
                yield self._last_block(index, position, message.rows, cut)
                return
            position += message.length
            if message.kind == 0:
                break
            if message.kind == _DICTIONARY:
                self._dictionaries.append(message)
            elif message.kind == _BATCH:
                self._batches[index] = message
                yield table.Block(index, message.offset, message.length, message.rows)
                index += 1
        if not self._is_file and position < self._size:
            self._fault = UnreadableError(
                "damaged-block", "there is more data after the end of the stream"
            )
        if self._fault:
            yield self._last_block(index, position, 0, self._fault)

    def _last_block(self, index: int, start: int, rows: int, fault: UnreadableError) -> table.Block:
        """Make a block of what cannot be read, up to the end of the file."""
        offset = min(start, self._size - 1)
        return table.Block(index, offset, self._size - offset, rows, fault)

    def texts(self, block: table.Block) -> Iterator[table.TextRows]:
        """Yield the rows of a record batch, decoded at once without columns that are not read."""
        message = self._batches.pop(block.index)
        dictionaries = [
            other for other in self._dictionaries if self._is_file or other.offset < message.offset
        ]
        size = sum(other.length for other in (self._schema, *dictionaries, message))
        if size > self._limits.block_bytes:
            raise table.too_large(size, self._limits.block_bytes)
        with self._stream.damage_is("damaged-block"):
            prefix = self._read_prefix(dictionaries)
            data = bytearray(len(prefix) + message.length)
            data[: len(prefix)] = prefix
            with memoryview(data) as view:
                self._stream.read_into(view[len(prefix) :], message.offset)
            self._check_decoded(data, [*dictionaries, message])
            with pa.ipc.open_stream(pa.py_buffer(data), options=self._options) as reader:
                batch = reader.read_next_batch()
            yield from table.slice_batch(batch, self.fields, self._limits)

    def _read_prefix(self, dictionaries: list[_Message]) -> bytes:
        """Return the schema and the dictionaries as a stream has them before a batch."""
        if self._prefix[0] != len(dictionaries):
            parts = [self._stream.read_at(some.offset, some.length) for some in dictionaries]
            self._prefix = (len(dictionaries), b"".join([self._schema_bytes, *parts]))
        return self._prefix[1]

    def _check_decoded(self, data: bytearray, messages: list[_Message]) -> None:
        end, decoded = self._schema.length, 0
        for message in messages:
            end += message.length
            decoded += _decoded_bytes(message, memoryview(data)[end - message.body_bytes : end])
        if decoded > self._limits.block_bytes:
            raise table.too_large(decoded, self._limits.block_bytes)
        limit = table.limit_decoded(len(data), self._max_line_bytes, self._limits)
        if decoded > limit:
            raise table.out_of_proportion(len(data), limit)
