"""Where files are: on this machine, or at a URL.

What a user writes is parsed once, where it enters. A path or a `file://` URL needs no further
package. `locate` knows the URLs of fsspec besides: `s3://` needs s3fs, `gs://` gcsfs, and `hf://`
huggingface_hub, which the library installs; `memory://` is fsspec's own. The job has kinds of its
own (`transforms.storage.files`).
"""

import errno
import os
import posixpath
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast
from urllib.parse import unquote

from corpusmill.errors import UserError, first_line, option
from corpusmill.synced_files import create_named, exchange_file, sync, write_whole

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_SCHEME = re.compile(r"([a-zA-Z][-a-zA-Z0-9+.]*)(?:::.+)?://")
_LAST_SLASHES = re.compile("(?<=[^/:])/+$")
_BLOCK_BYTES = 4 * 2**20
_SYNCED_AT_ONCE = 8
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
# First part of the names of runs' folders.
TEMPORARY = "_temporary-"
# What tells a place from all others.
Identity = tuple[str | int, ...]
# Names for one kind of store.
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


class NotAFileError(OSError):
    """A pipe, a socket or a device, for which one may wait for ever; or a link."""


def scheme_of(path: str) -> str | None:
    """Return the scheme of a URL ("gs"); None for a path on this machine."""
    match = _SCHEME.match(path)
    return match[1] if match else None


