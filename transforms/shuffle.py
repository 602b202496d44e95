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
from functools import partial

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import transforms.coders  # noqa: F401  registers those of the elements
from corpusmill.layout.placement import Layout, assign_splits
from transforms.elements import Segment
from transforms.recovery.journal import Journal, Output
from transforms.recovery.workplace import Workplace
from transforms.spill import Spill, join_files, load_segment
from transforms.storage.files import scratch_folder
from transforms.storage.parallel import map_ahead

KeyedSegment = tuple[int, Segment]

# The buffer of a task; ordering it takes three times as much.
BUFFER_BYTES = 32 * 2**20

# Segments smaller than this cost more to open than to read; then files are merged in two levels.
SMALLEST_SEGMENT_BYTES = 256 * 2**10

# What one call of the second level merges; its segments have a few megabytes then.
MERGE_BYTES = 4 * 2**30


def count_groups(layout: Layout, buffer_bytes: int) -> int:
    """Return the number of groups of homes on the first level of files.

    It is the number of shards where one level is enough.
    """
    return min(layout.shards, max(1, buffer_bytes // SMALLEST_SEGMENT_BYTES))


def assign_groups(
    homes: npt.NDArray[np.uint32], groups: int, shards: int
) -> npt.NDArray[np.uint32]:
    """Return the group of each home; neighboring homes share a group.

    Args:
        homes: uint32[n], homes below `shards`.
        groups: number of groups.
        shards: number of homes.

    Returns:
        uint32[n]: homes [0, 1, 2, 3] of 4 in 2 groups are in groups [0, 0, 1, 1].
    """
    return (homes.astype(np.uint64) * np.uint64(groups) // np.uint64(shards)).astype(np.uint32)


@dataclass(frozen=True)
class Routes:
    """How documents reach their shards.

    Attributes:
        layout: how the data set is spread over shards.
        validation_share: expected share of documents in the validation split.
        repeats: how many times each document is built.
        groups: number of groups of homes on the first of two levels of files; the number of shards
            where one level is enough.
        tasks_per_merge: number of tasks whose files one call of the second level merges.
        kind: part of the names of merges in the journal.
    """

    layout: Layout
    validation_share: float
    repeats: int
    groups: int
    tasks_per_merge: int = 1
    kind: str = ""

    @property
    def two_levels(self) -> bool:
        """Whether documents are first grouped by groups of homes."""
        return self.groups < self.layout.shards

    def homes(self, documents: pa.RecordBatch) -> npt.NDArray[np.uint32]:
        """Return the home of each document, uint32[documents]."""
        ids = documents.column("document").to_numpy()
        splits = assign_splits(self.layout.seed, ids, self.validation_share)
        return self.layout.homes(ids, splits)

    def buckets(self, documents: pa.RecordBatch) -> npt.NDArray[np.uint32]:
        """Return the bucket of each document on the first level of files, uint32[documents]."""
        homes = self.homes(documents)
        return assign_groups(homes, self.groups, self.layout.shards) if self.two_levels else homes

    def route(self, task: int, segments: Iterable[Segment]) -> Iterator[KeyedSegment]:
        """Key the segments of a task by merge where files have two levels, else by shard."""
        if not self.two_levels:
            yield from self.to_shards(segments)
            return
        for segment in segments:
            yield task // self.tasks_per_merge * self.groups + segment.bucket, segment

    def to_shards(self, segments: Iterable[Segment]) -> Iterator[KeyedSegment]:
        """Key each segment of a home by every shard that builds its documents."""
        for segment in segments:
            for shard in self.layout.shards_of(segment.bucket, self.repeats):
                yield shard, segment


def plan_routes(
    layout: Layout, validation_share: float, repeats: int, tasks: int, stored_bytes: int
) -> Routes:
    """Plan the routes of a data set.

    Args:
        layout: how it is spread over shards.
        validation_share: expected share of documents in the validation split.
        repeats: how many times each document is built.
        tasks: number of tasks of the input.
        stored_bytes: an estimate of the size of all documents as token ids.
    """
    groups = count_groups(layout, BUFFER_BYTES)
    merges = max(1, -(-stored_bytes // (groups * MERGE_BYTES)))
    return Routes(layout, validation_share, repeats, groups, max(1, -(-tasks // merges)))


class MergeDoFn(beam.DoFn):
    """The second level: write the documents of a group of homes to a file ordered by home."""

    def __init__(self, routes: Routes, place: Workplace, schema: pa.Schema) -> None:
        self._routes, self._place, self._schema = routes, place, schema

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[KeyedSegment]:
        """Merge (merge, segments), unless the journal says that it is finished."""
        merge, segments = element
        journal = Journal(self._place)
        name = f"merge-{self._routes.kind}{merge}"
        outputs, _ = journal.once(name, lambda: self._merge(segments))
        yield from self._routes.to_shards(segment for _, segment in outputs)

    def _merge(self, segments: Iterable[Segment]) -> Iterator[Output]:
        with scratch_folder(self._place.temp_folder) as scratch:
            spill = Spill(scratch, BUFFER_BYTES)
            for documents in map_ahead(partial(load_segment, schema=self._schema), segments):
                spill.add(documents, self._routes.homes(documents))
            spill.write()
            merged = join_files(spill.segments, self._place.temp_folder, self._schema)
        yield from (("", segment) for segment in merged)


def merge_segments(
    segments: beam.PCollection[KeyedSegment], routes: Routes, place: Workplace, schema: pa.Schema
) -> beam.PCollection[KeyedSegment]:
    """Merge segments that `Routes.route` has keyed, where files have two levels.

    Args:
        segments: those of all tasks.
        routes: how their rows reach their shards.
        place: where the run works.
        schema: of the rows.

    Returns:
        The segments keyed by shard.
    """
    if not routes.two_levels:
        return segments
    merge = MergeDoFn(routes, place, schema)
    return (
        segments
        | "GatherMerges" >> beam.GroupByKey()
        | "MergeGroup" >> beam.ParDo(merge).with_output_types(KeyedSegment)
    )


class GatherShards(beam.PTransform):
    """Group the segments of each shard; a shard without documents has a group, too.

    Args:
        routes: how documents reach their shards.
        place: where the run works.
        schema: schema of the documents (`corpusmill.tokenization.encoding.tokenized_schema`).
    """

    def __init__(self, routes: Routes, place: Workplace, schema: pa.Schema) -> None:
        super().__init__()
        self._routes, self._place, self._schema = routes, place, schema

    def expand(
        self, segments: beam.PCollection[KeyedSegment]
    ) -> beam.PCollection[tuple[int, Iterable[Segment]]]:
        """Use one level of files, or two where segments would be too small to read."""
        segments = merge_segments(segments, self._routes, self._place, self._schema)
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
        """Show how the documents are spread."""
        return {"shards": self._routes.layout.shards, "repeats": self._routes.repeats}


def _empty_segments(shards: int) -> Iterator[KeyedSegment]:
    for shard in range(shards):
        yield shard, Segment(shard, 0, "", 0, 0, 0)
