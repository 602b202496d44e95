"""The work of a job of any size, from its plan and the rates of a sample.

Ranges, tasks, shards, groups and merges are those of the job that the pipeline's own code has
planned. Random numbers, such as that of the shards that a spill file has documents for, are
estimated by their expectation.
"""

from dataclasses import dataclass

from corpusmill.corpus.filters.duplicates import ROW_BYTES
from corpusmill.dataset.manifest_json import encode
from corpusmill.layout.sorting import JOINED_BYTES
from corpusmill.objectives.random_documents import BYTES_OF_SIZES, candidate_limit
from pipeline.graph import Job
from pipeline.planning.rates import Rates
from transforms.build import SORT_BYTES, SORT_FILE_BYTES
from transforms.candidates import CANDIDATE_BYTES
from transforms.shuffle import BUFFER_BYTES
from transforms.trees import count_blocks

# A sort file has a segment for each slice of the range of keys (`transforms.sort`).
_SLICES = 256
# Bytes of an input file's entry in the manifest, with a name of 50 characters.
_FILE_ENTRY = 120


def occupied(buckets: float, documents: float) -> float:
    """Return the expected number of buckets with a document, if each falls into any of them.

    Example:
        100 documents leave 36.6 of 100 buckets empty: 63.4.
    """
    if buckets <= 1:
        return min(1.0, documents)
    return float(buckets * -((1 - 1 / buckets) ** documents - 1))


