"""Parquet shards: compressed, in encodings that all readers have, in row groups of equal size.

Columns hold numbers and lists of numbers, without nulls. Arrow's writer makes two arrays of levels,
a number for each value, and looks up each value in a hash table. The one here writes the levels of
a row at once, and counts the values in an array.

Source: parquet.thrift of https://github.com/apache/parquet-format
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays.columns import LONGEST_ROW, Column, arrow_schema, most_values
from corpusmill.arrays.ragged import flatten
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.parquet_encodings import (
    Byte,
    Dictionary,
    Long,
    Struct,
    Value,
    count_levels,
    encode_struct,
    make_dictionary,
    most_level_bytes,
    put_levels,
    put_places,
)
from corpusmill.formats.shard_formats import (
    GROUP_ROWS,
    GROUP_TOKENS,
    Columns,
    ShardFormat,
    ShardWriter,
    Sink,
    Sinks,
    Sources,
    explain_files,
)
from corpusmill.knobs import knob

MAGIC = b"PAR1"
_SIZE_BYTES = 4
_WRITER = b"corpusmill version 3"  # readers parse a name, the word version and a number

_REQUIRED, _REPEATED = 0, 2
_LIST_TYPE = 3
_PLAIN, _RUNS, _PLACES = 0, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
# The field of a header that describes a page of a kind.
_DESCRIBED_IN = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7}
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}
# Parquet's types by kind and size of NumPy's; smaller integers are stored in four bytes.
_TYPES = {"i1": 1, "u1": 1, "i2": 1, "u2": 1, "i4": 1, "u4": 1, "i8": 2, "u8": 2, "f4": 4, "f8": 5}


def stored_type(column: Column) -> np.dtype:
    """Return the type of a value in the file, as integers: one of 32 bits, or of 64."""
    return np.dtype(f"<i{max(4, np.dtype(column.dtype).itemsize)}")


def _type_of(column: Column) -> int:
    """Return the number of Parquet's type."""
    return _TYPES[np.dtype(column.dtype).str[1:]]


# The smallest and the largest value of a column in a row group, as the file has them.
Bounds = tuple[bytes, bytes]


def find_bounds(column: Column, smallest: int, largest: int) -> Bounds | None:
    """Return the bounds of a column in a row group; None if the file does not give them.

    It gives those of columns with one integer a row, by which programs look for rows, and not those
    of tokens.

    Args:
        column: the column.
        smallest: value.
        largest: value.
    """
    if column.width or np.dtype(column.dtype).kind == "f":
        return None
    kind = stored_type(column)
    return np.array(smallest).astype(kind).tobytes(), np.array(largest).astype(kind).tobytes()


@dataclass(frozen=True)
class Chunk:
    """The pages of a column in a row group.

    Attributes:
        place: of the first page in the file.
        levels: the number of values, and of empty lists.
        bytes: their size with headers.
        full_bytes: their size before compression.
        dictionary_bytes: the size of the first page, with its header, if it is a dictionary;
            otherwise 0.
        bounds: of the values; None if they are not told.
    """

    place: int
    levels: int
    bytes: int
    full_bytes: int
    dictionary_bytes: int
    bounds: Bounds | None


def describe_group(
    columns: Columns, options: OutputOptions, rows: int, chunks: list[Chunk]
) -> Struct:
    """Return what the footer says of a row group.

    Args:
        columns: of the file.
        options: as `resolve` returns them.
        rows: of the group.
        chunks: of the columns.
    """
    codec = _CODECS[options.compression or "none"]
    entries: list[Struct] = []
    for column, chunk in zip(columns, chunks, strict=True):
        encodings = [_PLAIN, _RUNS]
        places: dict[int, Value] = {9: Long(chunk.place + chunk.dictionary_bytes)}
        if chunk.dictionary_bytes:
            encodings.append(_PLACES)
            places[11] = Long(chunk.place)
        if chunk.bounds:
            # There are no nulls.
            smallest, largest = chunk.bounds
            places[12] = {3: Long(0), 5: largest, 6: smallest}
        sizes = {5: Long(chunk.levels), 6: Long(chunk.full_bytes), 7: Long(chunk.bytes)}
        kind: Struct = {1: _type_of(column), 2: encodings, 3: _path(column), 4: codec}
        entries.append({2: Long(0), 3: {**kind, **sizes, **places}})
    full_bytes = Long(sum(chunk.full_bytes for chunk in chunks))
    group_bytes = Long(sum(chunk.bytes for chunk in chunks))
    place = Long(chunks[0].place)
    return {1: entries, 2: full_bytes, 3: Long(rows), 5: place, 6: group_bytes}


