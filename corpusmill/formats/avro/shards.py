"""Avro shards: object container files whose schema is made from the table of columns.

A column of one number is an int or long, a list an array of them. fastavro writes the header; rows
are encoded and decoded by compiled kernels, as it makes a Python integer of each number. The mark
between blocks is a digest of schema and codec, so that the same rows give the same bytes.

Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import fastavro
import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column
from corpusmill.arrays.flat_rows import check_numbers, chunk_rows, flatten, restore
from corpusmill.corpus.tables.avro import HEADER, MAGIC, SYNC_BYTES, AvroTable, write_long
from corpusmill.corpus.tables.table import BadTableError, TableStream
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.dataset.manifest import output_options_of, shard_glob
from corpusmill.errors import UserError
from corpusmill.formats.avro.kernels import decode_rows
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.varints import gather, put_rows, row_sizes

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODECS = {"deflate": "deflate", "zstd": "zstandard", "none": "null"}


def schema_of(columns: Sequence[Column]) -> dict[str, Any]:
    """The Avro schema of a table of columns.

    Example:
        a list input_ids of int16 is {"name": "input_ids", "type": {"type": "array", "items":
        "int"}, "doc": ...}; uint32 and int64 are "long".
    """
    fields = []
    for column in columns:
        number = "int" if np.can_cast(column.dtype, np.int32) else "long"
        of = {"type": "array", "items": number} if column.width else number
        fields.append({"name": column.name, "type": of, "doc": column.meaning})
    return {"type": "record", "name": "Example", "namespace": "corpusmill", "fields": fields}


class AvroShardWriter:
    """Writes one shard as a stream.

    Args:
        stream: where the bytes go; it is only written to, never read or sought.
        columns: the objective's table.
        options: with nothing left to the format.
    """

    def __init__(
        self, stream: BinaryIO | HashingWriter, columns: tuple[Column, ...], options: OutputOptions
    ) -> None:
        self._stream, self._columns, self._options = stream, columns, options
        schema, codec = schema_of(columns), _CODECS[options.compression or "deflate"]
        meta = {"avro.codec": codec.encode(), "avro.schema": json.dumps(schema).encode()}
        self._sync = hashlib.sha256(b"\n".join(meta.values())).digest()[:SYNC_BYTES]
        self._chunk_rows = chunk_rows(columns)
        header = io.BytesIO()
        content = {"magic": MAGIC, "meta": meta, "sync": self._sync}
        fastavro.schemaless_writer(header, HEADER, content)
        stream.write(header.getvalue())

    def write(self, group: pa.RecordBatch) -> None:
        """Write rows in blocks, all but the last one of the same number of rows."""
        numbers = [flatten(group.column(column.name)) for column in self._columns]
        for start in range(0, group.num_rows, self._chunk_rows):
            rows = min(self._chunk_rows, group.num_rows - start)
            chunk = [(values, of[start : start + rows + 1]) for values, of in numbers]
            data = self._compress(self._encode(chunk))
            self._stream.write(write_long(rows) + write_long(len(data)) + data + self._sync)

    def close(self) -> None:
        """Nothing stands behind the last block; the stream stays open."""

    def _encode(self, numbers: list[tuple[np.ndarray, np.ndarray]]) -> bytes:
        parts: list[tuple[np.ndarray, np.ndarray]] = []
        for column, (values, offsets) in zip(self._columns, numbers, strict=True):
            if column.width:
                parts += [_counts(offsets), (values, offsets), _ends(len(offsets) - 1)]
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
    """What stands before the items of each array: their number, or nothing where there are none."""
    lengths = np.diff(offsets)
    return _fixed(lengths[lengths > 0]), np.cumsum([0, *(lengths > 0)])


def _ends(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """What stands behind the items of each array: a 0."""
    return _fixed(np.zeros(rows, np.int64)), np.arange(rows + 1)


def _fixed(values: np.ndarray) -> np.ndarray:
    """The array as a column's are, not writable, so that no kernel is compiled twice."""
    values.flags.writeable = False
    return values


def suffixes(_: OutputOptions) -> tuple[str, ...]:
    """One file a shard."""
    return (".avro",)


def open_writer(
    streams: Sequence[BinaryIO | HashingWriter],
    columns: tuple[Column, ...],
    options: OutputOptions,
) -> AvroShardWriter:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    return AvroShardWriter(streams[0], columns, options)


def read_shard(
    streams: Sequence[BinaryIO],
    columns: tuple[Column, ...],
    options: OutputOptions,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    source = streams[0]
    size = source.seek(0, io.SEEK_END)
    try:
        table = AvroTable(TableStream(source), size, "")
        _check_header(table, columns, options)
        for block in table.blocks():
            data = np.frombuffer(table.content(block), np.uint8)
            rows = _decode(data, block.rows, columns, options.is_padded, block.index)
            for start in range(0, rows.num_rows, batch_rows):
                yield rows.slice(start, batch_rows)
    except BadTableError as error:
        raise ValueError(f"{error.reason}: {error.detail}") from None


def _check_header(table: AvroTable, columns: tuple[Column, ...], options: OutputOptions) -> None:
    expected, codec = schema_of(columns), _CODECS[options.compression or "deflate"]
    if table.schema != expected:
        raise ValueError(f"it has the schema {table.schema}, the manifest says {expected}")
    if table.codec != codec:
        raise ValueError(f"its codec is {table.codec}, the manifest says {codec}")


def _decode(
    data: np.ndarray, count: int, columns: tuple[Column, ...], padded: bool, block: int
) -> pa.RecordBatch:
    # No row is without a field, nor a field without a byte.
    if not 0 <= count <= len(data):
        raise ValueError(f"block {block}: {count:,} rows in {len(data):,} bytes")
    is_list = np.array([bool(column.width) for column in columns])
    values, starts, ends, damaged = decode_rows(data, count, is_list)
    if damaged >= 0:
        raise ValueError(f"block {block}: row {damaged} of {count:,} is not whole")
    rows = [gather(values, starts[i], ends[i]) for i in range(len(columns))]
    return restore(columns, rows, padded)


def check(columns: tuple[Column, ...], _options: OutputOptions) -> None:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    check_numbers(columns, "avro")
    for column in columns:
        if not _NAME.fullmatch(column.name):
            raise UserError(
                "--output-format avro", f"{column.name} is no name of a field", "Choose parquet"
            )


def load_avro(manifest: Mapping[str, Any]) -> Iterator[str]:
    """By fastavro."""
    options, split = output_options_of(manifest), next(iter(manifest["splits"]))
    yield from ("```python", "from pathlib import Path", "", "import fastavro", "", "")
    yield from ("def read_examples(split):", '    for path in sorted(Path(".").glob(split)):')
    yield from (
        '        with path.open("rb") as file:',
        "            yield from fastavro.reader(file)",
    )
    yield from ("", "", f'examples = read_examples("{shard_glob(manifest, split)}")', "```", "")
    if options.compression == "zstd":
        yield from ("fastavro needs `backports.zstd` for the codec of these files.", "")
