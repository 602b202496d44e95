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
from transforms.shuffle import BUFFER_BYTES, Routes
from transforms.spill import Spill
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
    """Read, tokenize and spill one task, unless the journal has it finished."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation, self._shared = preparation, Shared()

    def setup(self) -> None:
        tokenizing, folder = self._preparation.tokenizing, self._preparation.temp_folder
        self._tokenizer = self._shared.acquire(tokenizing.load, tag=tokenizing.path)
        self._tallies = tally_of_reading(), tally_of_tokenizing(), Tally("candidates")
        self._reader = TaskReader(self._preparation.documents, folder, self._tallies[0])
        self._journal = Journal(folder)

    def process(self, element: Task) -> Iterator[tuple[int, Segment]]:
        name, begin = f"task-{element.number}", time.monotonic()
        outputs, found = self._journal.once(name, lambda: self._spill(element))
        log_end(name, begin, (value for tag, value in outputs if tag == COUNTS), found)
        segments = [segment for tag, segment in outputs if tag == SEGMENTS]
        yield from self._preparation.routes.send(element.number, segments)
        for tag, value in outputs:
            if tag != SEGMENTS:
                yield TaggedOutput(tag, value)
            if found and tag == COUNTS:
                for tally in self._tallies:
                    tally.show(value)

    def _spill(self, task: Task) -> Iterator[Output]:
        for tally in self._tallies:
            tally.start()
        candidates = self._open_candidates()
        spill = Spill(self._preparation.temp_folder, self._preparation.buffer_bytes)
        for documents in self._tokenize(task):
            if candidates:
                candidates.add(documents)
            spill.add(documents, self._preparation.routes.buckets(documents))
        spill.write()
        yield from ((SEGMENTS, segment) for segment in spill.segments)
        if candidates:
            yield from ((CANDIDATES, file) for file in candidates.close())
        yield from ((REJECTS, rejects) for rejects in self._reader.write_rejects(task.number))
        for tally in self._tallies:
            yield from ((COUNTS, count) for count in tally.drain())

    def _open_candidates(self) -> CandidateFile | None:
        limit, seed = self._preparation.candidate_limit, self._preparation.routes.layout.seed
        if limit is None:
            return None
        folder = self._preparation.temp_folder
        return CandidateFile(seed, limit, folder, self._tallies[2], CANDIDATE_BYTES)

    def _tokenize(self, task: Task) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a task's tokenized documents that are not empty."""
        ranges = read_task(task)
        log_begin(f"task-{task.number}", ranges)
        for batch in self._reader.read(ranges):
            documents = tokenize_batch(self._tokenizer, batch, self._tallies[1])
            if documents.num_rows:
                yield documents


class PrepareDocuments(beam.PTransform):
    """Read, tokenize and send documents on their way.

    Gives a tuple of the collections SEGMENTS (keyed by merge where files have two levels, else by
    shard), CANDIDATES, REJECTS and COUNTS.

    Args:
        preparation: what is done with a task.
    """

    def __init__(self, preparation: Preparation) -> None:
        super().__init__()
        self._preparation = preparation

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """One DoFn."""
        others: dict[str, type | object] = {
            CANDIDATES: Candidates,
            REJECTS: RejectsFile,
            COUNTS: Count,
        }
        typed = beam.ParDo(_PrepareTask(self._preparation)).with_output_types(
            tuple[int, Segment], **others
        )
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