def encode_footer(columns: Columns, padded: bool, rows: int, groups: list[Struct]) -> bytes:
    """Return the end of a file.

    Args:
        columns: of the file.
        padded: whether lists have a fixed size.
        rows: of all groups.
        groups: from `describe_group`.
    """
    # Parquet has only lists of any size, and Arrow's schema says which are of a fixed one.
    schema = base64.b64encode(arrow_schema(columns, padded).serialize())
    elements: list[Struct] = [{3: _REQUIRED, 4: b"schema", 5: len(columns)}]
    elements += [element for column in columns for element in _describe_column(column)]
    # Without their order, which is that of their types, readers ignore smallest and largest values.
    orders: list[Struct] = [{1: {}}] * len(columns)
    own: Struct = {5: [{1: b"ARROW:schema", 2: schema}], 6: _WRITER, 7: orders}
    footer = encode_struct({1: 2, 2: elements, 3: Long(rows), 4: groups, **own})
    return footer + len(footer).to_bytes(_SIZE_BYTES, "little") + MAGIC


def _path(column: Column) -> list[bytes]:
    own = column.name.encode()
    return [own, b"list", b"element"] if column.width else [own]


def _describe_column(column: Column) -> list[Struct]:
    """Return the elements of a column in the schema: itself, or a list of three levels."""
    *lists, name = _path(column)
    value: Struct = {1: _type_of(column), 3: _REQUIRED, 4: name, **_describe_integer(column)}
    if not lists:
        return [value]
    outer: Struct = {3: _REQUIRED, 4: lists[0], 5: 1, 6: _LIST_TYPE, 10: {3: {}}}
    return [outer, {3: _REPEATED, 4: lists[1], 5: 1}, value]


def _describe_integer(column: Column) -> Struct:
    """Return the converted and the logical type of integers that are not int32 or int64."""
    dtype = np.dtype(column.dtype)
    if dtype.kind == "f" or dtype.name in {"int32", "int64"}:
        return {}
    bits, signed = 8 * dtype.itemsize, dtype.kind == "i"
    first = 15 if signed else 11  # those of 8, 16, 32 and 64 bits follow one another
    return {6: first + (8, 16, 32, 64).index(bits), 10: {10: {1: Byte(bits), 2: signed}}}


_MOST_PAGE_BYTES = 2**31 - 1
# What stands before and after places in a dictionary.
_MOST_OTHER_BYTES = 64

PAGE_VALUES = knob("page_values", 2**18)
"""The values of a page of Parquet, and its rows, unless a single row has more."""
COPIED_GROUP_BYTES = knob("copied_group_bytes", 2**20, test=100)
"""How much of a group that stays as it is is copied at once."""


