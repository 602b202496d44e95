"""Files of this machine, object stores, the Hugging Face hub, and all of Beam's filesystems.

`locate` parses what the user wrote. Elements and records name files by their URLs, or by absolute
paths, which the functions take. Each call to an object store takes long and costs little, so that
`map_ahead` makes several at a time.
"""

import errno
import glob
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Self, TypeVar, cast
from uuid import uuid4

from corpusmill import location
from corpusmill.corpus.hub_data_sets import is_hub_path
from corpusmill.errors import UserError, first_line
from corpusmill.knobs import knob
from corpusmill.location import Location, drop_last_slash, scheme_of
from corpusmill.synced_files import create_named
from transforms.storage.file_systems import beam_errors, beam_file_systems, join_path, split_path
from transforms.storage.objects import (
    ObjectWriter,
    check_client,
    find_object,
    is_object_path,
    open_object,
)
from transforms.storage.store import ListedFile, Store

Item = TypeVar("Item")
Result = TypeVar("Result")

SMALL_FILE_BYTES = knob("small_file_bytes", 2**20, test=100)
"""A file up to this size is read ahead as a whole, from a store with one request."""
CALLS_AT_ONCE = 16


def map_ahead(
    call: Callable[[Item], Result], items: Iterable[Item], ahead: int = CALLS_AT_ONCE
) -> Iterator[Result]:
    """Yield the results of a call in the order of its items; threads work a few items ahead.

    Args:
        call: a function that several threads may call at once.
        items: the arguments of the calls.
        ahead: largest number of results that wait, which bounds the memory.

    Raises:
        Exception: the error of the first call that failed; no further call begins then.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(ahead) as threads:
        try:
            for item in items:
                if len(waiting) >= ahead:
                    yield waiting.popleft().result()
                waiting.append(threads.submit(call, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


_MAGIC = re.compile(r"[*?[]")
# Beam's name for no compression.
_PLAIN = "uncompressed"


@dataclass(frozen=True, repr=False)
class StoredUrl(Location):
    """A URL of an object store, or of a file system of Beam's.

    Args:
        url: the URL.
    """

    url: str

    def __truediv__(self, name: str) -> Self:
        """A file or a folder below this one."""
        return type(self)(join_path(self.url, name))

    def list(self) -> dict[str, int]:
        """List every file below the folder."""
        folder = self.url if is_object_path(self.url) else glob.escape(self.url)
        try:
            files = find_files(f"{folder}/")
        except beam_errors() as error:
            if not beam_file_systems().exists(self.url):
                return {}
            cause = f"it cannot be listed ({first_line(error)})"
            raise UserError(self.url, cause, "Check the URL and the credentials") from error
        return {file.path.removeprefix(f"{self.url}/"): file.bytes for file in sorted(files)}

    def open(self, name: str = "") -> BinaryIO:
        """Open a file for reading from any position."""
        return open_file((self / name).url if name else self.url)

    def create(self) -> BinaryIO:
        """Create a file, which the store shows whole or not at all."""
        return create_file(self.url)

    def written_at(self, name: str) -> float | None:
        """When a file was written, in seconds since 1970; None where that is not known."""
        listed = find_files((self / name).url)
        return (listed[0].modified or None) if listed else None

    def write(self, content: bytes, new: bool = False) -> None:
        """Write a small file; only object stores keep a name for one of two writers."""
        if is_object_path(self.url):
            store, name = find_object(self.url)
            store.put(name, content, "" if new else None)
        else:
            with create_once(self.url, split_path(self.url)[0]) as stream:
                stream.write(content)

    def exchange(self, content: bytes, old: bytes | None, scratch: str = "") -> bool:
        """Write a small file in place of the one that holds `old`."""
        if not is_object_path(self.url):
            return super().exchange(content, old, scratch)
        store, name = find_object(self.url)
        return store.exchange(name, content, old)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files below the folder, many of a store at a time."""
        urls = ((self / name).url for name in names)
        if is_object_path(self.url):
            store = find_object(self.url)[0]
            objects = (find_object(url)[1] for url in urls)
            requests = iter(lambda: [*islice(objects, store.deletes_per_request)], [])
            deque(map_ahead(store.delete, requests), maxlen=0)
            return
        for url in urls:
            if beam_file_systems().exists(url):
                beam_file_systems().delete([url])

    def remove(self, last: str) -> None:
        """Remove the folder with all that is in it, and the parts that dead writers left for it."""
        if not is_object_path(self.url):
            self.delete(name for name in self.list() if name != last)
            with suppress(OSError):
                beam_file_systems().delete([self.url])
            return
        store, name = find_object(self.url)
        if not name:
            raise ValueError(f"{self.url} is a whole bucket")
        begin = f"{store.path(name)}/"
        listed = (file.path.removeprefix(begin) for file in store.list(f"{name}/"))
        self.delete(name for name in listed if name != last)
        store.abort_uploads(f"{name}/")
        self.delete([last])


