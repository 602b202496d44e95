"""Parquet shards: small integers as byte streams, compressed, in row groups of equal size."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays.columns import LONGEST_ROW, arrow_schema, most_values
from corpusmill.corpus.tables.parquet import read_pages
from corpusmill.corpus.tables.table import TableStream
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.parquet_writer import Chunk, PagesWriter, can_be_stored
from corpusmill.formats.shard_formats import Columns, ShardFormat, ShardWriter, Sinks, Sources
from corpusmill.formats.shard_names import shard_glob
from corpusmill.layout.sorting import GROUP_TOKENS

# A value and its levels take at most this many bytes, and a page of few values some more.
_MOST_VALUE_BYTES, _MOST_PAGE_BYTES = 16, 2**16


class ParquetFormat(ShardFormat):
    """Parquet with every codec of its own, for all columns."""

    name = "parquet"
    file_suffixes = (".parquet",)
    compressions = ("zstd", "snappy", "gzip", "none")
    hub = True
    # Small enough for a reader that shuffles row groups, large enough that the footer is only a
    # thousandth of the file.
    group_rows = 8192
    has_groups = True

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse columns that cannot be streams of bytes.

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
            _RowGroup(sources[0], shard, number, most, options)
            for number in range(shard.num_row_groups)
        ]

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by the library datasets, which reads the card's front matter, or by Arrow."""
        glob = shard_glob(options.shard_name, split, files)
        yield from ("```python", "from pathlib import Path", "")
        yield from ("from datasets import load_dataset", "")
        yield from (f'examples = load_dataset(str(Path.cwd()), split="{split}")', "```", "")
        yield from ("or, without `datasets`:", "", "```python", "from pathlib import Path", "")
        yield from ("import pyarrow.dataset", "")
        yield f'files = sorted(str(path) for path in Path(".").glob("{glob}"))'
        yield from ("examples = pyarrow.dataset.dataset(files)", "```", "")


class _RowGroup:
    """A row group of a shard.

    Args:
        source: the shard.
        shard: the same.
        number: of the row group.
        most: the most values of a row, for each column.
        options: as `resolve` returned them to the writer.
    """

    def __init__(
        self,
        source: BinaryIO,
        shard: pq.ParquetFile,
        number: int,
        most: Sequence[int],
        options: OutputOptions,
    ) -> None:
        self._source, self._shard, self._number = source, shard, number
        self._most, self._options = most, options
        self._described: pq.RowGroupMetaData = shard.metadata.row_group(number)
        self.rows: int = self._described.num_rows

    def read(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read the rows, once it is known that its pages do not claim more than these can have."""
        for number, most in enumerate(self._most):
            source, padded = TableStream(self._source), self._options.is_padded
            _check_pages(source, self._described, number, most, padded)
        # Callers have threads of their own, each with a shard.
        yield from self._shard.iter_batches(
            batch_rows, row_groups=[self._number], use_threads=False
        )

    def fits(self, writer: ShardWriter) -> bool:
        """Whether the writer is that of version 2, and its codec and encodings are those here."""
        codec = (self._options.compression or "none").upper().replace("NONE", "UNCOMPRESSED")
        return isinstance(writer, PagesWriter) and all(
            chunk.compression == codec
            and not chunk.has_dictionary_page
            and {*chunk.encodings} == {"RLE", "BYTE_STREAM_SPLIT"}
            for chunk in self._chunks()
        )

    def copy_to(self, writer: ShardWriter) -> None:
        """Copy the bytes of all pages."""
        if not isinstance(writer, PagesWriter):
            raise TypeError("pages are copied by the writer of version 2 alone")
        chunks = [
            Chunk(
                chunk.data_page_offset,
                chunk.num_values,
                chunk.total_compressed_size,
                chunk.total_uncompressed_size,
            )
            for chunk in self._chunks()
        ]
        writer.copy(self._source, self.rows, chunks)

    def _chunks(self) -> Iterator[pq.ColumnChunkMetaData]:
        return (self._described.column(number) for number in range(len(self._most)))


def _check_pages(
    source: TableStream, group: pq.RowGroupMetaData, number: int, most: int, padded: bool
) -> None:
    """Refuse a column of a row group whose pages claim more than its rows can have.

    Args:
        source: the shard.
        group: the row group.
        number: of the column.
        most: values of a row.
        padded: whether a row always has as many.
    """
    limit = max(0, min(group.num_rows, ParquetFormat.group_rows)) * most
    if not padded:
        limit = min(limit, GROUP_TOKENS + most)
    values, dictionary = 0, 0
    for page in read_pages(source, group.column(number)):
        values += 0 if page.is_dictionary else page.values
        dictionary += page.values if page.is_dictionary else 0
        most_bytes = _MOST_VALUE_BYTES * page.values + _MOST_PAGE_BYTES
        if max(values, dictionary) > limit or page.bytes > most_bytes:
            claim = f"{page.values:,} values in {page.bytes:,} bytes"
            raise ValueError(f"a page claims {claim}, and its row group has at most {limit:,}")
