"""From what the user names to a sorted list of files, checked before any work."""

import glob
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from corpusmill.corpus.decompression import DamagedStreamError, is_compressed, open_decompressed
from corpusmill.corpus.hub.data_sets import is_hub_path, list_hub_files
from corpusmill.corpus.hub.wikitext import WIKITEXT, fetch_wikitext
from corpusmill.corpus.input_formats import check_start, resolve_format, take_suffixes
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError
from pipeline.preparation.saved_datasets import choose_data_files
from transforms.storage.files import create_file, find_files, open_file

# Files of the hub that are said one by one.
_MOST_SAID = 10


@dataclass(frozen=True)
class InputFile:
    """One file of the corpus.

    Attributes:
        path: as workers open it; local paths are absolute.
        bytes: its size.
        name: for the manifest: relative to the folder that holds all files, so that neither the
            way in which they were named nor the place where they lie changes the data set.
        modified: when it was last written, in seconds since 1970; 0 where its name says all, as on
            the hub.
    """

    path: str
    bytes: int
    name: str
    modified: float = field(default=0.0, compare=False)

    @property
    def splittable(self) -> bool:
        """Whether it can be read in ranges."""
        return not is_compressed(self.path)


def is_local(path: str) -> bool:
    """Whether a path is of this machine's own file system."""
    return FileSystems.get_scheme(path) is None


def absolute(path: str) -> str:
    """A local path made absolute; another file system's as it is."""
    return os.path.normpath(Path(path).expanduser().absolute()) if is_local(path) else path


def read_bytes(path: str) -> bytes | None:
    """The bytes of a file of any of Beam's filesystems, None where there is none."""
    try:
        with open_file(absolute(path)) as stream:
            return stream.read()
    except (OSError, BeamIOError):
        return None


def list_inputs(
    inputs: Sequence[str], temp_folder: str, suffixes: Sequence[str] = ()
) -> list[InputFile]:
    """All files of a corpus, each once, sorted by name.

    Args:
        inputs: paths, globs, folders, or names of data sets on the hub.
        temp_folder: where WikiText is put as plain text.
        suffixes: of the files of folders that are taken.

    Raises:
        UserError: something names no file, cannot be read, or all files are empty.
    """
    fetched: dict[str, InputFile] = {}
    sizes: dict[str, int] = {}
    times: dict[str, float] = {}
    for given in inputs:
        if given in WIKITEXT and not Path(given).exists():
            fetched[given] = _fetch_wikitext(given, temp_folder)
        elif is_hub_path(given):
            found = list_hub_files(given, suffixes)
            fetched |= {path: InputFile(path, size, path) for path, size in found.items()}
        elif is_local(given):
            found = _list_local(given, temp_folder, suffixes, times)
            sizes |= choose_data_files(given, found, read_bytes)
        else:
            sizes |= choose_data_files(given, _list_remote(given, suffixes, times), read_bytes)
    levels = zip(*(path.split("/")[:-1] for path in sizes), strict=False)
    common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    named = [
        InputFile(path, size, "/".join(path.split("/")[common:]), times[path])
        for path, size in sizes.items()
    ]
    files = sorted([*named, *fetched.values()], key=lambda file: (file.name, file.path))
    if not sum(file.bytes for file in files):
        raise UserError(
            f"--input {' '.join(inputs)}", "all files are empty", "Name files that hold text"
        )
    return files


def _fetch_wikitext(name: str, temp_folder: str) -> InputFile:
    if is_local(temp_folder):
        path = fetch_wikitext(name, Path(temp_folder) / name)
        return InputFile(str(path), path.stat().st_size, name)
    with TemporaryDirectory(prefix="corpusmill-") as folder:
        path = fetch_wikitext(name, Path(folder))
        there = str(FileSystems.join(temp_folder, path.name))
        with path.open("rb") as source, create_file(there) as target:
            shutil.copyfileobj(source, target, 2**20)
        return InputFile(there, path.stat().st_size, name)