def locate(text: str) -> Location:
    """Parse a path, or a URL that all workers can read and write.

    Raises:
        UserError: nothing knows such a URL, its client is not installed, or the path begins with a
            home folder that does not exist.
    """
    scheme = scheme_of(text)
    if scheme is None:
        return location.locate(text)
    check_client(scheme)
    if not is_object_path(text):
        try:
            beam_file_systems().get_filesystem(text)
        except (ValueError, OSError):
            cause = f"no installed file system knows URLs that begin with {scheme}://"
            cure = "Give a path, or a URL that begins with gs:// or s3://"
            raise UserError(text, cause, cure) from None
    return StoredUrl(drop_last_slash(text))


def locate_any(text: str) -> Location:
    """Parse a path or a URL of what a command reads or writes itself.

    Where both Beam and fsspec know a URL, Beam reads it with the credentials and options that
    builds use.

    Raises:
        UserError: as of `locate`.
    """
    if scheme_of(text) is not None:
        try:
            beam_file_systems().get_filesystem(text)
        except ValueError:
            return location.locate(text)
        except beam_errors():  # it lacks a package, which `locate` names
            pass
    return locate(text)


def open_file(path: str, size: int | None = None) -> BinaryIO:
    """Open a file for reading at any position; compressed bytes are left as they are.

    Args:
        path: of the file.
        size: its size in bytes, if it is known, which saves a request to a store.

    Raises:
        OSError: the file does not exist, cannot be read, or is not a regular one.
        UserError: its bucket does not exist, cannot be reached or refuses.
    """
    if scheme_of(path) is None or is_hub_path(path):
        return location.locate(path).open()
    if is_object_path(path):
        return cast(BinaryIO, open_object(path, size))
    try:
        return cast(BinaryIO, beam_file_systems().open(path, compression_type=_PLAIN))
    except OSError as error:  # Beam has one error for all causes
        if beam_file_systems().exists(path):
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error


def create_file(path: str) -> BinaryIO:
    """Create a file, whose bytes are written as they are; a store shows it whole or not at all.

    Raises:
        OSError: there is a pipe, a socket or a device.
        FileNotFoundError: it belongs to a run whose folder is gone.
    """
    if is_object_path(path):
        return cast(BinaryIO, ObjectWriter(*find_object(path)))
    if scheme_of(path) is None:
        return location.locate(path).create()
    return cast(BinaryIO, beam_file_systems().create(path, compression_type=_PLAIN))


@contextmanager
def create_once(path: str, scratch: str) -> Iterator[BinaryIO]:
    """Create a file that is written once, and is whole as soon as it has its name.

    A block that fails leaves nothing. Whoever needs the file after a loss of power syncs it; many
    at once take a fraction of the time (`Location.sync`).

    Args:
        path: of the file; another attempt at the same file may have written it. Its folder is made
            in an existing one.
        scratch: a folder on the same disk, which is never made: without it, as in the folder of a
            run that was removed, nothing is.

    Raises:
        FileNotFoundError: there is no such scratch folder, or no folder around that of the file.
        RuntimeError: the object of a store exists, and holds other bytes.
    """
    if is_object_path(path):
        with ObjectWriter(*find_object(path), once=True) as writer:
            yield cast(BinaryIO, writer)
        return
    written = new_path(scratch, "new")
    is_local = scheme_of(path) is None
    remove = os.unlink if is_local else lambda path: beam_file_systems().delete([path])
    try:
        with create_named(written) if is_local else create_file(written) as stream:
            yield stream
        (_name_local if is_local else _name_elsewhere)(written, path)
    except BaseException:
        with suppress(OSError):
            remove(written)
        raise


def _name_local(written: str, path: str) -> None:
    try:
        os.replace(written, path)  # noqa: PTH105  both are texts
    except FileNotFoundError:
        if not file_exists(written):  # its folder was removed
            raise
        Path(path).parent.mkdir(exist_ok=True)
        os.replace(written, path)  # noqa: PTH105  as above


