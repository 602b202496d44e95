"""Prepare the documents of each task for the shards: read, tokenize, spill.

The three steps are one DoFn, because a task is the unit of the journal: all outputs of a task must
be known when it ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.shared import Shared

from corpusmill.arrays import ragged
from corpusmill.arrays.distinct import hash_rows
from corpusmill.arrays.ragged import cut_rows
from corpusmill.arrays.text_hashes import field_column
from corpusmill.corpus.document_options import CorpusReading
from corpusmill.corpus.filters.functions import Step
from corpusmill.corpus.groups import Grouping, fill, list_fields
from corpusmill.dataset.accounting import NOT_DRAWN
from corpusmill.layout.groups import Lists, draw_groups, group_columns, interleave
from corpusmill.layout.placement import Layout
from corpusmill.objectives.random_documents import keep_candidates
from corpusmill.objectives.tokenized_documents import unpack_documents
from corpusmill.tokenization.encoding import encode_documents, tokenized_schema
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer, load_sentence_tokenizer
from corpusmill.tokenization.text_cuts import Cuts
from transforms.coders import NamedOutputs
from transforms.corpus.duplicates import Screening, route_outputs
from transforms.corpus.known_texts import load_known
from transforms.corpus.plan import read_task
from transforms.corpus.pool import CANDIDATE_BYTES, CANDIDATES
from transforms.corpus.read import READ_RANGES, REJECTS, TaskReader
from transforms.elements import LinesFile, PlannedRange, ReadRange, Segment, Task
from transforms.recovery import Journal, Output, Workplace
from transforms.reports import log_begin, run_once
from transforms.shuffle.segments import Routes
from transforms.shuffle.spill import Spill
from transforms.storage.checksums import read_blocks
from transforms.tally import COUNTS, SKETCHES, Count, Sketch, SourceTally, Tally

# Copies are counted in passages, so that a document weighs as much as its text: 579 of WikiText-2's
# 6,097 documents are a pair of quotation marks.
PASSAGE_TOKENS = 32


@dataclass(frozen=True)
class Tokenizing:
    """How text is tokenized.

    Attributes:
        path: a complete tokenizer.json that every worker can read.
        sha256: hexadecimal digest of that file.
        token_dtype: NumPy name of the type of a token id, marked where a rule of words is set.
        memoize: whether the ids of words may be remembered.
        special_tokens_in_text: whether special tokens in the text become their ids.
        words: rule of words by which ids are marked (`corpusmill.tokenization.words.words`); empty
            for none.
        cuts: cuts texts before they are tokenized; None if they are not cut.
        keep_fields: names of the fields that are among the facts of documents.
        facts: whether tokenized documents have the columns of facts
            (`corpusmill.arrays.text_hashes`).
        grouping: how records are joined to documents, with special tokens, where facts are kept;
            None if each is a document.
    """

    path: str
    sha256: str
    token_dtype: str
    memoize: bool = True
    special_tokens_in_text: bool = False
    words: str = ""
    cuts: Cuts | None = None
    keep_fields: tuple[str, ...] = ()
    facts: bool = False
    grouping: Grouping | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of tokenized documents."""
        schema = tokenized_schema(self.token_dtype, self.keep_fields, self.facts)
        return pa.schema([*schema, *(group_columns(self.token_dtype) if self.grouping else [])])

    def load(self) -> SentenceTokenizer:
        """Load the tokenizer; Beam's `Shared` makes it one for each process.

        Raises:
            DamagedFileError: its file is damaged.
        """
        return load_sentence_tokenizer(
            b"".join(read_blocks(self.path, self.sha256)).decode(),
            np.dtype(self.token_dtype),
            self.memoize,
            self.special_tokens_in_text,
            self.words,
        )


