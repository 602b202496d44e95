"""How large the work of each stage of a build is, computed as the job itself cuts it.

A corpus of 50 TB cannot be tried on one machine; what no call, no worker and no file of a build may
exceed can be computed for it, by the functions from which the job takes its routes, groups and
trees.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from apache_beam import coders

from corpusmill.dataset import manifest_json
from corpusmill.dataset.editing import add_results
from corpusmill.dataset.manifest import FileEntry, Manifest, Shard
from corpusmill.dataset.manifest_entries import SourceFile
from pipeline.graph import Job, compare_documents, compare_likeness
from transforms.corpus.duplicates import HASH_BUCKET_BYTES, Comparison
from transforms.corpus.near_duplicates import PAIRS_AT_ONCE
from transforms.corpus.pool import CANDIDATE_BYTES
from transforms.elements import (
    LinesFile,
    PlannedRange,
    ReadRange,
    Segment,
    WrittenFile,
)
from transforms.shuffle.segments import Routes, count_segments
from transforms.shuffle.spill import JOINED_BYTES, SORT_FILE_BYTES

# What a worker reads from a store, or writes, in a second; and the small files that it opens.
_BYTES_A_SECOND, _FILES_A_SECOND = 50 * 10**6, 500
# A digest, a place in a store: the longest names of a run's temporary files.
_PATH = f"gs://{'b' * 40}/{'o' * 40}/_temporary-{'0' * 32}/spill-{'0' * 32}.arrow"
_SHA256 = "0" * 64
# Of a pair that is alike, as the worker that decides reads it, and of what it removes.
_PAIR_BYTES = 36 + 8


@dataclass(frozen=True)
class StageSize:
    """The work of a stage.

    Attributes:
        name: what it does.
        calls: number of its calls, each the work of one worker.
        bytes: what the largest call reads and writes.
        memory_bytes: what the largest call holds at once.
        files: files that the largest call opens and makes.
        requests: requests to a store of all calls, one for each file.
        references: the most references to files that one call is given.
        shuffled_bytes: what the engine carries to all calls.
    """

    name: str
    calls: int
    bytes: float
    memory_bytes: float
    files: float
    references: float = 0
    shuffled_bytes: float = 0

    @property
    def requests(self) -> float:
        """Requests to a store of all calls, one for each file."""
        return self.calls * self.files

    @property
    def seconds(self) -> float:
        """About how long the largest call reads and writes."""
        return self.bytes / _BYTES_A_SECOND + self.files / _FILES_A_SECOND


class Corpus(NamedTuple):
    """The sizes of a corpus, as they are estimated.

    Attributes:
        files: number of input files.
        ranges: number of ranges.
        largest_task_bytes: size of the largest task.
        documents: number of documents.
        stored_bytes: size of all documents as token ids.
        share_of_candidates: share of the documents that may enter the pool; 0 without one.
        pool_bytes: size of the pool, which each worker maps that builds shards; 0 without one.
        output_bytes: size of all shards.
        built_bytes: size of all rows while they are sorted.
    """

    files: int
    ranges: int
    largest_task_bytes: float
    documents: float
    stored_bytes: float
    share_of_candidates: float
    pool_bytes: float
    output_bytes: float
    built_bytes: float


def size_stages(job: Job, corpus: Corpus) -> list[StageSize]:
    """Return the sizes of all stages of a build, in their order.

    Args:
        job: the job of the whole corpus.
        corpus: its sizes.
    """
    stages = [_size_plan(job, corpus)]
    if job.filters.drop_duplicates:
        names = ("hash documents", "hashes", "find repeats")
        stages += _size_comparison(job, corpus, compare_documents(job), names)
    if near := compare_likeness(job):
        names = ("hash bands", "bands", "pair documents")
        stages += _size_comparison(job, corpus, near.comparison, names)
        stages += _size_decision(job, corpus)
    stages += _size_preparation(job, corpus)
    return [*stages, *_size_build(job, corpus), *_size_commit(job, corpus)]


def _encoded(element: Any) -> int:
    """Return the bytes of an element as the engine carries it."""
    return len(coders.registry.get_coder(type(element)).encode(element))


_SEGMENT = Segment(10**4, 10**4, _PATH, 10**6, 10**6, 2**32 - 1, 10**5)


def _size_plan(job: Job, corpus: Corpus) -> StageSize:
    part = PlannedRange(_PATH, _PATH, corpus.files, 10**9, 10**9, 10**9, 1e9)
    line = len(json.dumps([part])) + len("00000000 ")
    size = job.plan.tasks * line + (corpus.ranges - job.plan.tasks) * (line - 9)
    return StageSize("list tasks", 1, size, line * corpus.ranges / job.plan.tasks, 1)


def _merges_of(
    name: str, routes: Routes, job: Job, tasks: int, stored_bytes: float
) -> Iterator[StageSize]:
    """Yield the sizes of the merges of a shuffle, level by level."""
    sizes = job.place.sizes
    segments, below = count_segments(sizes, tasks, int(stored_bytes)), 1
    reference = _encoded(_SEGMENT)
    for level, (merged, calls) in enumerate(
        zip(routes.merges, routes.count_merges(tasks), strict=True)
    ):
        size = stored_bytes * merged / (tasks * routes.groups)
        references = merged // below * segments
        is_last = level + 1 == len(routes.merges)
        held = 3 * min(sizes.buffer_bytes, size) if is_last else 2 * JOINED_BYTES
        # Sorted files are written once and joined.
        times, written = (4, 1 + size // sizes.buffer_bytes) if is_last else (2, 1)
        yield StageSize(
            f"merge {name}, level {level + 1} of {len(routes.merges)}",
            calls,
            times * size,
            held,
            references + written,
            references,
            calls * references * reference,
        )
        below, segments = merged, 1 + int(size) // JOINED_BYTES


def _segments_of_a_home(routes: Routes, job: Job, tasks: int, stored_bytes: float) -> int:
    """Return how many segments the rows of a home are in when they reach what reads them."""
    if not routes.merges:
        return tasks * count_segments(job.place.sizes, tasks, int(stored_bytes))
    merges = -(-tasks // routes.merges[-1])
    size = stored_bytes / (merges * routes.layout.shards)
    return merges * (1 + int(size) // JOINED_BYTES)


def _size_decision(job: Job, corpus: Corpus) -> Iterator[StageSize]:
    """Yield the sizes of the comparison of pairs and of the decision, of which one worker does all.

    A tenth of the documents are taken to be near-duplicates, each of two others.
    """
    tasks, pairs = job.plan.tasks, 2 * corpus.documents / 10
    # A set has about as many bytes as its text.
    size = 3 * corpus.largest_task_bytes / 10
    files = corpus.ranges / tasks + 4
    yield StageSize("write sets", tasks, corpus.largest_task_bytes + size, 2**26, files)
    held = PAIRS_AT_ONCE * 60
    yield StageSize("compare sets", tasks, 2 * size, held, 4)
    references = min(tasks, job.place.sizes.fan_in)
    yield StageSize(
        "decide", 1, pairs * _PAIR_BYTES, 2 * JOINED_BYTES, references, references, tasks * 200
    )


def _size_comparison(
    job: Job, corpus: Corpus, comparison: Comparison, names: tuple[str, str, str]
) -> Iterator[StageSize]:
    """Yield the sizes of the search for equal numbers of documents, of which few are repeats."""
    tasks = job.plan.tasks
    sizes, routes = job.place.sizes, comparison.hash_routes
    size = comparison.hash_bytes
    spills = count_segments(sizes, tasks, size)
    files = corpus.ranges / tasks + 2 * spills
    held = 3 * min(sizes.buffer_bytes, size / tasks)
    yield StageSize(names[0], tasks, corpus.largest_task_bytes, held, files)
    yield from _merges_of(names[1], routes, job, tasks, size)
    buckets = routes.layout.shards
    references = _segments_of_a_home(routes, job, tasks, size)
    carried = buckets * references * _encoded(_SEGMENT)
    yield StageSize(
        names[2],
        buckets,
        size / buckets,
        4 * HASH_BUCKET_BYTES,
        references,
        references,
        carried,
    )


def _size_preparation(job: Job, corpus: Corpus) -> Iterator[StageSize]:
    sizes, tasks, stored = job.place.sizes, job.plan.tasks, corpus.stored_bytes
    spills = count_segments(sizes, tasks, int(stored))
    # The journal has an entry for each task.
    files = corpus.ranges / tasks + spills + 1
    size, held = corpus.largest_task_bytes + stored / tasks, 3 * sizes.buffer_bytes
    yield StageSize("prepare", tasks, size, held, files)
    if job.objective.pool_tokens:
        yield from _size_pool(job, corpus)
    yield from _merges_of("documents", job.routes, job, tasks, stored)


def _size_pool(job: Job, corpus: Corpus) -> Iterator[StageSize]:
    sizes, share = job.place.sizes, corpus.share_of_candidates
    size = corpus.stored_bytes * share
    reference = _encoded(Segment(2**20, 10**4, _PATH, 10**9, 2**32 - 1, 2**32 - 1, 2**52))
    units = job.plan.tasks
    batches: float = -(-size // max(1, units * CANDIDATE_BYTES))
    while units > sizes.fan_in:
        calls = -(-units // sizes.fan_in)
        references = sizes.fan_in * batches
        carried = units * batches * reference
        one, held = 2 * size / calls, 2 * JOINED_BYTES
        yield StageSize("join candidates", calls, one, held, references, references, carried)
        units, batches = calls, 1 + size / calls // JOINED_BYTES
    references = units * batches
    # The sizes of all candidates, three numbers each.
    carried, memory = references * reference, corpus.documents * share * 48 + JOINED_BYTES
    yield StageSize(
        "draw pool", 1, 3 * size + corpus.pool_bytes, memory, references, references, carried
    )


def _size_build(job: Job, corpus: Corpus) -> Iterator[StageSize]:
    sizes, shards, repeats = job.place.sizes, job.layout.shards, job.objective.repeats
    of_home = _segments_of_a_home(job.routes, job, job.plan.tasks, corpus.stored_bytes)
    homes = min(repeats, shards)
    references = homes * of_home
    read = homes * corpus.stored_bytes / shards
    built, written = corpus.built_bytes / shards, corpus.output_bytes / shards
    sorted_bytes = 2 * built if built > sizes.sort_bytes else 0
    held = min(sizes.sort_bytes, max(built, SORT_FILE_BYTES)) * 2
    held += corpus.pool_bytes
    spilled = sorted_bytes // SORT_FILE_BYTES
    files = references + len(job.names.parts) + spilled + 1
    carried = shards * references * _encoded(_SEGMENT)
    size = read + sorted_bytes + written
    yield StageSize("build shards", shards, size, held, files, references, carried)


def _size_commit(job: Job, corpus: Corpus) -> Iterator[StageSize]:
    sizes, tasks = job.place.sizes, job.plan.tasks
    files = job.layout.shards * len(job.names.parts)
    line = _encoded(WrittenFile(10**4, 2, _PATH, 10**6, 10**9, 10**9, _SHA256))
    reference = _encoded(LinesFile(10**4, _PATH, 10**4, 10**6, _SHA256))
    ranges = corpus.ranges * _encoded(ReadRange(corpus.files, 10**12, 10**9, 2**32 - 1))
    manifest = measure_manifest(job, corpus.files)
    given = ranges + files * line + tasks // sizes.fan_in * reference
    # The manifest, its objects and its JSON; and the elements that are given.
    held = 12 * manifest + 6 * files * line + 8 * ranges
    size = files * line + 3 * manifest + ranges
    # Files of a store are opened only to join them; all others are but named.
    opened = files if job.names.joined else 0
    yield StageSize("commit", 1, size, held, opened + 12, opened, given)


# Enough entries for their mean size.
_FEW = 64


def measure_manifest(job: Job, files: int) -> int:
    """Return the size of the manifest of a build, from manifests of few shards and files.

    Args:
        job: the job.
        files: number of input files.
    """
    base = _encode_manifest(job, 0, 0)
    of_shards = _encode_manifest(job, _FEW, 0) - base
    of_files = _encode_manifest(job, 0, _FEW) - base
    few = min(_FEW, job.layout.shards)
    return round(base + of_shards * job.layout.shards / few + of_files * files / _FEW)


def _encode_manifest(job: Job, shards: int, files: int) -> int:
    names = job.names
    entries: dict[str, list[Shard]] = {}
    others: list[FileEntry] = []
    # The last shards have the longest numbers.
    for shard in range(max(0, job.layout.shards - shards), job.layout.shards):
        for part in names.parts:
            file = WrittenFile(shard, part, "", 10**6, 10**9, 10**9, _SHA256)
            entry = names.entry(file)
            if isinstance(entry, Shard):
                entries.setdefault(names.split_of(file.shard), []).append(entry)
            else:
                others.append(entry)
    input_files = tuple(SourceFile(_PATH, 10**12, "0" * 8) for _ in range(files))
    header: Manifest = job.header
    corpus = replace(header.corpus, files=input_files)
    manifest = add_results(replace(header, corpus=corpus), {}, entries, others)
    return len(manifest_json.encode(manifest))
