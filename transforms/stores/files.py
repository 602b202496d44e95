"""What is done with whole files and folders, on any of Beam's filesystems and in object stores."""

import errno
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast
from uuid import uuid4

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileSystem
from apache_beam.io.filesystems import FileSystems

from transforms.stores.objects import create_object, find_object, is_object_path, open_object

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


def open_stored(path: str) -> BinaryIO:
    """Open a file for reading, from any place; compressed bytes as they are.

    Raises:
        OSError: it is not there, or cannot be read.
        UserError: its bucket is not there, cannot be reached or refuses.
    """
    if is_object_path(path):
        return cast(BinaryIO, open_object(path))
    plain = CompressionTypes.UNCOMPRESSED
    return cast(BinaryIO, FileSystems.open(path, compression_type=plain))


def create_stored(path: str) -> BinaryIO:
    """Create a file, to be written from its begin to its end; as `open_stored`."""
    if is_object_path(path):
        return cast(BinaryIO, create_object(path))
    plain = CompressionTypes.UNCOMPRESSED
    return cast(BinaryIO, FileSystems.create(path, compression_type=plain))


def read_part(path: str, offset: int, length: int) -> bytes:
    """A stretch of a file, with as few requests as there can be and no byte too many.

    Raises:
        OSError: the file is not there, or ends before.
    """
    if not length:
        return b""
    if is_object_path(path):
        store, name = find_object(path)
        content = store.read(name, offset, offset + length)
    else:
        with open_stored(path) as stream:
            stream.seek(offset)
            content = stream.read(length)
    if len(content) != length:
        raise OSError(f"{path} ends before byte {offset + length}")
    return bytes(content)


def write_file(path: str, content: bytes) -> None:
    """Write a small file; in a store it is seen whole or not at all."""
    if is_object_path(path):
        store, name = find_object(path)
        store.put(name, content)
        return
    with create_stored(path) as stream:
        stream.write(content)


def file_exists(path: str) -> bool:
    """Whether there is a file, or for local paths a folder."""
    if not is_object_path(path):
        return bool(FileSystems.exists(path))
    store, name = find_object(path)
    try:
        store.size(name)
    except FileNotFoundError:
        return False
    return True


def list_files(pattern: str) -> dict[str, int]:
    """Bytes of the files that a pattern names, by their paths, in order.

    In a store a name that is an object's stands for that, whatever signs are in it; a folder (with
    a slash at its end or without) for all that lies below it; any other for the objects that match
    it, as in Beam. Placeholders for empty folders, which some tools make, are left out.

    Raises:
        UserError: the bucket is not there, cannot be reached or refuses.
        BeamIOError: of any other filesystem.
    """
    if not is_object_path(pattern):
        found = FileSystems.match([f"{pattern}**" if pattern.endswith("/") else pattern])
        return {file.path: file.size_in_bytes for file in found[0].metadata_list}
    store, name = find_object(pattern)
    if name and not name.endswith("/"):
        try:
            return {pattern: store.size(name)}
        except FileNotFoundError:
            pass
    folder = f"{name.rstrip('/')}/" if name else ""
    below = {store.path(of): size for of, size in store.list(folder) if not of.endswith("/")}
    if below or not re.search(r"[*?[]", name):
        return below
    matches = re.compile(FileSystem.translate_pattern(name)).match
    prefix = re.split(r"[*?[]", name, maxsplit=1)[0]
    return {store.path(of): size for of, size in store.list(prefix) if matches(of)}


def delete_files(paths: Sequence[str]) -> None:
    """Delete files; one that is not there is fine."""
    objects = [find_object(path) for path in paths if is_object_path(path)]
    for store in dict.fromkeys(store for store, _ in objects):
        store.delete([name for of, name in objects if of is store])
    for path in paths:
        if not is_object_path(path) and FileSystems.exists(path):
            FileSystems.delete([path])


def delete_folder(path: str) -> None:
    """Delete a folder and all in it, and what dead writers have left for it."""
    if not is_object_path(path):
        if FileSystems.exists(path):
            FileSystems.delete([path])
        return
    store, name = find_object(path)
    prefix = f"{name.rstrip('/')}/"
    if prefix == "/":
        raise ValueError(f"{path} is a whole bucket")
    store.delete([of for of, _ in store.list(prefix)])
    store.abort_uploads(prefix)


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
    if not file_exists(move.source):
        if _stands(move):
            return
        raise _neither(move)
    if FileSystems.get_scheme(move.source) != FileSystems.get_scheme(move.destination):
        _carry(move.source, move.destination)
        return
    if FileSystems.exists(move.destination):
        FileSystems.delete([move.destination])
    try:
        FileSystems.rename([move.source], [move.destination])
    except BeamIOError as error:
        if not any(getattr(of, "errno", 0) == errno.EXDEV for of in _causes(error)):
            raise
        _rename_across_disks(move)


def _causes(error: BeamIOError) -> list[BaseException]:
    # The local filesystem wraps the system's error once.
    causes = list((error.exception_details or {}).values())
    return [*causes, *(of.args[0] for of in causes if of.args and isinstance(of.args[0], OSError))]


def _rename_across_disks(move: Move) -> None:
    """By way of a copy under a temporary name, so that nobody sees half a file."""
    folder = Path(move.destination).parent / f"_temporary-{uuid4().hex}"
    folder.mkdir()
    copy = folder / Path(move.destination).name
    _carry(move.source, str(copy))
    copy.replace(move.destination)
    folder.rmdir()


def _carry(source: str, destination: str) -> None:
    with open_stored(source) as taken, create_stored(destination) as given:
        shutil.copyfileobj(taken, given, 2**20)


def _stands(move: Move) -> bool:
    try:
        return list_files(move.destination).get(move.destination) == move.bytes
    except BeamIOError:
        return False


def _neither(move: Move) -> RuntimeError:
    cause = f"{move.source} is gone, and {move.destination} is not what it was to become"
    return RuntimeError(cause)
