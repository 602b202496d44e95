"""Avro shards: object container files whose schema follows from the columns.

A column of single numbers is an int or long, a list column an array of them. fastavro writes the
header. Rows are encoded and decoded by compiled kernels, because fastavro makes a Python integer of
each number. The sync marker between blocks is a digest of schema and codec, so that the same rows
give the same bytes.

An array is a sequence of blocks, each of which begins with its number of items, and ends with a
block of 0 items. If the number is negative, the size of the block in bytes follows it. The arrays
that are written here have one block.

Source: https://avro.apache.org/docs/1.12.0/specification/, "Object Container Files" and "Arrays".
"""

import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import ANY_LENGTH, LONGEST_ROW, Column, most_values
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import check_numbers, chunk_rows, cut_chunks, flatten, restore
from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.tables.table import TableStream
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import (
    GROUP_TOKENS,
    Columns,
    ShardFormat,
    ShardWriter,
    Sink,
    Sinks,
    Sources,
    explain_files,
)
from corpusmill.formats.varints import gather, put_rows, row_sizes, take_varint

_MAGIC, _SYNC_BYTES = b"Obj\x01", 16
_SYNC = {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC_BYTES}}


def _record(name: str, **types: object) -> Any:
    """Return the schema of a part of a file, which ends with the sync marker."""
    fields = [{"name": field, "type": kind} for field, kind in types.items()]
    return fastavro.parse_schema({"type": "record", "name": name, "fields": [*fields, _SYNC]})


_HEADER = _record(
    "org.apache.avro.file.Header",
    magic={"type": "fixed", "name": "Magic", "size": len(_MAGIC)},
    meta={"type": "map", "values": "bytes"},
)
_BLOCK = _record("Block", rows="long", data="bytes")


@njit
def _take_number(data: np.ndarray, place: int) -> tuple[int, int]:
    """Return a zigzag number and the place after it; the place is -1 if the number is damaged."""
    bits, place = take_varint(data, place, len(data))
    return np.int64(np.uint64(bits) >> np.uint64(1)) ^ -(bits & 1), place


@njit
def _take_array(data: np.ndarray, place: int, values: np.ndarray, total: int) -> tuple[int, int]:
    """Append the items of an array to the first `total` values.

    Returns:
        total: how many values there are now.
        place: after the array; -1 if it is damaged.
    """
    count, place = _take_number(data, place)
    while count and place >= 0:
        if count < 0:
            count = -count
            _, place = _take_number(data, place)
        # In a damaged file `count` can be anything.
        if place < 0 or count < 0 or count > len(data) - place:
            return total, -1
        for _ in range(count):
            values[total], place = _take_number(data, place)
            if place < 0:
                return total, -1
            total += 1
        count, place = _take_number(data, place)
    return total, place


