"""The files of a data set compared with its manifest, one shard or other file after another.

Each check is a task of its own, so that threads or an engine's workers can share them out.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BufferedReader
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from corpusmill.dataset.manifest import FileEntry, Manifest, Shard
from corpusmill.dataset.manifest_entries import Counts, add_all, recount, weigh
from corpusmill.errors import count_things, in_one_line
from corpusmill.knobs import knob
from corpusmill.location import Location


class HashingWriter:
    """Forwards bytes to a stream, and computes their number and sha256.

    Args:
        stream: where the bytes go.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.bytes = 0

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the bytes written so far."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        """Forward the bytes, and return their number."""
        self._digest.update(data)
        self._stream.write(data)
        size = memoryview(data).nbytes
        self.bytes += size
        return size


@dataclass(frozen=True)
class Problem:
    """One difference from the manifest.

    Attributes:
        file: name relative to the data set's folder.
        what: the difference, to be read after the name ("missing").
    """

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


class Task(NamedTuple):
    """Files that are checked together.

    Attributes:
        split: of the shard; empty for another file.
        shard: the entry of the shard; None for another file.
        files: the shard's files, or the other one.
    """

    split: str
    shard: Shard | None
    files: tuple[str, ...]


@dataclass(frozen=True)
class Checked:
    """What a task has found.

    Attributes:
        differences: what is wrong with the bytes of files.
        faults: what is wrong with the rows of the shard.
        counts: the distributions of its rows; None if they could not be counted.
    """

    differences: tuple[Problem, ...] = ()
    faults: tuple[Problem, ...] = ()
    counts: Mapping[str, Counts] | None = field(default_factory=dict)


def list_tasks(manifest: Manifest) -> list[Task]:
    """List the tasks of a data set: its shards in their order, and then all other files."""
    tasks = [
        Task(name, shard, manifest.parts(shard.file))
        for name, split in manifest.splits.items()
        for shard in split.shards
    ]
    of_shards = {name for task in tasks for name in task.files}
    others = (entry.file for entry in manifest.files if entry.file not in of_shards)
    return [*tasks, *(Task("", None, (name,)) for name in others)]


def count_bytes(manifest: Manifest, task: Task) -> int:
    """Count the bytes of the files of a task."""
    return sum(manifest.entries[name].bytes for name in task.files)


CHECKED_ROWS = knob("checked_rows", 1024, test=5)
"""The rows that are verified at once. Arrays of a few megabytes are in memory that the allocator
keeps; with larger ones, threads wait for the system's pages."""


def check_task(
    folder: Location,
    manifest: Manifest,
    task: Task,
    unread: frozenset[str],
) -> Checked:
    """Read the files of a task and compare them with the manifest.

    Every byte is read, and everything that the rows tell is counted again. Memory is bounded by a
    row group.

    Args:
        folder: the data set's folder.
        manifest: its manifest.
        task: the task.
        unread: files that are missing or of another size.
    """
    intact = [name for name in task.files if name not in unread]
    differences = tuple(
        problem for name in intact for problem in check_digest(manifest.entries[name], folder)
    )
    if differences or len(intact) < len(task.files):
        return Checked(differences, counts=None)
    if task.shard is None:
        return Checked()
    try:
        with ExitStack() as files:
            streams = [files.enter_context(folder.open(name)) for name in task.files]
            return _check_rows(manifest, task.split, task.shard, streams)
    except Exception as error:  # each format has errors of its own
        cause = f"is not a readable {manifest.output.format} shard: {in_one_line(error)}"
        return Checked(faults=(Problem(task.shard.file, cause),), counts=None)


def check_size(entry: FileEntry, size: int) -> Iterator[Problem]:
    """Compare the size of a file with its entry."""
    if size != entry.bytes:
        kind = "shorter" if size < entry.bytes else "longer"
        cause = f"{count_things(abs(size - entry.bytes), 'byte')} {kind} than the manifest says"
        yield Problem(entry.file, cause)


def check_digest(entry: FileEntry, folder: Location) -> Iterator[Problem]:
    """Compare the bytes of a file with their digest."""
    try:
        with folder.open(entry.file) as stream:
            digest = hashlib.file_digest(cast(BufferedReader, stream), "sha256").hexdigest()
    except OSError as error:
        yield Problem(entry.file, f"cannot be read: {error}")
        return
    if digest != entry.sha256:
        cause = f"sha256 differs: it is {digest}, and the manifest says {entry.sha256}"
        yield Problem(entry.file, cause)


def _check_rows(
    manifest: Manifest, split: str, shard: Shard, streams: Sequence[BinaryIO]
) -> Checked:
    rows, counted = 0, dict[str, Counts]()
    columns, longest = manifest.columns, manifest.splits[split].longest
    output = manifest.output
    for batch in output.shard_format.read(streams, columns, output.options, CHECKED_ROWS, longest):
        rows += batch.num_rows
        add_all(counted, recount(batch, columns, longest))
    lengths = counted.get("length", np.zeros(0, np.int64))
    return Checked((), tuple(_compare(shard, rows, lengths)), counted)


def _compare(shard: Shard, rows: int, lengths: Counts) -> Iterator[Problem]:
    """Compare the rows of a shard, and how many have each length, with its entry."""
    if rows != shard.rows:
        held = count_things(rows, "row")
        yield Problem(shard.file, f"holds {held}, the manifest says {shard.rows:,}")
    tokens = weigh(lengths)
    if tokens != shard.tokens:
        held = count_things(tokens, "token")
        yield Problem(shard.file, f"holds {held}, the manifest says {shard.tokens:,}")
