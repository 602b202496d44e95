"""Find the documents whose text a data set holds already, before any of them is tokenized.

    tasks ─ list digests ─┬─ gather by digest ─ find known ones ─ gather by task ─► tasks
                          └─ filter ─┐ │
    tables of documents ─ list those that pass it

The digests of the data set stay in its tables of documents, which are read once, each by one task.
Few of them pass the filter, a file of a few megabytes that is made of the new digests, so that
almost nothing of them is written or travels. Where the new text is so long that most would pass it,
there is no filter, and they travel as the new ones do. Digests and references to them take the ways
of `transforms.corpus.duplicates`. Where known documents are a mistake, no task goes on before all
are compared.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.arrays.text_hashes import digests_of
from corpusmill.corpus.filters.duplicates import (
    DIGEST_SCHEMA,
    DigestFilter,
    Digests,
    count_digests,
    drop_known,
    hold_digests,
    select_known,
    split_held,
)
from corpusmill.corpus.filters.functions import Step
from corpusmill.knobs import knob
from corpusmill.location import Location
from corpusmill.provenance.store import read_column
from transforms.coders import NamedOutputs
from transforms.corpus.duplicates import (
    DOCUMENT_BYTES,
    HASHES,
    REPEATS,
    Comparison,
    Screening,
    count_parts,
    give_to_tasks,
    route_outputs,
)
from transforms.corpus.plan import Plan, PlanTasks, read_line, read_task
from transforms.corpus.read import TaskReader
from transforms.elements import LinesFile, Segment, Task
from transforms.recovery import Journal, Output, Workplace
from transforms.refusals import refuse_known
from transforms.reports import run_once
from transforms.shuffle.segments import GatherShards, KeyedSegment
from transforms.shuffle.spill import load_segment
from transforms.storage.checksums import seal, unseal
from transforms.storage.files import map_ahead, new_path, read_file, write_file
from transforms.tally import COUNTS, Count, Tally, add_up

TASKS = "tasks"
_FILTERED = "filtered"
_READ = "known.read"

FILTER_BITS = knob("filter_bits", 2**26, test=1024)
"""The bits of the filter of new digests, a power of two; without it where half of them would be
set."""


@dataclass(frozen=True)
class Held:
    """The documents that a data set has, or had before they were removed.

    Attributes:
        folder: of the data set; workers get a copy.
        plan: its tables of documents, some on each line, by their names in the folder.
        are_refused: whether it is a mistake to add them once more.
    """

    folder: Location
    plan: Plan
    are_refused: bool = False


@dataclass(frozen=True)
class Search:
    """How known documents are found.

    Attributes:
        comparison: how digests reach those that are equal, and what is found reaches the tasks.
        screening: which documents are left out before they are compared.
        held: what the data set holds.
    """

    comparison: Comparison
    screening: Screening
    held: Held

    @property
    def is_filtered(self) -> bool:
        """Whether there is a filter: not where more than half of all digests would pass it."""
        return self.comparison.text_bytes // DOCUMENT_BYTES <= FILTER_BITS // 2


class _ListDigests(beam.DoFn):
    """List the digests of the documents of a task, and, for the filter, where they are."""

    def __init__(self, search: Search) -> None:
        self._search, self._shared = search, Shared()

    def process(self, element: Task) -> Iterator[KeyedSegment]:
        comparison = self._search.comparison
        work = partial(self._list, element)
        outputs = run_once(Journal(comparison.place), f"digests-{element.number}", work)
        segments = [segment for tag, segment in outputs if tag == HASHES]
        yield from comparison.hash_routes.route(element.number, segments)
        # The filter is made even of nothing.
        for segment in segments or [Segment(0, 0, "", 0, 0, 0)]:
            yield TaggedOutput(_FILTERED, (0, segment))
        yield from (TaggedOutput(_READ, value) for tag, value in outputs if tag == COUNTS)

    def _list(self, task: Task) -> Iterator[Output]:
        search, counts = self._search, Tally()
        # The second reading counts what it reads, and keeps the rejects.
        steps = tuple(search.screening.list_steps(task, self._shared))
        documents, place = search.comparison.screened, search.comparison.place
        reader = TaskReader(documents, place, counts, steps, keeps_rejects=False)
        digests = (
            count_digests(digests_of(batch), task.number) for batch in reader.read(read_task(task))
        )
        yield from search.comparison.write((rows, HASHES) for rows in digests)
        read = dict(counts.counts()).get("read.documents", 0)
        yield COUNTS, (_READ, read)


class _MakeFilter(beam.DoFn):
    """Make the filter of all new digests, and return its path."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[str]:
        _, segments = element
        place = self._search.comparison.place
        work = partial(self._make, list(segments))
        for _, file in run_once(Journal(place), "digest-filter", work):
            yield file.path

    def _make(self, segments: Sequence[Segment]) -> Iterator[Output]:
        bits = DigestFilter(FILTER_BITS)
        full = sorted(segment for segment in segments if segment.path)
        for rows in map_ahead(partial(load_segment, schema=DIGEST_SCHEMA), full):
            bits.add(rows.column("digest").to_numpy())
        path, content = new_path(self._search.comparison.place.temp_folder, "filter"), bits.encode()
        sealed = seal(content)
        write_file(path, sealed)
        yield "", LinesFile(0, path, 0, len(sealed), sha256(sealed).hexdigest())


