"""The steps of a job, one after the other: their work, and how long they take with some workers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from pipeline.planning.machines import MachineOptions
from pipeline.planning.workload import Workload
from transforms.removal import list_prefixes
from transforms.storage.parallel import CALLS_AT_ONCE
from transforms.trees import FAN_IN, count_blocks

# A store copies a file in 50 to 100 ms, however many are copied at once.
_SECONDS_OF_A_COPY = 0.1
# Each unit of work opens the run's claim and its entry in the journal, and writes it.
_CALLS_OF_A_UNIT = 4
# How fast one worker reads or writes a store, or copies shards into one file: an assumption.
_JOINED_BYTES_A_SECOND = 100 * 10**6
# How fast the manifest and the other small files are read and written, and how many these are.
_WRITTEN_BYTES_A_SECOND, _SMALL_FILES = 20 * 10**6, 20
_SECONDS_OF_A_LOCAL_RENAME = 0.001
# Google's store deletes 100 objects with a request of about half a second; S3 is faster.
_SECONDS_OF_A_DELETION, _SECONDS_OF_AN_UNLINK = 0.005, 50e-6
_REMOVALS = len([*list_prefixes("gs://bucket/folder")])
# Measured with 100,000 files of shards and 750,000 ranges: what the task that decides takes to name
# and describe a file, to join the checksum of a range, and to list an input file.
_SECONDS_OF_A_SHARD_FILE, _SECONDS_OF_A_RANGE, _SECONDS_OF_AN_INPUT_FILE = 90e-6, 7e-6, 20e-6


@dataclass(frozen=True)
class Step:
    """A step that begins when the one before has ended.

    Attributes:
        name: what it does.
        units: the number of its units of work; a worker does one at a time.
        processor_seconds: processor time of all units.
        wait_seconds: time that workers wait for requests in all units.
        largest: the size of the largest unit, in average units.
    """

    name: str
    units: int
    processor_seconds: float
    wait_seconds: float
    largest: float = 1.0

    @property
    def is_serial(self) -> bool:
        """Whether it is one worker's, however many there are."""
        return self.units == 1

    @property
    def worker_seconds(self) -> float:
        """Time that workers are busy or wait."""
        return self.processor_seconds + self.wait_seconds

    @property
    def longest_seconds(self) -> float:
        """Time of the largest unit, which is one worker's."""
        return self.largest * self.worker_seconds / max(1, self.units)

    def duration(self, workers: int) -> float:
        """Return the time from its begin to its end, in seconds."""
        rounds = ceil(self.units / workers)
        return max(self.longest_seconds, rounds * self.worker_seconds / max(1, self.units))


@dataclass(frozen=True)
class Schedule:
    """The steps of a job with some workers.

    Attributes:
        steps: in their order.
        workers: their number.
        start_seconds: time until the first step begins.
        start_processor_seconds: processor time until then.
    """

    steps: Sequence[Step]
    workers: int
    start_seconds: float
    start_processor_seconds: float = 0.0

    @property
    def duration(self) -> float:
        """Seconds from the submission to the end."""
        return self.start_seconds + sum(step.duration(self.workers) for step in self.steps)

    @property
    def shortest_duration(self) -> float:
        """Seconds that it takes with any number of workers."""
        return self.start_seconds + sum(step.longest_seconds for step in self.steps)

    @property
    def bottleneck(self) -> Step:
        """The step with the longest work of one worker."""
        return max(self.steps, key=lambda step: step.longest_seconds)

    @property
    def processor_seconds(self) -> float:
        """Processor time of the start and of all steps."""
        return self.start_processor_seconds + sum(step.processor_seconds for step in self.steps)

    @property
    def worker_hours(self) -> float:
        """Hours in which workers are busy or wait for requests."""
        seconds = sum(step.worker_seconds for step in self.steps)
        return (self.start_processor_seconds + seconds) / 3600

    @property
    def billed_hours(self) -> float:
        """Hours of all workers from the first step to the last, as they are billed."""
        return self.workers * self.duration / 3600


