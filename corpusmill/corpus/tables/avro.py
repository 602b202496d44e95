"""Avro object container files, decoded by fastavro, block by block.

Blocks are decompressed here, so that every codec of the specification works with the packages that
are installed, and none can fill the memory. https://avro.apache.org/docs/1.12.0/specification/
"""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, cast

import fastavro
import pyarrow as pa

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.records.documents import MAX_BATCH_ROWS
from corpusmill.corpus.tables import table
from corpusmill.corpus.tables.avro_schema import check_schema

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": SYNC_BYTES}},
        ],
    }
)
# Bytes of the file in which its header is looked for; the first is enough for nearly any schema.
_HEADER_STEPS = (2**20, 2**26)
_COUNTS_BYTES = 20  # the most of the two numbers before a block


def _inflate(data: memoryview) -> bytes:
    return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(data, table.MAX_BLOCK_BYTES + 1)


def _unpack_snappy(data: memoryview) -> bytes:
    size = _read_long(BytesIO(data[:10]), zigzag=False)
    if size > table.MAX_BLOCK_BYTES:
        raise table.too_large(size)
    # The last four bytes are a checksum of the text.
    text: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(text) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum differs")
    return text


def _unpack_zstandard(data: memoryview) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        text: bytes = stream.read(table.MAX_BLOCK_BYTES + 1)
    return text


_DECOMPRESS: dict[str, Callable[[memoryview], bytes]] = {
    "deflate": _inflate,
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data, table.MAX_BLOCK_BYTES + 1),
    "xz": lambda data: lzma.LZMADecompressor().decompress(data, table.MAX_BLOCK_BYTES + 1),
    "snappy": _unpack_snappy,
    "zstandard": _unpack_zstandard,
}


def _read_long(stream: BytesIO, zigzag: bool = True) -> int:
    """Read a number of Avro: seven bits a byte, the lowest first, the sign in the lowest bit."""
    number = shift = 0
    while True:
        byte = stream.read(1)
        if not byte or shift > 63:
            raise EOFError("a number has no end")
        number |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            return number >> 1 ^ -(number & 1) if zigzag else number


def write_long(number: int) -> bytes:
    """Encode a number that is not negative as Avro does."""
    number <<= 1
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def _in_words(kind: Any) -> str:
    """Name a type of an Avro schema: {"type": "array", "items": "int"} is an "array"."""
    match kind:
        case list():
            return " or ".join(map(_in_words, kind))
        case {"logicalType": str(name)} | {"type": str(name)}:
            return name
        case {"type": nested}:
            return _in_words(nested)
    return str(kind)