def refuse_special(path: Path) -> None:
    """Refuse what is neither a regular file nor a folder.

    Raises:
        NotAFileError: it is a pipe, a socket or a device.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise NotAFileError(errno.EINVAL, "it is not a regular file", str(path))


def refuse_link(path: Path) -> None:
    """Refuse a link, which may lead to what is not ours, with a `NotAFileError`."""
    if path.is_symlink():
        raise NotAFileError(errno.ELOOP, "it is a link", str(path))


class Location(ABC):
    """A file or a folder, however it is reached.

    It can be pickled and sent to other processes: each opens connections of its own. Methods that
    take a name work on the file of that name below it, with `/` between folders, or on the location
    itself where the name is empty.

    Attributes:
        url: its URL without a slash at its end, or its absolute path. As text it is what the user
            wrote, for messages.
    """

    url: str

    def __str__(self) -> str:
        """What the user wrote."""
        return self.url

    def __repr__(self) -> str:
        """What the user wrote, as Python writes it."""
        return repr(str(self))

    @abstractmethod
    def __truediv__(self, name: str) -> "Location":
        """A file or a folder below this one."""

    @abstractmethod
    def list(self) -> dict[str, int]:
        """Bytes of every file below the folder, by its name relative to it (with `/`), sorted.

        It is empty where there is no such folder.

        Raises:
            UserError: the folder cannot be listed.
        """

    @abstractmethod
    def open(self, name: str = "") -> BinaryIO:
        """Open a file for reading from any position; compressed bytes are left as they are.

        Raises:
            OSError: it does not exist, cannot be read or is not a regular file; FileNotFoundError
                where it is known that it does not exist.
        """

    def create(self) -> BinaryIO:
        """Create a file, whose bytes are written as they are; a store shows it whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        raise OSError(errno.EROFS, "it is only read", str(self))

    def written_at(self, name: str) -> float | None:  # noqa: ARG002  this one does not know it
        """When a file was written, in seconds since 1970; None where that is not known."""
        return None

    def read(self, name: str = "") -> bytes:
        """All bytes of a small file; errors as of `open`."""
        with self.open(name) as stream:
            return stream.read()

    def read_any(self, name: str = "") -> bytes | None:
        """All bytes of a small file; None if there is no such file.

        Raises:
            UserError: there may be one, but it cannot be read, or is a pipe, a socket or a device.
        """
        try:
            return self.read(name)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            cause = f"it cannot be read ({error.strerror or first_line(error)})"
            cure = "Change its permissions, or try again"
            if isinstance(error, NotAFileError):
                cause, cure = str(error.strerror), "Write its content to a file"
            raise UserError(f"{self}/{name}" if name else str(self), cause, cure) from None

    def write(self, content: bytes, new: bool = False) -> None:  # noqa: ARG002  few can promise it
        """Write a small file; nobody ever sees a part of it.

        Args:
            content: all of it.
            new: whether the name must be free. On a disk and in an object store only one of two
                writers at once succeeds; elsewhere the last one does.

        Raises:
            FileExistsError: the name is not free. In an object store this very call may have
                written the file, if the store's answer was lost.
            OSError: it cannot be written; an earlier file of this name stays.
        """
        with self.create() as stream:
            stream.write(content)

    def exchange(self, content: bytes, old: bytes | None, scratch: str = "") -> bool:  # noqa: ARG002
        """Write a small file in place of the one that holds `old`.

        On a disk and in an object store this is one step: of many that exchange the same content
        one succeeds, however long any sleeps. Elsewhere it is two, and the last one may win.

        Args:
            content: all of the new file.
            old: what the file must hold; None if there must be no file.
            scratch: a folder on its disk for what a kill may leave; or else that is beside it.

        Returns:
            Whether the file holds `content` afterwards, as it may have done before. If it holds
            something else than `old`, it stays, and this is False.

        Raises:
            NotAFileError: it is a link.
            OutageError: another process on this machine stays in the middle of its exchange.
            OSError: the file cannot be read or written.
        """
        held = self.read_any()
        if held == old and held != content:
            self.write(content, new=old is None)
            return True
        return held == content

    def sync(self, names: Iterable[str]) -> None:  # noqa: B027  stores keep what they have taken
        """Wait until files below the folder are on the disk, and the entries that lead to them.

        Raises:
            OSError: a file does not exist, or the disk fails.
        """

    def list_links(self) -> Sequence[str]:
        """List what is a link below the folder, to a file or a folder; none is followed."""
        return []

    def delete(self, names: Iterable[str]) -> None:  # noqa: ARG002  this is only read
        """Delete files below the folder; names without a file are ignored.

        Only `corpusmill.dataset.ownership` calls it, which knows what is ours.

        Raises:
            NotAFileError: a file is a link or behind one, and nothing was deleted.
            OSError: a file cannot be deleted.
        """
        raise OSError(errno.EROFS, "it is only read", str(self))

    def remove(self, last: str) -> None:  # noqa: ARG002  this is only read
        """Remove the folder with all that is in it; a folder that does not exist is ignored.

        Only `corpusmill.dataset.ownership` calls it, which knows what is ours.

        Args:
            last: the file that is deleted after all others, which proves whose folder it is.

        Raises:
            NotAFileError: it is a link, and nothing was removed.
            OSError: it cannot be removed.
        """
        raise OSError(errno.EROFS, "it is only read", str(self))

    def check_file(self, name: str, begin: bytes) -> None:
        """Refuse a file that could not be written at the end of a command, or is not ours.

        Args:
            name: the option that named it.
            begin: the first bytes of all files that the command writes, by which an earlier one is
                known.

        Raises:
            UserError: its folder does not exist, or something else is in its place.
        """
        content = self.read_any()
        if content and not content.startswith(begin):
            cause = "the file exists, and is not one that this command writes"
            raise UserError(option(name, self), cause, "Name another file, or move that one away")

    def local_path(self, name: str = "") -> Path | None:  # noqa: ARG002  this is elsewhere
        """The path on this machine, so that a file can be mapped; None if it is elsewhere."""
        return None

    def identities(self) -> Sequence[Identity]:
        """What tells this place, and each folder around it, from all others, whatever their names.

        Links, bind mounts and other spellings of a path have the identities of what they lead to.

        Returns:
            Its own identity, and those of the folders around it, from the inside to the outside.
        """
        scheme, _, rest = self.url.partition("://")
        parts = posixpath.normpath(rest).split("/")
        begin = (_ALIASES.get(scheme, scheme),)
        return [(*begin, *parts[:end]) for end in range(len(parts), 0, -1)]

    def is_within(self, other: "Location") -> bool:
        """Whether this place is in a folder, or the folder itself."""
        return other.identities()[0] in self.identities()

    def pin(self) -> "Location":
        """The folder as it is now: on the hub, at the commit that its revision refers to.

        A push that comes later changes nothing for its readers, in this and in other processes.

        Raises:
            UserError: the hub lacks the data set, or cannot be reached.
        """
        return self