def tokenize_batch(
    tokenizer: SentenceTokenizer, batch: pa.RecordBatch, tally: Tally, tokenizing: Tokenizing
) -> pa.RecordBatch:
    """Tokenize and count the documents of a batch; documents without tokens are left out."""
    encoded = encode_documents(
        tokenizer, batch, tokenizing.cuts, tokenizing.keep_fields, tokenizing.facts
    )
    tally.add("tokenize.documents", encoded.documents.num_rows)
    tally.add("tokenize.tokens", encoded.tokens)
    tally.add("tokenize.unknown_tokens", encoded.unknown_tokens)
    tally.add("tokenize.text_bytes", encoded.text_bytes)
    tally.add("tokenize.empty_sentences", encoded.empty_sentences)
    tally.add("tokenize.empty_documents", encoded.empty_documents)
    for name in ("letter_bytes", "control_characters", "cut_texts", "special_tokens_in_text"):
        if number := getattr(encoded, name):
            tally.add(f"tokenize.{name}", number)
    for name, number in encoded.marks.items():
        tally.add(f"tokenize.{name}", number)
    index, token_ids = unpack_documents(encoded.documents)
    passages = cut_rows(index.sentence_offsets[index.offsets], PASSAGE_TOKENS)
    tally.add("tokenize.passages", len(passages) - 1)
    tally.add_distinct("tokenize.distinct_passages", hash_rows(token_ids, passages))
    return encoded.documents


def add_groups(
    records: pa.RecordBatch, tokenizing: Tokenizing, tokenizer: SentenceTokenizer, layout: Layout
) -> pa.RecordBatch:
    """Add the columns of groups (`corpusmill.layout.groups`) to tokenized records."""
    grouping, number = cast(Grouping, tokenizing.grouping), records.num_rows
    fields = {name for head in grouping.heads for name in list_fields(head)}
    values = {name: records.column(field_column(name).name).to_pylist() for name in fields}

    def tokenize(part: str) -> Lists:
        if (token := tokenizer.added.get(part)) is not None:
            return np.full(number, token, tokenizing.token_dtype), np.arange(number + 1)
        texts = [text.encode() for text in fill(part, number, values)]
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        return tokenizer.encode(np.frombuffer(b"".join(texts), np.uint8), offsets)

    heads = (interleave([*map(tokenize, parts)]) for parts in grouping.divide(tokenizer.added))
    groups = draw_groups(records, grouping.by, layout)
    columns = [*records.columns, groups, *(ragged.to_arrow(*head) for head in heads)]
    return ragged.to_batch(columns, tokenizing.schema)


SEGMENTS = "segments"
# A task has fewer segments than 2 to this power.
_SEGMENT_BITS = 32


@dataclass(frozen=True)
class Preparation:
    """How tasks are prepared.

    Attributes:
        documents: how the corpus is read.
        tokenizing: how text is tokenized.
        routes: how documents reach their shards.
        candidate_limit: largest priority of a document that may enter the pool; None without a
            pool.
        place: where the run works.
        screening: which documents are left out.
        sources: names of the sources, in the order of the layout's; empty where there is but one.
        drops_known: whether documents are left out that the data set holds already.
    """

    documents: CorpusReading
    tokenizing: Tokenizing
    routes: Routes
    candidate_limit: int | None
    place: Workplace
    screening: Screening = field(default_factory=Screening)
    sources: tuple[str, ...] = ()
    drops_known: bool = False


