"""How commands reach data sets and write reports: here, and at URLs that fsspec knows."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from corpusmill.dataset.storage import Folder, UrlFolder, is_url
from corpusmill.errors import UserError, first_line, option


class DatedFolder(Folder, Protocol):
    """A folder that also knows when its files were written."""

    def written_at(self, name: str) -> float | None:
        """When a file was written, in seconds since 1970; None where that is not known."""


class Files(Protocol):
    """The folders and files that a command reads and writes."""

    def open_folder(self, path: str) -> DatedFolder:
        """Return the folder at a path or a URL.

        Raises:
            UserError: nothing knows the URL, or the home folder that the path begins with.
        """

    def write(self, path: str, content: bytes) -> None:
        """Write a small file; nobody ever sees a part of it.

        Raises:
            OSError: it cannot be written; an earlier file of this name stays.
        """


@dataclass(frozen=True)
class UrlFiles:
    """Local files, and those that fsspec reaches."""

    def open_folder(self, path: str) -> UrlFolder:
        """Return the folder at a path or a URL."""
        return UrlFolder(path if is_url(path) else absolute_path(path))

    def write(self, path: str, content: bytes) -> None:
        """Write a small file."""
        if not is_url(path):
            replace_file(path, content)
            return
        import fsspec  # noqa: PLC0415  local files do not need it

        with fsspec.open(path, "wb") as stream:
            stream.write(content)


def absolute_path(path: str) -> str:
    """Make a local path absolute.

    Raises:
        UserError: it begins with a home folder that does not exist.
    """
    try:
        return os.path.normpath(Path(path).expanduser().absolute())
    except RuntimeError as error:
        cause = f"it begins with ~, and there is no such home ({first_line(error)})"
        raise UserError(path, cause, "Write the whole path, or ./~ for a name") from None


def check_file(name: str, path: str) -> None:
    """Refuse the path of a local file that could not be written at the end.

    Raises:
        UserError: its folder does not exist, or something else is in its place.
    """
    if is_url(path):
        return
    file = Path(absolute_path(path))
    if not file.parent.is_dir() or (file.exists() and not file.is_file()):
        cause = "a file cannot be written there"
        raise UserError(option(name, path), cause, "Name a file in an existing folder")


def replace_file(path: str, content: bytes) -> None:
    """Write a small local file, and its folder where it is missing; nobody ever sees a part of it.

    Raises:
        OSError: it cannot be written; an earlier file of this name stays.
    """
    place = Path(os.path.realpath(absolute_path(path)))
    new = Path(f"{place}.{os.urandom(4).hex()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(content)
        new.replace(place)
    except OSError as error:
        new.unlink(missing_ok=True)
        # A folder such as that of a process may take no new files, though it exists.
        number = errno.ENOTDIR if error.errno == errno.ENOENT else error.errno
        raise OSError(number, error.strerror, path) from None
