"""What a build takes, for `inspect-corpus`: tasks, shards, bytes, temporary space and hours.

The numbers are those of the corpus that was measured, or of a larger one like it, whose size alone
is known. Tasks and shards are exact: the job cuts its work by the same functions.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.corpus.filters.duplicates import ROW_BYTES, hash_documents
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.corpus.filters.near_duplicates import (
    BEGINNING,
    KEY_BYTES,
    list_keys,
    pair_documents,
)
from corpusmill.layout.placement import SPLIT_NAMES
from corpusmill.objectives.random_documents import candidate_limit
from pipeline.assembly import choose_range_bytes, choose_routes, cut_tasks
from pipeline.graph import Job, plan_preparation
from pipeline.recipe.recipe import Recipe
from pipeline.runners.engine import Engine
from transforms.corpus.prepare import TaskDoFn
from transforms.elements import PlannedRange, Task
from transforms.recovery import Workplace
from transforms.shuffle.spill import Spill

# So many tasks are read in part, at even distances, to measure how long it takes.
_TIMED_TASKS, _TIMED_BYTES = 8, 4 * 10**6
# The files of a corpus of which only the size is known.
_FILE_BYTES = 10**9
# Of a pair: to those that compare it and list its sets, and to the one that decides.
_PAIR_BYTES = 3 * 32 + 36


class Timing(NamedTuple):
    """The processor time that a piece of the corpus took in this process.

    Attributes:
        bytes: of the piece, dropped documents included.
        read: seconds to read and tokenize it.
        spill: seconds to write it to temporary files once.
    """

    bytes: int
    read: float
    spill: float


class _PieceReader(TaskDoFn):
    """Reads and tokenizes the beginnings of tasks.

    Attributes:
        bytes: of all that was read.
    """

    bytes = 0

    def read(
        self, tasks: Sequence[Sequence[PlannedRange]], filters: FilterOptions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the tokenized documents of tasks, compared as where duplicates are dropped."""
        _, *numbers = map(int, filters.near_duplicates.values() or (0,))
        for number, ranges in enumerate(tasks):
            task, text_bytes = Task(number, "", 0, 0), 0
            for text, documents in self.prepare(task, ranges):
                if filters.drop_duplicates:
                    hash_documents(text, 0)
                if numbers:
                    keys = list_keys(text, 0, *numbers)
                    for _ in pair_documents(keys.slice(0, 0), keys)[-1]:
                        pass
                if documents.num_rows:
                    yield documents
                text_bytes += text.nbytes
                if text_bytes >= _TIMED_BYTES // len(tasks):
                    break
            self.bytes += dict(self._tally.counts()).get("read.bytes", 0)
            # Closes files of rejects.
            list(self.finish(task))


