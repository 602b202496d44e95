"""Avro object container files, decoded by fastavro, block by block.

Blocks are decompressed here, so that every codec of the specification works with the packages that
are installed, and none can fill the memory. https://avro.apache.org/docs/1.12.0/specification/

A few bytes must not claim any number of values, so that some schemas are refused. An item of an
array may take no byte at all (null, a record without fields), so that its number is all that a file
holds of it. A type that contains itself may be nested as deep as a file has bytes, which ends the
process, as the decoder is compiled and calls itself.
"""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from types import MappingProxyType
from typing import Any, cast

import fastavro
import pyarrow as pa

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.record_documents import make_text_bytes, to_text
from corpusmill.corpus.tables import table
from corpusmill.corpus.tables.record_values import leave_out_nulls, to_plain
from corpusmill.corpus.tables.table import read_long, write_long
from corpusmill.limits import RefusalLimits

# The values of an array or a map may be this many for each byte, and those of a row twice as many.
_VALUES_PER_BYTE = 64
_MAX_DEPTH = 64
_PRIMITIVE = ("boolean", "int", "long", "float", "double", "bytes", "string")


def check_schema(schema: Any) -> None:
    """Refuse a schema whose values take unbounded work or memory.

    Args:
        schema: parsed from JSON.

    Raises:
        ValueError: a type contains itself, types are nested too deep, or a row or an item of an
            array may hold many values that take no byte.

    Example:
        {"type": "array", "items": "null"} is refused, {"type": "array", "items": "int"} is not.
    """
    if _Surplus().of(schema, "", 0) > _VALUES_PER_BYTE:
        raise ValueError("a row of its schema may hold many values in no bytes")


Path = tuple[str, ...]


