"""A task to tokenized documents on their way to the shards: read, tokenize, spill.

The three are one DoFn, because a task is the unit of the journal: what a task gives must be known
when it ends.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.corpus.options import DocumentOptions
from transforms.elements import Candidates, NamedOutputs, RejectsFile, Segment, Task
from transforms.plan import read_task
from transforms.pool import CANDIDATES, CandidateFile
from transforms.read import REJECTS, TaskReader, tally_of_reading
from transforms.recovery.journal import Journal, Output
from transforms.shuffle import BUFFER_BYTES, MESSAGE_BYTES, Routes, to_messages
from transforms.spill import Buffer, Spill
from transforms.tally import COUNTS, Count, Tally
from transforms.tokenize import Tokenizing, tally_of_tokenizing, tokenize_batch
from transforms.work_log import log_begin, log_end

SEGMENTS = "segments"

# Of a large corpus a task has few candidates for the pool: they make one reference then.
CANDIDATE_BYTES = 2**20


@dataclass(frozen=True)
class Preparation:
    """What is done with a task.

    Attributes:
        documents: the corpus' rules.
        tokenizing: how text becomes ids.
        routes: how documents reach their shards.
        candidate_limit: largest priority of a document that may enter the pool; None where there
            is no pool.
        temp_folder: a folder that every worker reaches.
        buffer_bytes: what a task holds before it writes a file.
    """

    documents: DocumentOptions
    tokenizing: Tokenizing
    routes: Routes
    candidate_limit: int | None
    temp_folder: str
    buffer_bytes: int = BUFFER_BYTES


class _PrepareTask(beam.DoFn):
    """What both ways of the shuffle begin with."""

    def __init__(self, preparation: Preparation) -> None:
        self._of, self._shared = preparation, Shared()

    def setup(self) -> None:
        tokenizing = self._of.tokenizing
        self._tokenizer = self._shared.acquire(tokenizing.load, tag=tokenizing.path)
        self._tallies = tally_of_reading(), tally_of_tokenizing(), Tally("candidates")
        self._reader = TaskReader(self._of.documents, self._of.temp_folder, self._tallies[0])

    def prepare(self, task: Task) -> Iterator[pa.RecordBatch]:
        """The tokenized documents of a task; what else it gives is in `finish` then."""
        for tally in self._tallies:
            tally.start()
        _, tokenized, kept = self._tallies
        limit, seed = self._of.candidate_limit, self._of.routes.layout.seed
        self._candidates = (
            None
            if limit is None
            else CandidateFile(seed, limit, self._of.temp_folder, kept, CANDIDATE_BYTES)
        )
        ranges = read_task(task)
        log_begin(f"task-{task.number}", ranges)
        for batch in self._reader.read(ranges):
            documents = tokenize_batch(self._tokenizer, batch, tokenized)
            if documents.num_rows:
                if self._candidates:
                    self._candidates.add(documents)
                yield documents

    def finish(self, task: Task) -> Iterator[Output]:
        """What a task gives beside its documents."""
        if self._candidates:
            yield from ((CANDIDATES, candidates) for candidates in self._candidates.close())
        yield from ((REJECTS, rejects) for rejects in self._reader.write_rejects(task.number))
        for tally in self._tallies:
            yield from ((COUNTS, count) for count in tally.drain())


class _SpillTask(_PrepareTask):
    """A task to files; a task that is finished is not done again."""

    def setup(self) -> None:
        super().setup()
        self._journal = Journal(self._of.temp_folder)

    def process(self, element: Task) -> Iterator[tuple[int, Segment]]:
        name, begin = f"task-{element.number}", time.monotonic()
        outputs, found = self._journal.once(name, lambda: self._spill(element))
        log_end(name, begin, (value for tag, value in outputs if tag == COUNTS), found)
        routes = self._of.routes
        segments = [segment for tag, segment in outputs if tag == SEGMENTS]
        if routes.two_levels:
            yield from routes.to_merges(element.number, segments)
        else:
            yield from routes.to_shards(segments)
        for tag, value in outputs:
            if tag != SEGMENTS:
                yield TaggedOutput(tag, value)
            if found and tag == COUNTS:
                for tally in self._tallies:
                    tally.show(value)

    def _spill(self, task: Task) -> Iterator[Output]:
        spill = Spill(self._of.temp_folder, self._of.buffer_bytes)
        for documents in self.prepare(task):
            spill.add(documents, self._of.routes.buckets(documents))
        spill.write()
        yield from ((SEGMENTS, segment) for segment in spill.segments)
        yield from self.finish(task)


class _SendTask(_PrepareTask):
    """A task to messages of about 1 MB that travel through the engine."""

    def process(self, element: Task) -> Iterator[tuple[int, Segment]]:
        routes, buffer, begin = self._of.routes, Buffer(), time.monotonic()
        most = min(MESSAGE_BYTES * routes.layout.shards, self._of.buffer_bytes)
        for documents in self.prepare(element):
            buffer.add(documents, routes.homes(documents))
            if buffer.bytes >= most:
                yield from routes.to_shards(to_messages(buffer))
        yield from routes.to_shards(to_messages(buffer))
        outputs = list(self.finish(element))
        counts = (value for tag, value in outputs if tag == COUNTS)
        log_end(f"task-{element.number}", begin, counts)
        for tag, value in outputs:
            yield TaggedOutput(tag, value)


class PrepareDocuments(beam.PTransform):
    """Read, tokenize and send documents on their way.

    Gives a tuple of the collections SEGMENTS (keyed by merge where files have two levels, else by
    shard), CANDIDATES, REJECTS and COUNTS.

    Args:
        preparation: what is done with a task.
        through_files: whether documents go through files; else the engine carries them.
    """

    def __init__(self, preparation: Preparation, through_files: bool) -> None:
        super().__init__()
        self._preparation, self._through_files = preparation, through_files

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """One DoFn."""
        prepare = (_SpillTask if self._through_files else _SendTask)(self._preparation)
        others: dict[str, type | object] = {
            CANDIDATES: Candidates,
            REJECTS: RejectsFile,
            COUNTS: Count,
        }
        typed = beam.ParDo(prepare).with_output_types(tuple[int, Segment], **others)
        return tasks | "PrepareTask" >> typed.with_outputs(*others, main=SEGMENTS)

    def display_data(self) -> dict[str, str | int]:
        """The corpus' rules, as far as they are given, and the tokenizer."""
        of = self._preparation
        return {
            "input_format": of.documents.input_format,
            "document_rule": of.documents.document_rule or "",
            "tokenizer": of.tokenizing.path,
            "words": of.tokenizing.words,
            "shards": of.routes.layout.shards,
        }
