"""The memory of a machine of a Flink cluster for corpusmill's jobs, each part with its reason.

    python deploy/flink/memory.py --slots 2 --parallelism 4 --input-gigabytes 100

prints the lines of config.yaml, the memory of the worker pool beside the TaskManager, and why.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from transforms.build import SORT_BYTES
from transforms.shuffle import BUFFER_BYTES

_MEGABYTE = 2**20
_RANGE_BYTES = 64 * _MEGABYTE  # what a task reads on Flink

# Flink's own, by its defaults: heap and direct memory of the framework, classes, threads and code.
_FRAMEWORK, _METASPACE, _OVERHEAD = 256, 256, 320
# Measured: the default of 384 MB carried 1.3 GB of Arrow whose paths were shuffled.
_HEAP = 384
# gRPC's direct memory, for what passes to two workers and back.
_DIRECT_PER_SLOT = 512
# A key's values are one record, which must fit the sort buffer: measured, 100 MB of it in 256 MB of
# managed memory a slot. A reference takes 160 bytes there.
_MANAGED_PER_SLOT, _MANAGED_PER_BUFFER, _REFERENCE_BYTES = 256, 2.6, 160
# Results and inputs of a slot that are open at once; a buffer of the network has 32 KB, a result at
# least 64 of them, an input two for each of the tasks it reads from, at most 1,000.
_OPEN_AT_ONCE, _BUFFER_KILOBYTES, _RESULT_BUFFERS, _INPUT_BUFFERS = 12, 32, 64, 1000
_NETWORK_PER_SLOT = 128
# A Python process with Arrow, Numba and a tokenizer with its memo of words.
_PYTHON = 400


@dataclass(frozen=True)
class Part:
    """A part of the memory.

    Attributes:
        key: of Flink's configuration; empty where the part is not set but only counted.
        megabytes: its size.
        why: what it is for.
    """

    key: str
    megabytes: int
    why: str


def size_task_manager(slots: int, parallelism: int, input_bytes: int) -> list[Part]:
    """The parts of a TaskManager's memory; the first one is their sum.

    Args:
        slots: of a TaskManager.
        parallelism: tasks of a stage that run at once on the whole cluster.
        input_bytes: of the largest corpus.
    """
    tasks = -(-input_bytes // _RANGE_BYTES)
    values = tasks * _REFERENCE_BYTES / _MEGABYTE * _MANAGED_PER_BUFFER
    buffers = _RESULT_BUFFERS + min(2 * parallelism, _INPUT_BUFFERS)
    network = _round(_OPEN_AT_ONCE * buffers * _BUFFER_KILOBYTES / 1024)
    parts = [
        Part(
            "taskmanager.memory.task.off-heap.size",
            slots * _DIRECT_PER_SLOT,
            "gRPC's direct memory: what passes to the Python workers and back",
        ),
        Part(
            "taskmanager.memory.managed.size",
            slots * max(_MANAGED_PER_SLOT, _round(values)),
            f"sorting: a shard has a reference of each of {tasks:,} tasks, and they are one record",
        ),
        Part(
            "taskmanager.memory.network.max",
            slots * max(_NETWORK_PER_SLOT, network),
            f"buffers of about {_OPEN_AT_ONCE} results and inputs a slot, of {parallelism} tasks",
        ),
        Part("", _HEAP, "Java's heap: references to files, never text"),
        Part("", _FRAMEWORK + _METASPACE + _OVERHEAD, "Flink itself"),
    ]
    whole = _round(sum(part.megabytes for part in parts))
    return [Part("taskmanager.memory.process.size", whole, "all of it"), *parts]


def size_worker_pool(slots: int) -> list[Part]:
    """The memory of the worker pool beside a TaskManager; the first part is the sum.

    Args:
        slots: of the TaskManager; each has a worker process of its own.
    """
    parts = [
        Part("", slots * _PYTHON, "a Python process a slot"),
        Part(
            "",
            slots * 3 * (SORT_BYTES // _MEGABYTE),
            f"a shard's rows are sorted in {SORT_BYTES // _MEGABYTE} MB, which takes three times "
            f"that; in the stage before it {BUFFER_BYTES // _MEGABYTE} MB of documents are",
        ),
        Part("", 512, "pages of the pool of random documents, which all workers map"),
    ]
    return [Part("", _round(sum(part.megabytes for part in parts)), "all of it"), *parts]


def _round(megabytes: float) -> int:
    """Up to the next multiple of 64."""
    return -int(-megabytes // 64) * 64


def explain(slots: int, parallelism: int, input_bytes: int) -> Iterator[str]:
    """The lines of what is printed."""
    yield "a TaskManager:"
    for part in size_task_manager(slots, parallelism, input_bytes):
        yield f"  {part.key or '(counted)':44} {part.megabytes:6}m  {part.why}"
    yield "the worker pool beside it (limit of its container):"
    for part in size_worker_pool(slots):
        yield f"  {'':44} {part.megabytes:6}m  {part.why}"


def main() -> None:
    """Print the memory for what the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=2, help="slots of a TaskManager")
    parser.add_argument("--parallelism", type=int, default=4, help="tasks at once, on all machines")
    parser.add_argument("--input-gigabytes", type=float, default=100, help="the largest corpus")
    asked = parser.parse_args()
    input_bytes = int(asked.input_gigabytes * 10**9)
    print("\n".join(explain(asked.slots, asked.parallelism, input_bytes)))


if __name__ == "__main__":
    main()
