"""Rows sorted by their key, in memory that does not grow with their number."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

from corpusmill.layout.sorting import sort_rows
from transforms.spill import Spill, load_segment
from transforms.storage.files import delete_files

# A slice holds the keys that share their upper 8 bits. A buffer's part of a slice is 1 MB then, and
# a slice of a shard of 16 GB 64 MB.
_KEY_BITS_OF_A_SLICE = 56


class RowSorter:
    """Takes rows in any order and gives them back sorted.

    What fits into memory is sorted there. Beyond that each full buffer goes to a file, ordered by
    slice of the keys' range, and then slice after slice is read from all files and sorted.

    Args:
        schema: of the rows (`corpusmill.layout.sorting.keyed_schema`).
        temp_folder: where files lie in between.
        memory_bytes: rows kept in memory; sorting takes twice as much.
    """

    def __init__(self, schema: pa.Schema, temp_folder: str, memory_bytes: int) -> None:
        self._schema, self._spill = schema, Spill(temp_folder, memory_bytes)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows."""
        keys = rows.column("key").to_numpy()
        self._spill.add(rows, (keys >> np.uint64(_KEY_BITS_OF_A_SLICE)).astype(np.uint32))

    def drain(self, rows: int) -> Iterator[pa.RecordBatch]:
        """All rows in ascending order, at most `rows` at a time."""
        if self._spill.segments:
            self._spill.write()
            yield from self._merge(rows)
        elif self._spill.buffer.batches:
            yield from sort_rows(self._spill.buffer.batches, rows)

    def _merge(self, rows: int) -> Iterator[pa.RecordBatch]:
        segments = sorted(self._spill.segments, key=attrgetter("bucket"))
        for _, of_slice in groupby(segments, key=attrgetter("bucket")):
            yield from sort_rows([load_segment(part, self._schema) for part in of_slice], rows)
        delete_files(sorted({segment.path for segment in segments}))
