"""The ranges of input files that are read at a time, and the tasks that they are grouped into."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

# The cost of opening a file, as the number of bytes that could be read in the same time.
FILE_BYTES = 2**16


class PlannedRange(NamedTuple):
    """A range of an input file.

    Attributes:
        file: path of the file.
        name: name of the file in the manifest and in messages about its records.
        file_index: position of the file in the sorted list of inputs.
        start: first byte.
        end: end of the range, exclusive; None for a file that is read whole, such as a compressed
            one.
    """

    file: str
    name: str
    file_index: int
    start: int
    end: int | None


def cut_ranges(
    files: Iterable[tuple[str, str, int, bool]], range_bytes: int
) -> Iterator[PlannedRange]:
    """Cut files into ranges of equal size.

    Args:
        files: (path, name, size in bytes, whether the file can be cut) of each file, in the order
            that numbers them.
        range_bytes: largest size of a range.
    """
    for file_index, (path, name, size, splittable) in enumerate(files):
        pieces = max(1, -(-size // range_bytes)) if splittable else 1
        cuts = (size * piece // pieces for piece in range(pieces + 1))
        for start, end in pairwise(cuts):
            yield PlannedRange(path, name, file_index, start, end if splittable else None)


def group_ranges(
    ranges: Iterable[PlannedRange], sizes: Sequence[int], task_bytes: int
) -> Iterator[list[PlannedRange]]:
    """Group neighboring ranges into tasks, so that many small files make few tasks.

    Args:
        ranges: the ranges in order.
        sizes: size in bytes of each file.
        task_bytes: largest size of a task that has more than one range.
    """
    task: list[PlannedRange] = []
    room = task_bytes
    for part in ranges:
        end = sizes[part.file_index] if part.end is None else part.end
        cost = FILE_BYTES + end - part.start
        if task and cost > room:
            yield task
            task, room = [], task_bytes
        task.append(part)
        room -= cost
    if task:
        yield task
