"""The bounds of a planned build: how much it takes of each, and what to do where that is more."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Any, Literal

import apache_beam as beam

from corpusmill.corpus.batches import MAX_FILES, OFFSET_BITS
from pipeline.graph import Job, build_dataset
from pipeline.options import MAX_SHARDS
from pipeline.preparation.inputs import absolute
from pipeline.runners.engine import Engine, Reach
from pipeline.runners.local.workers import most_workers
from pipeline.runners.plain_pipelines import without_folder
from pipeline.runners.proto_checks import LARGEST_PIPELINE, WHOLE, describe, find_faults
from transforms.storage.file_systems import scheme_of

# No unit of work should be one worker's for longer, as more workers do not shorten it.
_MOST_SECONDS = 120
# Readers unpack a shard at a time.
_SHARD_BYTES = 10**9


@dataclass(frozen=True)
class Bound:
    """A bound.

    Attributes:
        name: what it bounds.
        value: how much of it the build takes.
        most: the bound.
        cure: what to do where the build takes more, as a sentence without its end.
        is_fatal: whether the build would fail then, in place of taking long.
        unit: of value and bound; empty for a number of things.
    """

    name: str
    value: float
    most: float
    cure: str
    is_fatal: bool = True
    unit: Literal["", "bytes", "seconds"] = ""

    @property
    def is_exceeded(self) -> bool:
        """Whether the build takes more than it may."""
        return self.value > self.most


def list_bounds(
    numbers: Mapping[str, Any], job: Job, engine: Engine, places: Sequence[str]
) -> list[Bound]:
    """List the bounds that hold for a build; those come first where it would fail.

    Args:
        numbers: of the plan (`pipeline.planning.planned_build`).
        job: the job of the whole corpus.
        engine: where it would run.
        places: the folders of temporary files and of the data set; empty for none.
    """
    is_here = engine.reach is Reach.HERE
    bounds = [
        *_bounds_of_files(numbers, job, engine),
        *(_bounds_here(numbers, engine, places) if is_here else _bounds_of_graph(job, engine)),
        *_bounds_of_workers(numbers),
    ]
    return sorted(bounds, key=lambda bound: not bound.is_fatal)


def _bounds_of_files(numbers: Mapping[str, Any], job: Job, engine: Engine) -> Iterator[Bound]:
    corpus, shards, cure = numbers["corpus"], job.layout.shards, "Split the corpus into builds"
    yield Bound("input files", corpus["files"], MAX_FILES, f"Join them, or s{cure[1:]}")
    largest = corpus["largest_file_bytes"]
    yield Bound("largest input file", largest, 2**OFFSET_BITS, "Split it", unit="bytes")
    if job.layout.train_shards == MAX_SHARDS:  # there are no names for more
        size = numbers["bytes"]["output"] / shards
        yield Bound("a shard", size, _SHARD_BYTES, cure, False, "bytes")
    built, most = job.corpus_bytes * job.objective.repeats, engine.largest_shard_bytes
    if isfinite(most):
        if built <= most * MAX_SHARDS:
            cure = f"Give --num-shards {ceil(built / most)}, as a shard is begun anew after a fault"
        yield Bound("text built into a shard", built / shards, most, cure, unit="bytes")


def _bounds_here(
    numbers: Mapping[str, Any], engine: Engine, places: Sequence[str]
) -> Iterator[Bound]:
    most, wanted = most_workers(), engine.options.workers
    cure = f"Give --workers {most}, or another --runner"
    yield Bound("workers of this machine", wanted, most, cure, False)
    if not any(map(scheme_of, places)):
        path = Path(absolute(next(filter(None, places), ".")))
        existing = next(folder for folder in (path, *path.parents) if folder.exists())
        free, most_bytes = shutil.disk_usage(existing).free, numbers["bytes"]["most_at_once"]
        cure = f"{existing} has no room: give a --temp-location and an --output that have"
        yield Bound("files on disk at once", most_bytes, free, cure, unit="bytes")


def _bounds_of_graph(job: Job, engine: Engine) -> Iterator[Bound]:
    pipeline = beam.Pipeline()
    with without_folder(pipeline):
        build_dataset(pipeline, job)
        proto = describe(pipeline)
    cure = "Give fewer --num-shards or sources, or split the corpus into builds"
    yield Bound("graph of the job", proto.ByteSize(), LARGEST_PIPELINE, cure, unit="bytes")
    for fault in find_faults(proto):
        if fault.place != WHOLE:
            cure = f"It refuses {fault.place}: {fault.what}"
            yield Bound(f"faults for {engine.name}", 1, 0, cure)


def _bounds_of_workers(numbers: Mapping[str, Any]) -> Iterator[Bound]:
    workers, counts = numbers["workers"], numbers["counts"]
    tasks, shards, longest = counts["tasks"], counts["shards"], numbers["longest_seconds"]
    cure = f"Give --workers {tasks}, a smaller --range-bytes, or smaller files"
    yield Bound("workers, a task each", workers, tasks, cure, False)
    cure = f"Give --num-shards {workers}, or fewer --workers"
    yield Bound("workers, a shard each", workers, shards, cure, False)
    cure = "Give a smaller --range-bytes"
    if counts["ranges"] == numbers["corpus"]["files"]:
        cure += ", or files that are smaller, or not compressed, as one worker reads a file"
    yield Bound("time of a task", longest["task"], _MOST_SECONDS, cure, False, "seconds")
    cure = "Give more --num-shards"
    yield Bound("time of a shard", longest["shard"], _MOST_SECONDS, cure, False, "seconds")
