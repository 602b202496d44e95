"""Rows to temporary files ordered by bucket, and back: what shuffling and sorting are made of."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from uuid import uuid4

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from corpusmill.layout.sorting import order_by_bucket
from transforms.elements import Segment
from transforms.storage.files import create_file, read_part

# A segment of joined files.
JOINED_BYTES = 8 * 2**20


class Buffer:
    """Rows with their buckets, until there are enough to be ordered."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.buckets: list[np.ndarray] = []
        self.bytes = 0

    def add(self, batch: pa.RecordBatch, buckets: np.ndarray) -> None:
        """Keep rows.

        Args:
            batch: of the schema of those before.
            buckets: uint32[rows].
        """
        self.batches.append(batch)
        self.buckets.append(buckets)
        self.bytes += batch.nbytes

    def drain(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Each bucket with its rows, buckets ascending; the buffer is empty then."""
        batches, buckets = self.batches, self.buckets
        self.batches, self.buckets, self.bytes = [], [], 0
        if batches:
            yield from order_by_bucket(batches, buckets)


class Spill:
    """Buffers rows and writes each full buffer as one file, ordered by bucket.

    Args:
        temp_folder: where the files lie.
        buffer_bytes: what is buffered; ordering needs three times as much.

    Attributes:
        buffer: what has not been written.
        segments: what has.
    """

    def __init__(self, temp_folder: str, buffer_bytes: int) -> None:
        self._temp_folder, self._buffer_bytes = temp_folder, buffer_bytes
        self.buffer = Buffer()
        self.segments: list[Segment] = []

    def add(self, batch: pa.RecordBatch, buckets: np.ndarray) -> None:
        """As `Buffer.add`."""
        self.buffer.add(batch, buckets)
        if self.buffer.bytes >= self._buffer_bytes:
            self.write()

    def write(self) -> None:
        """Write what is buffered; each bucket's segment is added to `segments`."""
        if not self.buffer.batches:
            return
        path = FileSystems.join(self._temp_folder, f"spill-{uuid4().hex}.arrow")
        offset = 0
        with create_file(path) as stream:
            for bucket, rows in self.buffer.drain():
                message = rows.serialize()
                stream.write(message)
                self.segments.append(Segment(bucket, rows.num_rows, path, offset, message.size))
                offset += message.size


def join_files(segments: list[Segment], temp_folder: str, schema: pa.Schema) -> list[Segment]:
    """The rows of several files ordered by bucket in one such file; the files are removed.

    Many buckets cut a buffer into pieces too small to be read from an object store.

    Args:
        segments: of the files.
        temp_folder: where the one file lies.
        schema: of the rows.
    """
    path = FileSystems.join(temp_folder, f"spill-{uuid4().hex}.arrow")
    joined: list[Segment] = []
    offset = 0
    with create_file(path) as stream:
        ordered = sorted(segments, key=attrgetter("bucket"))
        for bucket, parts in groupby(ordered, key=attrgetter("bucket")):
            for rows in _join_parts(parts, schema):
                message = rows.serialize()
                stream.write(message)
                joined.append(Segment(bucket, rows.num_rows, path, offset, message.size))
                offset += message.size
    FileSystems.delete(sorted({segment.path for segment in segments}))
    return joined


def _join_parts(parts: Iterable[Segment], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a bucket, a few megabytes at a time."""
    waiting: list[pa.RecordBatch] = []
    num_bytes = 0
    for part in parts:
        waiting.append(load_segment(part, schema))
        num_bytes += part.length
        if num_bytes >= JOINED_BYTES:
            yield pa.concat_batches(waiting)
            waiting, num_bytes = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def load_segment(segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
    """Read the rows of a segment."""
    message = read_part(segment.path, segment.offset, segment.length)
    return pa.ipc.read_record_batch(pa.py_buffer(message), schema)
