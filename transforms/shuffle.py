"""Every document to the shards that build it: through files, or through the engine.

Documents travel as token ids, once for all repeats, and not as examples, which take ten times as
much room: a document has a *home*, and a shard builds the documents of some homes, each with some
repeats (`corpusmill.placement.Layout`).

Both ways give (shard, segments), and the same documents for each; which one is quicker depends on
the engine.
"""

from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from corpusmill.placement import Layout, assign_splits
from transforms.elements import Segment, in_global_window
from transforms.spill import Buffer, Spill, load_segment

KeyedSegment = tuple[int, Segment]

# A task's buffer; ordering it takes three times as much.
BUFFER_BYTES = 32 * 2**20

# Segments smaller than this cost more to open than to read; then files are merged in two levels.
SMALLEST_SEGMENT_BYTES = 256 * 2**10

# One message through the engine.
_MESSAGE_BYTES = 2**20


def cut_groups(layout: Layout, buffer_bytes: int) -> int:
    """Groups of homes of the first level of files; as many as homes where one level is enough."""
    return min(layout.shards, max(1, buffer_bytes // SMALLEST_SEGMENT_BYTES))


def group_of(homes: np.ndarray, groups: int, of: int) -> np.ndarray:
    """uint32[documents]: the group of each of `of` homes; neighbours share one."""
    return (homes.astype(np.uint64) * np.uint64(groups) // np.uint64(of)).astype(np.uint32)


class _PlaceDocuments(beam.DoFn):
    """What both ways begin with: the home of each document; and end with: the shards of a home."""

    def __init__(self, layout: Layout, validation_share: float, repeats: int) -> None:
        self._layout, self._share, self._repeats = layout, validation_share, repeats

    def homes(self, documents: pa.RecordBatch) -> np.ndarray:
        ids = documents.column("document").to_numpy()
        return self._layout.homes(ids, assign_splits(self._layout.seed, ids, self._share))

    def to_shards(self, segments: Iterable[Segment]) -> Iterator[KeyedSegment]:
        for segment in segments:
            for shard in self._layout.shards_of(segment.bucket, self._repeats):
                yield shard, segment


class _SpillDocuments(_PlaceDocuments):
    """Documents to files; (shard, segment) or, with two levels, (group, segment of the group)."""

    def __init__(
        self,
        layout: Layout,
        validation_share: float,
        repeats: int,
        temp_folder: str,
        buffer_bytes: int,
    ) -> None:
        super().__init__(layout, validation_share, repeats)
        self._temp_folder, self._buffer_bytes = temp_folder, buffer_bytes
        self._groups = cut_groups(layout, buffer_bytes)

    def start_bundle(self) -> None:
        self._spill = Spill(self._temp_folder, self._buffer_bytes)

    def process(self, element: pa.RecordBatch) -> None:
        homes = self.homes(element)
        if self._groups < self._layout.shards:
            homes = group_of(homes, self._groups, self._layout.shards)
        self._spill.add(element, homes)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        self._spill.write()
        if self._groups < self._layout.shards:
            yield from in_global_window((part.bucket, part) for part in self._spill.segments)
        else:
            yield from in_global_window(self.to_shards(self._spill.segments))


class _MergeGroup(_PlaceDocuments):
    """The second level: the documents of a group of homes to files ordered by home."""

    def __init__(
        self,
        layout: Layout,
        validation_share: float,
        repeats: int,
        temp_folder: str,
        buffer_bytes: int,
        schema: pa.Schema,
    ) -> None:
        super().__init__(layout, validation_share, repeats)
        self._temp_folder, self._buffer_bytes, self._schema = temp_folder, buffer_bytes, schema

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[KeyedSegment]:
        spill = Spill(self._temp_folder, self._buffer_bytes)
        for segment in element[1]:
            documents = load_segment(segment, self._schema)
            spill.add(documents, self.homes(documents))
        spill.write()
        yield from self.to_shards(spill.segments)


class _SendDocuments(_PlaceDocuments):
    """Documents to messages of about 1 MB that travel through the engine."""

    def start_bundle(self) -> None:
        self._buffer = Buffer()

    def process(self, element: pa.RecordBatch) -> Iterator[KeyedSegment]:
        self._buffer.add(element, self.homes(element))
        if self._buffer.bytes >= min(_MESSAGE_BYTES * self._layout.shards, BUFFER_BYTES):
            yield from self._drain()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from in_global_window(self._drain())

    def _drain(self) -> Iterator[KeyedSegment]:
        for home, documents in self._buffer.drain():
            message = documents.serialize().to_pybytes()
            segment = Segment(home, documents.num_rows, "", 0, len(message), message)
            yield from self.to_shards([segment])


class _Shuffle(beam.PTransform):
    """What both ways end with: every shard has a group, also one without any document."""

    def __init__(self, layout: Layout, validation_share: float, repeats: int) -> None:
        super().__init__()
        self._layout, self._share, self._repeats = layout, validation_share, repeats

    def gather(
        self, segments: beam.PCollection[KeyedSegment]
    ) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
        nothing = [
            (shard, Segment(shard, 0, "", 0, 0, b"")) for shard in range(self._layout.shards)
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
        """How the documents are spread."""
        return {"shards": self._layout.shards, "repeats": self._repeats}


class ShuffleByFiles(_Shuffle):
    """Spill documents to files under a temporary folder, and shuffle references.

    Args:
        layout: how the data set is spread.
        validation_share: expected share of documents in the validation split.
        repeats: how many times each document is built.
        temp_folder: a folder that every worker reaches.
        schema: of the documents (`corpusmill.tokenization.encoding.tokenized_schema`).
        buffer_bytes: what a task holds before it writes a file.
    """

    def __init__(
        self,
        layout: Layout,
        validation_share: float,
        repeats: int,
        temp_folder: str,
        schema: pa.Schema,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        super().__init__(layout, validation_share, repeats)
        self._temp_folder, self._schema, self._buffer_bytes = temp_folder, schema, buffer_bytes

    def expand(
        self, documents: beam.PCollection[pa.RecordBatch]
    ) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
        """One level of files, or two where segments would be too small to read."""
        place = (self._layout, self._share, self._repeats, self._temp_folder, self._buffer_bytes)
        segments = documents | "SpillDocuments" >> beam.ParDo(
            _SpillDocuments(*place)
        ).with_output_types(tuple[int, Segment])
        if cut_groups(self._layout, self._buffer_bytes) < self._layout.shards:
            merge = _MergeGroup(*place, self._schema)
            segments = (
                segments
                | "GatherGroups" >> beam.GroupByKey()
                | "MergeGroup" >> beam.ParDo(merge).with_output_types(tuple[int, Segment])
            )
        return self.gather(segments)


class ShuffleByEngine(_Shuffle):
    """Send documents through the engine's own shuffle, as messages of about 1 MB."""

    def expand(
        self, documents: beam.PCollection[pa.RecordBatch]
    ) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
        """One DoFn in the stage of its input."""
        send = _SendDocuments(self._layout, self._share, self._repeats)
        return self.gather(
            documents | "SendDocuments" >> beam.ParDo(send).with_output_types(tuple[int, Segment])
        )