@dataclass(frozen=True, repr=False)
class LocalPath(Location):
    """A path on this machine.

    Args:
        url: the absolute path.
        text: what the user wrote.
    """

    url: str
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        """What the user wrote."""
        return self.text or self.url

    def __truediv__(self, name: str) -> Self:
        """A file or a folder below this one."""
        return type(self)(str(self.local_path(name)), f"{str(self).rstrip('/')}/{name}")

    def local_path(self, name: str = "") -> Path:
        """The path on this machine."""
        return Path(self.url, name)

    def list(self) -> dict[str, int]:
        """List every file below the folder; a link to a folder counts as an empty file."""
        sizes = {}
        for name, path in self._walk():
            with suppress(FileNotFoundError):  # of a run, or a link to nothing
                status = path.stat()
                sizes[name] = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
        return dict(sorted(sizes.items()))

    def list_links(self) -> Sequence[str]:
        """List what is a link below the folder."""
        return sorted(name for name, path in self._walk() if path.is_symlink())

    def _walk(self) -> Iterator[tuple[str, Path]]:
        """Yield all files below the folder, and all links to folders, with their names."""
        for folder, folders, names in os.walk(self.url, onerror=_refuse_unlisted):
            links = (name for name in folders if Path(folder, name).is_symlink())
            for path in (Path(folder, name) for name in (*names, *links)):
                yield str(path)[len(self.url.rstrip("/")) + 1 :], path

    def open(self, name: str = "") -> BinaryIO:
        """Open a file for reading from any position."""
        path = self.local_path(name)
        refuse_special(path)
        return path.open("rb")

    def create(self) -> BinaryIO:
        """Create a file, and its folder where it is missing, unless it is that of a run.

        Raises:
            FileNotFoundError: it belongs to a run whose folder is gone. An attempt that the engine
                has lost sight of would make the folder again, and nobody would remove it.
        """
        path = self.local_path()
        refuse_special(path)
        if not any(part.startswith(TEMPORARY) for part in path.parent.parts):
            path.parent.mkdir(parents=True, exist_ok=True)
        return create_named(path, "wb")

    def written_at(self, name: str) -> float | None:
        """When a file was written."""
        try:
            return self.local_path(name).stat().st_mtime
        except FileNotFoundError:
            return None

    def check_file(self, name: str, begin: bytes) -> None:
        """Refuse what is not ours, or could not be written at the end of a command."""
        file = self.local_path()
        if not file.parent.is_dir() or (file.exists() and not file.is_file()):
            cause = "a file cannot be written there"
            raise UserError(option(name, self), cause, "Name a file in an existing folder")
        super().check_file(name, begin)

    def write(self, content: bytes, new: bool = False) -> None:
        """Write a small file, and its folder where it is missing, unless the name must be free."""
        place = Path(os.path.realpath(self.url))
        try:
            if not new:
                place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, lambda stream: stream.write(content), new)
        except OSError as error:
            # A folder such as that of a process may take no new files, though it exists.
            number = errno.ENOTDIR if error.errno == errno.ENOENT else error.errno
            raise OSError(number, error.strerror, str(self)) from None

    def exchange(self, content: bytes, old: bytes | None, scratch: str = "") -> bool:
        """Write a small file in place of the one that holds `old`, in a folder that exists."""
        path = self.local_path()
        refuse_link(path)
        refuse_special(path)
        folder = Path(scratch) if scratch and Path(scratch).is_dir() else None
        done = exchange_file(path, content, old, str(self), folder)
        if done:
            sync(path.parent)
        return done

    def sync(self, names: Iterable[str]) -> None:
        """Wait until files below the folder are on the disk, and the folders on the way to them."""
        root, files = self.local_path(), [*map(self.local_path, names)]
        folders = {file.parent for file in files}
        above = {path for folder in folders for path in (folder, *folder.parents)}
        inside = {path for path in above if path.is_relative_to(root)}
        with ThreadPoolExecutor(_SYNCED_AT_ONCE) as threads:
            for paths in (files, {root.parent, root, *inside}):
                list(threads.map(sync, paths))

    def identities(self) -> Sequence[Identity]:
        """The device and the inode of the place and of the folders around it.

        What does not exist yet is told apart by the nearest folder that does, and the names in it.
        """
        path, missing = Path(os.path.realpath(self.url)), list[str]()
        found = list[Identity]()
        for each in (path, *path.parents):
            try:
                status = each.stat()
            except OSError:
                missing.insert(0, each.name)
                continue
            if not found:
                found += [
                    (status.st_dev, status.st_ino, *missing[:end])
                    for end in range(len(missing), 0, -1)
                ]
            found.append((status.st_dev, status.st_ino))
        return found

    def delete(self, names: Iterable[str]) -> None:
        """Delete files below the folder, and the folders in it that are empty then."""
        folders, paths = set[Path](), [*map(self.local_path, names)]
        self._refuse_links(paths)
        for path in paths:
            path.unlink(missing_ok=True)
            folders.update(path.parents)
        inside = (path for path in folders if path.is_relative_to(self.url))
        for folder in sorted(inside, reverse=True):
            if str(folder) != self.url:
                with suppress(OSError):  # it is not empty, or gone
                    folder.rmdir()

    def remove(self, last: str) -> None:
        """Remove the folder with all that is in it; a link in it goes, and not what it leads to."""
        kept = self.local_path(last)
        refuse_link(self.local_path())
        self._refuse_links([kept])
        for folder, folders, names in os.walk(self.url, topdown=False):
            for path in (Path(folder, name) for name in (*names, *folders)):
                with suppress(FileNotFoundError):  # another process removes it, too
                    if path.is_dir() and not path.is_symlink():
                        path.rmdir()
                    elif path != kept:
                        path.unlink()
        kept.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            Path(self.url).rmdir()

    def _refuse_links(self, paths: Iterable[Path]) -> None:
        on_the_way = {part for path in paths for part in (path, *path.parents)}
        for path in sorted(on_the_way - {self.local_path()}):
            if path.is_relative_to(self.url):
                refuse_link(path)


