"""The writer of Parquet shards, for columns of numbers and lists of numbers without nulls.

Arrow's writer makes two arrays of levels, a number for each value, and copies each value several
times. This one writes the levels of a row at once and each value once, into a buffer that all pages
share.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column
from corpusmill.arrays.flat_rows import flatten
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.parquet.compact_protocol import Struct
from corpusmill.formats.parquet.footer import (
    MAGIC,
    Chunk,
    describe_group,
    encode_footer,
    page_header,
    stored_bytes,
)
from corpusmill.formats.parquet.page_kernels import (
    count_levels,
    most_level_bytes,
    put_levels,
    put_streams,
)
from corpusmill.formats.shard_format import Columns, Sink

# A megabyte before compression, unless a single row has more.
_PAGE_VALUES = 2**18
_MOST_PAGE_BYTES = 2**31 - 1
_BLOCK_BYTES = 2**20


class PagesWriter:
    """Writes each batch of rows as one row group.

    Args:
        sink: of the file.
        columns: of the rows.
        options: as `resolve` returns them.
    """

    def __init__(self, sink: Sink, columns: Columns, options: OutputOptions) -> None:
        self._sink, self._columns, self._options = sink, columns, options
        self._codec = _open_codec(options)
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
                block = source.read(min(left, _BLOCK_BYTES))
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
        if values.dtype.kind == "f":
            values = values.view(f"i{values.itemsize}")
        place, full_bytes, levels = self._place, 0, 0
        for start, stop in cut_pages(offsets):
            cut = offsets[start : stop + 1]
            content, count = self._fill_page(column, values, cut)
            packed = self._codec.compress(content, asbytes=True) if self._codec else bytes(content)
            header = page_header(count, len(content), len(packed))
            self._put(header)
            self._put(packed)
            full_bytes += len(header) + len(content)
            levels += count
        return Chunk(place, levels, self._place - place, full_bytes)

    def _fill_page(
        self, column: Column, values: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Return the content of a page, which is valid until the next call, and its levels."""
        levels = int(count_levels(offsets)) if column.width else len(offsets) - 1
        width = stored_bytes(column)
        most = width * int(offsets[-1] - offsets[0])
        most += most_level_bytes(levels) if column.width else 0
        if most > _MOST_PAGE_BYTES:
            raise ValueError(f"a row of {column.name} has {levels:,} values, too many for a page")
        if most > len(self._page):
            self._page = np.empty(most, np.uint8)
        place = put_levels(offsets, self._page) if column.width else 0
        end = put_streams(values[offsets[0] : offsets[-1]], width, self._page, place)
        return self._page[:end], levels

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._place += len(data)


def cut_pages(offsets: np.ndarray, values: int = _PAGE_VALUES) -> list[tuple[int, int]]:
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


def _open_codec(options: OutputOptions) -> pa.Codec | None:
    if options.compression in {None, "none"}:
        return None
    return pa.Codec(options.compression, compression_level=options.compression_level)
