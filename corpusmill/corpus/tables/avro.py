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
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.records.documents import MAX_BATCH_ROWS
from corpusmill.corpus.records.kept_fields import to_text
from corpusmill.corpus.tables import table
from corpusmill.corpus.tables.avro_schema import check_schema, narrow_schema
from corpusmill.corpus.tables.numbers import read_long, write_long

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
_HEADER_STEPS = (2**20, 2**23)
_COUNTS_BYTES = 20  # the most of the two numbers before a block
# The most bytes of a block, unless it may have to hold a few texts that are longer.
_MAX_BLOCK_BYTES, _MOST_TEXTS = 2**26, 4


def _inflate(data: memoryview, most: int) -> bytes:
    return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(data, most)


def _unpack_snappy(data: memoryview, most: int) -> bytes:
    size = read_long(BytesIO(data[:10]), zigzag=False)
    if size >= most:
        raise table.too_large(size, most - 1)
    # The last four bytes are a checksum of the text.
    text: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(text) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum differs")
    return text


def _unpack_zstandard(data: memoryview, most: int) -> bytes:
    text = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        # In steps: Arrow reserves all that it is asked for.
        while len(text) < most and (step := stream.read(min(most - len(text), table.BATCH_BYTES))):
            text += step
    return bytes(text)


# Each takes a compressed block and the most bytes to decompress of it.
_DECOMPRESS: dict[str, Callable[[memoryview, int], bytes]] = {
    "deflate": _inflate,
    "bzip2": lambda data, most: bz2.BZ2Decompressor().decompress(data, most),
    "xz": lambda data, most: lzma.LZMADecompressor().decompress(data, most),
    "snappy": _unpack_snappy,
    "zstandard": _unpack_zstandard,
}


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
        most_bytes: the most bytes of a block, compressed or not; larger ones are not read.
        keep_fields: names of the fields that are kept beside it.

    Attributes:
        codec: its name in the specification.
        schema: the schema that it was written with.

    Raises:
        UnreadableError: its header cannot be read, or its codec is not in the specification.
    """

    def __init__(
        self,
        stream: table.TableStream,
        size: int,
        text_field: str,
        most_bytes: int,
        keep_fields: tuple[str, ...] = (),
    ) -> None:
        self._stream, self._size, self._text_field = stream, size, text_field
        self._most_bytes, self._kept = most_bytes, keep_fields
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
                self._feed,
                narrow_schema(schema, text_field, keep_fields),
                handle_unicode_errors="surrogateescape",
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
                    rows, length = read_long(counts), read_long(counts)
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
            fault = None
            if length > self._most_bytes:
                fault = table.too_large(length, self._most_bytes)
            yield table.Block(index, start, end - start, rows, fault)
            start, index, head = end, index + 1, mark[SYNC_BYTES:]

    def texts(self, block: table.Block) -> Iterator[table.TextRows]:
        """Yield the rows of a block, decompressed at once."""
        with self._stream.damage_is("damaged-block"):
            yield from self._decode(self._stream.read_at(block.offset, block.length))

    def content(self, block: table.Block, most_bytes: int) -> bytes:
        """Return the encoded rows of a block, decompressed.

        Args:
            block: the block.
            most_bytes: how many they may be.

        Raises:
            UnreadableError: it is damaged, or too large.
        """
        if block.fault:
            raise block.fault
        with self._stream.damage_is("damaged-block"):
            data = self._stream.read_at(block.offset, block.length)
            return bytes(self._decompress(data, most_bytes))

    def _decompress(self, data: bytes, most: int) -> bytes | memoryview:
        counts = BytesIO(data[:_COUNTS_BYTES])
        read_long(counts), read_long(counts)
        body = memoryview(data)[counts.tell() : -SYNC_BYTES]
        text = body if self.codec == "null" else _DECOMPRESS[self.codec](body, most + 1)
        if len(text) > most:
            raise table.too_large(len(text), most)
        return text

    def _decode(self, data: bytes) -> Iterator[table.TextRows]:
        rows = read_long(BytesIO(data[:_COUNTS_BYTES]))
        text = self._decompress(data, self._most_bytes)
        if rows > len(text):  # the text of a row takes a byte or more
            raise EOFError(f"{rows:,} rows in {len(text):,} bytes")
        self._feed.seek(0)
        self._feed.truncate()
        for part in (write_long(rows), write_long(len(text)), text, self._sync):
            self._feed.write(part)
        self._feed.seek(0)
        del data, text  # a block may be large, and fastavro copies it once more
        values: list[Any] = []
        kept: list[list[str | None]] = [[] for _ in self._kept]
        size = 0
        for record in cast(Iterator[dict[str, Any]], next(self._decoder)):
            value = record[self._text_field]
            values.append(value)
            size += len(value) if isinstance(value, str | bytes) else 0
            for name, field in zip(self._kept, kept, strict=True):
                # At once, as a nested value takes much more memory than its text.
                field.append(to_text(record.get(name)))
                size += len(field[-1] or "")
            if size >= table.BATCH_BYTES or len(values) >= MAX_BATCH_ROWS:
                yield _to_rows(values, kept)
                values, kept, size = [], [[] for _ in self._kept], 0
        yield _to_rows(values, kept)


def open_avro(stream: table.TableStream, size: int, options: DocumentOptions) -> AvroTable:
    """Open an Avro file of a corpus."""
    # A block is copied several times while it is decoded, and those that are usual are small.
    limit = max(_MAX_BLOCK_BYTES, _MOST_TEXTS * options.max_line_bytes)
    limit = min(limit, table.MAX_BLOCK_BYTES)
    return AvroTable(stream, size, options.text_field, limit, options.keep_fields)


def _to_rows(values: list[Any], kept: list[list[str | None]]) -> table.TextRows:
    fields = tuple(pa.array(field, pa.string()) for field in kept)
    try:
        return table.TextRows(pa.array(values, pa.large_binary()), fields=fields)
    except (pa.ArrowException, TypeError, ValueError):
        kinds = {}
    for index, value in enumerate(values):
        if isinstance(value, str):
            values[index] = value.encode("utf-8", "surrogateescape")
        elif not (value is None or isinstance(value, bytes)):
            values[index], kinds[index] = None, f"a value of type {type(value).__name__}"
    return table.TextRows(pa.array(values, pa.large_binary()), kinds, fields)
