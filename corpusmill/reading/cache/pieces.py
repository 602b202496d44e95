"""Large shards cut into pieces: a reader waits for the rows that it needs, not for a whole shard.

A piece is what is unpacked, mapped and removed at a time. Small shards are one piece each, and so
are all that cannot be read from the middle: those elsewhere than on this machine, those of formats
whose rows follow one another without an index, and token streams, which are read across rows.

Tiny shards, of which a corpus of many small sources has thousands, stay in memory: a dozen files
for each would take longer to write than the rows take to read again.

The bytes of unpacked files are compared with their checksums. To compare all bytes takes as long as
to read them. So files are compared once after each start of the machine, which may have lost bytes,
and again if one has been written since: its time, size or inode is then not the one that was noted.
An unpacked piece is compared when it is first mapped:

    checksums.json    {"input_ids.values": 3735928559, ...}, CRC-32C of each file
    compared.json     what `describe_files` returned when the files were compared last
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.columns import ANY_LENGTH
from corpusmill.dataset.manifest import Manifest, Shard
from corpusmill.knobs import knob
from corpusmill.location import Location

CHECKSUMS, _COMPARED = "checksums.json", "compared.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

PIECE_TOKENS = knob("piece_tokens", 2**22, test=500)
"""The tokens of a piece into which a large shard is cut; up to twice as many stay together."""
PIECE_GROUP_TOKENS = knob("piece_group_tokens", 2**24, test=500)
"""Pieces are no smaller than a group of the format's rows, unless it has more tokens."""
MOST_PIECES = knob("most_pieces", 512, test=4)
"""The most pieces of a shard, as an order reads from several shards at a time."""
MEMORY_TOKENS = knob("memory_tokens", 2**12, test=50)
"""Shards with no more tokens stay in memory, and are not unpacked into files."""
COMPARED_BYTES = knob("compared_bytes", 2**22, test=100)
"""How much of a file that is compared with its checksum is in memory at once."""


def write_checksums(folder: Path, checksums: Mapping[str, int]) -> None:
    """Write the checksums of a new folder's files, which need not be read again.

    Args:
        folder: the folder.
        checksums: CRC-32C of each file, by its name.
    """
    (folder / CHECKSUMS).write_text(json.dumps(dict(checksums)))
    note_comparison(folder / _COMPARED, folder, checksums)


def is_intact(folder: Path) -> bool:
    """Return whether files of a folder hold what was written; False if that cannot be told."""
    try:
        checksums = json.loads((folder / CHECKSUMS).read_text())
        if were_compared(folder / _COMPARED, folder, checksums):
            return True
        files = checksums.items()
        if any(_checksum(folder / name) != checksum for name, checksum in files):
            return False
        note_comparison(folder / _COMPARED, folder, checksums)
    except (OSError, ValueError, AttributeError):
        return False
    return True


def were_compared(note: Path, folder: Path, names: Iterable[str]) -> bool:
    """Return whether a note says of some files, as they are now, that they were compared.

    Args:
        note: the file that `note_comparison` wrote.
        folder: of the files.
        names: theirs.
    """
    with suppress(OSError, ValueError, TypeError, KeyError):
        noted = json.loads(note.read_text())
        return bool(noted["boot"]) and noted == describe_files(folder, names)
    return False


def note_comparison(note: Path, folder: Path, names: Iterable[str]) -> None:
    """Note that some files have been compared; the rest is as of `were_compared`."""
    with suppress(OSError):  # the cache may be read-only
        new = note.with_name(f"{note.name}.{os.urandom(16).hex()}")
        new.write_text(json.dumps(describe_files(folder, names)))
        new.replace(note)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as stream:
        while block := stream.read(COMPARED_BYTES):
            checksum = google_crc32c.extend(checksum, pa.py_buffer(block))
    return checksum


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return what changes when the machine starts or a file is written.

    Args:
        folder: of the files.
        names: theirs.

    Raises:
        FileNotFoundError: one is missing.
    """
    states = {name: (folder / name).stat() for name in names}
    files = {name: [at.st_size, at.st_mtime_ns, at.st_ino] for name, at in states.items()}
    return {"boot": _BOOT_ID.read_text() if _BOOT_ID.exists() else "", "files": files}


class Piece(NamedTuple):
    """Consecutive rows of a shard.

    Attributes:
        shard: the manifest's entry of the shard.
        begin: the first row.
        end: the row after the last one.
        is_tiny: whether it stays in memory, and is not unpacked into files.
    """

    shard: Shard
    begin: int
    end: int
    is_tiny: bool = False

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.end - self.begin

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows of the shard."""
        return self.rows == self.shard.rows

    @property
    def tokens(self) -> int:
        """Its tokens: those of a whole shard, else about as many."""
        return self.shard.tokens * self.rows // max(1, self.shard.rows)


class Pieces:
    """The pieces of shards, in order. Each is made when it is asked for: there may be millions.

    Args:
        shards: the shards.
        rows: of the pieces of each shard, except its last one; at least 1.
        tiny_tokens: a shard of one piece that has no more tokens is tiny.
    """

    def __init__(self, shards: Sequence[Shard], rows: Sequence[int], tiny_tokens: int) -> None:
        self._shards, self._rows = tuple(shards), np.array(rows, np.int64)
        self._tiny_tokens = tiny_tokens
        self._sizes = np.array([shard.rows for shard in shards], np.int64)
        counts = np.maximum(1, -(-self._sizes // self._rows))
        self._firsts = np.append(0, np.cumsum(counts))

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, number: int) -> Piece:
        number = range(len(self))[number]
        place = int(np.searchsorted(self._firsts, number, "right")) - 1
        shard, rows = self._shards[place], int(self._rows[place])
        begin = rows * (number - int(self._firsts[place]))
        is_tiny = rows >= shard.rows and shard.tokens <= self._tiny_tokens
        return Piece(shard, begin, min(begin + rows, shard.rows), is_tiny)

    def __iter__(self) -> Iterator[Piece]:
        return map(self.__getitem__, range(len(self)))

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """int64[pieces + 1], the first row of each piece among the rows of all shards."""
        counts = np.diff(self._firsts)
        sizes = np.repeat(self._rows, counts)
        sizes[self._firsts[1:] - 1] = self._sizes - self._rows * (counts - 1)
        return np.append(0, np.cumsum(sizes))


def cut_shards(folder: Location, manifest: Manifest, shards: Sequence[Shard]) -> Pieces:
    """Cut shards into pieces, in order.

    Args:
        folder: of the data set.
        manifest: its manifest.
        shards: some of its shards.
    """
    shard_format = manifest.output.shard_format
    is_stream = manifest.columns[0].width == ANY_LENGTH
    is_local = folder.local_path("") is not None
    if is_stream or not shard_format.has_groups or not is_local:
        most = MEMORY_TOKENS if is_local else -1
        return Pieces(shards, [max(1, shard.rows) for shard in shards], most)
    rows = [_count_rows(shard, shard_format.group_rows) for shard in shards]
    return Pieces(shards, rows, MEMORY_TOKENS)


def _count_rows(shard: Shard, group_rows: int) -> int:
    """Return the rows of a shard's pieces, except its last one."""
    if shard.tokens <= 2 * PIECE_TOKENS:
        return max(1, shard.rows)
    fitting = PIECE_TOKENS * shard.rows // shard.tokens
    group = min(group_rows, PIECE_GROUP_TOKENS * shard.rows // shard.tokens)
    rows = max(1, fitting, group, -(-shard.rows // MOST_PIECES))
    # Where the rows are whole groups, none is decoded twice.
    return -(-rows // group_rows) * group_rows if rows >= group_rows else rows
