"""What is ours, and so may be deleted, replaced or renamed over.

A name proves nothing: a stranger's file may have any. A file belongs to us if

- it is in a folder with a *mark*: a file that a run wrote there before anything else, and that says
  what the run works for;
- or it is in the folder of a data set, and a *record* lists it: the manifest there, or that of a
  generation, whose name holds the digest of its own manifest. A record is written before the files
  that it lists, and deleted after them, so that a run that is killed leaves nothing unlisted;
- or it is `_SUCCESS`, a manifest or a claim by what it contains.

All that deletes and overwrites goes through this module; `tests/test_structure.py` looks for calls
elsewhere.
"""

import json
import logging
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Manifest
from corpusmill.dataset.manifest_json import decode, seal
from corpusmill.dataset.shards import generation_of, is_generation
from corpusmill.errors import UserError
from corpusmill.location import Location

# The file that says for what a folder was made.
MARK = "corpusmill-run.json"

_LOG = logging.getLogger(__name__)
_SEAL = re.compile(rb"[0-9a-f]{64}( _generation-[0-9a-f]{32})?\s*")


@dataclass(frozen=True)
class OwnFolder:
    """A folder that a run makes for itself, with all that is in it.

    Attributes:
        place: the folder.
        purpose: what the mark in it says, by name.
    """

    place: Location
    purpose: Mapping[str, str]

    def make(self) -> None:
        """Make the folder, and mark it; an empty one is taken for that of a run that was killed.

        Raises:
            FileExistsError: something else of this name exists; it stays as it is.
            OSError: it cannot be made.
        """
        path = self.place.local_path()
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not (path.is_dir() and not any(path.iterdir())):
                path.mkdir()
        # A store has no folders; only a write shows whether one may write there.
        (self.place / MARK).write(json.dumps(self.purpose).encode(), new=True)

    def is_there(self) -> bool:
        """Whether the folder exists, with this mark."""
        return read_mark(self.place) == self.purpose

    def discard(self) -> None:
        """Remove the folder, and its mark at last; a folder with another mark stays.

        Whoever calls it has finished: a warning names what cannot be removed.
        """
        with _warned(self.place):
            if self.is_there():
                self.place.remove(MARK)
            else:
                _remove_empty(self.place)


@contextmanager
def _warned(place: Location) -> Iterator[None]:
    """Log a warning where a block cannot remove something, and go on."""
    try:
        yield
    except (OSError, UserError) as error:
        _LOG.warning("%s is not removed: %s", place, error)


def read_mark(folder: Location) -> Mapping[str, str] | None:
    """Return what the mark in a folder says; None if there is none."""
    try:
        mark = json.loads(folder.read_any(MARK) or b"")
    except (ValueError, RecursionError):
        return None
    return mark if isinstance(mark, dict) else None


def _remove_empty(folder: Location) -> None:
    """Remove a folder without files, as of a run that was killed before it wrote the mark."""
    path = folder.local_path()
    if path and path.is_dir() and not path.is_symlink() and not folder.list():
        _remove_empty_folders(path)


def _remove_empty_folders(path: Path) -> None:
    for below in path.iterdir():
        _remove_empty_folders(below)
    path.rmdir()


def read_record(folder: Location) -> Manifest | None:
    """Return the manifest in a folder; None if there is none that can be read."""
    return _decode(folder.read_any(MANIFEST), folder)


def _decode(content: bytes | None, folder: Location) -> Manifest | None:
    try:
        return decode(content, str(folder)) if content is not None else None
    except UserError:
        return None


def names_in(folder: Location) -> set[str]:
    """Return the names that the record in the folder of a data set lists, and its own."""
    manifest = read_record(folder)
    return {*manifest.entries, MANIFEST, SUCCESS} if manifest else set()


def find_generations(folder: Location, names: Iterable[str]) -> dict[str, Manifest]:
    """Find the generations in the folder of a data set.

    Args:
        folder: the folder.
        names: of the files below it.

    Returns:
        {name: manifest} of those whose manifest has the digest in their name.
    """
    found = {}
    for name in sorted({name.partition("/")[0] for name in names}):
        content = (folder / name).read_any(MANIFEST) if is_generation(name) else None
        if content and generation_of(seal(content)) == name:
            manifest = _decode(content, folder / name)
            if manifest is not None:
                found[name] = manifest
    return found