class TaskDoFn(beam.DoFn):
    """Base of DoFns that read and tokenize a task at a time.

    Args:
        preparation: how tasks are prepared.
        keeps_checksums: whether checksums of the input are computed.
    """

    def __init__(self, preparation: Preparation, keeps_checksums: bool = False) -> None:
        self._keeps_checksums = keeps_checksums
        self._preparation, self._shared = preparation, Shared()
        self._shared_passages = Shared()

    def prepare(
        self, task: Task, ranges: Iterable[PlannedRange]
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yield the batches of a task, as text and tokenized; further outputs are in `finish`.

        Args:
            task: the task.
            ranges: its ranges.
        """
        tokenizing = self._preparation.tokenizing
        # Once for each process, and not before there is work: the file may be gone by then.
        self._tokenizer = self._shared.acquire(tokenizing.load, tag=tokenizing.path)
        limit, seed = self._preparation.candidate_limit, self._preparation.routes.layout.seed
        place, tally = self._preparation.place, Tally()
        self._candidates = Spill(place.temp_folder, CANDIDATE_BYTES)
        steps, layout = list(self._steps(task)), self._preparation.routes.layout
        names = self._preparation.sources
        sources = SourceTally(names, layout, tally) if names else None
        self._reader = TaskReader(
            self._preparation.documents,
            place,
            tally,
            steps,
            keeps_checksums=self._keeps_checksums,
            sources=sources,
        )
        self._tally = tally
        for text in self._reader.read(ranges):
            documents = tokenize_batch(self._tokenizer, text, tally, tokenizing)
            if tokenizing.grouping:
                documents = add_groups(documents, tokenizing, self._tokenizer, layout)
            if sources:
                sources.add_tokenized(text, documents)
            if limit is not None:
                # Without facts of the documents.
                plain = documents.select(["document", "sentences"])
                if number := (candidates := keep_candidates(seed, plain, limit)).num_rows:
                    tally.add("candidates.documents", number)
                    self._candidates.add(candidates, np.full(number, task.number, np.uint32))
            yield text, documents

    def _steps(self, task: Task) -> Iterator[Step]:
        """Yield the steps in which documents are dropped, in their order."""
        yield from self._preparation.screening.list_steps(task, self._shared_passages)
        if self._preparation.drops_known:
            yield load_known(task.known)
        # Last, so that of equal documents the one that is kept may be drawn.
        if self._preparation.sources:
            yield self._leave_out

    def _leave_out(self, documents: pa.RecordBatch, _: str) -> Sequence[str]:
        """Name the documents of which a source takes no copy."""
        grouping, layout = self._preparation.tokenizing.grouping, self._preparation.routes.layout
        ids = documents.column("document").to_numpy()
        ids = draw_groups(documents, grouping.by, layout) if grouping else ids
        copies = layout.count_copies(ids)
        return ["" if number else NOT_DRAWN for number in copies.tolist()]

    def finish(self, task: Task) -> Iterator[Output]:
        """Yield all further outputs of the last prepared task."""
        yield from ((CANDIDATES, segment) for segment in _drain(self._candidates, task))
        yield from ((REJECTS, rejects) for rejects in self._reader.rejects(task.number))
        yield from ((READ_RANGES, read_range) for read_range in self._reader.ranges)
        yield from self._tally.outputs()


def _drain(spill: Spill, task: Task) -> Iterator[Segment]:
    """Write what a task has spilled, and yield its segments with their places in the corpus."""
    spill.write()
    for number, segment in enumerate(spill.segments):
        yield segment._replace(place=task.number << _SEGMENT_BITS | number)


class _PrepareTask(TaskDoFn):
    """Spill the documents of a task, unless the journal says that it is finished."""

    def setup(self) -> None:
        self._journal = Journal(self._preparation.place)

    def process(self, element: Task) -> Iterator[tuple[int, Segment]]:
        name = f"task-{element.number}"
        outputs = run_once(self._journal, name, lambda: self._spill(element))
        yield from route_outputs(outputs, SEGMENTS, self._preparation.routes, element.number)

    def _spill(self, task: Task) -> Iterator[Output]:
        ranges = read_task(task)
        log_begin(f"task-{task.number}", ranges)
        workplace = self._preparation.place
        spill = Spill(workplace.temp_folder, workplace.sizes.buffer_bytes)
        for _, documents in self.prepare(task, ranges):
            if documents.num_rows:
                spill.add(documents, self._preparation.routes.buckets(documents))
        yield from ((SEGMENTS, segment) for segment in _drain(spill, task))
        yield from self.finish(task)


class PrepareDocuments(beam.PTransform):
    """Read, tokenize and spill the documents of tasks.

    Returns the collections SEGMENTS (keyed by merge where files have two levels, else by shard),
    CANDIDATES, REJECTS, READ_RANGES, COUNTS and SKETCHES.

    Args:
        preparation: how tasks are prepared.
    """

    def __init__(self, preparation: Preparation) -> None:
        super().__init__()
        self._preparation = preparation

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """Apply one DoFn."""
        tags: dict[str, object] = {
            CANDIDATES: Segment, REJECTS: LinesFile, READ_RANGES: ReadRange, COUNTS: Count,
            SKETCHES: Sketch,
        }  # fmt: skip
        prepare = beam.ParDo(
            _PrepareTask(self._preparation, keeps_checksums=True)
        ).with_output_types(tuple[int, Segment], **tags)
        return tasks | "PrepareTask" >> prepare.with_outputs(*tags, main=SEGMENTS)

    def display_data(self) -> dict[str, str | int]:
        """Show how the corpus is read and tokenized."""
        documents, tokenizing = self._preparation.documents, self._preparation.tokenizing
        return {
            "input_format": documents.describe("input_format"),
            "document_rule": documents.describe("document_rule"),
            "tokenizer": tokenizing.path,
            "words": tokenizing.words,
            "shards": self._preparation.routes.layout.shards,
        }