def list_steps(work: Workload, machine: MachineOptions, in_store: bool) -> list[Step]:
    """List the steps of a job.

    Args:
        work: the work of the job.
        machine: of its workers.
        in_store: whether its files are in an object store.
    """
    request = machine.request_seconds if in_store else 0.0
    element = machine.element_seconds
    rates, job, speed = work.rates, work.job, machine.vcpu_speed
    tasks, shards = job.plan.tasks, job.layout.shards
    largest = work.largest_task_bytes * tasks / work.input_bytes
    steps = [Step("list tasks", 1, tasks * element, request)]
    if job.filters.drop_duplicates:
        hashing = rates.hash_seconds * work.input_bytes / speed
        waits = (job.plan.ranges + _CALLS_OF_A_UNIT * tasks) * request
        steps.append(Step("find duplicates", tasks, hashing, waits, largest))
    prepared = rates.prepare_seconds * work.input_bytes / speed
    prepared += (work.first_segments + tasks * rates.task_counts) * element
    waits = (job.plan.ranges + _CALLS_OF_A_UNIT * tasks) * request
    steps.append(Step("read and tokenize", tasks, prepared, waits, largest))
    if work.pool_bytes:
        steps += _write_pool(work, speed, request)
    for level, (merges, segments) in enumerate(
        zip(work.merge_counts, work.merge_inputs, strict=True), 1 - len(work.merge_counts)
    ):
        merged = rates.merge_seconds * work.stored_bytes / speed + segments * element
        waits = (segments / CALLS_AT_ONCE + _CALLS_OF_A_UNIT * merges) * request
        steps.append(Step("join segments" if level else "merge", merges, merged, waits))
    built = rates.build_seconds * work.examples / speed
    built += (work.shard_references + shards * rates.shard_counts) * element
    waits = (work.segments * work.builders + _CALLS_OF_A_UNIT * shards) * request
    steps.append(Step("build shards", shards, built, waits))
    return [*steps, *_commit(work, speed, request)]


def _write_pool(work: Workload, speed: float, request: float) -> Iterator[Step]:
    joined = work.joined_candidates
    if joined:
        blocks = sum(count_blocks(work.job.plan.tasks, FAN_IN))
        seconds = work.rates.pool_seconds * work.candidate_bytes / speed
        waits = work.candidates * request / CALLS_AT_ONCE + _CALLS_OF_A_UNIT * request * blocks
        yield Step("join candidates", blocks, seconds, waits)
    # The sizes of all candidates, and the candidates for each split.
    splits = 2 if work.job.layout.validation_shards else 1
    waits = (joined or work.candidates) * (1 + splits) * request / CALLS_AT_ONCE
    if request:
        waits += (work.candidate_bytes * splits + work.pool_bytes) / _JOINED_BYTES_A_SECOND
    seconds = work.rates.pool_seconds * work.pool_bytes / speed
    yield Step("write pool", 1, seconds, waits)


def _commit(work: Workload, speed: float, request: float) -> Iterator[Step]:
    commit, files, tasks = work.job.commit, work.shard_files, work.job.plan.tasks
    blocks = sum(count_blocks(tasks, commit.fan_in))
    if blocks:
        # If each task has rejects.
        waits = tasks * request / CALLS_AT_ONCE + _CALLS_OF_A_UNIT * request * blocks
        yield Step("join rejects", blocks, 0.0, waits)
    seconds = files * _SECONDS_OF_A_SHARD_FILE + work.input_files * _SECONDS_OF_AN_INPUT_FILE
    seconds = (seconds + work.job.plan.ranges * _SECONDS_OF_A_RANGE) / speed
    read = (blocks or tasks) * request / CALLS_AT_ONCE
    if commit.joined:
        read += work.output_bytes / _JOINED_BYTES_A_SECOND
    moving = files * (_SECONDS_OF_A_COPY / CALLS_AT_ONCE if request else _SECONDS_OF_A_LOCAL_RENAME)
    groups = commit.count_groups(work.job.layout)
    removing = work.creates * (
        _SECONDS_OF_A_DELETION if request else _SECONDS_OF_A_LOCAL_RENAME / 10
    )
    # The files of a large job in a store are removed by many tasks.
    removals = _REMOVALS if request and (blocks or groups) else 1
    removal = Step("remove temporary files", removals, 0.0, removing)
    if not groups:
        yield Step("commit", 1, seconds, read + moving)
        yield removal
        return
    # Lists of the shards are written and read, and then a list for each group.
    read += 2 * groups * request / CALLS_AT_ONCE
    yield Step("list shards", groups, 0.0, _CALLS_OF_A_UNIT * request * groups)
    yield Step("decide", 1, seconds, read)
    yield Step("move shards", groups, 0.0, moving + _CALLS_OF_A_UNIT * request * groups)
    yield Step("finish", 1, work.manifest_bytes / _WRITTEN_BYTES_A_SECOND, _SMALL_FILES * request)
    yield removal
