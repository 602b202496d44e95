"""Parquet shards: compressed, in encodings that all readers have, in row groups of equal size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays.columns import LONGEST_ROW, Column, arrow_schema, most_values
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.parquet_writer import Chunk, PagesWriter, can_be_stored, find_bounds
from corpusmill.formats.shard_formats import (
    GROUP_ROWS,
    GROUP_TOKENS,
    Columns,
    ShardFormat,
    ShardWriter,
    Sinks,
    Sources,
    explain_files,
)

# A value and its levels take at most this many bytes, and a column of few values some more.
_MOST_VALUE_BYTES, _MOST_OTHER_BYTES = 16, 2**16
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
            if not can_be_stored(column):
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
            _RowGroup(_Shard(sources[0], shard, columns, options), number, most)
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
class _Shard:
    """A shard that is read.

    Attributes:
        source: its bytes.
        file: the same, as Arrow reads them.
        columns: of its rows.
        options: as `resolve` returned them to the writer.
    """

    source: BinaryIO
    file: pq.ParquetFile
    columns: Columns
    options: OutputOptions


class _RowGroup:
    """A row group of a shard.

    Args:
        shard: the shard.
        number: of the row group.
        most: the most values of a row, for each column.
    """

    def __init__(self, shard: _Shard, number: int, most: Sequence[int]) -> None:
        self._shard, self._number, self._most = shard, number, most
        self._described: pq.RowGroupMetaData = shard.file.metadata.row_group(number)
        self.rows: int = self._described.num_rows

    def read(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read the rows, once it is known that the footer claims no more than these can have."""
        for chunk, most in zip(self._chunks(), self._most, strict=True):
            _check_size(self._shard, chunk, self.rows, most)
        # Callers have threads of their own, each with a shard.
        yield from self._shard.file.iter_batches(
            batch_rows, row_groups=[self._number], use_threads=False
        )

    def fits(self, writer: ShardWriter) -> bool:
        """Whether the writer is that of version 3, and its codec and encodings are those here."""
        codec = (self._shard.options.compression or "none").upper().replace("NONE", "UNCOMPRESSED")
        return isinstance(writer, PagesWriter) and all(
            chunk.compression == codec
            and {*chunk.encodings} == _ENCODINGS[chunk.has_dictionary_page]
            for chunk in self._chunks()
        )

    def copy_to(self, writer: ShardWriter) -> None:
        """Copy the bytes of all pages."""
        if not isinstance(writer, PagesWriter):
            raise TypeError("pages are copied by the writer of version 3 alone")
        writer.copy(
            self._shard.source, self.rows, [*map(_to_chunk, self._shard.columns, self._chunks())]
        )

    def _chunks(self) -> Iterator[pq.ColumnChunkMetaData]:
        return (self._described.column(number) for number in range(len(self._most)))


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


def _check_size(shard: _Shard, chunk: pq.ColumnChunkMetaData, rows: int, most: int) -> None:
    """Refuse a column of a row group that claims more than its rows can have.

    Args:
        shard: the shard.
        chunk: the column.
        rows: of the row group.
        most: values of a row.
    """
    limit = max(0, min(rows, GROUP_ROWS)) * most
    if not shard.options.is_padded:
        limit = min(limit, GROUP_TOKENS + most)
    values, size = chunk.num_values, chunk.total_uncompressed_size
    if values > limit or size > _MOST_VALUE_BYTES * values + _MOST_OTHER_BYTES:
        claim = f"{values:,} values in {size:,} bytes"
        raise ValueError(f"a column claims {claim}, and its row group has at most {limit:,}")
