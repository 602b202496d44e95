"""The writer of Parquet shards, for columns of numbers and lists of numbers without nulls.

Arrow's writer makes two arrays of levels, a number for each value, and copies each value several
times. This one writes the levels of a row at once and each value once, into a buffer that all pages
share.

The content of data pages: levels made straight from the lengths of lists, and streams of bytes.

A list of n values has n repetition levels, 0 for the first and 1 for the others, and as many
definition levels of 1; an empty list has one of each, both 0. Levels are written as runs: a run of
equal bits as its length and the bit, other bits in groups of eight.

Source: https://parquet.apache.org/docs/file-format/data-pages/encodings/
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import flatten
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.parquet.footer import (
    MAGIC,
    Chunk,
    Struct,
    describe_group,
    encode_footer,
    page_header,
    stored_bytes,
)
from corpusmill.formats.shard_format import Columns, Sink
from corpusmill.formats.varints import put_varint

_SIZE_BYTES = 4
# The most groups of eight bits whose header is a single byte.
_MOST_GROUPS = 63


@njit
def most_level_bytes(levels: int) -> int:
    """Return the most bytes that `put_levels` writes for this number of levels of each kind."""
    # A group of eight bits takes a byte, a run of eight or more two; headers are few.
    return 2 * (_SIZE_BYTES + levels // 2 + 16)


@njit
def count_levels(offsets: np.ndarray) -> int:
    """Return the number of levels of each kind: one for each value and each empty list.

    Args:
        offsets: integers[rows + 1].
    """
    levels: int = offsets[-1] - offsets[0]
    for row in range(len(offsets) - 1):
        levels += offsets[row] == offsets[row + 1]
    return levels


@njit
def put_levels(offsets: np.ndarray, out: np.ndarray) -> int:
    """Write the repetition and the definition levels of lists, each with their size before them.

    Args:
        offsets: integers[rows + 1].
        out: uint8[at least `most_level_bytes`].

    Returns:
        The number of bytes written.
    """
    counts = np.empty(2 * (len(offsets) - 1), np.int64)
    for row in range(len(offsets) - 1):
        length = offsets[row + 1] - offsets[row]
        counts[2 * row], counts[2 * row + 1] = 1, max(0, length - 1)
    place = _put_sized_runs(counts, False, out, 0)
    for row in range(len(offsets) - 1):
        length = offsets[row + 1] - offsets[row]
        counts[2 * row], counts[2 * row + 1] = length, np.int64(length == 0)
    end: int = _put_sized_runs(counts, True, out, place)
    return end


@njit
def _put_sized_runs(counts: np.ndarray, first: bool, out: np.ndarray, place: int) -> int:
    end: int = put_runs(counts, first, out, place + _SIZE_BYTES)
    size = end - place - _SIZE_BYTES
    for i in range(_SIZE_BYTES):
        out[place + i] = size >> 8 * i & 255
    return end


@njit
def put_runs(counts: np.ndarray, first: bool, out: np.ndarray, place: int) -> int:
    """Write bits that are given by the lengths of their runs.

    Args:
        counts: integers[runs], the number of equal bits; runs of ones and zeros alternate, and may
            be empty.
        first: the bit of the first run.
        out: uint8[any].
        place: where to write.

    Returns:
        The place after what was written.

    Example:
        9 ones and 2 zeros are 18, 1 (a run of nine bits of 1), 3 and 0 (one group of eight bits).
    """
    header = -1  # of the groups that are being written
    bits = held = 0
    run, last = 0, len(counts)
    while run < last:
        bit, count = np.int64(first) ^ (run & 1), counts[run]
        run += 1
        # The next run of the same bit follows at once where the one between is empty.
        while run < last and (counts[run] == 0 or run & 1 ^ np.int64(first) == bit):
            if run & 1 ^ np.int64(first) == bit:
                count += counts[run]
            run += 1
        while count:
            if held == 0 and count >= 8:
                place = put_varint(count << 1, out, place)
                out[place] = bit
                place += 1
                header, count = -1, 0
                continue
            if held == 0 and (header < 0 or out[header] == _MOST_GROUPS << 1 | 1):
                header, out[place] = place, 1
                place += 1
            taken = min(count, 8 - held)
            bits |= ((1 << taken) - 1) * bit << held
            held, count = held + taken, count - taken
            if held == 8 or (count == 0 and run == last):
                out[place] = bits
                out[header] += 2
                place += 1
                bits = held = 0
    return place


@njit
def put_streams(values: np.ndarray, width: int, out: np.ndarray, place: int) -> int:
    """Write the first byte of every value, then the second of every value, and so on.

    Args:
        values: integers[n].
        width: bytes of a value in the file; it is widened with its sign.
        out: uint8[any].
        place: where to write.

    Returns:
        The place after what was written.

    Example:
        258 and -1, four bytes wide, give 2, 255, 1, 255, 0, 255, 0, 255.
    """
    for byte in range(width):
        stream = out[place : place + len(values)]
        for i in range(len(values)):
            stream[i] = np.int64(values[i]) >> 8 * byte & 255
        place += len(values)
    return place


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
