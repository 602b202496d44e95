"""A small sample of the corpus that the job's own stages prepare and build, counted and timed.

The stages run one after the other in this process. Their first run loads the compiled kernels, or
compiles them, and is not timed. Times are processor times, which other programs affect little.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from corpusmill.corpus.filters.duplicates import hash_documents
from corpusmill.inspection.sample_build import spread_sample
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.random_documents import Pool
from pipeline.graph import Job, plan_pool, plan_preparation
from pipeline.planning.sample_parts import SamplePart
from transforms.build import ShardDoFn, ShardOptions
from transforms.candidates import CANDIDATES
from transforms.elements import Segment, Task, WrittenFile
from transforms.pool import PoolDoFn
from transforms.prepare import Preparation, TaskDoFn
from transforms.provenance import ShardProvenance
from transforms.read import TaskReader
from transforms.recovery.workplace import Workplace
from transforms.shuffle import BUFFER_BYTES, MergeDoFn, Routes
from transforms.spill import Spill
from transforms.tally import COUNTS, Tally

# Stages are timed again until they have taken this time together, or so many times.
_ENOUGH_SECONDS, _MOST_TIMES = 1.0, 5


@dataclass
class SampleRun:
    """What the stages did with the sample.

    Attributes:
        stored_bytes: bytes of the input's files that the sample stands for.
        document_bytes: size of the tokenized documents in memory.
        built_bytes: size of the examples in memory before they are sorted.
        counts: as in a manifest.
        segments: of the documents' temporary file.
        files: of the shards.
        task_counts: number of counts of a task.
        shard_counts: number of counts of a shard.
        pool_bytes: size of the pool; 0 without one.
        seconds: processor time of each stage: "prepare", "hash", "pool", "merge", "build".
        process_bytes: memory of this process before it worked.
        warming_seconds: wall time of the first run.
        loading_seconds: processor time in which the first run loaded or compiled kernels.
    """

    stored_bytes: float = 0.0
    document_bytes: int = 0
    built_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    segments: list[Segment] = field(default_factory=list)
    files: list[WrittenFile] = field(default_factory=list)
    task_counts: int = 0
    shard_counts: int = 0
    pool_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    process_bytes: int = 0
    warming_seconds: float = 0.0
    loading_seconds: float = 0.0


def run_sample(job: Job, parts: Sequence[SamplePart], folder: str) -> SampleRun:
    """Prepare and build a sample.

    Args:
        job: the job of the sample's corpus.
        parts: the sample.
        folder: for temporary files.
    """
    job = replace(job, sources=(), routes=_spread(job), place=Workplace(folder))
    run = SampleRun(process_bytes=psutil.Process().memory_info().rss)
    began, pool_path, loading = time.perf_counter(), "", time.process_time()
    task = _SampleTask(_prepare_all(job))
    task.spill(parts)
    if job.objective.pool_tokens:
        pool_dofn = PoolDoFn(plan_pool(job, job.objective.pool_tokens))
        draw = _timed(run, "pool", lambda: _collect(pool_dofn.process((0, task.candidates))))
        pool_path = draw[""][0]
        run.pool_bytes = sum(file.stat().st_size for file in Path(pool_path).glob("*.npy"))
    _build(job, task.segments[:1], pool_path, first_only=True)
    run.warming_seconds = time.perf_counter() - began
    loading = time.process_time() - loading - run.seconds.get("pool", 0.0)
    again = task.without_candidates()
    for _ in range(_MOST_TIMES):
        _timed(run, "prepare", lambda: again.spill(parts))
        shards = _timed(run, "build", lambda: _build(job, again.segments, pool_path))
        if sum(run.seconds.values()) >= _ENOUGH_SECONDS:
            break
    if job.filters.drop_duplicates:
        _hash(job, parts)  # loads its kernels
        _timed(run, "hash", lambda: _hash(job, parts))
    _timed(run, "merge", lambda: _merge(job, again.segments))
    steady = run.seconds["prepare"] + run.seconds["build"] / job.layout.shards
    run.loading_seconds = max(0.0, loading - steady)
    return _count(run, again, shards)


def _spread(job: Job) -> Routes:
    """Spread the sample over as many shards as there are repeats."""
    layout = replace(
        spread_sample(job.layout, job.objective.repeats), validation_shards=0, sources=()
    )
    return replace(job.routes, layout=layout, groups=layout.shards, merges=(), validation_share=0.0)


def _prepare_all(job: Job) -> Preparation:
    """Return how the sample is prepared; all documents are candidates for the pool."""
    preparation = plan_preparation(job, job.objective.pool_tokens)
    limit = None if preparation.candidate_limit is None else 2**64 - 1
    return replace(preparation, candidate_limit=limit)


def _timed(run: SampleRun, stage: str, work: Callable[[], Any]) -> Any:
    """Do some work, and keep the shortest of its times."""
    began = time.process_time()
    result = work()
    seconds = time.process_time() - began
    run.seconds[stage] = min(seconds, run.seconds.get(stage, seconds))
    return result


def _collect(outputs: Iterable[Any]) -> dict[str, list[Any]]:
    """Collect the outputs of a DoFn by tag; the main output's is empty."""
    collected: dict[str, list[Any]] = {}
    for output in outputs:
        is_tagged = isinstance(output, TaggedOutput)
        tag, value = (output.tag, output.value) if is_tagged else ("", output)
        collected.setdefault(tag, []).append(value)
    return collected


