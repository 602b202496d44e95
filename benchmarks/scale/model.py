"""What a job of any size does, reckoned from its own plan and the rates of a small run.

Every function takes a job as `assemble_job` makes it, so that ranges, tasks, shards, groups and
merges are the code's own, and `Rates`, which were measured. What is drawn at random, such as which
homes a spill file has documents of, is reckoned as its expectation.
"""

import json
from dataclasses import dataclass
from math import ceil

import pyarrow as pa

from benchmarks.scale.counted_run import Counted, encoded_bytes
from corpusmill.layout.length_bins import cut_lengths
from corpusmill.objectives.random_documents import candidate_limit
from corpusmill.tokenization.encoding import tokenized_schema
from pipeline.graph import Job
from transforms.build import SORT_BYTES
from transforms.prepare import CANDIDATE_BYTES
from transforms.shuffle import BUFFER_BYTES
from transforms.spill import JOINED_BYTES

# A file of rows to sort has a segment for each slice of the keys' range (`transforms.sort`).
_SLICES = 256


@dataclass(frozen=True)
class Rates:
    """What a small run of the same corpus and objective was counted to do.

    Attributes:
        stored: bytes of a tokenized document in memory, for each byte read.
        documents: tokenized, for each byte read.
        tokens: for each byte read.
        examples: for each token and repeat.
        sorted: bytes of an example while it is sorted.
        written: bytes of an example in its shard.
        message: bytes that a segment has beside its documents.
        reference: bytes of a reference to a segment as it travels.
        task_counts: counts that a task gives.
        shard_counts: counts that a shard gives.
        shard_entry: bytes of a shard in the manifest.
        process: bytes of a process before it works.
    """

    stored: float
    documents: float
    tokens: float
    examples: float
    sorted: float
    written: float
    message: float
    reference: float
    task_counts: float
    shard_counts: float
    shard_entry: float
    process: float


def rates_of(of: Counted) -> Rates:
    """The rates of a run."""
    counts, job = of.counts, of.job
    read, rows = counts["read.bytes"], max(1, counts["build.examples"])
    shards = [shard for split in of.manifest["splits"].values() for shard in split["shards"]]
    levels = 2 if job.routes.two_levels else 1
    documents = [part for part in of.spilled if part.path and "spill" in part.path]
    empty = pa.RecordBatch.from_pylist([], tokenized_schema(job.tokenizing.token_dtype))
    return Rates(
        stored=of.buffered_bytes / levels / read,
        documents=counts["tokenize.documents"] / read,
        tokens=counts["tokenize.tokens"] / read,
        examples=rows / max(1, counts["tokenize.tokens"] * job.objective.repeats),
        sorted=of.sorted_bytes / rows,
        written=sum(shard["bytes"] for shard in shards) / rows,
        message=empty.serialize().size,
        reference=sum(map(encoded_bytes, documents)) / max(1, len(documents)),
        task_counts=_elements(of, "_PrepareTask).counts") / job.plan.tasks,
        shard_counts=_elements(of, "_BuildShard).counts") / job.layout.shards,
        shard_entry=len(json.dumps(shards, indent=1)) / len(shards),
        process=of.process_bytes,
    )


def _elements(of: Counted, name: str) -> int:
    return sum(number for key, number in of.elements.items() if key.endswith(name))


def occupied(buckets: float, documents: float) -> float:
    """How many of some buckets get a document, each document falling into any of them.

    Example:
        100 documents in 100 buckets leave 37 empty: 63.4.
    """
    if buckets <= 1:
        return min(1.0, documents)
    return float(buckets * -((1 - 1 / buckets) ** documents - 1))


