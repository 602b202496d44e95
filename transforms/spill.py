"""Write rows to temporary files ordered by bucket, and read them: the core of shuffle and sort."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.layout.sorting import order_by_bucket
from transforms.checksums import compute_checksum, read_intact
from transforms.elements import Segment
from transforms.storage.files import create_file, delete_files, new_path

# Size of a segment of joined files.
JOINED_BYTES = 8 * 2**20


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
            self.segments += write_segments(_order(batches, buckets), self._temp_folder)


def _order(
    batches: list[pa.RecordBatch], buckets: list[npt.NDArray[np.uint32]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (bucket, rows) in the order of buckets; the list of batches is emptied.

    Rows of one bucket, as those of one shard or in the order of the corpus, stay in pieces: to join
    a whole buffer takes as much memory again.
    """
    row_buckets = np.concatenate(buckets)
    only = int(row_buckets[0])
    if (row_buckets != only).any():
        yield from order_by_bucket(batches, buckets)
        return
    batches.reverse()
    drained = (batches.pop() for _ in range(len(batches)))
    yield from ((only, rows) for rows in join_small(drained, JOINED_BYTES))


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


def join_small(batches: Iterable[pa.RecordBatch], small: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, with small batches joined into larger ones.

    Args:
        batches: batches of one schema.
        small: size in bytes from which a batch is left as it is.
    """
    waiting: list[pa.RecordBatch] = []
    num_bytes = 0
    for batch in batches:
        waiting.append(batch)
        num_bytes += batch.nbytes
        if num_bytes >= small:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, num_bytes = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def load_segment(segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
    """Read the rows of a segment.

    Raises:
        UserError: its file is damaged.
    """
    # In another process Beam's type of an element has its fields alone.
    [message] = map(read_intact, Segment(*segment).parts)
    return pa.ipc.read_record_batch(pa.py_buffer(message), schema)
