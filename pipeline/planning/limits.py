"""The limits of a planned job: what it takes of each, and what to do where that is too much."""

import resource
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import psutil

from corpusmill.arrays.distinct import SKETCH_SIZE
from corpusmill.corpus.batches import MAX_FILES, OFFSET_BITS
from pipeline.options import MAX_SHARDS
from pipeline.planning.machines import MachineOptions
from pipeline.planning.schedule import Schedule
from pipeline.planning.workload import Workload
from pipeline.runners.engine import Engine, Reach
from pipeline.runners.local.engine import LocalEngine
from pipeline.runners.proto_checks import LARGEST_PIPELINE, ProtoFault
from transforms.shuffle import MERGE_BYTES

_GB = 10**9
# Flink carried 90 values of 1 MB in a key, and failed with 150 (its sort buffer has 100 MB).
_KEY_BYTES_ON_FLINK = 90 * 2**20
# Dataflow refuses larger elements (of its limits of elements this is the strictest); a
# job has so many machines at most, unless a project's quota was raised; and its workers keep side
# inputs of this size.
_ELEMENT_BYTES = 80 * 10**6
_MACHINES, _SIDE_INPUT_BYTES = 1000, 100 * 2**20
# Bytes of an element that describes a file of a shard, or a list of them; of one that describes a
# range; and of a sketch in Base64.
_WRITTEN_FILE_BYTES, _READ_RANGE_BYTES, _SKETCH_BYTES = 250, 24, SKETCH_SIZE * 8 * 4 // 3
_FILES_A_FOLDER = 10**6


@dataclass(frozen=True)
class Setting:
    """Where a job would run.

    Attributes:
        work: the job's work.
        schedule: its steps.
        engine: the engine.
        machine: of its workers.
        graph_bytes: size of the graph that the engine gets.
        faults: what is in the graph for which engines other than the local one refuse it.
        in_store: whether its files are in an object store.
        folder: a local folder of its temporary files.
    """

    work: Workload
    schedule: Schedule
    engine: Engine
    machine: MachineOptions
    graph_bytes: int
    faults: Sequence[ProtoFault]
    in_store: bool
    folder: str

    @property
    def on_dataflow(self) -> bool:
        """Whether it runs on Dataflow."""
        return self.engine.name == "DataflowRunner"

    @property
    def is_local(self) -> bool:
        """Whether it runs on the local engine."""
        return isinstance(self.engine, LocalEngine)


@dataclass(frozen=True)
class Limit:
    """A limit.

    Attributes:
        name: what it limits.
        value: how much of it the job takes.
        most: the limit.
        cure: what to do where the job takes more, as a sentence without its end.
        is_size: whether these are bytes.
        is_fatal: whether the job would fail then.
    """

    name: str
    value: float
    most: float
    cure: str
    is_size: bool = True
    is_fatal: bool = True

    @property
    def is_exceeded(self) -> bool:
        """Whether the job takes more than it may."""
        return self.value > self.most


def list_limits(setting: Setting) -> list[Limit]:
    """List the limits that hold for a job."""
    on_dataflow, on_flink = setting.on_dataflow, setting.engine.name == "FlinkRunner"
    return [
        *_limits_of_names(setting),
        *_limits_of_workers(setting),
        *(_limits_of_store(setting) if setting.in_store else _limits_of_disk(setting)),
        *(() if setting.is_local else _limits_of_graph(setting)),
        *(_limits_of_dataflow(setting) if on_dataflow else ()),
        *(_limits_of_flink(setting.work) if on_flink else ()),
    ]


def _limits_of_names(setting: Setting) -> Iterator[Limit]:
    work = setting.work
    cure = "Join them, or split the corpus into several builds"
    yield Limit("input files", work.input_files, MAX_FILES, cure, is_size=False)
    mean = work.input_bytes / work.input_files
    yield Limit("an input file", mean, 2**OFFSET_BITS, "Split the files")
    cure = "Split the corpus into several builds"
    yield Limit("train shards", work.job.layout.train_shards, MAX_SHARDS, cure, is_size=False)