class AvroTable:
    """An Avro object container file, as a `corpusmill.corpus.tables.table.Table`.

    Args:
        stream: the file.
        size: its bytes.
        text_field: name of the field to read.

    Attributes:
        codec: its name in the specification.
        schema: the schema that it was written with.

    Raises:
        UnreadableError: its header cannot be read, or its codec is not in the specification.
    """

    def __init__(self, stream: table.TableStream, size: int, text_field: str) -> None:
        self._stream, self._size, self._text_field = stream, size, text_field
        with stream.damage_is("damaged-file"):
            header, self._begin = self._read_header()
            meta, self._sync = header["meta"], header["sync"]
            self.codec = meta.get("avro.codec", b"null").decode()
            if self.codec not in {"null", *_DECOMPRESS}:
                names = ", ".join(["null", *_DECOMPRESS])
                detail = f"its codec {self.codec} is not one of {names}"
                raise UnreadableError("damaged-file", detail)
            self.schema = schema = json.loads(meta["avro.schema"])
            check_schema(schema)
            self._feed = BytesIO()
            plain = header | {"meta": meta | {"avro.codec": b"null"}}
            fastavro.schemaless_writer(self._feed, HEADER, plain)
            self._feed.seek(0)
            # Decodes one block after the other as if the file were not compressed. Bytes that are
            # not UTF-8 become surrogates, so that they cost their record and not the block.
            self._decoder = fastavro.block_reader(
                self._feed, handle_unicode_errors="surrogateescape"
            )
            listed = schema.get("fields", ()) if isinstance(schema, dict) else ()
            self.fields = {field["name"]: _in_words(field["type"]) for field in listed}
        self.text_fields = tuple(
            name
            for name, kind in self.fields.items()
            if {"string", "bytes"} & {*kind.split(" or ")}
        )

    def _read_header(self) -> tuple[dict[str, Any], int]:
        for step in _HEADER_STEPS:
            start = BytesIO(self._stream.read_at(0, step))
            if not start.getvalue().startswith(MAGIC):
                raise UnreadableError("damaged-file", "it does not begin as Avro does")
            try:
                return fastavro.schemaless_reader(start, HEADER, None), start.tell()  # type: ignore[return-value]
            except EOFError:
                if self._size <= step:
                    raise
        raise UnreadableError("damaged-file", "its header does not end")

    def blocks(self) -> Iterator[table.Block]:
        """Yield the blocks of the file; each tells only how far away the next one is."""
        start, index, head = self._begin, 0, b""
        while start < self._size:
            rows = 0
            try:
                with self._stream.damage_is("damaged-block"):
                    counts = BytesIO(head or self._stream.read_at(start, _COUNTS_BYTES))
                    rows, length = _read_long(counts), _read_long(counts)
                    if rows < 0 or length < 0:
                        raise ValueError(f"{rows} rows in {length} bytes")
                    end = start + counts.tell() + length + SYNC_BYTES
                    if end > self._size:
                        raise EOFError("the file ends in it")
                    mark = self._stream.read_at(end - SYNC_BYTES, SYNC_BYTES + _COUNTS_BYTES)
                    if not mark.startswith(self._sync):
                        rows = 0
                        raise ValueError("it does not end with the mark of the file's blocks")
            except UnreadableError as error:
                yield table.Block(index, start, self._size - start, max(0, rows), error)
                return
            fault = table.too_large(length) if length > table.MAX_BLOCK_BYTES else None
            yield table.Block(index, start, end - start, rows, fault)
            start, index, head = end, index + 1, mark[SYNC_BYTES:]

    def texts(self, block: table.Block) -> Iterator[table.TextRows]:
        """Yield the rows of a block, decompressed at once."""
        with self._stream.damage_is("damaged-block"):
            yield from self._decode(self._stream.read_at(block.offset, block.length))

    def content(self, block: table.Block) -> bytes:
        """Return the encoded rows of a block, decompressed.

        Raises:
            UnreadableError: it is damaged, or too large.
        """
        if block.fault:
            raise block.fault
        with self._stream.damage_is("damaged-block"):
            return bytes(self._decompress(self._stream.read_at(block.offset, block.length)))

    def _decompress(self, data: bytes) -> bytes | memoryview:
        counts = BytesIO(data[:_COUNTS_BYTES])
        _read_long(counts), _read_long(counts)
        body = memoryview(data)[counts.tell() : -SYNC_BYTES]
        text = body if self.codec == "null" else _DECOMPRESS[self.codec](body)
        if len(text) > table.MAX_BLOCK_BYTES:
            raise table.too_large(len(text))
        return text

    def _decode(self, data: bytes) -> Iterator[table.TextRows]:
        rows, text = _read_long(BytesIO(data[:_COUNTS_BYTES])), self._decompress(data)
        if rows > len(text):  # the text of a row takes a byte or more
            raise EOFError(f"{rows:,} rows in {len(text):,} bytes")
        if self.codec != "null":
            data = b"".join((write_long(rows), write_long(len(text)), text, self._sync))
        self._feed.seek(0)
        self._feed.truncate()
        self._feed.write(data)
        self._feed.seek(0)
        values: list[Any] = []
        size = 0
        for record in cast(Iterator[dict[str, Any]], next(self._decoder)):
            value = record[self._text_field]
            values.append(value)
            size += len(value) if isinstance(value, str | bytes) else 0
            if size >= table.BATCH_BYTES or len(values) >= MAX_BATCH_ROWS:
                yield _to_rows(values)
                values, size = [], 0
        yield _to_rows(values)


def _to_rows(values: list[Any]) -> table.TextRows:
    try:
        return table.TextRows(pa.array(values, pa.large_binary()))
    except (pa.ArrowException, TypeError, ValueError):
        kinds = {}
    for index, value in enumerate(values):
        if isinstance(value, str):
            values[index] = value.encode("utf-8", "surrogateescape")
        elif not (value is None or isinstance(value, bytes)):
            values[index], kinds[index] = None, f"a value of type {type(value).__name__}"
    return table.TextRows(pa.array(values, pa.large_binary()), kinds)
