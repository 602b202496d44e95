"""A data set's folder, on a disk or at a URL that fsspec knows.

A path or a `file://` URL needs no further package; `s3://` needs s3fs, `gs://` gcsfs, and `hf://`
huggingface_hub, which the library installs; `memory://` is fsspec's own.
"""

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EINVAL
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast, runtime_checkable
from urllib.parse import unquote

from corpusmill.errors import UserError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*(::|://)")
_BLOCK_BYTES = 4 * 2**20
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}


def is_url(path: str) -> bool:
    """Whether a path is a URL, and not a path on this machine."""
    return _URL.match(path) is not None


class NotAFileError(OSError):
    """A pipe, a socket or a device, which a reader or a writer may wait for without end."""


def refuse_special(path: Path) -> None:
    """Refuse what is neither a regular file nor a folder.

    Raises:
        NotAFileError: it is a pipe, a socket or a device.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise NotAFileError(EINVAL, "it is not a regular file", str(path))


@runtime_checkable
class Folder(Protocol):
    """A folder of files that are only read, however it is reached."""

    @property
    def url(self) -> str:
        """Its path or URL, for messages."""

    def list(self) -> dict[str, int]:
        """Bytes of every file below the folder, by its name relative to it (with `/`), sorted.

        It is empty where there is no such folder.

        Raises:
            UserError: the folder cannot be listed.
        """

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading from any position.

        Args:
            name: relative to the folder, with `/`.

        Raises:
            OSError: it does not exist or cannot be read; FileNotFoundError where that is known.
        """

    def read(self, name: str) -> bytes:
        """All bytes of a small file; errors as of `open`."""

    def local_path(self, name: str) -> Path | None:
        """The path of a file on this machine, so that it can be mapped; None if it is elsewhere."""

    def below(self, name: str) -> "Folder":
        """A folder below this one."""


@dataclass(frozen=True)
class UrlFolder:
    """A folder at a path or a URL that fsspec knows.

    It can be pickled and sent to the worker processes of a trainer: each opens connections of its
    own.

    Args:
        url: a path, or a URL of fsspec.
        options: of the filesystem, as fsspec takes them (`{"anon": True}`).

    Raises:
        UserError: no installed package knows the URL.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look up the filesystem; fsspec keeps one per process and set of options."""
        if self.local_path("") is None:
            self._find()

    def list(self) -> dict[str, int]:
        """List every file below the folder."""
        local = self.local_path("")
        if local is not None:
            return {
                path.relative_to(local).as_posix(): path.stat().st_size
                for path in sorted(local.rglob("*"))
                if path.is_file()
            }
        files, root = self._find()
        try:
            files.invalidate_cache()
            listed = files.find(root, detail=True)
        except FileNotFoundError:
            return {}
        except Exception as error:  # each filesystem has errors of its own
            cause = f"it cannot be listed ({error})"
            raise UserError(self.url, cause, "Check the URL and credentials") from error
        prefix = root.rstrip("/") + "/"
        sizes = {
            path.removeprefix(prefix): int(details["size"])
            for path, details in listed.items()
            if details["type"] == "file" and not path.endswith("/")
        }
        return dict(sorted(sizes.items()))

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading from any position."""
        local = self.local_path(name)
        if local is not None:
            refuse_special(local)
            return local.open("rb")
        files, root = self._find()
        path = f"{root.rstrip('/')}/{name}"
        try:
            return cast(BinaryIO, files.open(path, "rb", block_size=_BLOCK_BYTES))
        except OSError:
            raise
        except Exception as error:  # each filesystem has errors of its own
            raise OSError(f"{path} cannot be read: {error}") from error

    def read(self, name: str) -> bytes:
        """All bytes of a small file."""
        with self.open(name) as stream:
            return stream.read()

    def written_at(self, name: str) -> float | None:
        """When a file was written, in seconds since 1970; None where that is not known."""
        local = self.local_path(name)
        if local is not None:
            return local.stat().st_mtime if local.exists() else None
        files, root = self._find()
        try:
            return float(files.modified(f"{root.rstrip('/')}/{name}").timestamp())
        except (NotImplementedError, OSError):
            return None

    def local_path(self, name: str) -> Path | None:
        """The path of a file on this machine."""
        if self.url.startswith("file://"):
            return Path(unquote(self.url.removeprefix("file://"))) / name
        if is_url(self.url):
            return None
        return Path(os.fspath(self.url)).expanduser() / name

    def pin(self) -> "UrlFolder":
        """The folder as it is now: on the hub, at the commit that its revision refers to.

        A push that comes later changes nothing for its readers, in this and in other processes.

        Raises:
            UserError: the hub lacks the data set, or cannot be reached.
        """
        if not self.url.startswith("hf://"):
            return self
        from corpusmill.hub import pin_url  # noqa: PLC0415  its client takes a while to import

        return UrlFolder(pin_url(self.url, self.options), self.options)

    def below(self, name: str) -> "UrlFolder":
        """A folder below this one."""
        return UrlFolder(f"{self.url.rstrip('/')}/{name}", self.options)

    def _find(self) -> "tuple[AbstractFileSystem, str]":
        from fsspec.core import url_to_fs  # noqa: PLC0415  local folders do not need it

        try:
            return cast("tuple[AbstractFileSystem, str]", url_to_fs(self.url, **self.options))
        except ImportError as error:
            cause = f"a package is missing ({str(error).rstrip('.')})"
            package = _PACKAGES.get(self.url.split(":", maxsplit=1)[0])
            cure = f"Install it: pip install {package}" if package else "Install it"
            raise UserError(self.url, cause, cure) from None
        except ValueError as error:
            cure = "Give a path, or a URL such as s3://bucket/folder"
            raise UserError(self.url, f"fsspec does not know this URL ({error})", cure) from None


@dataclass(frozen=True)
class LayeredFolder:
    """A folder over another one, whose files are there where the upper one lacks them.

    Attributes:
        upper: the folder that is looked into first.
        lower: the folder around it.
    """

    upper: Folder
    lower: Folder

    @property
    def url(self) -> str:
        """The path or URL of the lower folder."""
        return self.lower.url

    def list(self) -> dict[str, int]:
        """List the files of both."""
        name = self.upper.url.rstrip("/").rpartition("/")[2]
        both = self.lower.list() | self.upper.list()
        return {file: both[file] for file in sorted(both) if not file.startswith(f"{name}/")}

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading from any position."""
        try:
            return self.upper.open(name)
        except OSError as error:
            self._check_missing(name, error)
            return self.lower.open(name)

    def read(self, name: str) -> bytes:
        """All bytes of a small file."""
        try:
            return self.upper.read(name)
        except OSError as error:
            self._check_missing(name, error)
            return self.lower.read(name)

    def _check_missing(self, name: str, error: OSError) -> None:
        """Raise an error again unless the upper folder lacks the file, as the lower has another."""
        if not isinstance(error, FileNotFoundError) and name in self.upper.list():
            raise error

    def local_path(self, name: str) -> Path | None:
        """The path of a file on this machine."""
        path = self.upper.local_path(name)
        return path if path is not None and path.exists() else self.lower.local_path(name)

    def below(self, name: str) -> Folder:
        """A folder below this one."""
        return self.lower.below(name)
