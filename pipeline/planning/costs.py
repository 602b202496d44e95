"""The requests of a job to an object store, and what the job costs."""

from math import ceil
from typing import NamedTuple

from pipeline.planning.machines import MachineOptions
from pipeline.planning.schedule import Schedule
from pipeline.planning.workload import Workload

_GB, _GIB = 10**9, 2**30
# What a request reads from a file that is read from beginning to end, and what one lists.
_READ_BYTES, _LISTED_FILES = 4 * 2**20, 1000
_HOURS_OF_A_MONTH, _DAYS_OF_A_MONTH = 730, 30.4
# Steps of the price of shuffled data, in GB, and the share that is billed in each.
_FIRST_GB, _SECOND_GB = 250, 4870


class Requests(NamedTuple):
    """Requests to an object store.

    Attributes:
        reads: those that read, and that look for a file.
        writes: those that write, copy or list.
    """

    reads: float
    writes: float


def count_requests(work: Workload) -> Requests:
    """Return the requests of a job whose files are all in an object store."""
    # The commit copies shards to their names, and lists the files that it removes.
    writes = work.creates + work.shard_files + ceil(work.creates / _LISTED_FILES)
    writes += ceil(work.input_files / _LISTED_FILES)
    reads = work.input_bytes / _READ_BYTES + work.opens + work.looks
    return Requests(reads, writes)


def compute_costs(
    work: Workload, schedule: Schedule, machine: MachineOptions, on_dataflow: bool
) -> dict[str, float]:
    """Return the US dollars that a job costs, by resource.

    Args:
        work: the work of the job.
        schedule: its steps, with the number of workers.
        machine: of its workers, and the prices.
        on_dataflow: whether the engine's shuffling is billed.
    """
    hours, requests = schedule.billed_hours, count_requests(work)
    # Shards are under their temporary names until the commit; deleted files are kept for days.
    kept = (work.temporary_bytes + work.output_bytes) / _GB * machine.storage_price
    # Shuffled data is written once and read once.
    elements = work.references + work.job.plan.tasks + work.job.layout.shards
    shuffled = billed_shuffle_gb(2 * elements * work.rates.reference / _GIB) if on_dataflow else 0
    return {
        "processors": hours * machine.vcpu_price,
        "memory": hours * machine.memory_per_vcpu * machine.memory_price,
        "local disks": hours * machine.disk_per_vcpu * machine.disk_price,
        "shuffle service": shuffled * machine.shuffle_price,
        "requests": (requests.writes * machine.write_price + requests.reads * machine.read_price)
        / 10_000,
        "temporary files": kept * schedule.duration / 3600 / _HOURS_OF_A_MONTH,
        "deleted files": kept * machine.soft_delete_days / _DAYS_OF_A_MONTH,
    }


def billed_shuffle_gb(gigabytes: float) -> float:
    """Return what is billed: a quarter of the first 250 GB, half of the next 4,870, then all."""
    first = min(gigabytes, _FIRST_GB)
    second = min(max(gigabytes - _FIRST_GB, 0), _SECOND_GB)
    return 0.25 * first + 0.5 * second + max(gigabytes - _FIRST_GB - _SECOND_GB, 0)