def choose_format(
    files: Sequence[InputFile], options: DocumentOptions, console: Console
) -> DocumentOptions:
    """The options with the format that the files have; one that was guessed is said.

    Raises:
        UserError: the names tell of several formats, or the first file lacks the text field.
    """
    resolved = resolve_format(options, [file.name for file in files])
    if resolved.input_format not in {options.input_format, "text"}:
        console.print(f"input format: {resolved.input_format}, by the files' names")
    first = next(file for file in files if file.bytes)
    with open_file(first.path) as raw, suppress(DamagedStreamError):
        check_start(open_decompressed(raw, first.path), first.path, resolved)
    return resolved


def say_hub_files(files: Sequence[InputFile], console: Console) -> None:
    """Say which files of the hub a data set is built from."""
    of_hub = [file for file in files if is_hub_path(file.path)]
    for file in of_hub[:_MOST_SAID]:
        console.print(f"input: {file.name}", markup=False, soft_wrap=True)
    if len(of_hub) > _MOST_SAID:
        last = f"input: {len(of_hub):,} files in all, the last is {of_hub[-1].name}"
        console.print(last, markup=False, soft_wrap=True)


def _list_local(
    given: str, temp_folder: str, suffixes: Sequence[str], times: dict[str, float]
) -> dict[str, int]:
    # Beam's own listing leaves out what it cannot look at without a word.
    root = Path(given).expanduser()
    if root.is_dir():
        if is_local(temp_folder) and Path(temp_folder).is_relative_to(absolute(given)):
            raise UserError(
                f"--input {given}",
                "the output folder lies in it",
                "Give an output folder elsewhere",
            )
        paths = list(_walk(given, absolute(given)))
        if not paths:
            raise UserError(f"--input {given}", "the folder holds no file", "Check the path")
        paths = take_suffixes(given, paths, suffixes)
    elif os.path.lexists(root):
        paths = [absolute(given)]
    else:
        matches = glob.glob(str(root), recursive=True)  # noqa: PTH207  has a pattern's root
        paths = [absolute(path) for path in matches if not Path(path).is_dir()]
        if not paths:
            raise _no_such_file(given)
    found = {path: _measure(path) for path in paths}
    times |= {path: of.st_mtime for path, of in found.items()}
    return {path: of.st_size for path, of in found.items()}


def _walk(given: str, root: str) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        cause = f"{error.filename} cannot be listed ({error.strerror})"
        raise UserError(f"--input {given}", cause, "Mend it or leave it out") from None

    # Paths as text: a `Path` of each file takes longer than to look at it.
    for folder, _, names in os.walk(root, onerror=refuse):
        yield from (f"{folder.rstrip('/')}/{name}" for name in names if not name.startswith("."))


def _measure(path: str) -> os.stat_result:
    """Size and times of a local file, which must be one that can be read."""
    try:
        # Without waiting, as the opening of a pipe would.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            found = os.fstat(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise UserError(
            f"--input {path}", f"it cannot be read ({error.strerror})", "Mend it or leave it out"
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"--input {path}", "it is no regular file", "Write its text to a file")
    return found


def _list_remote(given: str, suffixes: Sequence[str], times: dict[str, float]) -> dict[str, int]:
    try:
        listed = find_files(given)
    except (BeamIOError, ValueError) as error:
        raise UserError(
            f"--input {given}", f"it cannot be listed ({error})", "Check the path"
        ) from None
    except UserError as error:
        raise UserError(f"--input {given}", error.cause, error.cure) from None
    files = [
        file
        for file in listed
        if not file.path.endswith("/") and not file.path.rsplit("/", 1)[-1].startswith(".")
    ]
    sizes = {file.path: file.bytes for file in files}
    times |= {file.path: file.modified for file in files}
    if not sizes:
        raise _no_such_file(given)
    if given.endswith("/") or (not glob.has_magic(given) and given not in sizes):
        return {path: sizes[path] for path in take_suffixes(given, list(sizes), suffixes)}
    return sizes


def _no_such_file(given: str) -> UserError:
    cure = "Check the path; globs such as 'corpus/*.txt' work, quoted"
    return UserError(f"--input {given}", "no such file", cure)
