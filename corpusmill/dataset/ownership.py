"""What is ours, and so may be deleted or replaced.

A name proves nothing: a stranger's file may have any. A file belongs to us if

- it is in a folder with a *mark*: a file that a run wrote there before anything else, and that says
  what the run works for;
- or it is in the folder of a version, and the *record* there lists it, which its run wrote before
  any of these files;
- or the manifest lists it, or is copied from there;
- or it begins as the file does by which ranks meet, under the name of that.

All that deletes goes through this module; `tests/test_structure.py` looks for calls elsewhere. No
link is followed to write or to delete.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from corpusmill.dataset.manifest import MANIFEST, ROOT, SUCCESS, Manifest
from corpusmill.dataset.manifest_entries import version_of
from corpusmill.dataset.shards import RUN
from corpusmill.errors import UserError
from corpusmill.location import Location
from corpusmill.synced_files import sync

# The file that says for what a folder was made.
MARK = "corpusmill-run.json"
# The file in a version's folder that lists the others.
RECORD = "_files.json"

# The file by which the processes of one command meet, which a kill may leave, and how it begins.
MEETING, MEETING_BEGIN = "_ranks.json", b'{"corpusmill":"ranks"'

_LOG = logging.getLogger(__name__)


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
            if path.is_symlink() or not (path.is_dir() and not any(path.iterdir())):
                path.mkdir()
        # A store has no folders; only a write shows whether one may write there.
        (self.place / MARK).write(json.dumps(self.purpose).encode(), new=True)

    def is_there(self) -> bool:
        """Whether the folder exists, with this mark."""
        return read_mark(self.place) == self.purpose

    def discard(self, was_there: bool = False) -> None:
        """Remove the folder, and its mark at last; a folder with another mark stays.

        Whoever calls it has finished: a warning names what cannot be removed.

        Args:
            was_there: whether it was this folder before, so that it is removed without a mark, too.
                In a store, what is written to a folder that was removed is there again.
        """
        with _warned(self.place):
            path, mark = self.place.local_path(), read_mark(self.place)
            if mark == self.purpose or (mark is None and was_there):
                self.place.remove(MARK)
            elif path and path.is_dir() and not path.is_symlink():
                _remove_empty_folders(path)


@contextmanager
def _warned(folder: Location) -> Iterator[None]:
    """Log a warning where a block cannot remove something, and go on."""
    try:
        yield
    except (OSError, UserError) as error:
        _LOG.warning("%s is not removed: %s", folder, error)


def read_mark(folder: Location) -> Mapping[str, str] | None:
    """Return what the mark in a folder says; None if there is none."""
    mark = _read_json(folder, MARK)
    return mark if isinstance(mark, dict) else None


def _read_json(folder: Location, name: str) -> object:
    """Return what a file holds; None if it does not exist, or is damaged."""
    with suppress(ValueError, RecursionError):
        value: object = json.loads(folder.read_any(name) or b"null")
        return value
    return None


def _remove_empty_folders(path: Path) -> None:
    """Remove a folder and those below it, as far as they hold no file."""
    for below in path.iterdir():
        if below.is_dir() and not below.is_symlink():
            _remove_empty_folders(below)
    with suppress(OSError):  # it is not empty
        path.rmdir()


def write_record(folder: Location, names: Iterable[str]) -> None:
    """List the files that a run is about to write into the folder of its version.

    Args:
        folder: of the version.
        names: of the files in it.
    """
    content = json.dumps(sorted(names), indent=0).encode() + b"\n"
    # That of a run that is resumed may be damaged, as after a power failure.
    (folder / RECORD).exchange(content, folder.read_any(RECORD))


def read_record(folder: Location) -> set[str]:
    """Return the names of the files that the run of a version has written, or was about to.

    A damaged record lists nothing.
    """
    names = _read_json(folder, RECORD)
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        return set()
    return {name for name in names if ".." not in name.split("/") and not name.startswith("/")}


@dataclass(frozen=True)
class OwnFiles:
    """The files in the folder of a data set that are ours.

    Attributes:
        folder: the folder.
        versions: the names of all files of each version, by its number.
        names: the names of those that are ours.
        recorded: by the number of a version, those of its files that its record lists.
    """

    folder: Location
    versions: Mapping[int, set[str]]
    names: set[str]
    recorded: Mapping[int, set[str]]

    @classmethod
    def find(cls, folder: Location, listed: Iterable[str], manifest: Manifest | None) -> "OwnFiles":
        """Read the records in a folder.

        Args:
            folder: the folder.
            listed: names of all files below it.
            manifest: that of the data set in it; None for none.
        """
        versions, listed = dict[int, set[str]](), set(listed)
        for name in listed:
            if number := version_of(name):
                versions.setdefault(number, set()).add(name)
        recorded, owned = dict[int, set[str]](), set[str]()
        for number, names in versions.items():
            begin = f"v{number}/"
            of_run = {name for name in (f"{begin}{RUN}", f"{begin}{RECORD}") if name in names}
            if of_run:
                record = {f"{begin}{name}" for name in read_record(folder / f"v{number}")}
                recorded[number] = names & record
                owned |= recorded[number] | of_run
            marked = {name.split("/")[1] for name in names if name.endswith(f"/{MARK}")}
            for below in marked:
                if read_mark(folder / f"{begin}{below}") is not None:
                    owned |= {name for name in names if name.startswith(f"{begin}{below}/")}
        if MEETING in listed and (folder.read_any(MEETING) or b"").startswith(MEETING_BEGIN):
            owned.add(MEETING)
        if manifest is not None:
            for number, names in recorded.items():
                owned |= _list_copies(number, names).keys() & listed
            owned |= {*manifest.entries, *manifest.copies, MANIFEST, SUCCESS} & listed
        return cls(folder, versions, owned, recorded)

    def remove_stale(self, manifest: Manifest) -> bool:
        """Remove what a manifest does not list of the versions before its own.

        Their runs cannot commit any more, as the manifest from which they began is gone. Versions
        of runs that nobody has retired are left alone.

        Returns:
            Whether there was anything.
        """
        used = {version_of(file) for file in manifest.entries}
        stale = [
            number
            for number, names in self.recorded.items()
            if number < manifest.version
            and (f"v{number}/{RUN}" not in self.versions[number] or self._is_retired(number))
            and (number not in used or not names <= manifest.entries.keys())
        ]
        for number in stale:
            for copy, name in _list_copies(number, self.recorded[number]).items():
                held = self.folder.read_any(copy) if copy not in manifest.copies else None
                if held is not None and held == self.folder.read_any(name):
                    with _warned(self.folder):
                        self.folder.delete([copy])
            record = read_record(self.folder / f"v{number}")
            remove_version(self.folder, number, record, manifest.entries)
        path = self.folder.local_path()
        for below in path.iterdir() if path and path.is_dir() else ():
            is_earlier = 0 < version_of(f"{below.name}/x") < manifest.version
            if is_earlier and below.is_dir() and not below.is_symlink():
                _remove_empty_folders(below)
        return bool(stale)

    def _is_retired(self, number: int) -> bool:
        """Whether nobody may go on with the run of a version; also if its file is damaged."""
        run = _read_json(self.folder / f"v{number}", RUN)
        return not (isinstance(run, dict) and run.get("token"))


def _list_copies(number: int, names: Iterable[str]) -> dict[str, str]:
    """Return which files of a version are copied beside the manifest, by the copies' names."""
    begin = f"v{number}/{ROOT}"
    return {name.removeprefix(begin): name for name in names if name.startswith(begin)}