@dataclass(frozen=True)
class Workload:
    """The work of a job.

    Attributes:
        job: the job as it is planned.
        rates: of its corpus and objective.
        input_bytes: size of the corpus' files.
        input_files: their number.
        largest_task_bytes: size of the corpus' largest task.
        taken: share of the text that is taken from its sources.
        copies: how often that is taken, on average.
    """

    job: Job
    rates: Rates
    input_bytes: int
    input_files: int
    largest_task_bytes: int
    taken: float = 1.0
    copies: float = 1.0

    @property
    def documents(self) -> float:
        """Number of tokenized documents."""
        return self.rates.documents * self.input_bytes * self.taken

    @property
    def tokens(self) -> float:
        """Number of tokens of the documents."""
        return self.rates.tokens * self.input_bytes * self.taken

    @property
    def stored_bytes(self) -> float:
        """Size of all documents as token ids in memory."""
        return self.rates.stored * self.input_bytes * self.taken

    @property
    def examples(self) -> float:
        """Number of examples before packing."""
        return self.tokens * self.copies * self.job.objective.repeats * self.rates.examples

    @property
    def rows(self) -> float:
        """Number of written rows."""
        return self.examples * self.rates.rows

    @property
    def output_bytes(self) -> float:
        """Size of all shards."""
        return self.examples * self.rates.written

    # The shuffle.

    @property
    def spill_files(self) -> float:
        """Number of files that tasks spill: one for each full buffer, and one for the rest."""
        return self.job.plan.tasks * _files(self.stored_bytes / self.job.plan.tasks)

    @property
    def first_segments(self) -> float:
        """Number of segments in spill files: one for each group, or shard, of their documents."""
        routes = self.job.routes
        return self.spill_files * occupied(routes.groups, self.documents / self.spill_files)

    @property
    def merge_counts(self) -> list[int]:
        """Number of merges on each level, and of the files that they write."""
        return self.job.routes.count_merges(self.job.plan.tasks)

    @property
    def merges(self) -> int:
        """Number of merges on the last level; 0 where shards read what tasks wrote."""
        return self.merge_counts[-1] if self.merge_counts else 0

    @property
    def merge_inputs(self) -> list[float]:
        """Number of segments that the merges of each level read."""
        joins = self.merge_counts[:-1]
        joined = [number * _files(self.stored_bytes / number, JOINED_BYTES) for number in joins]
        return [self.first_segments, *joined] if self.merges else []

    @property
    def merge_bytes(self) -> float:
        """Size of the documents that a merge of the last level reads and writes."""
        return self.stored_bytes / self.merges if self.merges else 0

    @property
    def merge_values(self) -> float:
        """Number of references that a merge gets, the values of one key."""
        levels = zip(self.merge_inputs, self.merge_counts, strict=True)
        return max((segments / merges for segments, merges in levels), default=0)

    @property
    def segments(self) -> float:
        """Number of segments that shards read."""
        routes = self.job.routes
        if not self.merges:
            return self.first_segments
        shards = routes.layout.shards / routes.groups
        segments_a_shard = max(1.0, self.merge_bytes / shards / JOINED_BYTES)
        return occupied(self.merges * shards, self.documents) * segments_a_shard

    @property
    def segment_bytes(self) -> float:
        """Size of one of these segments."""
        return self.stored_bytes / self.segments + self.rates.message

    @property
    def builders(self) -> int:
        """Number of shards that build a document, each with other repeats."""
        return min(self.job.routes.repeats, self.job.layout.train_shards)

    @property
    def shard_references(self) -> float:
        """Number of references that shards get, including an empty one for each shard."""
        return self.segments * self.builders + self.job.layout.shards

    @property
    def shard_values(self) -> float:
        """Number of references that a shard gets, the values of one key."""
        return self.shard_references / self.job.layout.shards

    @property
    def references(self) -> float:
        """Number of references that the engine shuffles."""
        return sum(self.merge_inputs) + self.shard_references

    @property
    def file_bytes_written(self) -> float:
        """Size of the temporary files with documents, of all levels."""
        levels = 1 + len(self.merge_counts)
        heads = (sum(self.merge_inputs) + self.segments) * self.rates.message
        return self.stored_bytes * levels + heads

    @property
    def file_bytes_read(self) -> float:
        """Bytes read from these files; each shard that builds a document reads its segment."""
        merged = self.stored_bytes * len(self.merge_counts)
        return merged + self.segments * self.segment_bytes * self.builders

    @property
    def hash_bytes(self) -> float:
        """Size of the temporary files with hashes of documents, which find duplicates."""
        if not self.job.filters.drop_duplicates:
            return 0
        return ROW_BYTES * self.documents * (2 if self.merges else 1)

    @property
    def temporary_bytes(self) -> float:
        """Size of all temporary files but shards."""
        return self.file_bytes_written + self.hash_bytes + self.candidate_bytes + self.pool_bytes

    # Shards.

    @property
    def sort_bytes(self) -> float:
        """Size of a shard's examples while they are sorted."""
        return self.examples * self.rates.sorted / self.job.layout.shards

    @property
    def sort_files(self) -> float:
        """Number of sort files of a shard; 0 if its examples fit into memory."""
        return 0 if self.sort_bytes < SORT_BYTES else _files(self.sort_bytes, SORT_FILE_BYTES)

    @property
    def scratch_bytes(self) -> float:
        """Largest use of a worker's local disk: the spills of a merge, or the rows of a shard."""
        return max(self.merge_bytes, self.sort_bytes if self.sort_files else 0)

    @property
    def sort_opens(self) -> float:
        """Number of segments that are read from a shard's sort files on the local disk."""
        return self.sort_files * occupied(_SLICES, self.examples / self.job.layout.shards)

    @property
    def files_a_shard(self) -> int:
        """Number of files of a shard, those that tell where its rows come from included."""
        return self.job.commit.files_a_shard

    @property
    def shard_files(self) -> int:
        """Number of files of all shards, which the commit renames."""
        return self.job.layout.shards * self.files_a_shard

    # The pool.

    @property
    def candidates(self) -> float:
        """Number of references to candidates for the pool: one for each task with any, or more."""
        budget = self.job.objective.pool_tokens
        if not budget:
            return 0
        share = (candidate_limit(budget, self.job.corpus_bytes) + 1) / 2**64
        tasks = self.job.plan.tasks
        with_any = tasks * (1 - (1 - min(share, 1.0)) ** (self.documents / tasks))
        return float(max(with_any, self.stored_bytes * share / CANDIDATE_BYTES))

    @property
    def candidate_bytes(self) -> float:
        """Size of the temporary files with candidates."""
        budget = self.job.objective.pool_tokens
        if not budget:
            return 0
        share = (candidate_limit(budget, self.job.corpus_bytes) + 1) / 2**64
        return share * (self.stored_bytes + self.documents * BYTES_OF_SIZES)

    @property
    def joined_candidates(self) -> float:
        """Number of references to candidates once they are joined; 0 where they are not."""
        blocks = count_blocks(self.job.plan.tasks)
        return blocks[-1] + self.candidate_bytes / JOINED_BYTES if blocks else 0

    @property
    def pool_bytes(self) -> float:
        """Size of the pool, which every worker maps."""
        tokens = min(self.job.objective.pool_tokens, self.tokens)
        return tokens * self.rates.stored / max(self.rates.tokens, 1e-12)

    # The file system.

    @property
    def segment_opens(self) -> float:
        """Number of times that segments and candidates are opened, one after the other."""
        return sum(self.merge_inputs) + self.segments * self.builders + 2 * self.candidates

    @property
    def opens(self) -> float:
        """Number of files that are opened for reading, in the input and the run's folder.

        Each task opens the plan and its ranges; and all units of work open the run's claim, and try
        to open their entries in the journal.
        """
        plan = self.job.plan
        return 1 + plan.tasks + plan.ranges + 2 * self.journal_entries + self.segment_opens

    @property
    def journal_entries(self) -> float:
        """Number of entries in the journal: of tasks, merges, shards and the pool."""
        return self.job.plan.tasks + sum(self.merge_counts) + self.job.layout.shards + 1

    @property
    def temporary_files(self) -> float:
        """Number of temporary files with documents: spills, candidates and merged spills."""
        return self.spill_files + min(self.job.plan.tasks, self.candidates) + sum(self.merge_counts)

    @property
    def creates(self) -> float:
        """Number of files that are written."""
        return self.temporary_files + self.journal_entries + self.shard_files

    @property
    def looks(self) -> float:
        """Number of times that the journal asks for a file's size, or the commit for a file."""
        return self.temporary_files + 2 * self.shard_files

    @property
    def count_elements(self) -> float:
        """Number of elements with counts before engines add them up."""
        task_counts = self.job.plan.tasks * self.rates.task_counts
        return task_counts + self.job.layout.shards * self.rates.shard_counts

    # Memory.

    @property
    def worker_bytes(self) -> float:
        """Memory of a worker process: a full buffer or a shard's rows being ordered, and the pool.

        The comments at the constants explain the factors.
        """
        ordering = 3 * min(BUFFER_BYTES, self.stored_bytes)
        sorting = 2 * min(SORT_BYTES, self.sort_bytes)
        return self.rates.process + max(ordering, sorting) + self.pool_bytes

    @property
    def open_files(self) -> int:
        """Most open files of a worker process: of a task (input, spill, candidates) or a shard."""
        return max(3, self.files_a_shard + 1)

    @property
    def manifest_bytes(self) -> float:
        """Size of the manifest: the header, the list of input files, and the shards."""
        header = len(encode(self.job.header))
        return header + self.input_files * _FILE_ENTRY + self.shard_files * self.rates.shard_entry


def _files(num_bytes: float, buffer_bytes: int = BUFFER_BYTES) -> int:
    """Return the number of files for some bytes: one per full buffer, and one for the rest."""
    return int(num_bytes // buffer_bytes) + 1