@dataclass(frozen=True)
class OwnFiles:
    """The files of a data set's folder that are ours.

    Attributes:
        folder: the folder.
        listed: {name: bytes} of all files below it.
        manifest: the record in it; None for none.
        generations: the records of generations, by name.
    """

    folder: Location
    listed: Mapping[str, int]
    manifest: Manifest | None
    generations: Mapping[str, Manifest]

    @classmethod
    def find(cls, folder: Location, listed: Mapping[str, int]) -> "OwnFiles":
        """Read the records in a folder.

        Args:
            folder: the folder.
            listed: {name: bytes} of all files below it.
        """
        manifest = read_record(folder) if MANIFEST in listed else None
        return cls(folder, listed, manifest, find_generations(folder, listed))

    @property
    def of_data_set(self) -> set[str]:
        """The names that the record in the folder lists, its own and that of its seal included."""
        names = {*self.manifest.entries, MANIFEST} if self.manifest else set()
        content = self.folder.read_any(SUCCESS) if SUCCESS in self.listed else None
        if content is not None and _SEAL.fullmatch(content):
            names.add(SUCCESS)
        return names & self.listed.keys()

    @property
    def of_generations(self) -> set[str]:
        """The names of files in generations, and of those that generations add to the data set."""
        names = set[str]()
        for generation, manifest in self.generations.items():
            both = {*manifest.entries, MANIFEST, SUCCESS}
            names |= {*manifest.entries, *(f"{generation}/{name}" for name in both)}
        return names & self.listed.keys()

    def find_foreign(self) -> list[str]:
        """Return the names of files that are not ours, sorted; folders with a mark are left out."""
        owned = self.of_data_set | self.of_generations
        return sorted(self.listed.keys() - owned)


def delete_own(folder: Location, names: Iterable[str], owned: Container[str]) -> None:
    """Delete files of a data set.

    Args:
        folder: of the data set.
        names: of the files, in the order in which they are deleted.
        owned: the names that a record lists.

    Raises:
        ValueError: a file is in no record.
    """
    names = list(names)
    if foreign := [name for name in names if name not in owned]:
        raise ValueError(f"{foreign[0]} in {folder} is not ours")
    folder.delete(names)


def delete_temporary(folder: Location, names: Iterable[str]) -> None:
    """Delete files that a run has written to its own temporary folder.

    Args:
        folder: the temporary folder.
        names: of the files.
    """
    folder.delete(names)


def put_file(folder: Location, place: Location, content: bytes) -> None:
    """Write a file whole, in place of one that the user lets go.

    Args:
        folder: a run's own, in which the file is prepared, so that a kill leaves no copy beside it.
        place: the file.
        content: all of it.
    """
    prepared = folder / f"new-{uuid4().hex}"
    source, target = prepared.local_path(), place.local_path()
    if source and target:
        prepared.write(content)
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # it is on another disk
            source.replace(target.resolve())
            return
    place.write(content)


def remove_named(folder: Location) -> None:
    """Remove a temporary folder that a run's claim names, and its mark at last.

    A warning names what cannot be removed.
    """
    with _warned(folder):
        folder.remove(MARK)


def remove_remains(folder: Location) -> None:
    """Remove what a run has written to its temporary folder since another run has removed that.

    In a store nothing keeps it from that, and without the mark nobody knows whose files these are.
    """
    if read_mark(folder) is None:
        remove_named(folder)


def remove_empty_generations(folder: Location) -> None:
    """Remove the folders of generations on this machine that hold no file."""
    path = folder.local_path()
    for below in path.iterdir() if path and path.is_dir() else ():
        if is_generation(below.name):
            _remove_empty(folder / below.name)


def remove_generation(folder: Location, name: str, names: Iterable[str] | None = None) -> None:
    """Remove a generation, and its record at last; files that the record does not list stay.

    Args:
        folder: of the data set.
        name: of the generation.
        names: of the files in it, if it is known that it lacks others of its record.
    """
    generation = folder / name
    with _warned(generation):
        manifest = find_generations(folder, [f"{name}/{MANIFEST}"]).get(name)
        if manifest is not None:
            listed = {*manifest.entries, SUCCESS}
            generation.delete(sorted(listed if names is None else listed & {*names}))
            generation.delete([MANIFEST])
        _remove_empty(generation)