class _SampleTask(TaskDoFn):
    """Prepares the sample as tasks of a job are prepared, a part at a time.

    Attributes:
        segments: the documents that were spilled last.
        candidates: their candidates for the pool.
        counts: their counts.
        stored_bytes: bytes of the input that they stand for.
        document_bytes: their size in memory.
    """

    segments: list[Segment]
    candidates: list[Any]
    counts: Counter[str]
    stored_bytes: float
    document_bytes: int
    task_counts = 0

    def spill(self, parts: Sequence[SamplePart]) -> None:
        """Read, tokenize and spill all parts."""
        folder, routes = self._preparation.place.temp_folder, self._preparation.routes
        self.segments, self.candidates, self.counts = [], [], Counter()
        self.stored_bytes, self.document_bytes = 0.0, 0
        spill = Spill(folder, BUFFER_BYTES)
        for number, part in enumerate(parts):
            task = Task(number, "", 0, 0)
            for documents in self._prepare_part(task, part):
                if documents.num_rows:
                    self.document_bytes += documents.nbytes
                    spill.add(documents, routes.buckets(documents))
            outputs = list(self.finish(task))
            self.candidates += [value for tag, value in outputs if tag == CANDIDATES]
            counts = [value for tag, value in outputs if tag == COUNTS]
            self.task_counts = max(self.task_counts, len(counts))
            self._add(part, Counter(dict(counts)))
        spill.write()
        self.segments = spill.segments

    def _prepare_part(self, task: Task, part: SamplePart) -> Iterator[pa.RecordBatch]:
        self._stopped, num_bytes = False, 0
        for text, documents in self.prepare(task, [part.range]):
            yield documents
            num_bytes += text.nbytes
            if part.text_bytes is not None and num_bytes >= part.text_bytes:
                self._stopped = True
                return

    def _add(self, part: SamplePart, counts: Counter[str]) -> None:
        self.counts.update(counts)
        stored, length = part.stored_bytes, (part.range.end or 0) - part.range.start
        if stored is None:
            read = counts["read.bytes"]
            # Until it is stopped a reader has counted a block that it has not read to its end.
            stored = min(read, counts["tokenize.text_bytes"], length) if self._stopped else read
        self.stored_bytes += stored

    def without_candidates(self) -> "_SampleTask":
        """Return the same with the same tokenizer, but without candidates, as in large corpora."""
        other = copy(self)
        other._preparation = replace(self._preparation, candidate_limit=None)
        return other


class _SampleShard(ShardDoFn):
    """Builds a shard, and adds up the size of its examples."""

    built_bytes = 0

    def _build(
        self,
        shard: int,
        segments: Iterable[Segment],
        pool: Pool | None,
        provenance: ShardProvenance,
    ) -> Iterator[pa.RecordBatch]:
        for rows in super()._build(shard, segments, pool, provenance):
            self.built_bytes += rows.nbytes
            yield rows


def _build(
    job: Job, segments: Sequence[Segment], pool_path: str, *, first_only: bool = False
) -> dict[str, Any]:
    """Build the shards in a folder of their own, or only the first."""
    layout, objective = job.layout, job.objective
    with TemporaryDirectory(dir=job.place.temp_folder) as folder:
        schema = job.tokenizing.schema
        options = ShardOptions(objective, job.output_options, layout, schema, Workplace(folder))
        shard_dofn = _SampleShard(options)
        shard_dofn.setup()
        collected: dict[str, Any] = {"files": [], "counts": Counter(), "number": 0}
        for shard in range(1 if first_only else layout.shards):
            needed = [one for one in segments if _builds(job.objective, job.routes, one, shard)]
            outputs = _collect(shard_dofn.process((shard, needed), pool_path))
            collected["files"] += outputs.get("", [])
            counts = outputs.get(COUNTS, [])
            collected["counts"].update(dict(counts))
            collected["number"] = max(collected["number"], len(counts))
    return {**collected, "built_bytes": shard_dofn.built_bytes}


def _builds(objective: Objective, routes: Routes, segment: Segment, shard: int) -> bool:
    return shard in routes.layout.shards_of(segment.bucket, objective.repeats)


def _merge(job: Job, segments: Sequence[Segment]) -> None:
    """Merge the documents, as where files have two levels."""
    with TemporaryDirectory(dir=job.place.temp_folder) as folder:
        routes = replace(job.routes, groups=1, merges=(1,))
        schema = job.tokenizing.schema
        merge = MergeDoFn(routes, Workplace(folder), schema)
        for _ in merge.process((0, segments)):
            pass


def _hash(job: Job, parts: Sequence[SamplePart]) -> None:
    """Read the sample, and hash its documents, as where duplicates are dropped."""
    folder = job.place.temp_folder
    reader = TaskReader(job.documents, folder, Tally(), keeps_rejects=False)
    for part in parts:
        num_bytes = 0
        for text in reader.read([part.range]):
            hash_documents(text, 0)
            num_bytes += text.nbytes
            if part.text_bytes is not None and num_bytes >= part.text_bytes:
                break


def _count(run: SampleRun, task: _SampleTask, shards: dict[str, Any]) -> SampleRun:
    run.stored_bytes, run.document_bytes = task.stored_bytes, task.document_bytes
    run.segments, run.task_counts = task.segments, task.task_counts
    run.files, run.shard_counts = shards["files"], shards["number"]
    run.counts, run.built_bytes = task.counts + shards["counts"], shards["built_bytes"]
    return run
