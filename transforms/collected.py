"""What a job has found, brought together in one small file for the command that waits for it."""

import json
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from transforms.checksums import is_sealed, seal, unseal
from transforms.storage.files import file_exists, read_file, write_file
from transforms.tally import Count, add_up


class _Collect(beam.DoFn):
    """Write all elements and counts to one file; runs once."""

    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, _: bytes, counts: list[Count], elements: list[Any]) -> Iterator[str]:
        listed = sorted(tuple(element) for element in elements)
        write_file(self._path, seal(json.dumps([dict(counts), listed]).encode()))
        yield self._path


class CollectResult(beam.PTransform):
    """Write small tuples and counts to one file, which `read_collected` reads; return its path.

    Args:
        path: the file.
        counts: those of all stages.
    """

    def __init__(self, path: str, counts: beam.PCollection[Count]) -> None:
        super().__init__()
        self._path, self._counts = path, counts

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[str]:
        """Run once, after everything else."""
        inputs = map(beam.pvalue.AsList, (add_up([self._counts]), elements))
        once = elements.pipeline | "StartCollecting" >> beam.Impulse()
        collect = beam.ParDo(_Collect(self._path), *inputs)
        return once | "Collect" >> collect.with_output_types(str)


def has_collected(path: str) -> bool:
    """Return whether a job has written its one file, and all of it, whatever its engine says."""
    return file_exists(path) and is_sealed(read_file(path))


def read_collected(path: str) -> tuple[dict[str, int], list[list[Any]]]:
    """Read the counts, and the tuples in ascending order, each as a list.

    Raises:
        DamagedFileError: the file is damaged.
    """
    counts, elements = json.loads(unseal(read_file(path), path))
    return counts, elements
