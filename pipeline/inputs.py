"""From what the user names to a sorted list of files, checked before any work."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.filesystems import FileSystems

from corpusmill.decompression import is_compressed
from corpusmill.faults import UserError
from corpusmill.hub import WIKITEXT, fetch_wikitext


@dataclass(frozen=True, order=True)
class InputFile:
    """One file of the corpus.

    Attributes:
        path: as workers open it; local paths are absolute.
        bytes: its size.
        name: as the user's words led to it, for the manifest.
    """

    path: str
    bytes: int
    name: str

    @property
    def splittable(self) -> bool:
        """Whether it can be read in ranges."""
        return not is_compressed(self.path)


def is_local(path: str) -> bool:
    """Whether a path is of this machine's own file system."""
    return FileSystems.get_scheme(path) is None


def absolute(path: str) -> str:
    """A local path made absolute; another file system's as it is."""
    return str(Path(path).expanduser().absolute()) if is_local(path) else path


def list_inputs(inputs: Iterable[str], temp_folder: str) -> list[InputFile]:
    """All files of a corpus, each once, sorted by path.

    Args:
        inputs: paths, globs, folders, or names of data sets on the hub.
        temp_folder: where a data set of the hub is put as plain text.

    Raises:
        UserError: something names no file, cannot be read, or all files are empty.
    """
    found: dict[str, InputFile] = {}
    for given in inputs:
        for file in _list_one(given, temp_folder):
            found.setdefault(file.path, file)
    files = sorted(found.values())
    if not sum(file.bytes for file in files):
        raise UserError(f"--input {' '.join(inputs)}", "all files are empty", "Name files that hold text")
    for file in files:
        _check_readable(file)
    return files


def _list_one(given: str, temp_folder: str) -> Iterator[InputFile]:
    if given in WIKITEXT and not Path(given).exists():
        path = fetch_wikitext(given, Path(temp_folder) / given)
        yield InputFile(str(path), path.stat().st_size, given)
        return
    is_folder = given.endswith("/") or (is_local(given) and Path(given).expanduser().is_dir())
    pattern = FileSystems.join(given.rstrip("/"), "**") if is_folder else given
    listed = [file for file in _match(pattern, given) if not _is_hidden(file.path)]
    if not listed:
        kind = "the folder holds no file" if is_folder else "no such file"
        raise UserError(f"--input {given}", kind, "Check the path; globs such as 'corpus/*.txt' work, quoted")
    for file in listed:
        yield InputFile(absolute(file.path), file.size_in_bytes, file.path)


def _match(pattern: str, given: str) -> list[FileMetadata]:
    wanted = str(Path(pattern).expanduser()) if is_local(pattern) else pattern
    try:
        listed: list[FileMetadata] = FileSystems.match([wanted])[0].metadata_list
    except (BeamIOError, ValueError) as error:
        raise UserError(f"--input {given}", f"it cannot be listed ({error})", "Check the path") from None
    return [file for file in listed if not (is_local(file.path) and Path(file.path).is_dir())]


def _is_hidden(path: str) -> bool:
    return path.rsplit("/", 1)[-1].startswith(".")


def _check_readable(file: InputFile) -> None:
    if not is_local(file.path):
        return
    try:
        with Path(file.path).open("rb") as stream:
            stream.read(1)
    except OSError as error:
        raise UserError(
            f"--input {file.name}", f"it cannot be read ({error.strerror})", "Mend it or leave it out"
        ) from None
