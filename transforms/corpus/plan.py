"""The plan: which ranges of which files each task reads.

The plan reaches the workers as a file. A graph that held it would grow with the number of input
files.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

import transforms.coders  # noqa: F401  registers those of the elements
from transforms.elements import PlannedRange, Task
from transforms.recovery import Workplace
from transforms.storage.checksums import seal, unseal
from transforms.storage.files import create_file, open_file, read_part


class Plan(NamedTuple):
    """A plan that has been written.

    Attributes:
        path: path of the file, which has a line for each task.
        tasks: number of tasks.
        ranges: number of ranges.
    """

    path: str
    tasks: int
    ranges: int


def write_plan(path: str, tasks: Iterable[Sequence[tuple[Any, ...]]]) -> Plan:
    """Write a plan with a line for each task, a checksum and JSON; tasks are numbered in order.

    Args:
        path: path of the plan.
        tasks: the ranges of each task, or other tuples of what JSON has.
    """
    number = ranges = 0
    with create_file(path) as stream:
        for task in tasks:
            stream.write(seal(json.dumps(task).encode() + b"\n"))
            number, ranges = number + 1, ranges + len(task)
    return Plan(path, number, ranges)


def read_task(task: Task) -> list[PlannedRange]:
    """Read the ranges of a task from the plan.

    Raises:
        DamagedFileError: the plan is damaged.
    """
    return [PlannedRange(*part) for part in read_line(task)]


def read_line(task: Task) -> list[list[Any]]:
    """Read the tuples of a task from the plan, which JSON makes lists.

    Raises:
        DamagedFileError: the plan is damaged.
    """
    line = unseal(read_part(task.plan, task.offset, task.length), task.plan)
    parts: list[list[Any]] = json.loads(line)
    return parts


class _ListTasks(beam.DoFn):
    """List the tasks of a plan."""

    def __init__(self, place: Workplace) -> None:
        self._place = place

    def process(self, element: str) -> Iterator[Task]:
        if self._place.is_over():
            return
        offset = 0
        with open_file(element) as stream:
            for number, line in enumerate(stream):
                yield Task(number, element, offset, len(line))
                offset += len(line)


class PlanTasks(beam.PTransform):
    """Spread the tasks of a plan over all workers.

    Args:
        plan: the plan.
        place: where the run works.
    """

    def __init__(self, plan: Plan, place: Workplace) -> None:
        super().__init__()
        self._plan, self._place = plan, place

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Task]:
        """List the tasks, and keep the next stage from being fused with the list."""
        return (
            begin
            | "CreatePlan" >> beam.Create([self._plan.path]).with_output_types(str)
            | "ListTasks" >> beam.ParDo(_ListTasks(self._place)).with_output_types(Task)
            | "SpreadTasks" >> beam.Reshuffle()
        )

    def display_data(self) -> dict[str, int]:
        """Show the size of the plan."""
        return {"tasks": self._plan.tasks, "ranges": self._plan.ranges}
