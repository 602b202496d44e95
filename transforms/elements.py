"""The elements that pass between stages; `transforms.coders` says how they are encoded.

Each is a small named tuple. Documents and examples do not travel: they go through files.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import CorpusReading


class Part(NamedTuple):
    """Neighboring bytes of a file.

    Attributes:
        path: the file.
        offset: first byte.
        length: number of bytes.
        checksum: their CRC-32C.
    """

    path: str
    offset: int
    length: int
    checksum: int


class Segment(NamedTuple):
    """The rows of one bucket: one Arrow IPC message in a file.

    Attributes:
        bucket: the bucket; for documents on their way to shards, their home, and for candidates for
            the pool the number of the unit of work that wrote them.
        rows: number of rows.
        path: file that holds the message; empty for a segment without rows.
        offset: first byte of the message.
        length: number of bytes of the message.
        checksum: CRC-32C of the message.
        place: where its rows stand in the order of the corpus, compared with other segments of the
            bucket; 0 where that does not matter.
    """

    bucket: int
    rows: int
    path: str
    offset: int
    length: int
    checksum: int
    place: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The message."""
        return (Part(self.path, self.offset, self.length, self.checksum),)


class Task(NamedTuple):
    """The unit of reading: neighboring ranges of the input, listed on one line of the plan.

    Attributes:
        number: position of the task in the plan, from 0.
        plan: path of the plan.
        offset: first byte of the line.
        length: number of bytes of the line.
        repeats: references to the ids of documents that repeat others
            (`transforms.corpus.duplicates`).
        near: references to the ids of documents that are nearly those of others
            (`transforms.corpus.near_duplicates`).
        known: references to the digests of documents that a data set holds
            (`transforms.corpus.known_texts`).
    """

    number: int
    plan: str
    offset: int
    length: int
    repeats: Sequence[Segment] = ()
    near: Sequence[Segment] = ()
    known: Sequence[Segment] = ()


class LinesFile(NamedTuple):
    """Lines that a unit of work has written to a file, such as the rejects of a task.

    Attributes:
        number: number of the unit.
        path: temporary file.
        lines: number of lines, or of rejects.
        bytes: size of the file.
        sha256: hexadecimal digest of the file.
    """

    number: int
    path: str
    lines: int
    bytes: int
    sha256: str


class ReadRange(NamedTuple):
    """A range of an input file that was read.

    Attributes:
        file_index: position of the file in the sorted list of inputs.
        start: first byte.
        length: number of bytes.
        checksum: their CRC-32C.
    """

    file_index: int
    start: int
    length: int
    checksum: int


# Parts of a shard that tell where its rows come from: their spans, and documents at home there; and
# of the first shard the table of near-duplicates.
SPANS, DOCUMENTS, NEAR = -1, -2, -3


class WrittenFile(NamedTuple):
    """A file of a shard under its temporary name.

    Attributes:
        shard: number of the shard; the shards of validation follow those of train.
        part: which of the shard's files this is, in the order of the format's suffixes; 0 is the
            shard itself, the others are its companions. SPANS and DOCUMENTS are its provenance.
        path: temporary file.
        rows: number of examples; 0 for a companion.
        tokens: sum of the examples' lengths; 0 for a companion.
        bytes: size of the file.
        sha256: hexadecimal digest of the file.
    """

    shard: int
    part: int
    path: str
    rows: int
    tokens: int
    bytes: int
    sha256: str


_Item = TypeVar("_Item")

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
        bytes: size of the file when it was listed, beyond which nothing is read; None if unknown.
        modified: when it was last written, in seconds since 1970; 0 if unknown.
        format_is_known: as `FileRange` has it.
    """

    file: str
    name: str
    file_index: int
    start: int
    end: int | None
    bytes: int | None = None
    modified: float = 0.0
    format_is_known: bool = True

    def read_as(self, reading: CorpusReading) -> FileRange:
        """Return the range for a reader."""
        options = reading.of_file(self.file_index)
        bounds = self.start, self.end
        return FileRange(self.name, self.file_index, options, *bounds, self.format_is_known)


def cut_ranges(files: Iterable[PlannedRange], range_bytes: int) -> Iterator[PlannedRange]:
    """Cut files into ranges of equal size.

    Args:
        files: all of each file, in the order that numbers them. One without an end is not cut.
        range_bytes: largest size of a range.
    """
    for file_index, file in enumerate(files):
        size = file.end
        pieces = 1 if size is None else max(1, -(-size // range_bytes))
        for piece in range(pieces):
            start = 0 if size is None else size * piece // pieces
            end = None if size is None else size * (piece + 1) // pieces
            yield file._replace(file_index=file_index, start=start, end=end)


def group_ranges(
    ranges: Iterable[PlannedRange], sizes: Sequence[int], task_bytes: int
) -> Iterator[list[PlannedRange]]:
    """Group neighboring ranges into tasks, so that many small files make few tasks.

    Args:
        ranges: the ranges in order.
        sizes: size in bytes of each file.
        task_bytes: largest size of a task that has more than one range.
    """
    ends = ((part, sizes[part.file_index] if part.end is None else part.end) for part in ranges)
    costs = ((part, FILE_BYTES + end - part.start) for part, end in ends)
    return group_by_cost(costs, task_bytes)


def group_by_cost(items: Iterable[tuple[_Item, int]], most: int) -> Iterator[list[_Item]]:
    """Group neighbors.

    Args:
        items: each with its cost.
        most: the cost of a group that has more than one of them.
    """
    group, room = list[_Item](), most
    for item, cost in items:
        if group and cost > room:
            yield group
            group, room = [], most
        group.append(item)
        room -= cost
    if group:
        yield group