def _limits_of_workers(setting: Setting) -> Iterator[Limit]:
    work, machine, workers = setting.work, setting.machine, setting.schedule.workers
    most = setting.engine.largest_shard_bytes
    if most < inf:
        built = work.job.corpus_bytes * work.job.objective.repeats / work.job.layout.shards
        needed = -(-built * work.job.layout.shards // most)
        cure = f"Give --num-shards {needed:,.0f}, as a shard is begun anew after a fault"
        if needed > MAX_SHARDS:
            cure = "Split the corpus into several builds, as there are no names for more shards"
        yield Limit("text built into a shard", built, most, cure)
    yield Limit(
        "a merge", work.merge_bytes, 2 * MERGE_BYTES, "Give fewer --num-shards", True, False
    )
    if setting.engine.reach is Reach.HERE:
        # The processes share the pool.
        needed = workers * (work.worker_bytes - work.pool_bytes) + work.pool_bytes
        cure = "Give fewer --workers"
        yield Limit("memory of all workers", needed, psutil.virtual_memory().total, cure)
    else:
        cure = "Take a machine with more memory for each processor"
        cure += ", or give a smaller --pool-tokens" * (work.pool_bytes > 0)
        most = machine.memory_per_vcpu * _GB
        yield Limit("memory of a worker", work.worker_bytes, most, cure)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most != resource.RLIM_INFINITY:
        cure = "Give a larger --bin-size, or raise the limit (ulimit -n)"
        yield Limit("open files of a worker", work.open_files, most, cure, is_size=False)


def _limits_of_graph(setting: Setting) -> Iterator[Limit]:
    cure = "Give fewer --num-shards, or split the corpus into several builds"
    yield Limit("graph", setting.graph_bytes, LARGEST_PIPELINE, cure)


def _limits_of_store(setting: Setting) -> Iterator[Limit]:
    needed = setting.work.scratch_bytes + setting.work.pool_bytes
    cure = "Take larger disks (-- --disk_size_gb), or more --num-shards"
    yield Limit("local disk of a worker", needed, setting.machine.disk_per_vcpu * _GB, cure)


def _limits_of_disk(setting: Setting) -> Iterator[Limit]:
    work, folder = setting.work, Path(setting.folder)
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    cure = f"{existing} has no room: give a --temp-location and an --output that have, or a store"
    yield Limit("files on disk at once", work.temporary_bytes + work.output_bytes, free, cure)
    cure = "Give a larger --range-bytes, or put temporary files in an object store"
    yield Limit("files in a folder", work.creates, _FILES_A_FOLDER, cure, False, False)


def _limits_of_dataflow(setting: Setting) -> Iterator[Limit]:
    work = setting.work
    element = max(work.rates.reference, _SKETCH_BYTES)
    yield Limit("largest element", element, _ELEMENT_BYTES, "Report it: it does not grow")
    job = work.job
    written = (job.commit.count_groups(job.layout) or work.shard_files) * _WRITTEN_FILE_BYTES
    written += job.plan.ranges * _READ_RANGE_BYTES
    cure = "Give a larger --range-bytes, or -- --max_cache_memory_usage_mb"
    yield Limit("side input of the commit", written, _SIDE_INPUT_BYTES, cure, is_fatal=False)
    machines = -(-setting.schedule.workers // setting.machine.vcpus_per_machine)
    cure = "Take larger machines (--vcpus-per-machine), fewer --workers, or raise the quota"
    yield Limit("machines", machines, _MACHINES, cure, False, False)


def _limits_of_flink(work: Workload) -> Iterator[Limit]:
    cure = "Give a larger --range-bytes, or larger files"
    for name, number in (("merge", work.merge_values), ("shard", work.shard_values)):
        size = number * work.rates.reference
        yield Limit(f"references to a {name}", size, _KEY_BYTES_ON_FLINK, cure)