def end_version(folder: Location) -> None:
    """Remove from the folder of a version what its run had for itself; warn of what cannot be."""
    with _warned(folder):
        _discard_marked(folder)
        folder.delete([RUN])


def _discard_marked(folder: Location) -> None:
    """Remove the temporary folders in the folder of a version."""
    for name in folder.list():
        below = folder / name.partition("/")[0]
        if name.endswith(f"/{MARK}") and (purpose := read_mark(below)) is not None:
            OwnFolder(below, purpose).discard()


def remove_version(
    output: Location, number: int, record: Iterable[str], kept: Iterable[str]
) -> None:
    """Remove the files of a version that its record lists, and then the record.

    A warning names what cannot be removed, and what is not in the record and stays.

    Args:
        output: the folder of the data set.
        number: of the version.
        record: names of the files in the version's folder that its run may have written.
        kept: names of files below the folder of the data set that stay, and the record with them.
    """
    folder, begin = output / f"v{number}", f"v{number}/"
    with _warned(folder):
        own_kept = {name.removeprefix(begin) for name in kept if name.startswith(begin)}
        _discard_marked(folder)
        present = set(folder.list())
        folder.delete(sorted(present.intersection(record) - own_kept))
        if RUN in present:
            folder.delete([RUN])
        if present and not own_kept:
            folder.sync(())  # or else a loss of power may leave files without their record
            folder.delete([RECORD])
        path = folder.local_path()
        if path and path.is_dir() and not path.is_symlink():
            _remove_empty_folders(path)
        if rest := sorted(set(folder.list()) - own_kept - {RECORD}):
            _LOG.warning("%s/%s stays: it is not a file of ours", folder, rest[0])


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
            sync(target.parent)
            return
    place.write(content)
