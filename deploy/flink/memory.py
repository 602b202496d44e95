"""The memory that corpusmill's jobs need on a machine of a Flink cluster, part by part.

    python -m deploy.flink.memory --slots 2 --parallelism 4 --input-gigabytes 100

prints the values for config.yaml and the memory of the worker pool, with reasons.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from transforms.task_sizes import TaskSizes

_MEGABYTE = 2**20
_RANGE_BYTES = 64 * _MEGABYTE  # the input of a task on Flink

# Flink's own defaults: heap and direct memory of the framework, classes, threads and code.
_FRAMEWORK, _METASPACE, _OVERHEAD = 256, 256, 320
# Measured: the default of 384 MB was enough for references to 1.3 GB of Arrow data.
_HEAP = 384
# gRPC's direct memory, for the data to a worker and back.
_DIRECT_PER_SLOT = 512
# The values of a key are one record, which must fit into the sort buffer: measured, 100 MB for
# 256 MB of managed memory in a slot. A reference takes 160 bytes.
_MANAGED_PER_SLOT, _MANAGED_PER_BUFFER, _REFERENCE_BYTES = 256, 2.6, 160
# Results and inputs that a slot has open at once. A network buffer has 32 KB; a result has at least
# 64 buffers, an input two for each task that it reads from, at most 1,000.
_OPEN_AT_ONCE, _BUFFER_KILOBYTES, _RESULT_BUFFERS, _INPUT_BUFFERS = 12, 32, 64, 1000
_NETWORK_PER_SLOT = 128
# A Python process with Arrow, Numba, and a tokenizer with its memo of words.
_PYTHON = 400


@dataclass(frozen=True)
class Part:
    """A part of the memory.

    Attributes:
        key: in Flink's configuration; empty if the part is not set but only counted.
        megabytes: size.
        purpose: what the part is for.
    """

    key: str
    megabytes: int
    purpose: str


def size_task_manager(slots: int, parallelism: int, input_bytes: int) -> list[Part]:
    """Return the parts of a TaskManager's memory, after their sum.

    Args:
        slots: of a TaskManager.
        parallelism: tasks of a stage that run at once in the whole cluster.
        input_bytes: size of the largest corpus.
    """
    tasks = -(-input_bytes // _RANGE_BYTES)
    values = tasks * _REFERENCE_BYTES / _MEGABYTE * _MANAGED_PER_BUFFER
    buffers = _RESULT_BUFFERS + min(2 * parallelism, _INPUT_BUFFERS)
    network = _round(_OPEN_AT_ONCE * buffers * _BUFFER_KILOBYTES / 1024)
    parts = [
        Part(
            "taskmanager.memory.task.off-heap.size",
            slots * _DIRECT_PER_SLOT,
            "gRPC's direct memory for the data to the Python workers and back",
        ),
        Part(
            "taskmanager.memory.managed.size",
            slots * max(_MANAGED_PER_SLOT, _round(values)),
            f"sorting: a shard's references, one from each of {tasks:,} tasks, are one record",
        ),
        Part(
            "taskmanager.memory.network.max",
            slots * max(_NETWORK_PER_SLOT, network),
            f"buffers for about {_OPEN_AT_ONCE} results and inputs a slot, of {parallelism} tasks",
        ),
        Part("", _HEAP, "Java's heap: references to files, not text"),
        Part("", _FRAMEWORK + _METASPACE + _OVERHEAD, "Flink itself"),
    ]
    whole = _round(sum(part.megabytes for part in parts))
    return [Part("taskmanager.memory.process.size", whole, "the sum"), *parts]


def size_worker_pool(slots: int) -> list[Part]:
    """Return the parts of a worker pool's memory, after their sum.

    Args:
        slots: of the TaskManager; each has its own worker process.
    """
    sizes = TaskSizes()
    rows, documents = (size // _MEGABYTE for size in (sizes.sort_bytes, sizes.buffer_bytes))
    parts = [
        Part("", slots * _PYTHON, "a Python process a slot"),
        Part(
            "",
            slots * 3 * rows,
            f"sorting {rows} MB of a shard's rows takes three times that, as does sorting "
            f"{documents} MB of documents in the stage before",
        ),
        Part("", 512, "pages of the pool of random documents, which all workers map"),
    ]
    return [Part("", _round(sum(part.megabytes for part in parts)), "the sum"), *parts]


def _round(megabytes: float) -> int:
    """Round up to a multiple of 64."""
    return -int(-megabytes // 64) * 64


def explain(slots: int, parallelism: int, input_bytes: int) -> Iterator[str]:
    """Yield the lines of the output."""
    yield "a TaskManager:"
    for part in size_task_manager(slots, parallelism, input_bytes):
        yield f"  {part.key or '(counted)':44} {part.megabytes:6}m  {part.purpose}"
    yield "its worker pool (the limit of the container):"
    for part in size_worker_pool(slots):
        yield f"  {'':44} {part.megabytes:6}m  {part.purpose}"


def main() -> None:
    """Print the memory for the machines of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=2, help="slots of a TaskManager")
    parser.add_argument(
        "--parallelism", type=int, default=4, help="tasks that run at once in the cluster"
    )
    parser.add_argument(
        "--input-gigabytes", type=float, default=100, help="size of the largest corpus"
    )
    options = parser.parse_args()
    input_bytes = int(options.input_gigabytes * 10**9)
    print("\n".join(explain(options.slots, options.parallelism, input_bytes)))


if __name__ == "__main__":
    main()
