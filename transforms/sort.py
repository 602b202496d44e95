"""Sort rows by key, in memory that does not grow with their number."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

from corpusmill.arrays.row_buffer import RowBuffer
from corpusmill.layout.sorting import order_by_bucket, sort_rows
from transforms.elements import Segment
from transforms.spill import load_segment, write_segments
from transforms.storage.files import delete_files

# A slice holds the keys that share their upper 8 bits: 1 MB of a full buffer, and 64 MB of a shard
# of 16 GB.
_KEY_BITS_OF_A_SLICE = 56


class RowSorter:
    """Collects rows in any order and returns them sorted.

    Rows that fit into memory are sorted there. Otherwise each full buffer becomes a file ordered by
    slice of the range of keys, and the slices are read from all files and sorted one after the
    other. Where it can be foreseen that rows will not fit, they become files of a smaller size, as
    more memory would save nothing.

    Args:
        rows: a buffer for rows of `corpusmill.layout.sorting.keyed_schema`; what it holds is
            removed.
        temp_folder: folder of the files.
        memory_bytes: size of the rows that are kept in memory.
        file_bytes: size of the files where these are foreseen to be too few.
    """

    def __init__(
        self, rows: RowBuffer, temp_folder: str, memory_bytes: int, file_bytes: int
    ) -> None:
        self._rows, self._temp_folder = rows, temp_folder
        self._memory_bytes, self._file_bytes = memory_bytes, file_bytes
        self._segments: list[Segment] = []
        rows.clear()

    def add(self, rows: pa.RecordBatch, share: float) -> None:
        """Add rows.

        Args:
            rows: the next ones.
            share: about which share of all rows has been added with these, above 0.
        """
        self._rows.add(rows)
        size = self._rows.nbytes
        is_large = bool(self._segments) or size > share * self._memory_bytes
        if size >= self._memory_bytes or (is_large and size >= self._file_bytes):
            self._write()

    def drain(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows in ascending order, at most `rows` at a time."""
        if self._segments:
            self._write()
            yield from self._merge(rows)
        elif self._rows.nbytes:
            yield from sort_rows([self._rows.rows()], rows)

    def _write(self) -> None:
        buffered = self._rows.rows()
        if buffered.num_rows:
            keys = buffered.column("key").to_numpy() >> np.uint64(_KEY_BITS_OF_A_SLICE)
            ordered = order_by_bucket([buffered], [keys.astype(np.uint32)])
            self._segments += write_segments(ordered, self._temp_folder)
        self._rows.clear()

    def _merge(self, rows: int) -> Iterator[pa.RecordBatch]:
        segments = sorted(self._segments, key=attrgetter("bucket"))
        for _, parts in groupby(segments, key=attrgetter("bucket")):
            yield from sort_rows([load_segment(part, self._rows.schema) for part in parts], rows)
        delete_files(sorted({segment.path for segment in segments}))