class _ListHeld(beam.DoFn):
    """List the digests in some tables of documents that pass the filter."""

    def __init__(self, search: Search) -> None:
        self._search, self._shared = search, Shared()

    def process(self, element: Task, filters: Sequence[str] = ()) -> Iterator[KeyedSegment]:
        comparison = self._search.comparison
        work = partial(self._list, element, filters)
        outputs = run_once(Journal(comparison.place), f"held-{element.number}", work)
        number = comparison.tasks + element.number
        yield from comparison.hash_routes.route(number, [segment for _, segment in outputs])

    def _list(self, task: Task, filters: Sequence[str]) -> Iterator[Output]:
        names = [name for [name] in read_line(task)]
        digests = read_column(self._search.held.folder, names, "digest")
        if self._search.is_filtered:
            [path] = filters
            bits = DigestFilter(unseal(read_file(path), path))
            digests = map(bits.select, digests)
        yield from self._search.comparison.write((hold_digests(some), HASHES) for some in digests)


class _FindKnown(beam.DoFn):
    """Find the digests of a bucket that the data set holds."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[KeyedSegment]:
        bucket, segments = element
        comparison = self._search.comparison
        work = partial(self._find, [segment for segment in segments if segment.path])
        outputs = run_once(Journal(comparison.place), f"known-{bucket}", work)
        yield from route_outputs(outputs, REPEATS, comparison.task_routes, bucket)

    def _find(self, segments: Sequence[Segment]) -> Iterator[Output]:
        tally = Tally()
        parts = count_parts(segments, self._search.comparison.rows_at_once)
        parts_found = [_select_part(sorted(segments), part, parts) for part in range(parts)]
        for rows in parts_found:
            tally.add("known.documents", int(rows.column("documents").to_numpy().sum()))
        yield from self._search.comparison.write((rows, REPEATS) for rows in parts_found)
        yield from tally.outputs()


def _select_part(segments: Sequence[Segment], part: int, parts: int) -> pa.RecordBatch:
    """Return the rows of tasks with known digests, of one of several parts of all digests."""

    def load() -> Iterator[tuple[pa.RecordBatch, Digests]]:
        for rows in map_ahead(partial(load_segment, schema=DIGEST_SCHEMA), segments):
            remainders = rows.column("digest").to_numpy() % np.uint64(parts)
            yield split_held(rows.filter(pa.array(remainders == part)))

    nothing = hold_digests(np.empty(0, np.uint64))
    new = pa.concat_batches([nothing, *(rows for rows, _ in load())])
    # They are read again, as there may be far more of them than of the new ones.
    return select_known(new, (digests for _, digests in load()))


class _Refuse(beam.DoFn):
    """Refuse known documents, and so end the run; runs once."""

    def __init__(self, place: Workplace) -> None:
        self._place = place

    def process(self, _: bytes, counts: list[Count]) -> Iterator[str]:
        with self._place.at_work():
            refuse_known(dict(counts))
        yield from ()


class _PassOn(beam.DoFn):
    """Pass tasks on, once nothing has been refused."""

    def process(self, element: Task, _: Sequence[str]) -> Iterator[Task]:
        yield Task(*element)


class FindKnown(beam.PTransform):
    """Give each task the digests of the documents in it that a data set holds.

    Returns the collections TASKS and COUNTS.

    Args:
        search: how they are found.
    """

    def __init__(self, search: Search) -> None:
        super().__init__()
        self._search = search

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """Read the new text and the tables of documents, and compare the digests."""
        search, comparison = self._search, self._search.comparison
        listed = tasks | "ListDigests" >> beam.ParDo(_ListDigests(search)).with_output_types(
            KeyedSegment, **{_FILTERED: KeyedSegment, _READ: Count}
        ).with_outputs(_FILTERED, _READ, main=HASHES)
        held = self._list_held(listed[_FILTERED])
        gather = GatherShards(comparison.hash_routes, comparison.place, DIGEST_SCHEMA)
        found = (
            ((listed[HASHES], held) | "JoinDigests" >> beam.Flatten())
            | "GatherDigests" >> gather
            | "FindKnown"
            >> beam.ParDo(_FindKnown(search))
            .with_output_types(KeyedSegment, **{COUNTS: Count})
            .with_outputs(COUNTS, main=REPEATS)
        )
        routes, place = comparison.task_routes, comparison.place
        done = give_to_tasks("known", tasks, place, routes, DIGEST_SCHEMA, [found[REPEATS]])
        if search.held.are_refused:
            counts = beam.pvalue.AsList(add_up([listed[_READ], found[COUNTS]]))
            once = tasks.pipeline | "StartRefusing" >> beam.Impulse()
            refuse = beam.ParDo(_Refuse(comparison.place), counts)
            refused = once | "Refuse" >> refuse.with_output_types(str)
            wait = beam.ParDo(_PassOn(), beam.pvalue.AsList(refused))
            done |= "AwaitRefusal" >> wait.with_output_types(Task)
        return {TASKS: done, COUNTS: found[COUNTS]}

    def _list_held(self, new: beam.PCollection[KeyedSegment]) -> beam.PCollection[KeyedSegment]:
        search, filters = self._search, list[beam.pvalue.AsList]()
        if search.is_filtered:
            make = beam.ParDo(_MakeFilter(search)).with_output_types(str)
            made = new | "GatherNew" >> beam.GroupByKey() | "MakeFilter" >> make
            filters.append(beam.pvalue.AsList(made))
        list_held = beam.ParDo(_ListHeld(search), *filters).with_output_types(KeyedSegment)
        plan = PlanTasks(search.held.plan, search.comparison.place)
        return new.pipeline | "PlanHeld" >> plan | "ListHeld" >> list_held


def load_known(segments: Iterable[Segment]) -> Step:
    """Make the step that drops what `FindKnown` has found in a task.

    Args:
        segments: `Task.known`; there may be none.
    """
    return drop_known([load_segment(segment, DIGEST_SCHEMA) for segment in segments])
