"""Sort rows by key, in memory that does not grow with their number."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

from corpusmill.layout.sorting import sort_rows
from transforms.spill import Spill, load_segment
from transforms.storage.files import delete_files

# A slice holds the keys that share their upper 8 bits: 1 MB of a full buffer, and 64 MB of a shard
# of 16 GB.
_KEY_BITS_OF_A_SLICE = 56


class RowSorter:
    """Collects rows in any order and returns them sorted.

    Rows that fit into memory are sorted there. Otherwise each full buffer becomes a file ordered by
    slice of the range of keys, and the slices are read from all files and sorted one after the
    other.

    Args:
        schema: schema of the rows (`corpusmill.layout.sorting.keyed_schema`).
        temp_folder: folder of the files.
        memory_bytes: size of the rows that are kept in memory; sorting takes twice as much.
    """

    def __init__(self, schema: pa.Schema, temp_folder: str, memory_bytes: int) -> None:
        self._schema, self._spill = schema, Spill(temp_folder, memory_bytes)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        keys = rows.column("key").to_numpy()
        self._spill.add(rows, (keys >> np.uint64(_KEY_BITS_OF_A_SLICE)).astype(np.uint32))

    def drain(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows in ascending order, at most `rows` at a time."""
        if self._spill.segments:
            self._spill.write()
            yield from self._merge(rows)
        elif self._spill.batches:
            yield from sort_rows(self._spill.batches, rows)

    def _merge(self, rows: int) -> Iterator[pa.RecordBatch]:
        segments = sorted(self._spill.segments, key=attrgetter("bucket"))
        for _, parts in groupby(segments, key=attrgetter("bucket")):
            yield from sort_rows([load_segment(part, self._schema) for part in parts], rows)
        delete_files(sorted({segment.path for segment in segments}))