def narrow_schema(
    schema: Any,
    text: Path,
    kept: Sequence[Path] = (),
    records: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """Return the schema by which one field and those that are kept are read, the others skipped.

    To skip takes no memory, but is slower than to read a few values.

    Args:
        schema: that the file was written with, checked.
        text: the names that lead to the field.
        kept: those that lead to each field that is kept.
        records: the types that have names, by their full names.

    Returns:
        A record of these fields alone; None if no other value can be large but texts, if a value
        that is kept is nested, or if a field lies in a type that has been used before.
        A row in which the text field holds neither text nor another single value is damaged where
        it is a record.
    """
    if not isinstance(schema, dict) or "fields" not in schema or not _holds_many(schema):
        return None
    return _narrow(schema, [(text, False), *((path, True) for path in kept)], records)


def _narrow(
    record: dict[str, Any], wanted: Sequence[tuple[Path, bool]], records: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Narrow a record to the fields that paths lead to, each with whether all of it is kept."""
    fields: list[dict[str, Any]] = []
    for field in record["fields"]:
        inner = [(path[1:], whole) for path, whole in wanted if path[:1] == (field["name"],)]
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
        types = [kind for kind in kinds if _is_plain(kind)]
        if ((), True) in inner and len(types) < len(kinds):
            return None
        further = [(path, whole) for path, whole in inner if path]
        if further and (outer := _record_in(kinds, records)):
            # A type that stands there by its name is described elsewhere, and cannot be narrowed.
            narrowed = _narrow(outer, further, records) if outer in kinds else None
            if narrowed is None:
                return None
            types.append(narrowed)
        if inner and types:
            fields.append({"name": field["name"], "type": types})
    return {"type": "record", "name": record["name"], "fields": fields}


def _record_in(kind: Any, records: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record that a type is, or the only one among the types of a union."""
    kinds = kind if isinstance(kind, list) else [kind]
    known = [records.get(each, each) if isinstance(each, str) else each for each in kinds]
    found = [each for each in known if isinstance(each, dict) and "fields" in each]
    return found[0] if len(found) == 1 else None


def _is_plain(kind: Any) -> bool:
    name = kind.get("type") if isinstance(kind, dict) else kind
    return name == "null" or name in _PRIMITIVE


def _holds_many(kind: Any) -> bool:
    """Return whether an array or a map is somewhere in a type."""
    match kind:
        case list():
            return any(map(_holds_many, kind))
        case {"type": "array" | "map"}:
            return True
        case {"fields": list(fields)}:
            return any(_holds_many(field["type"]) for field in fields)
        case {"type": nested}:
            return _holds_many(nested)
    return False


class _Surplus:
    """Finds how many values of a type may exceed `_VALUES_PER_BYTE` for each of its bytes.

    Where that is 0 or less, the values of any number of items are bounded by their bytes.
    """

    def __init__(self) -> None:
        # By full name; None while the type is being looked at.
        self._named: dict[str, int | None] = {}

    def of(self, kind: Any, namespace: str, depth: int) -> int:
        """Return the surplus of a type; `check_schema` names the errors."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"its schema is nested more than {_MAX_DEPTH} levels deep")
        match kind:
            case str():
                surplus = self._of_name(kind, namespace)
            case list():  # a byte says which of them follows
                branches = [self.of(branch, namespace, depth + 1) for branch in kind]
                surplus = max(branches, default=0) - _VALUES_PER_BYTE
            case {"type": "array", "items": items}:
                surplus = self._of_items(self.of(items, namespace, depth + 1))
            case {"type": "map", "values": items}:  # each has a key of at least a byte
                surplus = self._of_items(self.of(items, namespace, depth + 1) - _VALUES_PER_BYTE)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str(name)}:
                full = _full_name(name, kind.get("namespace", namespace))
                surplus = self._of_named(kind, full, depth)
            case {"type": nested}:
                surplus = self.of(nested, namespace, depth + 1)
            case _:
                raise ValueError(f"its schema holds {str(kind)[:80]}, which is not a type")
        return surplus

    def _of_name(self, name: str, namespace: str) -> int:
        if name == "null" or name in _PRIMITIVE:
            return 1 if name == "null" else 1 - _VALUES_PER_BYTE
        full = _full_name(name, namespace)
        if full not in self._named:
            raise ValueError(f"its schema has no type {name[:80]}")
        surplus = self._named[full]
        if surplus is None:
            raise ValueError(f"the type {name[:80]} of its schema contains itself")
        return surplus

    def _of_items(self, surplus: int) -> int:
        if surplus > 0:
            raise ValueError("an array or a map of its schema may hold many values in no bytes")
        return 1 - _VALUES_PER_BYTE

    def _of_named(self, kind: Any, name: str, depth: int) -> int:
        self._named[name] = None
        surplus = 1
        match kind:
            case {"type": "enum"}:
                surplus -= _VALUES_PER_BYTE
            case {"type": "fixed", "size": int(size)}:
                surplus -= _VALUES_PER_BYTE * size
            case {"fields": list(fields)}:
                namespace = name.rpartition(".")[0]
                surplus += sum(self.of(field["type"], namespace, depth + 1) for field in fields)
        self._named[name] = surplus
        return surplus


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


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
_COUNTS_BYTES = 20  # the most of the two numbers before a block
# Bytes that are asked of Arrow at a time, as it reserves all of them.
_ZSTANDARD_STEP = 2**16


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
        while len(text) < most and (step := stream.read(min(most - len(text), _ZSTANDARD_STEP))):
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


def _members_of(records: Mapping[str, Any], kind: Any) -> Iterator[tuple[str, Any]]:
    if record := _record_in(kind, records):
        yield from ((field["name"], field["type"]) for field in record["fields"])


def _is_text(kind: Any) -> bool:
    return not {"string", "bytes"}.isdisjoint(_in_words(kind).split(" or "))


def _find(record: dict[str, Any], path: Path) -> Any:
    """Return the value that a path leads to, or None; the empty path leads nowhere."""
    value: Any = record if path else None
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _to_rows(values: list[Any], kept: list[list[str | None]]) -> table.TextRows:
    return table.to_rows(values, [pa.array(field, pa.string()) for field in kept])


class AvroTable:
    """An Avro object container file, as a `corpusmill.corpus.tables.table.Table`.

    Args:
        stream: the file.
        size: its bytes.
        options: with the names of the fields to read.
        limits: what is too large, and how much is decoded at once.

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
        options: DocumentOptions,
        limits: RefusalLimits,
    ) -> None:
        self._stream, self._size, self._limits = stream, size, limits
        # The most bytes of a block, compressed or not; it may have to hold a few long texts.
        most_bytes = max(limits.avro_block_bytes, limits.most_texts * options.max_line_bytes)
        self._most_bytes = min(most_bytes, limits.block_bytes)
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
            records = self._records = dict[str, Any]()
            parsed = fastavro.parse_schema(schema, records)
            self.fields = table.Fields(
                parsed, options, partial(_members_of, records), _is_text, _in_words
            )
            self._text = self.fields.text.path if self.fields.text else ()
            self._kept = [found.path if found else () for found in self.fields.kept]
            parts = [found.path for found in self.fields.parts.values()]
            self._feed = BytesIO()
            plain = header | {"meta": meta | {"avro.codec": b"null"}}
            fastavro.schemaless_writer(self._feed, HEADER, plain)
            self._feed.seek(0)
            # Decodes one block after the other as if the file were not compressed. Bytes that are
            # not UTF-8 become surrogates, so that they cost their record and not the block.
            self._decoder = fastavro.block_reader(
                self._feed,
                narrow_schema(parsed, self._text, [*parts, *self._kept], records),
                handle_unicode_errors="surrogateescape",
            )

    def _read_header(self) -> tuple[dict[str, Any], int]:
        # The first step is enough for nearly any schema.
        for step in (self._limits.avro_header_bytes // 8, self._limits.avro_header_bytes):
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
            value = self._take(record)
            values.append(value)
            size += len(value) if isinstance(value, str | bytes) else 0
            for found, field in zip(self.fields.kept, kept, strict=True):
                # At once, as a nested value takes much more memory than its text.
                field.append(self._keep(_find(record, found.path), found.kind) if found else None)
                size += len(field[-1] or "")
            if size >= self._limits.decoded_bytes or len(values) >= self._limits.decoded_rows:
                yield _to_rows(values, kept)
                values, kept, size = [], [[] for _ in self._kept], 0
        yield _to_rows(values, kept)

    def _take(self, record: dict[str, Any]) -> Any:
        """Return the text of a record; where it is made, as bytes, or why it is not."""
        parts = self.fields.parts
        if not parts:
            return _find(record, self._text)
        values = ((name, _find(record, found.path)) for name, found in parts.items())
        plain = ((name, self._to_plain(value, parts[name].kind)) for name, value in values)
        # At once, as a nested value takes much more memory than its text.
        return make_text_bytes(leave_out_nulls(plain), self.fields.options, self.fields.others)

    def _keep(self, value: Any, kind: Any) -> str | None:
        return to_text(self._to_plain(value, kind) if isinstance(value, dict | list) else value)

    def _to_plain(self, value: Any, kind: Any) -> Any:
        """Return a value as JSON lines have it (`corpusmill.corpus.tables.record_values`)."""
        if not isinstance(value, dict | list):
            return to_plain(value)
        for branch in kind if isinstance(kind, list) else [kind]:
            match value, self._records.get(branch, branch) if isinstance(branch, str) else branch:
                case dict(), {"fields": list(fields)}:
                    if {field["name"] for field in fields} == value.keys():
                        types = {field["name"]: field["type"] for field in fields}
                        plain = ((n, self._to_plain(each, types[n])) for n, each in value.items())
                        return leave_out_nulls(plain)
                case dict(), {"values": inner}:
                    return {name: self._to_plain(each, inner) for name, each in value.items()}
                case list(), {"items": inner}:
                    return [self._to_plain(each, inner) for each in value]
                case _, {"type": dict() | list() as inner}:
                    return self._to_plain(value, inner)
        return value