class PagesWriter:
    """Writes each batch of rows as one row group.

    Args:
        sink: of the file.
        columns: of the rows.
        options: as `resolve` returns them.
    """

    def __init__(self, sink: Sink, columns: Columns, options: OutputOptions) -> None:
        self._sink, self._columns, self._options = sink, columns, options
        name, level = options.compression or "none", options.compression_level
        self._codec = None if name == "none" else pa.Codec(name, compression_level=level)
        self._groups: list[Struct] = []
        self._rows = self._place = 0
        self._page = np.empty(0, np.uint8)
        self._put(MAGIC)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write a row group, unless there are no rows."""
        if not rows.num_rows:
            return
        chunks = [self._write_chunk(column, rows.column(column.name)) for column in self._columns]
        self._add(rows.num_rows, chunks)

    def copy(self, source: BinaryIO, rows: int, chunks: Sequence[Chunk]) -> None:
        """Write a row group of another file, whose columns and options are the same.

        Args:
            source: the other file, seekable.
            rows: of the group.
            chunks: of the columns, as they are in the other file.

        Raises:
            ValueError: the other file ends before them.
        """
        copied: list[Chunk] = []
        for chunk in chunks:
            copied.append(replace(chunk, place=self._place))
            source.seek(chunk.place)
            left = chunk.bytes
            while left:
                block = source.read(min(left, COPIED_GROUP_BYTES))
                if not block:
                    raise ValueError(f"it ends {left:,} bytes before the end of a row group")
                self._put(block)
                left -= len(block)
        self._add(rows, copied)

    def _add(self, rows: int, chunks: list[Chunk]) -> None:
        """Describe a row group that has been written."""
        self._groups.append(describe_group(self._columns, self._options, rows, chunks))
        self._rows += rows

    def close(self) -> None:
        """Write the footer."""
        padded = self._options.is_padded
        self._put(encode_footer(self._columns, padded, self._rows, self._groups))

    def _write_chunk(self, column: Column, array: pa.Array) -> Chunk:
        values, offsets = flatten(array)
        bounds = None if column.width else find_bounds(column, values.min(), values.max())
        if values.itemsize > 2:  # also floating-point numbers become integers of the file's types
            values = values.view(f"i{values.itemsize}")
        place, levels, full_bytes = self._place, 0, 0
        dictionary = make_dictionary(values[offsets[0] : offsets[-1]])
        if dictionary:
            content = dictionary.values.astype(stored_type(column)).view(np.uint8)
            described: Struct = {1: len(dictionary.values), 2: _PLAIN}
            full_bytes += self._write_page(_DICTIONARY_PAGE, described, content)
        first = self._place - place
        for start, stop in cut_pages(offsets, PAGE_VALUES):
            cut = offsets[start : stop + 1]
            content, count = self._fill_page(column, values, cut, dictionary)
            # Of the values, and of both kinds of levels.
            encodings = {2: _PLACES if dictionary else _PLAIN, 3: _RUNS, 4: _RUNS}
            full_bytes += self._write_page(_DATA_PAGE, {1: count, **encodings}, content)
            levels += count
        return Chunk(place, levels, self._place - place, full_bytes, first, bounds)

    def _write_page(self, kind: int, described: Struct, content: np.ndarray) -> int:
        """Write a page; return its size with the header, before compression.

        Args:
            kind: number of its kind.
            described: what its header says of pages of this kind.
            content: uint8[bytes].
        """
        packed = self._codec.compress(content, asbytes=True) if self._codec else bytes(content)
        sizes = {2: len(content), 3: len(packed)}
        head = encode_struct({1: kind, **sizes, _DESCRIBED_IN[kind]: described})
        self._put(head)
        self._put(packed)
        return len(head) + len(content)

    def _fill_page(
        self,
        column: Column,
        values: np.ndarray,
        offsets: np.ndarray,
        dictionary: Dictionary | None,
    ) -> tuple[np.ndarray, int]:
        """Return the content of a page, which is valid until the next call, and its levels."""
        levels = int(count_levels(offsets)) if column.width else len(offsets) - 1
        stored, values = stored_type(column), values[offsets[0] : offsets[-1]]
        most = stored.itemsize * len(values) + _MOST_OTHER_BYTES
        most += most_level_bytes(levels) if column.width else 0
        if most > _MOST_PAGE_BYTES:
            raise ValueError(f"a row of {column.name} has {levels:,} values, too many for a page")
        if most > len(self._page):
            self._page = np.empty(most, np.uint8)
        place = put_levels(offsets, self._page) if column.width else 0
        if dictionary:
            end = put_places(dictionary, values, self._page, place)
        else:
            end = place + stored.itemsize * len(values)
            self._page[place:end] = values.astype(stored).view(np.uint8)
        return self._page[:end], levels

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._place += len(data)


def cut_pages(offsets: np.ndarray, values: int) -> list[tuple[int, int]]:
    """Return (first row, row after the last) of each page of a column.

    Args:
        offsets: integers[rows + 1]; at least one row.
        values: the most values of a page and the most rows, unless a single row has more values.

    Example:
        [0, 3, 5, 9, 20] and 6 values give (0, 2), (2, 3) and (3, 4).
    """
    pages, start, rows = [], 0, len(offsets) - 1
    while start < rows:
        fitting = int(np.searchsorted(offsets, offsets[start] + values, "right")) - 1
        stop = min(max(start + 1, fitting), start + values, rows)
        pages.append((start, stop))
        start = stop
    return pages


# A value and its levels take at most this many bytes, and a column of few values some more.
_MOST_VALUE_BYTES, _MOST_COLUMN_BYTES = 16, 2**16
# Of columns without and with a dictionary.
_ENCODINGS = {False: {"PLAIN", "RLE"}, True: {"PLAIN", "RLE", "RLE_DICTIONARY"}}


class ParquetFormat(ShardFormat):
    """Parquet with every codec of its own, for all columns."""

    name = "parquet"
    file_suffixes = (".parquet",)
    compressions = ("zstd", "snappy", "gzip", "none")
    has_groups = True

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse columns of other types than numbers of 8 to 64 bits.

        Raises:
            UserError: there is one.
        """
        for column in columns:
            if np.dtype(column.dtype).str[1:] not in _TYPES:
                cause = f"the column {column.name} has the type {column.dtype}"
                cure = "Give it integers, or floating-point numbers of 32 or 64 bits"
                raise UserError(option("output_format", "parquet"), cause, cure)

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer, which writes each batch as one row group."""
        return PagesWriter(sinks[0], columns, options)

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a shard whose schema is that of the columns."""
        # One row group at a time: rows may be so long that no more of them fit into memory.
        for group in self.list_groups(sources, columns, options, longest):
            yield from group.read(batch_rows)

    def list_groups(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        longest: int = LONGEST_ROW,
    ) -> "Sequence[_RowGroup]":
        """List the row groups of a shard whose schema is that of the columns."""
        shard = pq.ParquetFile(sources[0], pre_buffer=False)
        schema = arrow_schema(columns, options.is_padded)
        actual, expected = (
            [(field.name, str(field.type), field.nullable) for field in fields]
            for fields in (shard.schema_arrow, schema)
        )
        if actual != expected:
            raise ValueError(f"it holds the columns {actual}, the manifest says {expected}")
        most = [most_values(column, longest, options.is_padded) for column in columns]
        return [
            _RowGroup(sources[0], shard, columns, options, number, most)
            for number in range(shard.num_row_groups)
        ]

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by the library datasets, which reads the card's front matter, or by Arrow."""
        yield from ("```python", "from pathlib import Path", "")
        yield from ("from datasets import load_dataset", "")
        yield from (f'examples = load_dataset(str(Path.cwd()), split="{split}")', "```", "")
        yield from ("or, without `datasets`:", "", "```python", "import json")
        yield from ("from pathlib import Path", "", "import pyarrow.dataset", "")
        yield from explain_files(split)
        yield from ("examples = pyarrow.dataset.dataset(files)", "```", "")