def time_preparation(job: Job, recipe: Recipe) -> Timing:
    """Read and tokenize a piece of the corpus in this process, and write it to temporary files.

    Args:
        job: the build.
        recipe: what it is made of.
    """
    step = max(1, -(-job.plan.tasks // _TIMED_TASKS))
    tasks = list(islice(cut_tasks(recipe, job.range_bytes), 0, None, step))
    with TemporaryDirectory(prefix="corpusmill-") as folder:
        job = replace(job, place=Workplace(folder, sizes=job.place.sizes))
        reader = _PieceReader(plan_preparation(job, 0))
        # A first batch loads the compiled kernels, or compiles them.
        _spill(job, islice(reader.read(tasks, job.filters), 1))
        reader.bytes, began = 0, time.process_time()
        documents = list(reader.read(tasks, job.filters))
        read = time.process_time()
        _spill(job, documents)
        ended = time.process_time()
    return Timing(reader.bytes, read - began, ended - read)


def _spill(job: Job, batches: Iterable[pa.RecordBatch]) -> None:
    spill = Spill(job.place.temp_folder, job.place.sizes.buffer_bytes)
    for documents in batches:
        spill.add(documents, job.routes.buckets(documents))
    spill.write()


def enlarge(job: Job, recipe: Recipe, engine: Engine, size: int) -> Job:
    """Return the job of a corpus of another size, whose files are like the first of the recipe's.

    Args:
        job: the build of the recipe.
        recipe: what it is made of.
        engine: where the job would run.
        size: bytes of the corpus' files, which need not exist.
    """
    number = -(-size // _FILE_BYTES)
    recipe = replace(recipe, files=[replace(recipe.files[0], bytes=size // number)] * number)
    range_bytes = choose_range_bytes(recipe, engine)
    tasks, ranges = _count_tasks(recipe, range_bytes)
    return replace(
        job,
        plan=job.plan._replace(tasks=tasks, ranges=ranges),
        range_bytes=range_bytes,
        corpus_bytes=recipe.text_bytes,
        routes=choose_routes(recipe, job.place.sizes, tasks),
    )


def _count_tasks(recipe: Recipe, range_bytes: int) -> tuple[int, int]:
    """Count the tasks of equal files, and their ranges.

    A file of several tasks shares none with another one, since two of its ranges are larger than a
    task. Then one file is cut for all.
    """
    tasks = list(cut_tasks(replace(recipe, files=recipe.files[:1]), range_bytes))
    times = len(recipe.files)
    if len(tasks) == 1:
        tasks, times = list(cut_tasks(recipe, range_bytes)), 1
    return len(tasks) * times, sum(map(len, tasks)) * times


class SplitSize(NamedTuple):
    """The size of a split.

    Attributes:
        shards: number of its shards.
        bytes: of its shards.
        built_bytes: of its rows while they are sorted.
    """

    shards: int
    bytes: float
    built_bytes: float


_SPLIT_BYTES = ("bytes", "built_bytes")


@dataclass(frozen=True)
class BuildSize:
    """The sizes of what a build reads and makes.

    Attributes:
        job: the build.
        documents: number of documents.
        sentences: number of their sentences.
        tokens: number of their tokens.
        compared_bytes: of what documents are compared by; 0 unless duplicates are dropped.
        splits: the sizes of the splits.
    """

    job: Job
    documents: float
    sentences: float
    tokens: float
    compared_bytes: float
    splits: Sequence[SplitSize]

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, Any], job: Job, times: float) -> "BuildSize":
        """Scale what was measured to the corpus of a job.

        Args:
            numbers: as `corpusmill.inspection.corpus_numbers` describes them.
            job: the build.
            times: how many times as large its corpus is.
        """
        counts, layout = numbers["counts"], job.layout
        shards = (layout.train_shards, layout.validation_shards)
        splits = numbers["build"]["splits"]

        def scale(name: str) -> float:
            return times * float(counts.get(name, 0))

        bands = job.filters.near_duplicates.get("near_duplicate_bands", 0)
        # A set has a number for about each word.
        in_pairs = min(scale("near.documents"), 2 * scale("near.compared"))
        words = counts.get("measure.words", 0) / max(1, counts.get("measure.documents", 0))

        return cls(
            job,
            documents=scale("measure.documents"),
            sentences=scale("measure.sentences"),
            tokens=scale("measure.tokens"),
            compared_bytes=ROW_BYTES * scale("duplicates.documents")
            + KEY_BYTES * bands * scale("near.documents")
            + scale("near.compared") * _PAIR_BYTES
            + in_pairs * (8 * words + BEGINNING.itemsize),
            splits=[
                SplitSize(number, *(times * splits[name][key]["value"] for key in _SPLIT_BYTES))
                for name, number in zip(SPLIT_NAMES, shards, strict=True)
                if number
            ],
        )

    @property
    def stored_bytes(self) -> float:
        """Size of all documents in temporary files: ids, Arrow's offsets, and tokens."""
        width = np.dtype(self.job.tokenizing.token_dtype).itemsize
        return self.documents * (8 + 4) + self.sentences * 4 + self.tokens * width

    @property
    def share_of_candidates(self) -> float:
        """Share of the documents that may enter the pool; 0 without one."""
        tokens = self.job.objective.pool_tokens
        return (candidate_limit(tokens, self.job.corpus_bytes) + 1) / 2**64 if tokens else 0.0

    @property
    def pool_bytes(self) -> float:
        """Size of the pool, which each worker maps that builds shards; 0 without one."""
        kept = min(1.0, self.job.objective.pool_tokens / max(1, self.tokens))
        return kept * (self.stored_bytes + self.documents * 4 + self.sentences * 4)

    def temporary_bytes(self, workers: int) -> float:
        """Return the bytes of temporary files, without those of shards.

        Args:
            workers: how many shards are sorted at once.
        """
        candidates = self.share_of_candidates * self.stored_bytes
        shuffled = (self.stored_bytes + self.compared_bytes) * _count_levels(self.job)
        sorted_bytes, idle = 0.0, workers
        # Shards that are too large to be sorted in memory.
        for shards, _, built_bytes in sorted(self.splits, key=lambda split: -split.built_bytes):
            is_large = built_bytes / shards > self.job.place.sizes.sort_bytes
            busy = min(idle, shards) if is_large else 0
            sorted_bytes += busy * built_bytes / shards
            idle -= busy
        return shuffled + candidates + self.pool_bytes + sorted_bytes


def _count_levels(job: Job) -> int:
    return 1 + len(job.routes.merges)


def describe_work(
    numbers: dict[str, Any], job: Job, recipe: Recipe, engine: Engine, timing: Timing,
    named_size: int | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the entry "work" of `corpusmill.inspection.corpus_numbers`.

    Args:
        numbers: all others; the processor time of the build is taken out of them.
        job: the build of the corpus that was measured.
        recipe: what it is made of.
        engine: where it would run.
        timing: of a piece of the corpus.
        named_size: bytes of the corpus that would be built; None for the one that was measured.
    """
    corpus_bytes = named_size or job.header.corpus.bytes
    times = corpus_bytes / max(1, job.header.corpus.bytes)
    if named_size:
        job = enlarge(job, recipe, engine, named_size)
    workers = max(1, engine.count_workers(job.corpus_bytes))
    # A corpus of which only the size is known would hardly be built on this machine.
    if engine.parallelism and not named_size:
        workers = min(workers, engine.parallelism)
    size = BuildSize.from_numbers(numbers, job, times)
    # Each level of merges reads and writes the documents as the first level of files does.
    of_piece = timing.read + timing.spill * _count_levels(job)
    seconds = {
        "prepare": of_piece * times * numbers["counts"]["read.bytes"] / max(1, timing.bytes),
        "build": numbers["build"].pop("processor_seconds") * times,
    }
    calls = {"prepare": max(1, job.plan.tasks), "build": job.layout.shards}
    return {
        "corpus_bytes": corpus_bytes,
        "tasks": job.plan.tasks,
        "shards": job.layout.shards,
        "bytes": round(sum(split.bytes for split in size.splits)),
        "temporary_bytes": round(size.temporary_bytes(workers)),
        "processor_seconds": seconds,
        "workers": workers,
        # The last round of tasks, or of shards, takes as long as a full one.
        "seconds": sum(
            seconds[part] / number * -(-number // workers) for part, number in calls.items()
        ),
    }
