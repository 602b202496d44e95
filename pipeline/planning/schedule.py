"""The steps of a job, one after the other: their work, and how long they take with some workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from pipeline.planning.machines import MachineOptions
from pipeline.planning.workload import Workload
from transforms.storage.parallel import CALLS_AT_ONCE

# A rename takes a look at both names, a copy and a deletion.
_CALLS_OF_A_RENAME = 4
# Each unit of work opens the run's claim and its entry in the journal, and writes it.
_CALLS_OF_A_UNIT = 4
# How fast one worker copies shards into one file: an assumption.
_JOINED_BYTES_A_SECOND = 100 * 10**6
_SECONDS_OF_A_LOCAL_RENAME = 0.001


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
        steps.append(_write_pool(work, speed, request))
    if work.merges:
        merged = rates.merge_seconds * work.stored_bytes / speed + work.merged_segments * element
        waits = (work.merged_segments / CALLS_AT_ONCE + _CALLS_OF_A_UNIT * work.merges) * request
        steps.append(Step("merge", work.merges, merged, waits))
    built = rates.build_seconds * work.examples / speed
    built += (work.shard_references + shards * rates.shard_counts) * element
    waits = (work.segments * work.builders + _CALLS_OF_A_UNIT * shards) * request
    steps.append(Step("build shards", shards, built, waits))
    return [*steps, _commit(work, request)]


def _write_pool(work: Workload, speed: float, request: float) -> Step:
    # The sizes of all candidates, and the candidates for each split.
    reads = work.candidates * (3 if work.job.layout.validation_shards else 2)
    seconds = work.rates.pool_seconds * work.pool_bytes / speed
    return Step("write pool", 1, seconds, reads * request / CALLS_AT_ONCE)


def _commit(work: Workload, request: float) -> Step:
    waits = work.shard_files * _SECONDS_OF_A_LOCAL_RENAME
    if request:
        waits = work.shard_files * _CALLS_OF_A_RENAME * request / CALLS_AT_ONCE
    if work.job.commit.joined:
        waits += work.output_bytes / _JOINED_BYTES_A_SECOND
    return Step("commit", 1, 0.0, waits)
