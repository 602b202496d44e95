"""Find equal documents, and those of an evaluation set, before any of them is tokenized.

    tasks ─ hash (read, filter) ─ gather by hash ─ find repeats ─ gather by task ─► tasks
                      └── repeats inside of a task ──────────────────┘

The corpus is read twice, first to hash its documents. All else then sees only the documents that
are kept, and a second reading costs a small part of what tokenizing all duplicates would. Hashes
and ids go through files, like documents on their way to shards; a task gets references to the ids
that it must drop.

The documents of a task are dropped in the same steps by both of its readings, the one that lists
its digests and the one that tokenizes it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.corpus.document_options import CorpusReading
from corpusmill.corpus.filters.duplicates import (
    HASH_SCHEMA,
    REASON,
    REPEAT_SCHEMA,
    ROW_BYTES,
    drop_listed,
    hash_documents,
    split_repeats,
)
from corpusmill.corpus.filters.functions import FilterOptions, Step, load_filters
from corpusmill.corpus.filters.near_duplicates import NEAR
from corpusmill.corpus.filters.overlaps import load_overlaps
from corpusmill.knobs import knob
from corpusmill.layout.placement import Layout
from corpusmill.layout.sorting import join_small
from transforms.coders import NamedOutputs
from transforms.corpus.plan import read_task
from transforms.corpus.read import TaskReader
from transforms.elements import Segment, Task
from transforms.recovery import Journal, Output, Workplace
from transforms.reports import run_once
from transforms.shuffle.segments import (
    SMALLEST_SEGMENT_BYTES,
    GatherShards,
    KeyedSegment,
    Routes,
    count_groups,
    merge_segments,
    plan_merges,
)
from transforms.shuffle.spill import Spill, load_segment
from transforms.storage.checksums import StoredFile
from transforms.storage.files import map_ahead
from transforms.tally import COUNTS, Count, Tally


class StoredPassages(StoredFile):
    """A file with the passages of an evaluation set (`corpusmill.corpus.filters.overlaps`)."""

    def load(self) -> Step:
        """Make the step that drops documents that overlap with it.

        Raises:
            DamagedFileError: the file is damaged.
        """
        return load_overlaps(self.read())


TASKS = "tasks"
HASHES, REPEATS = "hashes", "repeats"

HASH_BUCKET_BYTES = knob("hash_bucket_bytes", 32 * 2**20, test=300)
"""The hashes that are compared at once; more make more buckets, or parts of a bucket."""

# An estimate from below of the bytes of a document. Many documents are shorter, but not most text.
DOCUMENT_BYTES = 256
# As a number of rows, it tells a reference to a task's line of the plan from one to ids.
_LINE = -1
# The lists of a task. As a place, -1, -2 or -3 tells a reference that one of them has already.
_LISTS = ("repeats", "near", "known")


@dataclass(frozen=True)
class HashRoutes(Routes):
    """How hashes reach those of the same bucket.

    Attributes:
        column: that of the hashes.
    """

    column: str = "first"

    def homes(self, documents: pa.RecordBatch) -> npt.NDArray[np.uint32]:
        """Return the bucket of each hash, uint32[rows]."""
        high = documents.column(self.column).to_numpy() >> np.uint64(32)
        homes: npt.NDArray[np.uint32] = (
            high * np.uint64(self.layout.shards) >> np.uint64(32)
        ).astype(np.uint32)
        return homes


@dataclass(frozen=True)
class TaskRoutes(Routes):
    """How rows reach a task.

    Attributes:
        column: that of its number.
    """

    column: str = "task"

    def homes(self, documents: pa.RecordBatch) -> npt.NDArray[np.uint32]:
        """Return the task of each row, uint32[rows]."""
        homes: npt.NDArray[np.uint32] = documents.column(self.column).to_numpy()
        return homes


@dataclass(frozen=True)
class Comparison:
    """How equal documents are found.

    Attributes:
        documents: how the corpus is read.
        filters: names of the filters that drop documents before they are compared.
        tasks: number of tasks.
        text_bytes: the size of the corpus.
        place: where the run works.
        column: that of the hashes.
        kind: part of the names of units of work.
        others: number of tasks that list further hashes.
        row_bytes: the size of the rows of a document.
    """

    documents: CorpusReading
    filters: tuple[str, ...]
    tasks: int
    text_bytes: int
    place: Workplace
    column: str = "first"
    kind: str = ""
    others: int = 0
    row_bytes: int = ROW_BYTES

    @property
    def screened(self) -> CorpusReading:
        """How documents are read to be compared: filters alone see the fields that are kept."""
        return self.documents if self.filters else self.documents.without_fields()

    @property
    def rows_at_once(self) -> int:
        """The hashes that are compared at once, which takes about three times as much memory."""
        return max(1, HASH_BUCKET_BYTES // ROW_BYTES)

    @property
    def hash_bytes(self) -> int:
        """The size of all hashes."""
        return self.text_bytes * self.row_bytes // DOCUMENT_BYTES

    @property
    def hash_routes(self) -> HashRoutes:
        """How hashes are gathered, in buckets that can be sorted in memory."""
        size = self.hash_bytes
        buckets = 1 + size // HASH_BUCKET_BYTES
        groups = min(buckets, 1 + size // self.tasks // SMALLEST_SEGMENT_BYTES)
        merges = plan_merges(self.place.sizes, groups, buckets, self.tasks + self.others, size)
        kind = f"{self.kind}{HASHES}-"
        return HashRoutes(Layout(0, buckets, 0), 0.0, 1, groups, merges, kind, self.column)

    @property
    def task_routes(self) -> TaskRoutes:
        """How the ids of repeats are gathered, by the task that reads them."""
        layout, size, sizes = Layout(0, self.tasks, 0), self.hash_bytes, self.place.sizes
        groups = count_groups(layout, sizes)
        merges = plan_merges(sizes, groups, self.tasks, self.hash_routes.layout.shards, size)
        return TaskRoutes(layout, 0.0, 1, groups, merges, f"{self.kind}{REPEATS}-")

    def write(self, rows: Iterable[tuple[pa.RecordBatch, str]]) -> Iterator[Output]:
        """Write rows to files by their buckets, or by the tasks that get them.

        Args:
            rows: each with HASHES or REPEATS.
        """
        routes = {HASHES: self.hash_routes, REPEATS: self.task_routes}
        yield from spill_rows(rows, routes, self.place)


def spill_rows(
    rows: Iterable[tuple[pa.RecordBatch, str]], routes: Mapping[str, Routes], place: Workplace
) -> Iterator[Output]:
    """Write rows to files by their buckets.

    Args:
        rows: each with the name of its collection.
        routes: those of each collection.
        place: where the run works.
    """
    spills = {tag: Spill(place.temp_folder, place.sizes.buffer_bytes) for tag in routes}
    for batch, tag in rows:
        if batch.num_rows:
            spills[tag].add(batch, routes[tag].buckets(batch))
    for tag, spill in spills.items():
        spill.write()
        yield from ((tag, segment) for segment in spill.segments)


class _HashTask(beam.DoFn):
    """Hash the documents of a task, and find those that repeat others nearby."""

    def __init__(self, options: Comparison) -> None:
        self._options = options

    def process(self, element: Task) -> Iterator[KeyedSegment]:
        journal, routes = Journal(self._options.place), self._options.hash_routes
        outputs = run_once(journal, f"scan-{element.number}", lambda: self._hash(element))
        hashes = [segment for tag, segment in outputs if tag == HASHES]
        yield from routes.route(element.number, hashes)
        for tag, value in outputs:
            if tag == REPEATS:
                yield TaggedOutput(REPEATS, (element.number, value))
            elif tag == COUNTS:
                yield TaggedOutput(COUNTS, value)

    def _hash(self, task: Task) -> Iterator[Output]:
        options, tally = self._options, Tally()
        # The second reading counts what it reads, and keeps the rejects.
        steps = load_filters(options.filters)
        reader = TaskReader(options.screened, options.place, Tally(), steps, keeps_rejects=False)
        batches = (hash_documents(batch, task.number) for batch in reader.read(read_task(task)))

        def split() -> Iterator[tuple[pa.RecordBatch, str]]:
            for rows in join_small(batches, HASH_BUCKET_BYTES):
                # What is repeated inside of a task goes no further; a text is then in few rows,
                # even if half of a corpus are copies of it.
                firsts, repeats = split_repeats(rows)
                tally.add("duplicates.documents", rows.num_rows)
                tally.add("duplicates.found", repeats.num_rows)
                yield from ((firsts, HASHES), (repeats, REPEATS))

        yield from options.write(split())
        yield from tally.outputs()


def route_outputs(
    outputs: Sequence[Output], main: str, routes: Routes, number: int
) -> Iterator[Any]:
    """Yield the segments of a unit of work with the keys of their routes, and its other outputs.

    Args:
        outputs: of the unit of work.
        main: the tag of the segments.
        routes: how they reach what gathers them.
        number: of the unit of work.
    """
    yield from routes.route(number, [value for tag, value in outputs if tag == main])
    yield from (TaggedOutput(tag, value) for tag, value in outputs if tag != main)


class _FindRepeats(beam.DoFn):
    """Find the documents of a bucket of hashes that repeat an earlier one."""

    def __init__(self, options: Comparison) -> None:
        self._options = options

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[KeyedSegment]:
        bucket, segments = element
        journal = Journal(self._options.place)
        outputs = run_once(journal, f"comparison-{bucket}", lambda: self._find(list(segments)))
        yield from route_outputs(outputs, REPEATS, self._options.task_routes, bucket)

    def _find(self, segments: Sequence[Segment]) -> Iterator[Output]:
        options, tally = self._options, Tally()
        full = sorted(segment for segment in segments if segment.path)
        parts = count_parts(full, options.rows_at_once)

        def compare() -> Iterator[tuple[pa.RecordBatch, str]]:
            for part in range(parts):
                seen = HASH_SCHEMA.empty_table().to_batches()
                load = partial(_load_part, part=part, parts=parts)
                for rows in join_small(map_ahead(load, full), HASH_BUCKET_BYTES):
                    firsts, repeats = split_repeats(pa.concat_batches([*seen, rows]))
                    seen = [firsts]
                    tally.add("duplicates.found", repeats.num_rows)
                    yield repeats, REPEATS

        yield from options.write(compare())
        yield from tally.outputs()


def count_parts(segments: Iterable[Segment], rows_at_once: int) -> int:
    """Return in how many parts the hashes of a bucket are compared, to bound the memory.

    A corpus of very short documents fills buckets with more than was estimated.
    """
    return 1 + sum(segment.rows for segment in segments) // (2 * rows_at_once)


def _load_part(segment: Segment, part: int, parts: int) -> pa.RecordBatch:
    rows = load_segment(segment, HASH_SCHEMA)
    if parts == 1:
        return rows
    return rows.filter(pa.array(rows.column("second").to_numpy() % np.uint64(parts) == part))


class FindDuplicates(beam.PTransform):
    """Give each task the ids of the documents that it must drop.

    Returns the collections TASKS and COUNTS.

    Args:
        options: how equal documents are found.
    """

    def __init__(self, options: Comparison) -> None:
        super().__init__()
        self._options = options

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """Read the corpus, and compare the hashes of its documents."""
        options, place = self._options, self._options.place
        hashed = tasks | "HashTask" >> beam.ParDo(_HashTask(options)).with_output_types(
            KeyedSegment, **{REPEATS: KeyedSegment, COUNTS: Count}
        ).with_outputs(REPEATS, COUNTS, main=HASHES)
        gather = GatherShards(options.hash_routes, place, HASH_SCHEMA)
        found = (
            hashed[HASHES]
            | "GatherHashes" >> gather
            | "FindRepeats"
            >> beam.ParDo(_FindRepeats(options))
            .with_output_types(KeyedSegment, **{COUNTS: Count})
            .with_outputs(COUNTS, main=REPEATS)
        )
        routes, both = options.task_routes, [found[REPEATS], hashed[REPEATS]]
        joined = give_to_tasks("repeats", tasks, place, routes, REPEAT_SCHEMA, both)
        counts = (hashed[COUNTS], found[COUNTS]) | "JoinCounts" >> beam.Flatten()
        return {TASKS: joined, COUNTS: counts}


def give_to_tasks(
    to: str,
    tasks: beam.PCollection[Task],
    place: Workplace,
    routes: Routes,
    schema: pa.Schema,
    found: Sequence[beam.PCollection[KeyedSegment]],
) -> beam.PCollection[Task]:
    """Return tasks with what was found in each.

    Args:
        to: the name of the list of a task that gets it.
        tasks: the tasks.
        place: where the run works.
        routes: how what was found reaches them.
        schema: of its rows.
        found: references to what was found, keyed by `routes`, and more of them keyed by task.
    """
    apart, *others = found
    merged = merge_segments(apart, routes, place, schema)
    kind = routes.kind
    lines = tasks | f"{kind}refer" >> beam.FlatMap(_refer).with_output_types(KeyedSegment)
    return (
        (lines, merged, *others)
        | f"{kind}join" >> beam.Flatten()
        | f"{kind}gather" >> beam.GroupByKey()
        | f"{kind}list" >> beam.Map(_to_task, to).with_output_types(Task)
    )


def _refer(task: Task) -> Iterator[KeyedSegment]:
    yield task.number, Segment(task.number, _LINE, task.plan, task.offset, task.length, 0)
    for index, name in enumerate(_LISTS):
        for segment in getattr(task, name):
            yield task.number, Segment(*segment)._replace(place=-1 - index)


def _to_task(element: tuple[int, Iterable[Segment]], to: str) -> Task:
    number, segments = element
    lists = {name: list[Segment]() for name in _LISTS}
    for segment in sorted(Segment(*segment) for segment in segments):
        if segment.rows == _LINE:
            line = segment
        else:
            lists[_LISTS[-1 - segment.place] if segment.place < 0 else to].append(segment)
    return Task(number, line.path, line.offset, line.length, *lists.values())


def load_repeats(segments: Iterable[Segment], reason: str = REASON) -> Step:
    """Make the step that drops the documents that are listed for a task.

    Args:
        segments: `Task.repeats` or `Task.near`; there may be none.
        reason: why they are dropped.
    """
    return drop_listed([load_segment(segment, REPEAT_SCHEMA) for segment in segments], reason)


@dataclass(frozen=True)
class Screening:
    """Which documents are left out.

    Attributes:
        filters: the options.
        passages: the passages that they must not overlap with; None for none.
    """

    filters: FilterOptions = field(default_factory=FilterOptions)
    passages: StoredPassages | None = None

    def list_steps(self, task: Task, shared: Shared) -> Iterator[Step]:
        """Yield the steps of a task, in their order.

        Args:
            task: the task.
            shared: keeps the passages, once for each process.
        """
        yield from load_filters(self.filters.filter)
        if self.filters.drop_duplicates:
            yield load_repeats(task.repeats)
        if self.filters.drop_near_duplicates:
            yield load_repeats(task.near, NEAR)
        if passages := self.passages:
            yield shared.acquire(passages.load, tag=passages.path)