def _name_elsewhere(written: str, path: str) -> None:
    files, folder = beam_file_systems(), split_path(path)[0]
    if not files.exists(folder):
        with suppress(OSError):  # another process makes it
            files.mkdirs(folder)
    try:
        files.rename([written], [path])
    except OSError:  # HDFS refuses to replace a file
        if not (files.exists(written) and files.exists(path)):
            raise
        files.delete([path])
        files.rename([written], [path])


def read_part(path: str, offset: int, length: int) -> bytes:
    """Read a part of a file; from a store with one request of exactly this size.

    Raises:
        OSError: the file does not exist, or ends before the part does.
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


def read_file(path: str) -> bytes:
    """Read a small file; errors as of `open_file`."""
    with open_file(path) as stream:
        return stream.read()


def read_existing(path: str) -> bytes | None:
    """Read a small file; None if there is none.

    Raises:
        OSError: there may be one, but it cannot be read.
    """
    try:
        return read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_file(path: str, content: bytes) -> None:
    """Write a small file."""
    with create_file(path) as stream:
        stream.write(content)


def new_path(folder: str, name: str, suffix: str = "") -> str:
    """Return a path in a folder that no other attempt at the same work uses."""
    return join_path(folder, f"{name}-{uuid4().hex}{suffix}")


def file_size(path: str) -> int:
    """Return the size of a file in bytes.

    Raises:
        OSError: the file does not exist.
    """
    if is_object_path(path):
        store, name = find_object(path)
        return store.find(name).bytes
    if scheme_of(path) is None:
        return Path(path).stat().st_size
    return int(beam_file_systems().get_filesystem(path).size(path))


def file_exists(path: str) -> bool:
    """Return whether a file exists, or a local folder."""
    if scheme_of(path) is None:
        return os.path.exists(path)  # noqa: PTH110  False where a folder may not be entered
    if not is_object_path(path):
        return bool(beam_file_systems().exists(path))
    try:
        file_size(path)
    except FileNotFoundError:
        return False
    return True


def find_files(pattern: str) -> list[ListedFile]:
    """Return the files that a pattern names, in order.

    In a store the name of an object names this object, even with wildcards in it. A folder, with or
    without a slash at its end, names all objects below it. Any other pattern names the objects that
    match it, as in Beam. Placeholders for empty folders, which some tools make, are left out.

    Raises:
        UserError: the bucket does not exist, cannot be reached or refuses.
        BeamIOError: another filesystem failed.
    """
    if is_object_path(pattern):
        return _find_objects(pattern)
    [match] = beam_file_systems().match([f"{pattern}**" if pattern.endswith("/") else pattern])
    return [
        ListedFile(file.path, file.size_in_bytes, file.last_updated_in_seconds or 0.0)
        for file in match.metadata_list
    ]


def make_folder(path: str) -> None:
    """Make a folder in an existing one.

    Raises:
        FileNotFoundError: it belongs to a run whose folder is gone.
    """
    if scheme_of(path) is None:
        Path(path).mkdir()
    else:
        beam_file_systems().mkdirs(path)


def _find_objects(pattern: str) -> list[ListedFile]:
    store, name = find_object(pattern)
    if name and not name.endswith("/"):
        with suppress(FileNotFoundError):
            return [store.find(name)]
    files = _list_objects(store, f"{name.rstrip('/')}/" if name else "")
    if files or not _MAGIC.search(name):
        return files
    from apache_beam.io.filesystem import FileSystem  # noqa: PLC0415  for URLs alone

    matches = re.compile(FileSystem.translate_pattern(pattern)).match
    return [file for file in _list_objects(store, _MAGIC.split(name)[0]) if matches(file.path)]


def _list_objects(store: Store, prefix: str) -> list[ListedFile]:
    return [file for file in store.list(prefix) if not file.path.endswith("/")]


@contextmanager
def scratch_folder(temp_folder: str) -> Iterator[str]:
    """Yield a folder for files that no other process reads: the run's own, or one of this machine.

    For a small piece of a file an object store takes as long as for a megabyte.

    Args:
        temp_folder: folder of the run; used if it is in a mounted file system.
    """
    if scheme_of(temp_folder) is None:
        yield temp_folder
        return
    with TemporaryDirectory(prefix="corpusmill-") as folder:
        yield folder
