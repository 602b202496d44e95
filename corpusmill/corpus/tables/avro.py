"""Avro object container files, decoded by fastavro, block by block.

fastavro reads a file from its beginning to its end. https://avro.apache.org/docs/1.12.0/specification/
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, cast

import fastavro
import pyarrow as pa
from fastavro.read import BLOCK_READERS

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.record_documents import make_text_bytes, to_text
from corpusmill.corpus.tables import table
from corpusmill.corpus.tables.record_values import leave_out_nulls, to_plain

Path = tuple[str, ...]


def _unpack_snappy(data: bytes) -> bytes:
    """Decompress a block of Snappy: the length of its text stands before it, a checksum after."""
    size = sum((byte & 127) << 7 * place for place, byte in enumerate(_take_number(data)))
    text: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(text) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum differs")
    return text


def _take_number(data: bytes) -> bytes:
    """Return the bytes of the number with which data begins; all but the last have a high bit."""
    return data[: next(place for place, byte in enumerate(data[:10], 1) if byte < 128)]


def _unpack_zstandard(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        text: bytes = stream.read()
    return text


def _read_block(unpack: Callable[[bytes], bytes], stream: Any) -> BytesIO:
    """Read a block as fastavro does: its length, and then its bytes."""
    return BytesIO(unpack(cast(bytes, fastavro.schemaless_reader(stream, "bytes", None))))


# For these, fastavro needs further packages, in whose place Arrow is.
BLOCK_READERS["snappy"] = partial(_read_block, _unpack_snappy)
BLOCK_READERS["zstandard"] = partial(_read_block, _unpack_zstandard)


def _record_in(kind: Any, records: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record that a type is, or the only one among the types of a union."""
    kinds = kind if isinstance(kind, list) else [kind]
    known = [records.get(each, each) if isinstance(each, str) else each for each in kinds]
    found = [each for each in known if isinstance(each, dict) and "fields" in each]
    return found[0] if len(found) == 1 else None


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
        options: with the names of the fields to read.

    Raises:
        UnreadableError: its header cannot be read, or its codec is not known.
    """

    def __init__(self, stream: table.TableStream, options: DocumentOptions) -> None:
        self._stream = stream
        with stream.damage_is("damaged-file"):
            stream.seek(0)
            # Bytes that are not UTF-8 become surrogates, so that they cost their record and not
            # the block.
            self._reader: Any = fastavro.block_reader(
                cast(BinaryIO, stream), handle_unicode_errors="surrogateescape"
            )
            if self._reader.codec not in BLOCK_READERS:
                detail = f"its codec {self._reader.codec} is not one of {', '.join(BLOCK_READERS)}"
                raise UnreadableError("damaged-file", detail)
            records = self._records = dict[str, Any]()
            schema = fastavro.parse_schema(
                json.loads(self._reader.metadata["avro.schema"]), records
            )
            self.fields = table.Fields(
                schema, options, partial(_members_of, records), _is_text, _in_words
            )
            self._text = self.fields.text.path if self.fields.text else ()
            self._kinds = dict(_members_of(records, schema))

    def blocks(self) -> Iterator[table.Block]:
        """Yield the blocks, which are read one after the other."""
        end, size = self._stream.tell(), self._stream.size
        try:
            with self._stream.damage_is("damaged-block"):
                for block in self._reader:
                    end = block.offset + block.size
                    texts = partial(self._texts, block)
                    yield table.Block(block.offset, block.size, max(0, block.num_records), texts)
                if end < size:
                    raise EOFError("the file ends in it")
        except UnreadableError as error:
            yield table.lost_block(end, size, error)

    def _texts(self, block: Any) -> Iterator[table.TextRows]:
        values: list[Any] = []
        kept: list[list[str | None]] = [[] for _ in range(self.fields.options.num_fields)]
        size = 0
        kinds = {name: self._kinds[name] for name in self.fields.judged}
        with self._stream.damage_is("damaged-block"):
            for record in block:
                values.append(value := self._take(record))
                size += len(value) if isinstance(value, str | bytes) else 0
                for found, field in zip(self.fields.kept, kept, strict=False):
                    # At once, as a nested value takes much more memory than its text.
                    text = self._keep(_find(record, found.path), found.kind) if found else None
                    field.append(text)
                    size += len(text or "")
                if self.fields.options.judge:
                    plain = {name: self._to_plain(record[name], kinds[name]) for name in kinds}
                    kept[-1].append(to_text(plain))
                if size >= table.DECODED_BYTES or len(values) >= table.DECODED_ROWS:
                    yield _to_rows(values, kept)
                    values, kept, size = [], [[] for _ in kept], 0
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
