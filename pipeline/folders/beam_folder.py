"""The folder of a data set, reached through Beam's file systems and object stores."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from corpusmill.commands.files import DatedFolder, UrlFiles, replace_file
from pipeline.recipe.inputs import absolute, is_local
from transforms.storage.file_systems import beam_errors, beam_file_systems, join_path
from transforms.storage.files import find_files, list_folder, open_file, write_file


@dataclass(frozen=True)
class BeamFolder:
    """A `corpusmill.dataset.storage.Folder` at a path or URL that Beam knows.

    Attributes:
        url: the path or URL, as the user gave it.
    """

    url: str

    def __post_init__(self) -> None:
        """Check that something knows the URL.

        Raises:
            UserError: nothing does.
        """
        absolute(self.url)

    def list(self) -> dict[str, int]:
        """List every file below the folder."""
        root = absolute(self.url).rstrip("/")
        try:
            sizes = list_folder(root)
        except beam_errors():
            return {}
        return {path.removeprefix(f"{root}/"): size for path, size in sorted(sizes.items())}

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading from any position."""
        return open_file(join_path(absolute(self.url), *name.split("/")))

    def read(self, name: str) -> bytes:
        """Read a small file."""
        with self.open(name) as stream:
            return stream.read()

    def written_at(self, name: str) -> float | None:
        """Return when a file was written, in seconds since 1970; None where that is not known."""
        path = join_path(absolute(self.url), name)
        if is_local(path):
            return Path(path).stat().st_mtime if Path(path).exists() else None
        listed = find_files(path)
        return (listed[0].modified or None) if listed else None

    def below(self, name: str) -> "BeamFolder":
        """A folder below this one."""
        return BeamFolder(join_path(self.url, name))

    def local_path(self, name: str) -> Path | None:
        """Return the path of a file on this machine; None if it is elsewhere."""
        return Path(absolute(self.url)) / name if is_local(self.url) else None


@dataclass(frozen=True)
class BeamFiles:
    """A `corpusmill.commands.files.Files` for all URLs that Beam or fsspec knows.

    Where both know a URL, Beam reads it with the credentials and options that builds use.
    """

    def open_folder(self, path: str) -> DatedFolder:
        """Return the folder at a path or a URL."""
        return BeamFolder(path) if _is_known(path) else UrlFiles().open_folder(path)

    def write(self, path: str, content: bytes) -> None:
        """Write a small file; a store shows it whole or not at all."""
        if is_local(path):
            replace_file(path, content)
        else:
            write_file(absolute(path), content)


def _is_known(path: str) -> bool:
    """Whether Beam has a file system for a path, which may lack a package."""
    if is_local(path):
        return True
    try:
        beam_file_systems().get_filesystem(path)
    except ValueError:
        return False
    except beam_errors():
        return True
    return True
