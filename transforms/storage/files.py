"""Files of any of Beam's filesystems, of object stores, and of the hub."""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ENOENT
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple, cast

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileSystem
from apache_beam.io.filesystems import FileSystems

from corpusmill.corpus.hub.data_sets import is_hub_path, open_hub_file
from corpusmill.errors import UserError
from transforms.storage.objects import create_object, find_object, is_object_path, open_object
from transforms.storage.store import Found

_LOGGER = logging.getLogger(__name__)
# What the names of runs' folders begin with.
TEMPORARY = "_temporary-"
_MAGIC = re.compile(r"[*?[]")


class FoundFile(NamedTuple):
    """A file that is there.

    Attributes:
        path: of the file.
        bytes: its size.
        modified: when it was written, in seconds since 1970; 0 where that is not known.
    """

    path: str
    bytes: int
    modified: float


def open_file(path: str) -> BinaryIO:
    """Open a file for reading, from any place; compressed bytes as they are.

    Raises:
        OSError: it is not there, or cannot be read.
        UserError: its bucket is not there, cannot be reached or refuses.
    """
    if is_hub_path(path):
        return open_hub_file(path)
    if is_object_path(path):
        return cast(BinaryIO, open_object(path))
    plain = CompressionTypes.UNCOMPRESSED
    return cast(BinaryIO, FileSystems.open(path, compression_type=plain))


def create_file(path: str) -> BinaryIO:
    """Create a file, to be written as it is; in a store it is seen whole or not at all.

    Raises:
        FileNotFoundError: it is of a run whose folder is gone. Beam would make the folder anew, for
            an attempt that the engine has lost sight of, and nobody would remove it again.
    """
    if is_object_path(path):
        return cast(BinaryIO, create_object(path))
    if FileSystems.get_scheme(path) is None and _is_of_a_gone_run(Path(path).parent):
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(Path(path).parent))
    plain = CompressionTypes.UNCOMPRESSED
    return cast(BinaryIO, FileSystems.create(path, compression_type=plain))


def _is_of_a_gone_run(folder: Path) -> bool:
    return any(part.startswith(TEMPORARY) for part in folder.parts) and not folder.is_dir()


def read_part(path: str, offset: int, length: int) -> bytes:
    """A stretch of a file; from a store with one request, and no byte too many.

    Raises:
        OSError: the file is not there, or ends before.
    """
    if not length:
        return b""
    if is_object_path(path):
        store, name = find_object(path)
        content = store.read(name, offset, offset + length)
    else:
        with open_file(path) as stream:
            stream.seek(offset)
            content = stream.read(length)
    if len(content) != length:
        raise OSError(f"{path} ends before byte {offset + length}")
    return content


def write_file(path: str, content: bytes) -> None:
    """Write a small file."""
    with create_file(path) as stream:
        stream.write(content)


def find_file(path: str) -> FoundFile:
    """A file by its path.

    Raises:
        OSError: it is not there.
    """
    if is_object_path(path):
        store, name = find_object(path)
        return FoundFile(path, *store.find(name)[1:])
    return FoundFile(path, int(FileSystems.get_filesystem(path).size(path)), 0)


def file_exists(path: str) -> bool:
    """Whether there is such a file, or for local paths a folder."""
    if not is_object_path(path):
        return bool(FileSystems.exists(path))
    try:
        find_file(path)
    except FileNotFoundError:
        return False
    return True


def find_files(pattern: str) -> list[FoundFile]:
    """The files that a pattern names, in order.

    In a store a name that is an object's stands for that, whatever signs are in it; a folder (with
    a slash at its end or without) for all that lies below it; any other for the objects that match
    it, as in Beam. Placeholders for empty folders, which some tools make, are left out.

    Raises:
        UserError: the bucket is not there, cannot be reached or refuses.
        BeamIOError: of any other filesystem.
    """
    if is_object_path(pattern):
        return list(_find_objects(pattern))
    found = FileSystems.match([f"{pattern}**" if pattern.endswith("/") else pattern])
    return [
        FoundFile(file.path, file.size_in_bytes, file.last_updated_in_seconds or 0.0)
        for file in found[0].metadata_list
    ]


def _find_objects(pattern: str) -> Iterator[FoundFile]:
    store, name = find_object(pattern)

    def files(found: Iterable[Found]) -> Iterator[FoundFile]:
        objects = (of for of in found if not of.name.endswith("/"))
        return (FoundFile(store.path(of.name), of.bytes, of.modified) for of in objects)

    if name and not name.endswith("/"):
        with suppress(FileNotFoundError):
            yield from files([store.find(name)])
            return
    below = list(files(store.list(f"{name.rstrip('/')}/" if name else "")))
    if below or not _MAGIC.search(name):
        yield from below
        return
    matches = re.compile(FileSystem.translate_pattern(name)).match
    yield from files(of for of in store.list(_MAGIC.split(name)[0]) if matches(of.name))


def list_files(pattern: str) -> dict[str, int]:
    """Bytes of the files that a pattern names, by their paths; as `find_files`."""
    return {file.path: file.bytes for file in find_files(pattern)}


def delete_files(paths: Sequence[str]) -> None:
    """Delete files; one that is not there is fine."""
    objects = [find_object(path) for path in paths if is_object_path(path)]
    for store in dict.fromkeys(store for store, _ in objects):
        store.delete([name for of, name in objects if of is store])
    for path in paths:
        if not is_object_path(path) and FileSystems.exists(path):
            FileSystems.delete([path])


def remove_folder(path: str) -> None:
    """Remove a folder and all that is in it, and what dead writers have left for it.

    One that is not there, or goes meanwhile, is fine; one that a store does not let go is said.
    """
    if not is_object_path(path):
        with suppress(BeamIOError, OSError):
            FileSystems.delete([path])
        return
    store, name = find_object(path)
    prefix = f"{name.rstrip('/')}/"
    if prefix == "/":
        raise ValueError(f"{path} is a whole bucket")
    try:
        store.delete([of.name for of in store.list(prefix)])
        store.abort_uploads(prefix)
    except (UserError, OSError) as error:
        _LOGGER.warning("%s is not removed: %s", path, error)


@contextmanager
def scratch_folder(temp_folder: str) -> Iterator[str]:
    """A folder for files that no other process reads: a run's own, or one of this machine.

    An object store takes as long for a small piece of a file as for a megabyte.

    Args:
        temp_folder: of the run; taken where it is a folder of a file system that is mounted.
    """
    if FileSystems.get_scheme(temp_folder) is None:
        yield temp_folder
        return
    with TemporaryDirectory(prefix="corpusmill-") as folder:
        yield folder
