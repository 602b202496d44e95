"""Write rows to temporary files ordered by bucket, and read them: the core of shuffle and sort."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.layout.sorting import JOINED_BYTES, join_small, order_by_bucket
from transforms.checksums import compute_checksum, read_intact
from transforms.elements import Segment
from transforms.storage.files import create_file, delete_files, new_path


class Spill:
    """Buffers rows and writes each full buffer as one file, ordered by bucket.

    Args:
        temp_folder: folder of the files.
        buffer_bytes: size of a full buffer; ordering takes twice as much.

    Attributes:
        batches: the rows that have not been written.
        segments: the rows that have been written.
    """

    def __init__(self, temp_folder: str, buffer_bytes: int) -> None:
        self._temp_folder, self._buffer_bytes = temp_folder, buffer_bytes
        self.batches: list[pa.RecordBatch] = []
        self.segments: list[Segment] = []
        self._buckets: list[npt.NDArray[np.uint32]] = []
        self._bytes = 0

    def add(self, batch: pa.RecordBatch, buckets: npt.NDArray[np.uint32]) -> None:
        """Add rows.

        Args:
            batch: rows of the same schema as all others.
            buckets: uint32[rows], the bucket of each row.
        """
        self.batches.append(batch)
        self._buckets.append(buckets)
        self._bytes += batch.nbytes
        if self._bytes >= self._buffer_bytes:
            self.write()

    def write(self) -> None:
        """Write the buffered rows, and add a segment for each of their buckets to `segments`."""
        batches, buckets = self.batches, self._buckets
        self.batches, self._buckets, self._bytes = [], [], 0
        if batches:
            ordered = order_by_bucket(batches, buckets)
            self.segments += write_segments(ordered, self._temp_folder)


def write_segments(
    ordered: Iterable[tuple[int, pa.RecordBatch]], temp_folder: str
) -> list[Segment]:
    """Write rows to one new file.

    Args:
        ordered: (bucket, rows), a segment each.
        temp_folder: folder of the file.
    """
    path = new_path(temp_folder, "spill", ".arrow")
    segments: list[Segment] = []
    offset = 0
    with create_file(path) as stream:
        for bucket, rows in ordered:
            message = rows.serialize()
            stream.write(message)
            checksum = compute_checksum(message)
            segments.append(Segment(bucket, rows.num_rows, path, offset, message.size, checksum))
            offset += message.size
    return segments


def join_files(segments: list[Segment], temp_folder: str, schema: pa.Schema) -> list[Segment]:
    """Join files ordered by bucket into one such file, and remove them.

    Many buckets cut a buffer into pieces too small to be read from an object store.

    Args:
        segments: the segments of the files.
        temp_folder: folder of the joined file.
        schema: schema of the rows.

    Returns:
        The segments of the joined file.
    """
    ordered = sorted(segments, key=attrgetter("bucket"))
    joined = write_segments(
        (
            (bucket, rows)
            for bucket, parts in groupby(ordered, key=attrgetter("bucket"))
            for rows in join_small((load_segment(part, schema) for part in parts), JOINED_BYTES)
        ),
        temp_folder,
    )
    delete_files(sorted({segment.path for segment in segments}))
    return joined


def load_segment(segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
    """Read the rows of a segment.

    Raises:
        UserError: its file is damaged.
    """
    # In another process Beam's type of an element has its fields alone.
    [message] = map(read_intact, Segment(*segment).parts)
    return pa.ipc.read_record_batch(pa.py_buffer(message), schema)
