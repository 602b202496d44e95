"""Read documents again that a data set has, as candidates for the pool of text added to it.

    plan ─ tasks ─ recall (read, compare, tokenize) ─┬─ candidates
                                                     └─ counts

A line of the plan lists documents of some files. They are divided into sentences and tokenized as
when they were built, and count neither as input nor as documents of the new part.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.provenance import Provenance
from corpusmill.errors import UserError
from corpusmill.layout.sorting import join_small
from corpusmill.objectives.random_documents import measure_documents
from corpusmill.provenance.read_again import read_again
from corpusmill.provenance.records import UnreadableTextError
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from transforms.candidates import CANDIDATES, CandidateFile
from transforms.coders import NamedOutputs
from transforms.elements import Candidates, Task
from transforms.plan import Plan, PlanTasks, read_line
from transforms.recalled_parts import CURE, RecalledPart
from transforms.recovery.journal import Journal, Output
from transforms.recovery.workplace import Workplace
from transforms.storage.files import open_file
from transforms.tally import COUNTS, Count, Tally
from transforms.tokenize import Tokenizing
from transforms.work_log import run_once

# Documents are tokenized together up to this size.
_BATCH_BYTES = 2**19


@dataclass(frozen=True)
class Recall:
    """The documents of a data set that are read again.

    Attributes:
        plan: lists them; its tasks hold them in the order of their ids.
        documents: their number.
        limit: no document of a larger priority can enter the pool.
        provenance: the generations of the data set, and the new one.
    """

    plan: Plan
    documents: int
    limit: int
    provenance: Provenance


@dataclass(frozen=True)
class RecallOptions:
    """How documents are read again.

    Attributes:
        documents: how the corpus is read.
        tokenizing: how text is tokenized.
        seed: the data set's seed.
        limit: as `Recall` has it.
        place: where the run works.
    """

    documents: DocumentOptions
    tokenizing: Tokenizing
    seed: int
    limit: int
    place: Workplace


class _RecallTask(beam.DoFn):
    """Read the documents of a task, unless the journal says that it is finished."""

    def __init__(self, options: RecallOptions) -> None:
        self._options, self._shared = options, Shared()
        self._documents = replace(options.documents, keep_fields=())

    def setup(self) -> None:
        self._journal = Journal(self._options.place)

    def process(self, element: Task) -> Iterator[Candidates]:
        name = f"recall-{element.number}"
        for tag, value in run_once(self._journal, name, partial(self._recall, element)):
            yield TaggedOutput(tag, value) if tag else value

    def _recall(self, task: Task) -> Iterator[Output]:
        options, tally = self._options, Tally()
        tokenizing = options.tokenizing
        tokenizer = self._shared.acquire(tokenizing.load, tag=tokenizing.path)
        file = CandidateFile(options.seed, options.limit, options.place.temp_folder, tally)
        for part in read_line(task):
            for documents in self._tokenize(tokenizer, RecalledPart(*part)):
                file.add(documents)
                sizes = measure_documents(documents)
                tally.add("recall.documents", len(sizes))
                tally.add("recall.tokens", int(sizes[:, 2].sum()))
        yield from (("", candidates) for candidates in file.close(task.number))
        yield from tally.outputs()

    def _tokenize(
        self, tokenizer: SentenceTokenizer, part: RecalledPart
    ) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a part, tokenized, with the ids that they have now."""
        tokens = dict(zip(part.documents, part.tokens, strict=True))
        for text in join_small(self._read(part), _BATCH_BYTES):
            encoded = encode_documents(tokenizer, text, self._options.tokenizing.cuts).documents
            expected = [tokens[number] for number in text.column("document").to_pylist()]
            if measure_documents(encoded)[:, 2].tolist() != expected:
                cause = "its text gives other tokens than when the data set was built"
                cure = "Install the packages of that time, or give --random-documents new"
                raise UserError(part.name, cause, cure)
            ids = encoded.column("document").to_numpy() + np.uint64(part.first_id)
            yield encoded.set_column(0, encoded.schema.field(0), pa.array(ids))

    def _read(self, part: RecalledPart) -> Iterator[pa.RecordBatch]:
        file = FileRange(part.name, part.file_number, self._documents)
        try:
            yield from read_again(partial(open_file, part.path), file, part.table)
        except UnreadableTextError as error:
            raise UserError(f"--earlier-input {part.path}", str(error), CURE) from None


class RecallDocuments(beam.PTransform):
    """Read documents of a data set again.

    Returns the collections CANDIDATES and COUNTS.

    Args:
        plan: lists the documents.
        options: how they are read.
    """

    def __init__(self, plan: Plan, options: RecallOptions) -> None:
        super().__init__()
        self._plan, self._options = plan, options

    def expand(self, begin: beam.pvalue.PBegin) -> NamedOutputs:
        """Spread the tasks over all workers."""
        recall = beam.ParDo(_RecallTask(self._options)).with_output_types(
            Candidates, **{COUNTS: Count}
        )
        tasks = begin | "PlanRecall" >> PlanTasks(self._plan, self._options.place)
        return tasks | "RecallTask" >> recall.with_outputs(COUNTS, main=CANDIDATES)

    def display_data(self) -> dict[str, str | int]:
        """Show what is read."""
        return {"tasks": self._plan.tasks, "tokenizer": self._options.tokenizing.path}
