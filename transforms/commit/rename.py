"""Give finished files their final names."""

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from corpusmill.location import scheme_of
from transforms.storage.files import create_file, file_exists, file_size, map_ahead, open_file
from transforms.storage.objects import find_object, is_object_path

# Number of copies at once; a store takes 50 to 100 ms for each, whatever their number.
_COPIERS = 16


class Move(NamedTuple):
    """A finished file and its final place.

    Attributes:
        source: temporary path.
        destination: final path; a file there is replaced.
        bytes: size of the file, by which a file that was moved before is recognized.
    """

    source: str
    destination: str
    bytes: int


def publish(moves: Sequence[Move], scratch: str) -> None:
    """Give finished files their final names; doing it twice does no harm.

    The store itself copies an object, many at a time, and the source stays until its folder is
    deleted: nothing is ever missing at either place, and a second attempt copies again. Other files
    are renamed. Between different filesystems the bytes pass through this process.

    Args:
        moves: the files.
        scratch: a folder of the run's own on the disk of the final names, for files that come from
            another disk; it is made when it is needed.

    Raises:
        RuntimeError: a file is at neither place.
    """
    for _ in map_ahead(_copy, (move for move in moves if _is_in_store(move)), _COPIERS):
        pass
    for move in moves:
        if not _is_in_store(move):
            _rename(move, scratch)


def duplicate(moves: Sequence[Move], scratch: str) -> None:
    """Give finished files a second name, and keep the first; doing it twice does no harm.

    On one disk this takes no room. A file that another attempt at the commit has moved meanwhile
    is left out. The arguments are those of `publish`.
    """
    link = partial(_duplicate, scratch=scratch)
    for _ in map_ahead(link, (move for move in moves if _is_in_store(move)), _COPIERS):
        pass
    for move in moves:
        if not _is_in_store(move):
            link(move)


def _duplicate(move: Move, scratch: str) -> None:
    if _size(move.destination) == move.bytes:
        return
    with suppress(FileNotFoundError):
        if _is_in_store(move):
            source, source_name = find_object(move.source)
            store, name = find_object(move.destination)
            store.copy(source, source_name, name, move.bytes)
            return
        if scheme_of(move.source) is None and scheme_of(move.destination) is None:
            _link(move, scratch)
            return
        new = f"{move.source}.{uuid4().hex}"
        _transfer(move.source, new)
        _rename(move._replace(source=new), scratch)


def _link(move: Move, scratch: str) -> None:
    """Give a file of this machine another name, or its copy where that is on another disk."""
    with suppress(FileExistsError):
        try:
            os.link(move.source, move.destination)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError:  # it is on another disk, or the file system has no hard links
            _copy_across_disks(move, scratch)


def _size(path: str) -> int:
    try:
        return file_size(path)
    except (OSError, BeamIOError):
        return -1


def _is_in_store(move: Move) -> bool:
    """Return whether a store can copy the file by itself."""
    return is_object_path(move.source) and not _crosses(move)


def _crosses(move: Move) -> bool:
    """Return whether the file goes from one file system to another."""
    return scheme_of(move.source) != scheme_of(move.destination)


def _copy(move: Move) -> None:
    source, source_name = find_object(move.source)
    store, name = find_object(move.destination)
    try:
        store.copy(source, source_name, name, move.bytes)
    except FileNotFoundError:
        # Another attempt at the commit has ended, and is deleting its folder.
        _check_moved(move)


def _rename(move: Move, scratch: str) -> None:
    if _crosses(move):
        if file_exists(move.source):
            _transfer(move.source, move.destination)
        else:
            _check_moved(move)
        return
    try:
        # A file at the destination is replaced, and never missing.
        FileSystems.rename([move.source], [move.destination])
    except BeamIOError as error:
        if not file_exists(move.source):
            # It was moved before, or just now by another attempt at the commit.
            _check_moved(move)
        elif any(getattr(cause, "errno", 0) == errno.EXDEV for cause in _causes(error)):
            _rename_across_disks(move, scratch)
        elif FileSystems.exists(move.destination):  # HDFS refuses to replace a file
            FileSystems.delete([move.destination])
            FileSystems.rename([move.source], [move.destination])
        else:
            raise


def _causes(error: BeamIOError) -> list[BaseException]:
    # The local filesystem wraps the system's error once.
    causes = list((error.exception_details or {}).values())
    wrapped = (cause.args[0] for cause in causes if cause.args)
    return [*causes, *(cause for cause in wrapped if isinstance(cause, OSError))]


def _rename_across_disks(move: Move, scratch: str) -> None:
    _copy_across_disks(move, scratch)
    Path(move.source).unlink(missing_ok=True)


def _copy_across_disks(move: Move, scratch: str) -> None:
    """Copy a file under a temporary name and rename the copy, so that nobody sees half a file."""
    copy = Path(scratch, f"copy-{uuid4().hex}")
    Path(scratch).mkdir(exist_ok=True)
    _transfer(move.source, str(copy))
    copy.replace(move.destination)


def _transfer(source: str, destination: str) -> None:
    with open_file(source) as reader, create_file(destination) as writer:
        shutil.copyfileobj(reader, writer, 2**20)


def _check_moved(move: Move) -> None:
    """Check that a file whose source is gone has been moved."""
    if _size(move.destination) != move.bytes:
        raise RuntimeError(
            f"{move.source} is gone, and {move.destination} does not hold the same file"
        )
