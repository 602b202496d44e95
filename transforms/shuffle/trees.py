"""Trees: bring together what very many units of work have made, and give no task too much of it.

    units ─ blocks of `fan_in` neighbors ─ blocks of blocks ─ ... ─ at most `fan_in` for one task

A tree has as many levels as its leaves need. For up to `fan_in` units it has none, so that a small
job has no stage for it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import apache_beam as beam

from corpusmill.corpus.batches import Reject
from corpusmill.corpus.reject_lines import RejectWriter, read_rejects
from corpusmill.dataset.file_checks import HashingWriter
from transforms.elements import LinesFile, WrittenFile
from transforms.recovery import Workplace
from transforms.storage.checksums import is_sealed, read_blocks, seal, unseal
from transforms.storage.files import (
    SMALL_FILE_BYTES,
    create_file,
    map_ahead,
    new_path,
    read_existing,
    read_file,
    write_file,
)
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
    return is_sealed(read_existing(path) or b"")


def read_collected(path: str) -> tuple[dict[str, int], list[list[Any]]]:
    """Read the counts, and the tuples in ascending order, each as a list.

    Raises:
        DamagedFileError: the file is damaged.
    """
    counts, elements = json.loads(unseal(read_file(path), path))
    return counts, elements


# Joins elements of neighboring units: (number of the block, elements, the run's place) -> fewer.
Join = Callable[[int, Sequence[Any], Workplace], Iterable[Any]]


@dataclass(frozen=True)
class Tree:
    """How elements are joined.

    Attributes:
        units: the number of units of work, which is above the number of each element's unit, its
            first field.
        join: joins the elements of a block.
        element: type of the elements.
        place: where the run works. Its `sizes.fan_in` is the most units of a block: a task opens a
            small file for each, of which an object store serves 500 a second to one worker.
    """

    units: int
    join: Join
    element: type
    place: Workplace

    @property
    def fan_in(self) -> int:
        """The most units of a block."""
        return self.place.sizes.fan_in

    @property
    def has_levels(self) -> bool:
        """Whether the units are too many for one task."""
        return self.units > self.fan_in


class _JoinBlock(beam.DoFn):
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def process(self, element: tuple[int, Iterable[Any]]) -> Iterator[Any]:
        block, parts = element
        place = self._tree.place
        if place.is_over():
            return
        with place.at_work():
            # In another process Beam's type of an element has its fields alone.
            made = [self._tree.element(*part) for part in parts]
            joined = list(self._tree.join(block, made, place))
        yield from joined


class JoinInTree(beam.PTransform):
    """Join the elements of neighboring units, until those of at most `fan_in` are left.

    Args:
        tree: how they are joined; it has levels.
    """

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self._tree = tree

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Apply a level, and the levels above it."""
        tree = self._tree
        joined = (
            elements
            | "KeyByBlock"
            >> beam.Map(lambda element: (element[0] // tree.fan_in, element)).with_output_types(
                tuple[int, tree.element]  # type: ignore[name-defined]
            )
            | "GatherBlocks" >> beam.GroupByKey()
            | "JoinBlock" >> beam.ParDo(_JoinBlock(tree)).with_output_types(tree.element)
        )
        above = replace(tree, units=-(-tree.units // tree.fan_in))
        return joined | "NextLevel" >> JoinInTree(above) if above.has_levels else joined


def join_rejects(number: int, files: Sequence[LinesFile], place: Workplace) -> Iterator[LinesFile]:
    """Join files of rejects in the order of their numbers, as if one unit had written them all.

    Args:
        number: number of the joined file.
        files: the files.
        place: where the run works.
    """
    path = new_path(place.temp_folder, "rejects", ".jsonl")
    with create_file(path) as stream:
        sink = HashingWriter(stream)
        writer = RejectWriter(sink)
        for blocks in map_ahead(_open_blocks, sorted(files)):
            for reject in read_rejects(_split_lines(blocks)):
                if isinstance(reject, Reject):
                    writer.add([reject])
                else:
                    writer.add([], [reject])
        writer.close()
    yield LinesFile(number, path, writer.number, sink.bytes, sink.sha256)


def _split_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def concatenate(files: Iterable[WrittenFile | LinesFile], stream: BinaryIO) -> tuple[int, str]:
    """Write several files into a new one; return its size in bytes and its SHA-256.

    Args:
        files: the files.
        stream: of the new file.

    Raises:
        DamagedFileError: a file does not hold what was written.
    """
    target = HashingWriter(stream)
    for blocks in map_ahead(_open_blocks, files):
        for block in blocks:
            target.write(block)
    return target.bytes, target.sha256


def _open_blocks(file: WrittenFile | LinesFile) -> Iterable[bytes]:
    """Return the blocks of a file, those of a small one at once."""
    blocks = read_blocks(file.path, file.sha256)
    return list(blocks) if file.bytes <= SMALL_FILE_BYTES else blocks
