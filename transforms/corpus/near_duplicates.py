"""Find documents that are nearly earlier ones, before any of them is tokenized.

    tasks ─ list keys ─ gather by key ─ pair ─┬─ gather by task ─ write sets ─┐
            (read, filter, MinHash)           └─────── gather by task ────────┴─ compare ─┐
    tasks ◄─ gather by task ◄─ decide, in the order of documents (one unit) ◄─────────────┘

What a task leaves out depends on the documents alone. Pairs come from buckets of documents with the
same values in a band; each later document of a bucket is paired with the first ones of it. The sets
of both are made by a second reading, of the documents of pairs alone, and compared exactly by the
task of the later one. Pairs that are alike are decided in the order of their later documents: one
is removed if one that it is like stays. So each removed document is like its keeper, and there are
no chains.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from os import SEEK_END
from tempfile import TemporaryFile
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.corpus.filters import near_duplicates as near
from corpusmill.corpus.filters.duplicates import REPEAT_SCHEMA
from corpusmill.corpus.filters.functions import FilterOptions, measure_texts
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.knobs import knob
from corpusmill.layout.placement import Layout
from corpusmill.layout.sorting import join_small
from transforms.coders import NamedOutputs
from transforms.corpus import duplicates
from transforms.corpus.duplicates import HASHES, REPEATS, TASKS, give_to_tasks, spill_rows
from transforms.corpus.plan import read_task
from transforms.corpus.pool import gather_all
from transforms.corpus.read import TaskReader
from transforms.elements import NEAR, Segment, Task, WrittenFile
from transforms.recovery import Journal, Output, Workplace
from transforms.reports import run_once
from transforms.shuffle.segments import GatherShards, KeyedSegment, Routes, number_segments
from transforms.shuffle.spill import JOINED_BYTES, load_segment, write_segments
from transforms.storage.files import create_once, map_ahead, scratch_folder
from transforms.tally import COUNTS, Count, SourceTally, Tally, name_sources

TABLE, PAIRS, WANTED, EDGES = "table", "pairs", "wanted", "edges"

PAIRS_AT_ONCE = knob("pairs_at_once", 2**20, test=5)
"""The pairs that are compared at once, in memory."""
# A unit of work writes fewer segments than 2 to this power.
_SEGMENT_BITS = 32
_TYPES = {COUNTS: Count, TABLE: WrittenFile, EDGES: Segment}


@dataclass(frozen=True)
class NearSearch:
    """How near-duplicates are found.

    Attributes:
        comparison: how keys reach those that are equal, and rows reach the tasks.
        filters: which ones are near-duplicates.
        table: path of the table that lists them.
        layout: tells the source of a document.
        sources: names of the sources, in the order of the layout's; empty where there is but one.
    """

    comparison: duplicates.Comparison
    filters: FilterOptions
    table: str
    layout: Layout = field(default_factory=lambda: Layout(0, 1, 0))
    sources: tuple[str, ...] = ()

    @property
    def place(self) -> Workplace:
        """Where the run works."""
        return self.comparison.place

    def routes(self, tag: str) -> Routes:
        """How the rows of a collection reach what gathers them."""
        if tag == HASHES:
            return self.comparison.hash_routes
        column = "home" if tag == PAIRS else "task"
        return replace(self.comparison.task_routes, kind=f"near-{tag}-", column=column)

    def spill(
        self, rows: Iterable[tuple[pa.RecordBatch, str]], *tags: str, unit: int = 0
    ) -> Iterator[Output]:
        """Write rows to files by their buckets, with places in the order of the units of work."""
        written = spill_rows(rows, {tag: self.routes(tag) for tag in tags}, self.place)
        for number, (tag, segment) in enumerate(written):
            yield tag, segment._replace(place=unit << _SEGMENT_BITS | number)

    def list_keys(self, task: Task) -> Iterator[Output]:
        """List the values of the bands of a task's documents."""
        before = FilterOptions(self.filters.filter, self.filters.drop_duplicates)
        tally, screening = Tally(), duplicates.Screening(before)
        # Words of a run, bands, and rows.
        _, *numbers = map(int, self.filters.near_duplicates.values())

        def hash_all() -> Iterator[tuple[pa.RecordBatch, str]]:
            for batch in self._read(task, screening.list_steps(task, Shared())):
                self._count(batch, tally)
                yield near.list_keys(batch, task.number, *numbers), HASHES

        yield from self.spill(hash_all(), HASHES, unit=task.number)
        yield from tally.outputs()

    def _count(self, documents: pa.RecordBatch, tally: Tally) -> None:
        sizes = measure_texts(documents)
        tally.add("near.documents", len(sizes))
        tally.add("near.bytes", int(sizes.sum()))
        if self.sources:
            files = documents.column("document").to_numpy() >> np.uint64(OFFSET_BITS)
            sources = SourceTally(self.sources, self.layout, tally)
            for file in np.unique(files).tolist():
                own = sizes[files == file]
                sources.add_read(file, {"near.documents": len(own), "near.bytes": int(own.sum())})

    def _read(self, task: Task, steps: Iterable[Any] = ()) -> Iterator[pa.RecordBatch]:
        # The last reading counts what it reads, and keeps the rejects.
        documents = self.comparison.screened
        reader = TaskReader(documents, self.place, Tally(), tuple(steps), keeps_rejects=False)
        return reader.read(read_task(task))

    def pair(self, bucket: tuple[int, Iterable[Segment]]) -> Iterator[Output]:
        """Pair the documents of some buckets with the first ones of each."""
        ordered, tally = _order(bucket[1]), Tally()
        parts = duplicates.count_parts(ordered, duplicates.HASH_BUCKET_BYTES // near.KEY_BYTES)

        def pair() -> Iterator[tuple[pa.RecordBatch, str]]:
            for part in range(parts):
                seen = pa.RecordBatch.from_pylist([], schema=near.KEY_SCHEMA)
                load = partial(_load_part, part=part, parts=parts)
                for rows in join_small(map_ahead(load, ordered), duplicates.HASH_BUCKET_BYTES):
                    seen, crowded, pairs = near.pair_documents(seen, rows)
                    tally.add("near.crowded", crowded)
                    for rank, (earlier, later) in enumerate(pairs):
                        yield near.to_pairs(later, later, earlier), PAIRS
                        # The first pairs have all later documents.
                        sides = (earlier,) if rank else (earlier, later)
                        wanted = [near.to_pairs(side, later, earlier) for side in sides]
                        yield near.keep_distinct(wanted), WANTED

        yield from self.spill(pair(), PAIRS, WANTED)
        yield from tally.outputs()

    def write_sets(self, task: Task) -> Iterator[Output]:
        """Write the sets of a task's documents that are in pairs, for each task that compares."""
        if task.near:
            ngram = self.filters.near_duplicate_ngram
            load = partial(load_segment, schema=near.PAIR_SCHEMA)
            wanted = pa.RecordBatch.from_pylist([], schema=near.PAIR_SCHEMA)
            for rows in map(load, task.near):
                wanted = near.keep_distinct([wanted, rows])
            sets = (near.list_sets(one, wanted, ngram, JOINED_BYTES) for one in self._read(task))
            yield from self.spill(((rows, PAIRS) for some in sets for rows in some), PAIRS)

    def compare(self, home: tuple[int, Iterable[Segment]]) -> Iterator[Output]:
        """Compare the pairs whose later documents are those of a task."""
        (number, segments), tally = home, Tally()
        if ordered := _order(segments):
            with scratch_folder(self.place.temp_folder) as scratch:
                edges = ((number, rows) for rows in self._match(ordered, scratch, tally))
                written = write_segments(edges, self.place.temp_folder)
            numbered = number_segments(written, number << _SEGMENT_BITS)
            yield from ((EDGES, segment) for segment in numbered)
        yield from tally.outputs()

    def _match(
        self, segments: Sequence[Segment], scratch: str, tally: Tally
    ) -> Iterator[pa.RecordBatch]:
        """Yield the pairs that are alike, in the order of their documents."""
        pairs, runs = _OnDisk(scratch, near.PAIR), _OnDisk(scratch, np.uint64)
        texts = _OnDisk(scratch, near.BEGINNING)
        ids, lengths = [np.empty(0, np.uint64)], [np.zeros(1, np.int64)]
        for rows in map_ahead(partial(load_segment, schema=near.PAIR_SCHEMA), segments):
            own, sets = near.split_pairs(rows)
            ids.append(sets.documents)
            lengths.append(np.diff(sets.borders))
            for file, values in ((pairs, own), (runs, sets.runs), (texts, sets.texts)):
                file.add(values)
        similarity = self.filters.near_duplicates["drop_near_duplicates"]
        borders = np.cumsum(np.concatenate(lengths))
        sets = near.Sets(np.concatenate(ids), borders, runs.map(), texts.map())
        size = self.comparison.text_bytes
        for part in near.split_by_document(pairs.map(), PAIRS_AT_ONCE):
            edges, number = near.match_pairs(part, sets, similarity, size)
            tally.add("near.compared", number)
            if edges.num_rows:
                yield edges

    def decide(self, group: tuple[int, Iterable[Segment]]) -> Iterator[Output]:
        """Decide which documents are removed; runs once."""
        tally = Tally()
        scratch = self.place.scratch if self.place.output else self.place.temp_folder
        with create_once(self.table, scratch) as stream:
            sink = HashingWriter(stream)
            names_of = partial(name_sources, self.sources, self.layout)
            removed = _choose(_order(group[1]), self.place.temp_folder)
            repeats = (
                (rows.select(REPEAT_SCHEMA.names), REPEATS)
                for rows in near.write_table(removed, sink, names_of)
            )
            for tag, segment in self.spill(repeats, REPEATS):
                tally.add("near.found", segment.rows)
                yield tag, segment
        yield TABLE, WrittenFile(0, NEAR, self.table, 0, 0, sink.bytes, sink.sha256)
        yield from tally.outputs()


def _order(segments: Iterable[Segment]) -> list[Segment]:
    """Return the segments that have rows, in the order of the corpus."""
    return sorted((segment for segment in segments if segment.path), key=attrgetter("place"))


def _load_part(segment: Segment, part: int, parts: int) -> pa.RecordBatch:
    """Read the rows of a segment whose keys are in one of several parts of all keys."""
    rows = load_segment(segment, near.KEY_SCHEMA)
    remainders = rows.column("key").to_numpy() % np.uint64(parts)
    return rows if parts == 1 else rows.filter(pa.array(remainders == part))


class _OnDisk:
    """An array in a file without a name, which is mapped once it is whole.

    Args:
        folder: of the file.
        dtype: type of the values.
    """

    def __init__(self, folder: str, dtype: npt.DTypeLike) -> None:
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115  it is gone with the last map
        self._dtype = np.dtype(dtype)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Write values after those before."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)

    def map(self, number: int = 0) -> npt.NDArray[Any]:
        """Map all values, or a number of them that are still to be set."""
        size = self._file.seek(0, SEEK_END) or number * self._dtype.itemsize
        self._file.truncate(size)
        mapped = np.memmap(self._file, self._dtype, "r+") if size else np.empty(0, self._dtype)
        return np.asarray(mapped)


def _choose(segments: Sequence[Segment], temp_folder: str) -> Iterator[pa.RecordBatch]:
    """Yield the documents that are removed, with their keepers, in their order."""
    with scratch_folder(temp_folder) as scratch:
        removed = _OnDisk(scratch, np.uint64).map(sum(segment.rows for segment in segments))
        number = 0
        for edges in map_ahead(partial(load_segment, schema=near.EDGE_SCHEMA), segments):
            sides = (edges.column(name).to_numpy() for name in ("document", "keeper"))
            chosen = near.choose_keepers(*sides, removed, number)
            number += len(chosen)
            yield edges.take(pa.array(chosen))


class _Unit(beam.DoFn):
    """Do the work of a task, or of what was gathered, and send what it has written on its way.

    Args:
        name: of the kind of work.
        search: how near-duplicates are found.
        work: does the work for an element, which begins with the number of the unit.
    """

    def __init__(
        self, name: str, search: NearSearch, work: Callable[[Any], Iterable[Output]]
    ) -> None:
        self._name, self._search, self._work = name, search, work

    def setup(self) -> None:
        """Open the journal."""
        self._journal = Journal(self._search.place)

    def process(self, element: Any) -> Iterator[Any]:
        """Do the work, unless the journal says that it is finished."""
        number, work = element[0], partial(self._work, element)
        for tag, value in run_once(self._journal, f"{self._name}-{number}", work):
            is_last = tag in _TYPES
            for sent in [value] if is_last else self._search.routes(tag).route(number, [value]):
                yield TaggedOutput(tag, sent)

    def finish_bundle(self) -> None:
        """Wait until the files of the data set are on the disk."""
        self._journal.sync()


class FindNearDuplicates(beam.PTransform):
    """Give each task the ids of the near-duplicates that it must drop.

    Returns the collections TASKS, COUNTS and TABLE.

    Args:
        search: how they are found.
    """

    def __init__(self, search: NearSearch) -> None:
        super().__init__()
        self._search = search

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """Read the corpus, pair its documents, read those of pairs, compare them, and decide."""
        search, place = self._search, self._search.place
        give = partial(give_to_tasks, "near", tasks, place)
        keys = self._do(tasks, "Listing", search.list_keys, HASHES)
        gather = GatherShards(search.routes(HASHES), place, near.KEY_SCHEMA)
        gathered = keys[HASHES] | "GatherKeys" >> gather
        pairs = self._do(gathered, "Pairing", search.pair, PAIRS, WANTED)
        wanted = give(search.routes(WANTED), near.PAIR_SCHEMA, [pairs[WANTED]])
        sets = self._do(wanted, "Set", search.write_sets, PAIRS)
        gathered = (
            (pairs[PAIRS], sets[PAIRS])
            | "JoinPairs" >> beam.Flatten()
            | "GatherPairs" >> GatherShards(search.routes(PAIRS), place, near.PAIR_SCHEMA)
        )
        compared = self._do(gathered, "Matching", search.compare, EDGES)
        units = search.comparison.tasks
        gathered = gather_all(compared[EDGES], units, near.EDGE_SCHEMA, place)
        decided = self._do(gathered, "Decision", search.decide, REPEATS, TABLE)
        done = give(search.routes(REPEATS), REPEAT_SCHEMA, [decided[REPEATS]])
        stages = (keys, pairs, compared, decided)
        counts = tuple(stage[COUNTS] for stage in stages) | "JoinCounts" >> beam.Flatten()
        return {TASKS: done, COUNTS: counts, TABLE: decided[TABLE]}

    def _do(
        self, elements: Any, name: str, work: Callable[[Any], Iterable[Output]], *tags: str
    ) -> NamedOutputs:
        types: Mapping[str, Any] = {tag: _TYPES.get(tag, KeyedSegment) for tag in (*tags, COUNTS)}
        unit = beam.ParDo(_Unit(name.lower(), self._search, work))
        return elements | name >> unit.with_output_types(KeyedSegment, **types).with_outputs(*types)