@njit
def decode_rows(
    data: np.ndarray, rows: int, is_list: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Decode all numbers of a block.

    Args:
        data: uint8[bytes], the block after decompression.
        rows: how many it holds.
        is_list: bool[fields], whether a field is an array of numbers or one number.

    Returns:
        values: int64[total], in the order of the file.
        starts: int64[fields, rows] into values.
        ends: int64[fields, rows] into values.
        damaged: the first damaged row; `rows` if bytes follow the last row; -1 if all is well.

    Example:
        two rows of an array and a number, [[5, -1], 7] and [[], 3], give values [5, -1, 7, 3],
        starts [[0, 3], [2, 3]] and ends [[2, 3], [3, 4]].
    """
    # Each number takes at least one byte.
    values = np.empty(len(data), np.int64)
    shape = (len(is_list), rows)
    starts, ends = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    place = total = 0
    for row in range(rows):
        for field in range(len(is_list)):
            starts[field, row] = total
            if is_list[field]:
                total, place = _take_array(data, place, values, total)
            elif place < len(data):
                values[total], place = _take_number(data, place)
                total += 1
            else:
                place = -1
            if place < 0:
                return values, starts, ends, row
            ends[field, row] = total
    return values[:total], starts, ends, -1 if place == len(data) else rows


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The most bytes of the number of an array's items and the 0 after them.
_COUNT_BYTES = 11
_CODECS = {"deflate": "deflate", "zstd": "zstandard", "none": "null"}


def schema_of(columns: Sequence[Column]) -> dict[str, Any]:
    """Return the Avro schema of a table of columns.

    Example:
        a list input_ids of int16 is {"name": "input_ids", "type": {"type": "array", "items":
        "int"}, "doc": ...}; uint32 and int64 are "long".
    """
    fields = []
    for column in columns:
        number = "int" if np.can_cast(column.dtype, np.int32) else "long"
        kind = {"type": "array", "items": number} if column.width else number
        fields.append({"name": column.name, "type": kind, "doc": column.meaning})
    return {"type": "record", "name": "Example", "namespace": "corpusmill", "fields": fields}


class AvroFormat(ShardFormat):
    """Avro for columns of integers."""

    name = "avro"
    file_suffixes = (".avro",)
    compressions = ("deflate", "zstd", "none")

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse columns whose type or name Avro does not support.

        Raises:
            UserError: there is one.
        """
        check_numbers(columns, self.name)
        for column in columns:
            if not _NAME.fullmatch(column.name):
                cause = f"{column.name} cannot be the name of a field"
                raise UserError(option("output_format", "avro"), cause, "Choose parquet")

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer, which writes blocks of equally many rows."""
        return _Writer(sinks[0], columns, options)

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a shard whose schema and codec are as `open_writer` writes them."""
        stream: Any = TableStream(sources[0])
        stream.seek(0)
        try:
            with stream.damage_is("damaged-shard"):
                header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
                _check_header(header, columns, options)
            while stream.tell() < stream.size:
                with stream.damage_is("damaged-shard"):
                    block: Any = fastavro.schemaless_reader(stream, _BLOCK, None)
                    if block["sync"] != header["sync"]:
                        raise ValueError("a block does not end with the mark of the file's blocks")
                    rows = self._decode(block, columns, options, longest)
                for start in range(0, rows.num_rows, batch_rows):
                    yield rows.slice(start, batch_rows)
        except UnreadableError as error:
            raise ValueError(f"{error.reason}: {error.detail}") from None

    def _decode(
        self, block: Any, columns: Columns, options: OutputOptions, longest: int
    ) -> pa.RecordBatch:
        rows, padded = block["rows"], options.is_padded
        most = self._most_bytes(rows, columns, longest, padded)
        data = np.frombuffer(_decompress(block["data"], options.compression, most), np.uint8)
        # Every row has a field, and every field takes a byte.
        if not 0 <= rows <= min(len(data), chunk_rows(columns)):
            raise ValueError(f"a block claims {rows:,} rows in {len(data):,} bytes")
        is_list = np.array([bool(column.width) for column in columns])
        values, starts, ends, damaged = decode_rows(data, rows, is_list)
        if damaged >= 0:
            raise ValueError(f"row {damaged} of {rows:,} of a block is damaged")
        fields = [gather(values, starts[i], ends[i]) for i in range(len(columns))]
        return restore(columns, fields, padded)

    def _most_bytes(self, rows: int, columns: Columns, longest: int, padded: bool) -> int:
        """Return the most bytes that a block of some rows can have, decompressed."""
        rows, total = max(0, min(rows, chunk_rows(columns))), 0
        for column in columns:
            most = most_values(column, longest, padded)
            values = rows * most
            if column.width == ANY_LENGTH:  # a block has no more tokens than a group
                values = min(values, GROUP_TOKENS + most)
            kind = np.iinfo(column.dtype)
            total += values * -(-(kind.bits + (kind.min == 0)) // 7) + rows * _COUNT_BYTES
        return total

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by fastavro."""
        yield from ("```python", "import json", "from pathlib import Path", "", "import fastavro")
        yield from ("", *explain_files(split), "", "")
        yield from ("def read_examples(files):", "    for path in files:")
        yield '        with open(path, "rb") as file:'
        yield "            yield from fastavro.reader(file)"
        yield from ("", "", "examples = read_examples(files)", "```", "")
        if options.compression == "zstd":
            yield from ("fastavro needs `backports.zstd` for the codec of these files.", "")


class _Writer:
    def __init__(self, sink: Sink, columns: Columns, options: OutputOptions) -> None:
        self._sink, self._columns, self._options = sink, columns, options
        schema, codec = schema_of(columns), _CODECS[options.compression or "deflate"]
        meta = {"avro.codec": codec.encode(), "avro.schema": json.dumps(schema).encode()}
        self._sync = hashlib.sha256(b"\n".join(meta.values())).digest()[:_SYNC_BYTES]
        self._put(_HEADER, {"magic": _MAGIC, "meta": meta})

    def write(self, rows: pa.RecordBatch) -> None:
        numbers = [flatten(rows.column(column.name)) for column in self._columns]
        for chunk in cut_chunks(numbers, chunk_rows(self._columns)):
            data = self._compress(self._encode(chunk))
            self._put(_BLOCK, {"rows": len(chunk[0][1]) - 1, "data": data})

    def close(self) -> None:
        pass

    def _put(self, schema: Any, record: dict[str, Any]) -> None:
        part = io.BytesIO()
        fastavro.schemaless_writer(part, schema, {**record, "sync": self._sync})
        self._sink.write(part.getvalue())

    def _encode(self, numbers: list[tuple[np.ndarray, np.ndarray]]) -> bytes:
        parts: list[tuple[np.ndarray, np.ndarray]] = []
        for column, (values, offsets) in zip(self._columns, numbers, strict=True):
            if column.width:
                # A 0 follows the items of each array.
                zeros = _read_only(np.zeros(len(offsets) - 1, np.int64)), np.arange(len(offsets))
                parts += [_counts(offsets), (values, offsets), zeros]
            else:
                parts.append((values, offsets))
        sizes = [row_sizes(values, offsets, True) for values, offsets in parts]
        ends = np.cumsum(np.sum(sizes, axis=0))
        places = np.concatenate([[0], ends[:-1]])
        out = np.empty(ends[-1], np.uint8)
        for (values, offsets), size in zip(parts, sizes, strict=True):
            put_rows(values, offsets, size, True, out, places)
        return out.tobytes()

    def _compress(self, data: bytes) -> bytes:
        level = self._options.compression_level or 1
        match self._options.compression:
            case "deflate":
                compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
                return compressor.compress(data) + compressor.flush()
            case "zstd":
                compressed: bytes = pa.Codec("zstd", level).compress(data, asbytes=True)
                return compressed
        return data


def _counts(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what precedes the items of each array: their count, or nothing if there are none."""
    lengths = np.diff(offsets)
    return _read_only(lengths[lengths > 0]), np.cumsum([0, *(lengths > 0)])


def _read_only(values: np.ndarray) -> np.ndarray:
    """Make an array read-only, as those of columns are, so that no kernel is compiled twice."""
    values.flags.writeable = False
    return values


def _check_header(header: Any, columns: Columns, options: OutputOptions) -> None:
    expected, codec = schema_of(columns), _CODECS[options.compression or "deflate"]
    schema = json.loads(header["meta"]["avro.schema"])
    actual = header["meta"].get("avro.codec", b"null").decode()
    if schema != expected:
        raise ValueError(f"it has the schema {schema}, the manifest says {expected}")
    if actual != codec:
        raise ValueError(f"its codec is {actual}, the manifest says {codec}")


def _decompress(data: bytes, compression: str | None, most: int) -> bytes:
    """Decompress a block.

    Raises:
        ValueError: it has more than the most bytes that its rows can have.
    """
    if compression == "deflate":
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, most + 1)
    elif compression == "zstd":
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"a block claims more than the {most:,} bytes that its rows can have")
    return data
