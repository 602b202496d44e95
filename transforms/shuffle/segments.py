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
from operator import attrgetter

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import transforms.coders  # noqa: F401  registers those of the elements
from corpusmill.knobs import knob
from corpusmill.layout.groups import drawn_ids
from corpusmill.layout.placement import Layout, assign_splits
from corpusmill.layout.sorting import join_small
from transforms.elements import Segment
from transforms.recovery import Journal, Output, Workplace
from transforms.shuffle.spill import JOINED_BYTES, Spill, join_files, load_segment, write_segments
from transforms.storage.files import map_ahead, scratch_folder
from transforms.task_sizes import TaskSizes

KeyedSegment = tuple[int, Segment]

SMALLEST_SEGMENT_BYTES = knob("smallest_segment_bytes", 256 * 2**10, test=2000)
"""Buckets of a full buffer that would be smaller are joined, and merged files divide them."""


def count_groups(layout: Layout, sizes: TaskSizes) -> int:
    """Return the number of groups of homes on the first level of files.

    It is the number of shards where one level is enough.
    """
    return min(layout.shards, max(1, sizes.buffer_bytes // SMALLEST_SEGMENT_BYTES))


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
        groups: number of groups of homes in the files that tasks write; the number of shards where
            each home is a group.
        merges: number of tasks whose files one merge takes in, on each level of merges, each a
            multiple of the one before; empty where shards read what tasks wrote. On the last level
            files are ordered by home; those below it join the documents of a group, which has too
            many references for one merge.
        kind: part of the names of merges in the journal.
    """

    layout: Layout
    validation_share: float
    repeats: int
    groups: int
    merges: tuple[int, ...] = ()
    kind: str = ""

    def homes(self, documents: pa.RecordBatch) -> npt.NDArray[np.uint32]:
        """Return the home of each document, uint32[documents]."""
        ids = drawn_ids(documents)
        splits = assign_splits(self.layout.seed, ids, self.validation_share)
        return self.layout.homes(ids, splits)

    def buckets(self, documents: pa.RecordBatch) -> npt.NDArray[np.uint32]:
        """Return the bucket of each document in the files that tasks write, uint32[documents]."""
        return assign_groups(self.homes(documents), self.groups, self.layout.shards)

    def route(self, task: int, segments: Iterable[Segment]) -> Iterator[KeyedSegment]:
        """Key the segments of a task by merge of the first level, else by shard."""
        if not self.merges:
            yield from self.to_shards(segments)
            return
        for segment in segments:
            yield task // self.merges[0] * self.groups + segment.bucket, segment

    def route_on(
        self, level: int, merge: int, segments: Iterable[Segment]
    ) -> Iterator[KeyedSegment]:
        """Key what a merge of a level has written by merge of the next one."""
        first_task = merge // self.groups * self.merges[level]
        for segment in segments:
            yield first_task // self.merges[level + 1] * self.groups + segment.bucket, segment

    def count_merges(self, tasks: int) -> list[int]:
        """Return the number of merges on each level."""
        return [-(-tasks // merged) * self.groups for merged in self.merges]

    def to_shards(self, segments: Iterable[Segment]) -> Iterator[KeyedSegment]:
        """Key each segment of a home by every shard that builds its documents."""
        for segment in segments:
            for shard in self.layout.shards_of(segment.bucket, self.repeats):
                yield shard, segment


def plan_routes(
    sizes: TaskSizes,
    layout: Layout,
    validation_share: float,
    repeats: int,
    tasks: int,
    stored_bytes: int,
) -> Routes:
    """Plan the routes of a data set.

    Args:
        sizes: how much a task takes.
        layout: how it is spread over shards.
        validation_share: expected share of documents in the validation split.
        repeats: how many times each document is built.
        tasks: number of tasks of the input.
        stored_bytes: an estimate of the size of all documents as token ids.
    """
    # In the order of the corpus a task has documents of few homes, so that segments are neither
    # small nor many. With many sources it has those of its own, and merges would write hardly fewer
    # segments than they read.
    sources = layout.sources or (layout,)
    most_homes = max(source.train_shards + source.validation_shards for source in sources)
    buffers = tasks * count_segments(sizes, tasks, stored_bytes)
    if layout.firsts or most_homes * (buffers + len(sources)) <= 2 * layout.shards:
        return Routes(layout, validation_share, repeats, layout.shards)
    groups = count_groups(layout, sizes)
    merges = plan_merges(sizes, groups, layout.shards, tasks, stored_bytes, repeats)
    return Routes(layout, validation_share, repeats, groups, merges)


def count_segments(sizes: TaskSizes, tasks: int, stored_bytes: int) -> int:
    """Return how many segments of a bucket each of some tasks writes, about.

    Args:
        sizes: how much a task takes.
        tasks: number of tasks.
        stored_bytes: an estimate of the size of all rows.
    """
    return 1 + stored_bytes // (tasks * sizes.buffer_bytes)


def plan_merges(
    sizes: TaskSizes, groups: int, shards: int, tasks: int, stored_bytes: int, repeats: int = 1
) -> tuple[int, ...]:
    """Return `Routes.merges`.

    Args:
        sizes: how much a task takes.
        groups: number of groups of homes.
        shards: number of homes.
        tasks: number of tasks.
        stored_bytes: an estimate of the size of all rows.
        repeats: how many shards get the rows of a home.
    """
    references = sizes.most_references
    segments = count_segments(sizes, tasks, stored_bytes)
    if groups == shards and tasks * segments * repeats <= references:
        return ()
    most = max(1, -(-tasks // max(1, -(-stored_bytes // (groups * sizes.merge_bytes)))))
    merges = [min(most, max(1, references // segments))]
    while most >= 2 * merges[-1]:
        joined = merges[-1] * stored_bytes // (tasks * groups)
        fan_in = max(2, references // (1 + joined // JOINED_BYTES))
        merges.append(merges[-1] * min(fan_in, most // merges[-1]))
    return tuple(merges)


class MergeDoFn(beam.DoFn):
    """Merge the documents of a group of homes, on a level of merges."""

    def __init__(self, routes: Routes, place: Workplace, schema: pa.Schema, level: int) -> None:
        self._routes, self._place, self._schema, self._level = routes, place, schema, level

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[KeyedSegment]:
        """Merge (merge, segments), unless the journal says that it is finished."""
        merge, segments = element
        routes, level = self._routes, self._level
        is_last = level + 1 == len(routes.merges)
        name = f"merge-{routes.kind}{merge}" if is_last else f"join-{routes.kind}{level}-{merge}"
        work = partial(self._merge if is_last else self._join, segments)
        outputs, _ = Journal(self._place).once(name, work)
        written = (segment for _, segment in outputs)
        yield from routes.to_shards(written) if is_last else routes.route_on(level, merge, written)

    def _merge(self, segments: Iterable[Segment]) -> Iterator[Output]:
        """Write a file ordered by home."""
        ordered = sorted(segments, key=attrgetter("place"))
        with scratch_folder(self._place.temp_folder) as scratch:
            spill = Spill(scratch, self._place.sizes.buffer_bytes)
            for documents in self._load(ordered):
                spill.add(documents, self._routes.homes(documents))
            spill.write()
            merged = join_files(spill.segments, self._place.temp_folder, self._schema)
        yield from (("", segment) for segment in number_segments(merged, ordered[0].place))

    def _join(self, segments: Iterable[Segment]) -> Iterator[Output]:
        """Write a file with fewer segments of the same bucket."""
        ordered = sorted(segments, key=attrgetter("place"))
        joined = join_small(self._load(ordered), JOINED_BYTES)
        bucket = ordered[0].bucket
        written = write_segments(((bucket, rows) for rows in joined), self._place.temp_folder)
        yield from (("", segment) for segment in number_segments(written, ordered[0].place))

    def _load(self, segments: Iterable[Segment]) -> Iterator[pa.RecordBatch]:
        return map_ahead(partial(load_segment, schema=self._schema), segments)


def number_segments(segments: Iterable[Segment], place: int) -> Iterator[Segment]:
    """Give segments the places from one on, in their order.

    The tasks of a merge are neighbors, so that documents stay in the order of the corpus.
    """
    yield from (one._replace(place=place + number) for number, one in enumerate(segments))


def merge_segments(
    segments: beam.PCollection[KeyedSegment], routes: Routes, place: Workplace, schema: pa.Schema
) -> beam.PCollection[KeyedSegment]:
    """Merge segments that `Routes.route` has keyed, on as many levels as the routes have.

    Args:
        segments: those of all tasks.
        routes: how their rows reach their shards.
        place: where the run works.
        schema: of the rows.

    Returns:
        The segments keyed by shard.
    """
    for level in range(len(routes.merges)):
        merge = beam.ParDo(MergeDoFn(routes, place, schema, level))
        segments = (
            segments
            | f"{routes.kind}GatherMerges{level}" >> beam.GroupByKey()
            | f"{routes.kind}MergeSegments{level}" >> merge.with_output_types(KeyedSegment)
        )
    return segments


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
        """Merge files where segments would be too small to read, or too many."""
        segments = merge_segments(segments, self._routes, self._place, self._schema)
        shards = segments.pipeline | "CountShards" >> beam.Create(
            [self._routes.layout.shards]
        ).with_output_types(int)
        empty = shards | "CreateEmptySegments" >> beam.FlatMap(
            lambda shards: [(shard, Segment(shard, 0, "", 0, 0, 0)) for shard in range(shards)]
        ).with_output_types(KeyedSegment)
        return (
            (segments, empty)
            | "JoinSegments" >> beam.Flatten()
            | "GatherShards" >> beam.GroupByKey()
        )

    def display_data(self) -> dict[str, int]:
        """Show how the documents are spread."""
        return {"shards": self._routes.layout.shards, "repeats": self._routes.repeats}
