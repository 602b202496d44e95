"""Finished files to their final names: the one step in which a data set becomes visible."""

import errno
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from transforms.storage.files import create_file, file_exists, list_files, open_file
from transforms.storage.objects import find_object, is_object_path

# Copies at a time; a store takes 50 to 100 ms for each, whatever their number.
_COPIERS = 16


class Move(NamedTuple):
    """A finished file and where it is to stand.

    Attributes:
        source: its temporary path.
        destination: its final path; what stands there is replaced.
        bytes: its size, by which a file that was moved before is known.
    """

    source: str
    destination: str
    bytes: int


def publish(moves: Sequence[Move]) -> None:
    """Give finished files their final names, so that doing it twice does no harm.

    In a store a file is copied there, by the store itself and many at a time, and its source stays
    until its folder is deleted: nothing is ever missing at either place, and whoever comes again
    copies again. Elsewhere it is renamed; and where the two places are of different filesystems its
    bytes pass through here.

    Raises:
        RuntimeError: a file is at neither place.
    """
    in_stores = [move for move in moves if _is_in_store(move)]
    with ThreadPoolExecutor(_COPIERS) as copiers:
        for _ in copiers.map(_copy, in_stores):
            pass
    for move in moves:
        if not _is_in_store(move):
            _rename(move)


def _is_in_store(move: Move) -> bool:
    """Whether a store can copy it by itself."""
    scheme = FileSystems.get_scheme(move.source)
    return is_object_path(move.source) and scheme == FileSystems.get_scheme(move.destination)


def _copy(move: Move) -> None:
    source, source_name = find_object(move.source)
    store, name = find_object(move.destination)
    try:
        store.copy(source, source_name, name, move.bytes)
    except FileNotFoundError:
        # Of two runs of the commit the other one is through, and its folder is being deleted.
        if not _stands(move):
            raise _neither(move) from None


def _rename(move: Move) -> None:
    if FileSystems.get_scheme(move.source) != FileSystems.get_scheme(move.destination):
        if file_exists(move.source):
            _carry(move.source, move.destination)
        elif not _stands(move):
            raise _neither(move)
        return
    try:
        # What stands there is replaced, and never missing.
        FileSystems.rename([move.source], [move.destination])
    except BeamIOError as error:
        if not file_exists(move.source):
            # It was moved before, or just now by another run of the commit.
            if _stands(move):
                return
            raise _neither(move) from None
        if any(getattr(of, "errno", 0) == errno.EXDEV for of in _causes(error)):
            _rename_across_disks(move)
        elif FileSystems.exists(move.destination):  # HDFS refuses to replace a file
            FileSystems.delete([move.destination])
            FileSystems.rename([move.source], [move.destination])
        else:
            raise


def _causes(error: BeamIOError) -> list[BaseException]:
    # The local filesystem wraps the system's error once.
    causes = list((error.exception_details or {}).values())
    return [*causes, *(of.args[0] for of in causes if of.args and isinstance(of.args[0], OSError))]


def _rename_across_disks(move: Move) -> None:
    """By way of a copy under a temporary name, so that nobody sees half a file."""
    folder = beside(move)
    folder.mkdir(exist_ok=True)
    copy = folder / f"copy-{uuid4().hex}"
    _carry(move.source, str(copy))
    copy.replace(move.destination)
    Path(move.source).unlink(missing_ok=True)
    with suppress(OSError):  # another run of the commit works there
        folder.rmdir()


def beside(move: Move) -> Path:
    """The folder by way of which a file comes from another disk; one that dies leaves it."""
    return Path(move.destination).parent / Path(move.source).parent.name


def _carry(source: str, destination: str) -> None:
    with open_file(source) as taken, create_file(destination) as given:
        shutil.copyfileobj(taken, given, 2**20)


def _stands(move: Move) -> bool:
    try:
        return list_files(move.destination).get(move.destination) == move.bytes
    except BeamIOError:
        return False


def _neither(move: Move) -> RuntimeError:
    cause = f"{move.source} is gone, and {move.destination} is not what it was to become"
    return RuntimeError(cause)
