"""The plan: which stretches of which files each task reads.

It goes to the workers as a file. A graph that held it would grow with the number of input files.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import apache_beam as beam

from transforms.elements import Task
from transforms.storage.files import create_file, open_file

# What opening a file costs, as bytes that could be read in the same time.
FILE_BYTES = 2**16


class FileRange(NamedTuple):
    """A stretch of an input file.

    Attributes:
        number: place of the range in the plan, from 0.
        file: path, as Beam's filesystems know it.
        name: of the file in the manifest, and in what is said of its records.
        file_index: place of the file in the sorted list of inputs.
        start: first byte.
        end: one behind the last byte; -1 for a file that is read whole, as compressed ones are.
    """

    number: int
    file: str
    name: str
    file_index: int
    start: int
    end: int


class Plan(NamedTuple):
    """A plan that was written.

    Attributes:
        path: of the file; a line a task.
        tasks: their number.
        ranges: their ranges' number.
    """

    path: str
    tasks: int
    ranges: int


def cut_ranges(
    files: Sequence[tuple[str, str, int, bool]], range_bytes: int
) -> Iterator[FileRange]:
    """Cut files into ranges of equal size, at most `range_bytes` long.

    Args:
        files: path, name, bytes, and whether the file can be cut, in the order that numbers them.
        range_bytes: upper bound.
    """
    number = 0
    for file_index, (path, name, size, splittable) in enumerate(files):
        if not splittable:
            yield FileRange(number, path, name, file_index, 0, -1)
            number += 1
            continue
        pieces = max(1, -(-size // range_bytes))
        for piece in range(pieces):
            start, end = size * piece // pieces, size * (piece + 1) // pieces
            yield FileRange(number, path, name, file_index, start, end)
            number += 1


def group_ranges(
    ranges: Iterable[FileRange], sizes: Sequence[int], task_bytes: int
) -> Iterator[list[FileRange]]:
    """Put neighbouring ranges into tasks, so that many small files are few tasks.

    Args:
        ranges: in order.
        sizes: bytes of each file.
        task_bytes: most bytes of a task, but for one that a single range fills.
    """
    task: list[FileRange] = []
    room = task_bytes
    for part in ranges:
        cost = FILE_BYTES + (sizes[part.file_index] if part.end < 0 else part.end - part.start)
        if task and cost > room:
            yield task
            task, room = [], task_bytes
        task.append(part)
        room -= cost
    if task:
        yield task


def write_plan(path: str, tasks: Iterable[list[FileRange]]) -> Plan:
    """Write a plan, a JSON line a task; tasks are numbered in the order in which they are given."""
    number = ranges = 0
    with create_file(path) as stream:
        for task in tasks:
            stream.write(json.dumps(task, ensure_ascii=False).encode() + b"\n")
            number, ranges = number + 1, ranges + len(task)
    return Plan(path, number, ranges)


def read_task(task: Task) -> list[FileRange]:
    """The ranges of a task."""
    with open_file(task.plan) as stream:
        stream.seek(task.offset)
        return [FileRange(*part) for part in json.loads(stream.read(task.length))]


class _ListTasks(beam.DoFn):
    """A plan to its tasks."""

    def process(self, element: str) -> Iterator[Task]:
        offset = 0
        with open_file(element) as stream:
            for number, line in enumerate(stream):
                yield Task(number, element, offset, len(line))
                offset += len(line)


class PlanTasks(beam.PTransform):
    """Give the tasks of the plan, spread over all workers.

    Args:
        plan: as it was written.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Task]:
        """List the tasks and break the fusion behind them."""
        return (
            begin
            | "CreatePlan" >> beam.Create([self._plan.path]).with_output_types(str)
            | "ListTasks" >> beam.ParDo(_ListTasks()).with_output_types(Task)
            | "SpreadTasks" >> beam.Reshuffle()
        )

    def display_data(self) -> dict[str, int]:
        """How much there is to read."""
        return {"tasks": self._plan.tasks, "ranges": self._plan.ranges}