@dataclass(frozen=True)
class _RowGroup:
    """A row group of a shard.

    Attributes:
        source: the bytes of the shard.
        file: the same, as Arrow reads them.
        columns: of its rows.
        options: as `resolve` returned them to the writer.
        number: of the row group.
        most: the most values of a row, for each column.
    """

    source: BinaryIO
    file: pq.ParquetFile
    columns: Columns
    options: OutputOptions
    number: int
    most: Sequence[int]

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return int(self.file.metadata.row_group(self.number).num_rows)

    def read(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read the rows, once it is known that the footer claims no more than these can have."""
        for chunk, most in zip(self._chunks(), self.most, strict=True):
            _check_size(chunk, self.rows, most, self.options.is_padded)
        # Callers have threads of their own, each with a shard.
        yield from self.file.iter_batches(batch_rows, row_groups=[self.number], use_threads=False)

    def fits(self, writer: ShardWriter) -> bool:
        """Whether the writer is that of version 3, and its codec and encodings are those here."""
        codec = (self.options.compression or "none").upper().replace("NONE", "UNCOMPRESSED")
        return isinstance(writer, PagesWriter) and all(
            chunk.compression == codec
            and {*chunk.encodings} == _ENCODINGS[chunk.has_dictionary_page]
            for chunk in self._chunks()
        )

    def copy_to(self, writer: ShardWriter) -> None:
        """Copy the bytes of all pages."""
        if not isinstance(writer, PagesWriter):
            raise TypeError("pages are copied by the writer of version 3 alone")
        writer.copy(self.source, self.rows, [*map(_to_chunk, self.columns, self._chunks())])

    def _chunks(self) -> Iterator[pq.ColumnChunkMetaData]:
        described = self.file.metadata.row_group(self.number)
        return (described.column(number) for number in range(len(self.most)))


def _to_chunk(column: Column, chunk: pq.ColumnChunkMetaData) -> Chunk:
    place, values = chunk.data_page_offset, chunk.statistics
    if chunk.has_dictionary_page:
        place = chunk.dictionary_page_offset
    has_bounds = values is not None and values.has_min_max
    return Chunk(
        place,
        chunk.num_values,
        chunk.total_compressed_size,
        chunk.total_uncompressed_size,
        chunk.data_page_offset - place,
        find_bounds(column, values.min, values.max) if has_bounds else None,
    )


def _check_size(chunk: pq.ColumnChunkMetaData, rows: int, most: int, is_padded: bool) -> None:
    """Refuse a column of a row group that claims more than its rows can have.

    Args:
        chunk: the column.
        rows: of the row group.
        most: values of a row.
        is_padded: whether lists have a fixed size.
    """
    limit = max(0, min(rows, GROUP_ROWS)) * most
    if not is_padded:
        limit = min(limit, GROUP_TOKENS + most)
    values, size = chunk.num_values, chunk.total_uncompressed_size
    if values > limit or size > _MOST_VALUE_BYTES * values + _MOST_COLUMN_BYTES:
        claim = f"{values:,} values in {size:,} bytes"
        raise ValueError(f"a column claims {claim}, and its row group has at most {limit:,}")