@dataclass(frozen=True)
class Scale:
    """A job and what it will do.

    Attributes:
        job: as it would run.
        rates: of its corpus and objective.
    """

    job: Job
    rates: Rates

    @property
    def documents(self) -> float:
        """Tokenized documents."""
        return self.rates.documents * self.job.corpus_bytes

    @property
    def stored_bytes(self) -> float:
        """All documents as token ids."""
        return self.rates.stored * self.job.corpus_bytes

    @property
    def examples(self) -> float:
        """Rows before any are packed."""
        tokens = self.rates.tokens * self.job.corpus_bytes
        return tokens * self.job.objective.repeats * self.rates.examples

    @property
    def output_bytes(self) -> float:
        """All shards."""
        return self.examples * self.rates.written

    # The shuffle.

    @property
    def spill_files(self) -> float:
        """Of the first level: what a task holds is written once it fills a buffer."""
        return self.job.plan.tasks * _files(self.stored_bytes / self.job.plan.tasks)

    @property
    def first_segments(self) -> float:
        """Of the first level: a file has one for each group, or home, of its documents."""
        routes = self.job.routes
        buckets = routes.groups if routes.two_levels else routes.layout.shards
        return self.spill_files * occupied(buckets, self.documents / self.spill_files)

    @property
    def merges(self) -> int:
        """Calls of the second level."""
        routes = self.job.routes
        return ceil(self.job.plan.tasks / routes.tasks_a_merge) * routes.groups

    @property
    def merge_bytes(self) -> float:
        """Documents that one call of the second level reads and writes."""
        return self.stored_bytes / self.merges

    @property
    def merge_values(self) -> float:
        """References of one key on their way to the second level."""
        return self.first_segments / self.merges

    @property
    def merge_files(self) -> float:
        """Files of the second level: a call joins what it spilled."""
        return self.merges if self.job.routes.two_levels else 0

    @property
    def segments(self) -> float:
        """Of the last level, what shards read: of each home that a merge has documents of."""
        routes = self.job.routes
        if not routes.two_levels:
            return self.first_segments
        homes = routes.layout.shards / routes.groups
        of_home = max(1.0, self.merge_bytes / homes / JOINED_BYTES)
        return self.merges * occupied(homes, self.documents / self.merges) * of_home

    @property
    def segment_bytes(self) -> float:
        """Of one of them."""
        return self.stored_bytes / self.segments + self.rates.message

    @property
    def builders(self) -> int:
        """Shards that build a document, each with other repeats."""
        return min(self.job.routes.repeats, self.job.layout.train_shards)

    @property
    def shard_references(self) -> float:
        """References that shards get, among them one to nothing for each shard."""
        return self.segments * self.builders + self.job.layout.shards

    @property
    def shard_values(self) -> float:
        """References of one shard."""
        return self.shard_references / self.job.layout.shards

    @property
    def reference_bytes(self) -> float:
        """Bytes of references that the engine shuffles."""
        merged = self.first_segments if self.job.routes.two_levels else 0
        return (merged + self.shard_references) * self.rates.reference

    @property
    def file_bytes_written(self) -> float:
        """Temporary files of documents, of both levels."""
        levels = 2 if self.job.routes.two_levels else 1
        first = self.first_segments if levels == 2 else 0
        return self.stored_bytes * levels + (first + self.segments) * self.rates.message

    @property
    def file_bytes_read(self) -> float:
        """As written, but each segment of the last level once for each of its shards."""
        first = self.stored_bytes if self.job.routes.two_levels else 0
        return first + self.segments * self.segment_bytes * self.builders

    # Shards.

    @property
    def sort_bytes(self) -> float:
        """Examples of one shard while they are sorted."""
        return self.examples * self.rates.sorted / self.job.layout.shards

    @property
    def sort_files(self) -> float:
        """Files of one shard's examples; none where they fit into memory."""
        return 0 if self.sort_bytes < SORT_BYTES else _files(self.sort_bytes, SORT_BYTES)

    @property
    def scratch_bytes(self) -> float:
        """Most that a worker process has on its own disk: a merge's spills, or a shard's rows."""
        merging = self.merge_bytes if self.job.routes.two_levels else 0
        return max(merging, self.sort_bytes if self.sort_files else 0)

    @property
    def sort_opens(self) -> float:
        """Segments of them, read one by one; they lie on the worker's own disk."""
        return self.sort_files * occupied(_SLICES, self.examples / self.job.layout.shards)

    @property
    def files_a_shard(self) -> int:
        """A file for each range of lengths and each part of the format."""
        job = self.job
        bins = cut_lengths(job.objective.columns, job.output_options.bin_size)
        return max(1, len(bins)) * len(job.commit.suffixes)

    # The pool.

    @property
    def candidates(self) -> float:
        """References to documents that may enter the pool: of a task with any, or a megabyte."""
        budget = self.job.objective.pool_tokens
        if not budget:
            return 0
        share = (candidate_limit(budget, self.job.corpus_bytes) + 1) / 2**64
        tasks = self.job.plan.tasks
        with_any = tasks * (1 - (1 - min(share, 1.0)) ** (self.documents / tasks))
        return float(max(with_any, self.stored_bytes * share / CANDIDATE_BYTES))

    @property
    def pool_bytes(self) -> float:
        """Of the pool, which every worker maps."""
        tokens = min(self.job.objective.pool_tokens, self.rates.tokens * self.job.corpus_bytes)
        return tokens * self.rates.stored / self.rates.tokens

    # The file system.

    @property
    def opens(self) -> float:
        """Files of the run's folder and of the input opened to be read.

        The plan by each task, ranges, candidates twice, segments, and the journal's entries, by
        whose opening it is found that there is none.
        """
        plan, routes = self.job.plan, self.job.routes
        merged = self.first_segments if routes.two_levels else 0
        built = self.segments * self.builders
        listed = 1 + plan.tasks + plan.ranges + self.journal_entries
        return listed + 2 * self.candidates + merged + built

    @property
    def journal_entries(self) -> float:
        """One a task, merge and shard, and the pool's."""
        merges = self.merges if self.job.routes.two_levels else 0
        return self.job.plan.tasks + merges + self.job.layout.shards + 1

    @property
    def creates(self) -> float:
        """Files written: spills and candidates, the journal's entries, shards."""
        candidates = min(self.job.plan.tasks, self.candidates)
        spills = self.spill_files + candidates + self.merge_files
        return spills + self.journal_entries + self.job.layout.shards * self.files_a_shard

    @property
    def looks(self) -> float:
        """Whether a file is there, by the commit, and its size, by the journal."""
        of_shards = self.job.layout.shards * self.files_a_shard
        spills = self.spill_files + min(self.job.plan.tasks, self.candidates) + self.merge_files
        return spills + 2 * of_shards

    @property
    def renames(self) -> float:
        """By the commit, which is one task."""
        return self.job.layout.shards * self.files_a_shard

    @property
    def count_elements(self) -> float:
        """Counts that tasks and shards give; engines add them up where they arise."""
        of_tasks = self.job.plan.tasks * self.rates.task_counts
        return of_tasks + self.job.layout.shards * self.rates.shard_counts

    # Memory.

    @property
    def worker_bytes(self) -> float:
        """Of one worker process: a full buffer being ordered, or a shard sorted, and the pool.

        The parts that are held at once, each with the factor that its constant's comment names.
        """
        ordering = 3 * min(BUFFER_BYTES, self.stored_bytes)
        sorting = 2 * min(SORT_BYTES, self.sort_bytes)
        return self.rates.process + max(ordering, sorting) + self.pool_bytes

    @property
    def open_files(self) -> int:
        """Of one worker process at once: input, spill, candidates; or a shard's and a segment."""
        return max(3, self.files_a_shard + 1)

    @property
    def manifest_bytes(self) -> float:
        """The header with its list of input files, and the shards."""
        header = len(json.dumps(self.job.header, indent=1, ensure_ascii=False).encode())
        return header + self.job.layout.shards * self.files_a_shard * self.rates.shard_entry


def _files(num_bytes: float, buffer_bytes: int = BUFFER_BYTES) -> int:
    """Files of a task or merge: one whenever a buffer is full, and one of what is left."""
    return int(num_bytes // buffer_bytes) + 1