def _refuse_unlisted(error: OSError) -> None:
    """Refuse a folder that cannot be listed; one that is not there is as good as empty."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        cause = f"the folder cannot be listed ({error.strerror})"
        raise UserError(str(error.filename), cause, "Change its permissions, or name another one")


@dataclass(frozen=True, repr=False)
class RemoteUrl(Location):
    """A URL that fsspec knows.

    Args:
        url: the URL.
        options: of the filesystem, as fsspec takes them (`{"anon": True}`).

    Raises:
        UserError: no installed package knows the URL.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look up the filesystem; fsspec keeps one per process and set of options."""
        self._find()

    def __truediv__(self, name: str) -> Self:
        """A file or a folder below this one."""
        return type(self)(f"{self.url}/{name}", self.options)

    def list(self) -> dict[str, int]:
        """List every file below the folder."""
        files, root = self._find()
        try:
            files.invalidate_cache()
            listed = _find_files(files, root)
        except FileNotFoundError:
            return {}
        except Exception as error:  # each filesystem has errors of its own
            cause = f"it cannot be listed ({error})"
            raise UserError(self.url, cause, "Check the URL and credentials") from error
        prefix = f"{root}/"
        sizes = {
            path.removeprefix(prefix): int(details["size"])
            for path, details in listed.items()
            if details["type"] == "file" and not path.endswith("/")
        }
        return dict(sorted(sizes.items()))

    def open(self, name: str = "") -> BinaryIO:
        """Open a file for reading from any position; it is fetched in blocks as it is read."""
        files, path = self._find(name)
        try:
            return cast(BinaryIO, files.open(path, "rb", block_size=_BLOCK_BYTES))
        except OSError:
            raise
        except Exception as error:  # each filesystem has errors of its own
            raise OSError(f"{path} cannot be read: {error}") from error

    def create(self) -> BinaryIO:
        """Create a file."""
        files, path = self._find()
        return cast(BinaryIO, files.open(path, "wb"))

    def written_at(self, name: str) -> float | None:
        """When a file was written; None where that is not known."""
        files, path = self._find(name)
        try:
            return float(files.modified(path).timestamp())
        except (NotImplementedError, OSError):
            return None

    def pin(self) -> "RemoteUrl":
        """The folder as it is now."""
        if not self.url.startswith("hf://"):
            return self
        from corpusmill.hub import pin_url  # noqa: PLC0415  its client takes a while to import

        return RemoteUrl(pin_url(self.url, self.options), self.options)

    def _find(self, name: str = "") -> "tuple[AbstractFileSystem, str]":
        from fsspec.core import url_to_fs  # noqa: PLC0415  local folders do not need it

        # Sizes that it remembers may be those of a data set that was replaced; commits stay.
        remembers = {} if self.url.startswith("hf://") else {"use_listings_cache": False}
        try:
            files, root = url_to_fs(self.url, **{**remembers, **self.options})
        except ImportError as error:
            cause = f"a package is missing ({str(error).rstrip('.')})"
            package = _PACKAGES.get(self.url.split(":", maxsplit=1)[0])
            cure = f"Install it: pip install {package}" if package else "Install it"
            raise UserError(self.url, cause, cure) from None
        except ValueError as error:
            cure = "Give a path, or a URL such as s3://bucket/folder"
            raise UserError(self.url, f"fsspec does not know this URL ({error})", cure) from None
        return files, f"{root.rstrip('/')}/{name}".rstrip("/")


def _find_files(files: "AbstractFileSystem", folder: str) -> dict[str, Any]:
    """Find all files below a folder; fsspec's own walk leaves out what it cannot list."""
    from fsspec.asyn import AbstractFileSystem, AsyncFileSystem  # noqa: PLC0415  as below

    kind, walks = type(files), AsyncFileSystem._find
    if kind.find is not AbstractFileSystem.find or getattr(kind, "_find", walks) is not walks:
        return cast(dict[str, Any], files.find(folder, detail=True))
    found = {}
    for entry in files.ls(folder, detail=True):
        path = entry["name"].rstrip("/")
        if entry["type"] != "directory":
            found[entry["name"]] = entry
        elif path != folder:
            found |= _find_files(files, path)
    return found


