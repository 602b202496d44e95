"""Every example to its shard: through files, or through the engine.

Both ways give (shard, segments), and the same rows for each; which one is quicker depends on the
engine.
"""

from collections.abc import Iterable, Iterator
from uuid import uuid4

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from corpusmill.placement import assign_splits
from corpusmill.spill import Layout, add_keys, order_by_bucket
from transforms.elements import Segment
from transforms.read import create_file, open_file

KeyedSegment = tuple[int, Segment]

# A task's buffer. Its rows are copied twice while it is ordered, so a task needs three times as
# much.
BUFFER_BYTES = 64 * 2**20

# Segments smaller than this cost more to open than to read; then files are merged in two levels.
SMALLEST_SEGMENT_BYTES = 256 * 2**10

# One message through the engine.
_MESSAGE_BYTES = 2**20


def cut_groups(layout: Layout, buffer_bytes: int = BUFFER_BYTES) -> int:
    """Groups of buckets of the first level of files; as many as buckets where one is enough."""
    most = max(1, buffer_bytes // SMALLEST_SEGMENT_BYTES)
    return min(layout.shards * layout.slices, most)


class _Buffer:
    """Rows of a task with their buckets, until there are enough to be ordered."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.buckets: list[np.ndarray] = []
        self.bytes = 0

    def add(self, batch: pa.RecordBatch, buckets: np.ndarray) -> None:
        self.batches.append(batch)
        self.buckets.append(buckets)
        self.bytes += batch.nbytes

    def drain(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        batches, buckets = self.batches, self.buckets
        self.batches, self.buckets, self.bytes = [], [], 0
        if batches:
            yield from order_by_bucket(batches, buckets)


class _Spill:
    """Buffers rows and writes each full buffer as one file, ordered by bucket."""

    def __init__(self, temp_folder: str, buffer_bytes: int) -> None:
        self._temp_folder, self._buffer_bytes = temp_folder, buffer_bytes
        self._buffer = _Buffer()
        self.segments: list[tuple[int, Segment]] = []

    def add(self, batch: pa.RecordBatch, buckets: np.ndarray) -> None:
        self._buffer.add(batch, buckets)
        if self._buffer.bytes >= self._buffer_bytes:
            self.write()

    def write(self) -> None:
        """Write what is buffered; each bucket's segment is added to `segments`."""
        if not self._buffer.batches:
            return
        path = FileSystems.join(self._temp_folder, f"spill-{uuid4().hex}.arrow")
        offset = 0
        with create_file(path) as stream:
            for bucket, rows in self._buffer.drain():
                message = rows.serialize()
                stream.write(message)
                self.segments.append(
                    (bucket, Segment(0, 0, rows.num_rows, path, offset, message.size, b""))
                )
                offset += message.size


class _PlaceExamples(beam.DoFn):
    """What both ways begin with: the bucket and the key of each example."""

    def __init__(self, layout: Layout, validation_share: float) -> None:
        self._layout, self._share = layout, validation_share

    def place(self, examples: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        documents = examples.column("document").to_numpy()
        splits = assign_splits(self._layout.seed, documents, self._share)
        buckets, keys = self._layout.buckets(examples, splits)
        return add_keys(examples, keys), buckets

    def keyed(self, bucket: int, segment: Segment) -> KeyedSegment:
        shard, piece = divmod(bucket, self._layout.slices)
        return shard, segment._replace(shard=shard, slice=piece)


class _SpillExamples(_PlaceExamples):
    """Examples to files; (shard, segment) or, with two levels, (group, segment of the group)."""

    def __init__(
        self,
        layout: Layout,
        validation_share: float,
        temp_folder: str,
        groups: int,
        buffer_bytes: int,
    ) -> None:
        super().__init__(layout, validation_share)
        self._temp_folder, self._groups, self._buffer_bytes = temp_folder, groups, buffer_bytes
        self._two_levels = groups < layout.shards * layout.slices

    def start_bundle(self) -> None:
        self._spill = _Spill(self._temp_folder, self._buffer_bytes)

    def process(self, element: pa.RecordBatch) -> None:
        rows, buckets = self.place(element)
        if self._two_levels:
            buckets = group_of(buckets, self._groups, self._layout.shards * self._layout.slices)
        self._spill.add(rows, buckets)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        self._spill.write()
        window = GlobalWindow()
        for bucket, segment in self._spill.segments:
            keyed = (bucket, segment) if self._two_levels else self.keyed(bucket, segment)
            yield WindowedValue(keyed, window.max_timestamp(), (window,))


def group_of(buckets: np.ndarray, groups: int, of: int) -> np.ndarray:
    """uint32[rows]: the group of each of `of` buckets; neighbours share one."""
    return (buckets.astype(np.uint64) * np.uint64(groups) // np.uint64(of)).astype(np.uint32)


class _MergeGroup(_PlaceExamples):
    """The second level: the rows of a group of buckets to files ordered by bucket."""

    def __init__(
        self,
        layout: Layout,
        validation_share: float,
        temp_folder: str,
        schema: pa.Schema,
        buffer_bytes: int,
    ) -> None:
        super().__init__(layout, validation_share)
        self._temp_folder, self._schema, self._buffer_bytes = temp_folder, schema, buffer_bytes

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[KeyedSegment]:
        spill = _Spill(self._temp_folder, self._buffer_bytes)
        for segment in element[1]:
            rows = load_segment(segment, self._schema)
            documents = rows.column("document").to_numpy()
            splits = assign_splits(self._layout.seed, documents, self._share)
            spill.add(rows, self._layout.buckets(rows, splits)[0])
        spill.write()
        for bucket, merged in spill.segments:
            yield self.keyed(bucket, merged)


def load_segment(segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a segment, from its file or from itself."""
    message = segment.data
    if segment.path:
        with open_file(segment.path) as stream:
            stream.seek(segment.offset)
            message = stream.read(segment.length)
    return pa.ipc.read_record_batch(pa.py_buffer(message), schema)


class _SliceExamples(_PlaceExamples):
    """Examples to messages of about 1 MB that travel through the engine."""

    def start_bundle(self) -> None:
        self._buffer = _Buffer()

    def process(self, element: pa.RecordBatch) -> Iterator[KeyedSegment]:
        self._buffer.add(*self.place(element))
        full = _MESSAGE_BYTES * self._layout.shards * self._layout.slices
        if self._buffer.bytes >= min(full, BUFFER_BYTES):
            yield from self._drain()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window = GlobalWindow()
        for keyed in self._drain():
            yield WindowedValue(keyed, window.max_timestamp(), (window,))

    def _drain(self) -> Iterator[KeyedSegment]:
        for bucket, rows in self._buffer.drain():
            message = rows.serialize().to_pybytes()
            yield self.keyed(bucket, Segment(0, 0, rows.num_rows, "", 0, len(message), message))


class _Shuffle(beam.PTransform):
    """What both ways end with: every shard has a group, also one without any row."""

    def __init__(self, layout: Layout, validation_share: float) -> None:
        super().__init__()
        self._layout, self._share = layout, validation_share

    def gather(
        self, segments: beam.PCollection[KeyedSegment]
    ) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
        nothing = [
            (shard, Segment(shard, 0, 0, "", 0, 0, b"")) for shard in range(self._layout.shards)
        ]
        empty = segments.pipeline | "CreateEmptySegments" >> beam.Create(nothing).with_output_types(
            tuple[int, Segment]
        )
        return (
            (segments, empty)
            | "JoinSegments" >> beam.Flatten()
            | "GatherShards" >> beam.GroupByKey()
        )

    def display_data(self) -> dict[str, int]:
        """How the examples are spread."""
        return {"shards": self._layout.shards, "slices": self._layout.slices}


class ShuffleByFiles(_Shuffle):
    """Spill examples to files under a temporary folder, and shuffle references.

    Args:
        layout: how the examples are spread.
        validation_share: expected share of documents in the validation split.
        temp_folder: a folder that every worker reaches.
        schema: of the rows (`corpusmill.spill.transit_schema`).
        buffer_bytes: what a task holds before it writes a file.
    """

    def __init__(
        self,
        layout: Layout,
        validation_share: float,
        temp_folder: str,
        schema: pa.Schema,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        super().__init__(layout, validation_share)
        self._temp_folder, self._schema, self._buffer_bytes = temp_folder, schema, buffer_bytes

    def expand(
        self, examples: beam.PCollection[pa.RecordBatch]
    ) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
        """One level of files, or two where segments would be too small to read."""
        groups = cut_groups(self._layout, self._buffer_bytes)
        spill = _SpillExamples(
            self._layout, self._share, self._temp_folder, groups, self._buffer_bytes
        )
        segments = examples | "SpillExamples" >> beam.ParDo(spill).with_output_types(
            tuple[int, Segment]
        )
        if groups < self._layout.shards * self._layout.slices:
            merge = _MergeGroup(
                self._layout, self._share, self._temp_folder, self._schema, self._buffer_bytes
            )
            segments = (
                segments
                | "GatherGroups" >> beam.GroupByKey()
                | "MergeGroup" >> beam.ParDo(merge).with_output_types(tuple[int, Segment])
            )
        return self.gather(segments)


class ShuffleByEngine(_Shuffle):
    """Send examples through the engine's own shuffle, as messages of about 1 MB."""

    def expand(
        self, examples: beam.PCollection[pa.RecordBatch]
    ) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
        """One DoFn in the stage of its input."""
        slices = _SliceExamples(self._layout, self._share)
        return self.gather(
            examples | "SliceExamples" >> beam.ParDo(slices).with_output_types(tuple[int, Segment])
        )
