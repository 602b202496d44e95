"""Bring each document to the shards that build it.

Documents travel as token ids, once for all repeats, and not as examples, which take ten times as
much room: a document has a *home*, and a shard builds the documents of some homes, each with some
repeats (`corpusmill.layout.placement.Layout`).

The documents go through files, and the engine carries only references to them, as (shard,
segments). Documents that the engine carried itself took 8 times as long and 30 times the memory on
Prism, and a bundle of more than 1.1 GB of them hung a TaskManager of Flink.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
import pyarrow as pa

from corpusmill.layout.placement import Layout, assign_splits
from transforms.elements import Segment
from transforms.recovery.journal import Journal, Output
from transforms.spill import Spill, join_files, load_segment
from transforms.storage.files import scratch_folder
from transforms.storage.parallel import map_ahead

KeyedSegment = tuple[int, Segment]

# A task's buffer; ordering it takes three times as much.
BUFFER_BYTES = 32 * 2**20

# Segments smaller than this cost more to open than to read; then files are merged in two levels.
SMALLEST_SEGMENT_BYTES = 256 * 2**10

# What one call of the second level merges; its segments are a few MB then.
MERGE_BYTES = 4 * 2**30


def cut_groups(layout: Layout, buffer_bytes: int) -> int:
    """Groups of homes of the first level of files; as many as homes where one level is enough."""
    return min(layout.shards, max(1, buffer_bytes // SMALLEST_SEGMENT_BYTES))


def group_of(homes: np.ndarray, groups: int, of: int) -> np.ndarray:
    """uint32[documents]: the group of each of `of` homes; neighbours share one."""
    return (homes.astype(np.uint64) * np.uint64(groups) // np.uint64(of)).astype(np.uint32)


@dataclass(frozen=True)
class Routes:
    """How documents reach their shards.

    Attributes:
        layout: how the data set is spread.
        validation_share: expected share of documents in the validation split.
        repeats: how many times each document is built.
        groups: of homes, on the first of two levels of files; as many as homes where one level is
            enough.
        tasks_a_merge: tasks whose files one call of the second level merges.
    """

    layout: Layout
    validation_share: float
    repeats: int
    groups: int
    tasks_a_merge: int = 1

    @property
    def two_levels(self) -> bool:
        """Whether groups of homes come first."""
        return self.groups < self.layout.shards

    def homes(self, documents: pa.RecordBatch) -> np.ndarray:
        """uint32[documents]: the home of each."""
        ids = documents.column("document").to_numpy()
        splits = assign_splits(self.layout.seed, ids, self.validation_share)
        return self.layout.homes(ids, splits)

    def buckets(self, documents: pa.RecordBatch) -> np.ndarray:
        """uint32[documents]: what the first level's files are ordered by."""
        homes = self.homes(documents)
        return group_of(homes, self.groups, self.layout.shards) if self.two_levels else homes

    def send(self, task: int, segments: Iterable[Segment]) -> Iterator[KeyedSegment]:
        """Key what a task wrote: by merge where files have two levels, else by shard."""
        if self.two_levels:
            return self.to_merges(task, segments)
        return self.to_shards(segments)

    def to_merges(self, task: int, segments: Iterable[Segment]) -> Iterator[KeyedSegment]:
        """Each segment of a task with the number of the merge that takes it."""
        for segment in segments:
            yield task // self.tasks_a_merge * self.groups + segment.bucket, segment

    def to_shards(self, segments: Iterable[Segment]) -> Iterator[KeyedSegment]:
        """Each segment of a home, with every shard that builds its documents."""
        for segment in segments:
            for shard in self.layout.shards_of(segment.bucket, self.repeats):
                yield shard, segment


def plan_routes(
    layout: Layout, validation_share: float, repeats: int, tasks: int, stored_bytes: int
) -> Routes:
    """The routes of a data set.

    Args:
        layout: how it is spread.
        validation_share: expected share of documents in the validation split.
        repeats: how many times each document is built.
        tasks: that the input is cut into.
        stored_bytes: an estimate of all documents' bytes as token ids.
    """
    groups = cut_groups(layout, BUFFER_BYTES)
    merges = max(1, -(-stored_bytes // (groups * MERGE_BYTES)))
    return Routes(layout, validation_share, repeats, groups, max(1, -(-tasks // merges)))


class _MergeGroup(beam.DoFn):
    """The second level: the documents of a group of homes to files ordered by home."""

    def __init__(self, routes: Routes, temp_folder: str, schema: pa.Schema) -> None:
        self._routes, self._temp_folder, self._schema = routes, temp_folder, schema

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[KeyedSegment]:
        merge, segments = element
        journal = Journal(self._temp_folder)
        outputs, _ = journal.once(f"merge-{merge}", lambda: self._merge(segments))
        yield from self._routes.to_shards(segment for _, segment in outputs)

    def _merge(self, segments: Iterable[Segment]) -> Iterator[Output]:
        with scratch_folder(self._temp_folder) as scratch:
            spill = Spill(scratch, BUFFER_BYTES)
            for documents in map_ahead(self._load, segments):
                spill.add(documents, self._routes.homes(documents))
            spill.write()
            merged = join_files(spill.segments, self._temp_folder, self._schema)
        yield from (("", segment) for segment in merged)

    def _load(self, segment: Segment) -> pa.RecordBatch:
        return load_segment(segment, self._schema)


class GatherShards(beam.PTransform):
    """Bring together what each shard builds; also a shard without any document has a group.

    Args:
        routes: how documents reach their shards.
        temp_folder: a folder that every worker reaches.
        schema: of the documents (`corpusmill.tokenization.encoding.tokenized_schema`).
    """

    def __init__(self, routes: Routes, temp_folder: str, schema: pa.Schema) -> None:
        super().__init__()
        self._routes, self._temp_folder, self._schema = routes, temp_folder, schema

    def expand(
        self, segments: beam.PCollection[KeyedSegment]
    ) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
        """One level of files, or two where segments would be too small to read."""
        if self._routes.two_levels:
            merge = _MergeGroup(self._routes, self._temp_folder, self._schema)
            segments = (
                segments
                | "GatherMerges" >> beam.GroupByKey()
                | "MergeGroup" >> beam.ParDo(merge).with_output_types(KeyedSegment)
            )
        shards = segments.pipeline | "CountShards" >> beam.Create(
            [self._routes.layout.shards]
        ).with_output_types(int)
        empty = shards | "CreateEmptySegments" >> beam.FlatMap(_empty_segments).with_output_types(
            KeyedSegment
        )
        return (
            (segments, empty)
            | "JoinSegments" >> beam.Flatten()
            | "GatherShards" >> beam.GroupByKey()
        )

    def display_data(self) -> dict[str, int]:
        """How the documents are spread."""
        return {"shards": self._routes.layout.shards, "repeats": self._routes.repeats}


def _empty_segments(shards: int) -> Iterator[KeyedSegment]:
    for shard in range(shards):
        yield shard, Segment(shard, 0, "", 0, 0)
