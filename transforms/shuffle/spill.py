"""Rows in temporary files, ordered by bucket or sorted by key, in bounded memory."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.ragged import RowBuffer, take_rows
from corpusmill.dataset.ownership import delete_temporary
from corpusmill.knobs import knob
from corpusmill.layout.sorting import join_small, order_by_bucket, sort_rows
from transforms.elements import Segment
from transforms.storage.checksums import compute_checksum, read_intact
from transforms.storage.file_systems import split_path
from transforms.storage.files import create_file, locate, new_path

JOINED_BYTES = knob("joined_bytes", 8 * 2**20, test=1000)
"""The rows of one bucket that become one segment."""
SORT_FILE_BYTES = knob("sort_file_bytes", 96 * 2**20, test=5000)
"""The rows of a file of a shard, where it is foreseen that the shard does not fit into memory."""


class Spill:
    """Buffers rows and writes each full buffer as one file, ordered by bucket.

    Args:
        temp_folder: folder of the files.
        buffer_bytes: the rows that are held; to order a full buffer takes twice its size.

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
            ordered = _order_rows(batches, buckets)
            self.segments += write_segments(ordered, self._temp_folder)


def _order_rows(
    batches: list[pa.RecordBatch], buckets: list[npt.NDArray[np.uint32]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (bucket, its rows) as `order_by_bucket`.

    The rows of an only bucket, as of one shard or in the order of the corpus, come in pieces of
    about `JOINED_BYTES`: to join them all takes as much memory again.
    """
    first = int(buckets[0][0]) if len(buckets[0]) else 0
    if not all((part == first).all() for part in buckets):
        yield from order_by_bucket(batches, buckets)
        return
    batches.reverse()
    drained = (batches.pop() for _ in range(len(batches)))
    yield from ((first, rows) for rows in join_small(drained, JOINED_BYTES))


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
    _delete(segments, temp_folder)
    return joined


def _delete(segments: Iterable[Segment], temp_folder: str) -> None:
    """Delete the files of segments that are joined."""
    names = sorted({split_path(segment.path)[1] for segment in segments})
    delete_temporary(locate(temp_folder), names)


def load_segment(segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
    """Read the rows of a segment.

    Raises:
        UserError: its file is damaged.
    """
    # In another process Beam's type of an element has its fields alone.
    [message] = map(read_intact, Segment(*segment).parts)
    return pa.ipc.read_record_batch(pa.py_buffer(message), schema)


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
        sort_bytes: the rows that are sorted in memory.
    """

    def __init__(self, rows: RowBuffer, temp_folder: str, sort_bytes: int) -> None:
        self._rows, self._temp_folder, self._sort_bytes = rows, temp_folder, sort_bytes
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
        is_large = bool(self._segments) or size > share * self._sort_bytes
        if size >= self._sort_bytes or (is_large and size >= SORT_FILE_BYTES):
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
            buckets = [keys.astype(np.uint32)]
            self._segments += write_segments(_order_rows([buffered], buckets), self._temp_folder)
        self._rows.clear()

    def _merge(self, rows: int) -> Iterator[pa.RecordBatch]:
        segments = sorted(self._segments, key=attrgetter("bucket"))
        for _, parts in groupby(segments, key=attrgetter("bucket")):
            yield from sort_rows([load_segment(part, self._rows.schema) for part in parts], rows)
        _delete(segments, self._temp_folder)


ORDERED_PART_BYTES = knob("ordered_part_bytes", 2**18, test=500)
"""What is in memory of each of the files of rows that are merged, where they are put in order."""
KeysOf = Callable[[pa.RecordBatch], Sequence[Any]]


def put_in_order(
    batches: Iterable[pa.RecordBatch], keys_of: KeysOf, temp_folder: str, sort_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows in ascending order.

    More than fit into memory are ordered in parts, which become files that are merged.

    Args:
        batches: the rows.
        keys_of: returns for each row by what it is ordered; no two rows have the same.
        temp_folder: folder of the files.
        sort_bytes: the rows that are ordered in memory, which takes twice as much.
    """
    files, joined = list[list[Segment]](), join_small(batches, sort_bytes)
    rows, following = next(joined, None), next(joined, None)
    if following is None:
        yield from () if rows is None else _sort(rows, keys_of)
        return
    while rows is not None:
        ordered = ((0, part) for part in _sort(rows, keys_of))
        files.append(write_segments(ordered, temp_folder))
        schema, rows, following = rows.schema, following, next(joined, None)

    def load(segments: Iterable[Segment]) -> Iterator[tuple[Any, float, pa.RecordBatch, int]]:
        for segment in segments:
            rows = load_segment(segment, schema)
            weight = rows.nbytes / rows.num_rows
            yield from ((key, weight, rows, place) for place, key in enumerate(keys_of(rows)))

    chosen, size = list[tuple[pa.RecordBatch, int]](), 0.0
    for _, weight, rows, place in heapq.merge(*map(load, files), key=itemgetter(0)):
        chosen.append((rows, place))
        size += weight
        if size >= JOINED_BYTES:
            yield _take_from_all(chosen)
            chosen, size = [], 0.0
    if chosen:
        yield _take_from_all(chosen)


def _take_from_all(chosen: Sequence[tuple[pa.RecordBatch, int]]) -> pa.RecordBatch:
    """Return rows of several batches, each named by its batch and its place there."""
    batches = {id(rows): rows for rows, _ in chosen}
    begins = accumulate((rows.num_rows for rows in batches.values()), initial=0)
    begin_of = dict(zip(batches, begins, strict=False))
    places = np.array([begin_of[id(rows)] + place for rows, place in chosen], np.int64)
    return take_rows(pa.concat_batches([*batches.values()]), places)


def _sort(rows: pa.RecordBatch, keys_of: KeysOf) -> Iterator[pa.RecordBatch]:
    keys = keys_of(rows)
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    parts = np.array_split(order, 1 + rows.nbytes // ORDERED_PART_BYTES)
    yield from (take_rows(rows, part) for part in parts if len(part))