def locate(text: str, options: Mapping[str, Any] | None = None) -> Location:
    """Parse a path, or a URL that fsspec knows.

    Args:
        text: what the user wrote.
        options: of the filesystem of a URL, as fsspec takes them (`{"anon": True}`).

    Raises:
        UserError: no installed package knows the URL, or the path begins with a home folder that
            does not exist.
    """
    if scheme_of(text) not in {None, "file"}:
        return RemoteUrl(drop_last_slash(text), options or {})
    path = unquote(text.removeprefix("file://")) if scheme_of(text) else text
    try:
        return LocalPath(os.path.normpath(Path(path).expanduser().absolute()), text)
    except RuntimeError as error:
        cause = f"it begins with ~, and there is no such home ({first_line(error)})"
        raise UserError(text, cause, "Write the whole path, or ./~ for a name") from None


def locate_here(name: str, path: str | Path) -> Path:
    """Parse the path of a file or a folder that must be on this machine.

    Args:
        name: of the argument, for messages.
        path: what the user wrote.

    Raises:
        UserError: it is a URL, or begins with a home folder that does not exist.
    """
    if scheme_of(str(path)) not in {None, "file"}:
        raise UserError(f"{name}={path}", "it is not on this machine", "Give a path, not a URL")
    return cast(LocalPath, locate(str(path))).local_path()


def drop_last_slash(url: str) -> str:
    """Return a URL without slashes at its end, but those of its scheme."""
    return _LAST_SLASHES.sub("", url)
