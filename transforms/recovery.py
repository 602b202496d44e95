"""How a run survives faults: what it says of itself, and its journal.

A run that builds or changes a data set writes all of its files into the folder of a version of its
own, and says in the file `_run.json` there what it does, and how it has ended. That is advice, and
no lock: a run that is wrongly taken for dead loses its work, and nobody else's data. What an engine
still does for a run that is over, such as work of a lost machine that it repeats, ends without
doing anything.

A unit of work (a task, a merge, a shard) produces small elements that name files. When it is
finished, they are written to an *entry* of the journal: a file of the unit's own in the run's
temporary folder. Whoever comes later takes the elements of the entry if all of its files still hold
what was written, and does the work otherwise: neither a retried bundle nor a resumed run repeats
finished work.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from corpusmill.dataset.manifest import MANIFEST
from corpusmill.dataset.ownership import OwnFolder
from corpusmill.dataset.shards import RUN
from corpusmill.errors import OutageError, RefusedError, UserError
from corpusmill.location import TEMPORARY, Location
from transforms.elements import LinesFile, ReadRange, Segment, WrittenFile
from transforms.storage.checksums import DamagedFileError, are_intact, has_digest, seal, unseal
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import locate, open_file, write_file
from transforms.task_sizes import TaskSizes

# How a run has ended.
COMMITTED, FAILED = "committed", "failed"


@dataclass(frozen=True)
class Run:
    """What a run says of itself.

    Attributes:
        token: identifies one start of a run; a resumed run has a new token. Empty if nobody may go
            on with it, or if the file is damaged, as after a power failure.
        temp_folder: temporary folder of the run.
        host: machine on which it was started.
        process: number of its process there.
        started: when that process was started, in seconds since 1970.
        kind: what the run does: "build", "append" or "edit".
        outlives: whether the job may continue without that process.
        base: SHA-256 of the manifest from which the run began; empty if there was none.
        ended: COMMITTED or FAILED once the run has ended, even if its command has not noticed it.
        mistake: value, cause and cure of the mistake of the user's that has ended it.
        refused: whether the same run would end like this again (`RefusedError`).
    """

    token: str
    temp_folder: str = ""
    host: str = ""
    process: int = 0
    started: float = 0.0
    kind: str = "build"
    outlives: bool = False
    base: str = ""
    ended: str = ""
    mistake: tuple[str, str, str] | None = None
    refused: bool = False

    def list_folders(self, folder: Location, output: Location) -> list[OwnFolder]:
        """Return the run's temporary folder, and the one beside its files if that is another.

        There are none where it names no folder of a run's.

        Args:
            folder: of its version.
            output: the folder of the data set.
        """
        name = self.temp_folder.rpartition("/")[2]
        if not re.fullmatch(rf"{TEMPORARY}[0-9a-f]{{32}}", name):
            return []
        places = dict.fromkeys((locate(self.temp_folder), folder / name))
        return [OwnFolder(place, {"output": output.url}) for place in places]


def read_run(folder: Location) -> Run | None:
    """Read what a run says of itself in a folder; None if it says nothing.

    Raises:
        OSError: it may say something, but that cannot be read.
    """
    return _read(folder)[1]


def _read(folder: Location) -> tuple[bytes | None, Run | None]:
    """Read what a run says of itself, and the bytes in which it says so."""
    try:
        content = folder.read(RUN)
        return content, msgspec.json.decode(content, type=Run)
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except msgspec.MsgspecError:
        return content, Run("")


def begin_run(folder: Location, run: Run, over: Run | None = None) -> bool:
    """Say in a folder what a run does, unless another run was faster.

    Args:
        folder: the folder.
        run: the run.
        over: the run that was stopped there, in whose place it is.

    Returns:
        Whether the folder is this run's.
    """
    old, stopped = _read(folder) if over is not None else (None, None)
    return stopped == over and _say(folder, run, old)


def retire_run(folder: Location, run: Run, over: Run | None) -> bool:
    """Say in a folder that nobody goes on with a run, unless somebody has begun to.

    If the run is working after all, it ends. No other run takes the number of its version.

    Args:
        folder: the folder.
        run: the run.
        over: what the folder says of it; None if it says nothing.

    Returns:
        Whether the run is over: it is retired, or its folder is gone.
    """
    with suppress(FileNotFoundError):
        return begin_run(folder, replace(run, token=""), over)
    return True


def _say(folder: Location, run: Run, old: bytes | None) -> bool:
    scratch = _scratch_in(folder, run.temp_folder)
    return (folder / RUN).exchange(msgspec.json.encode(run), old, scratch)


def _scratch_in(folder: Location, temp_folder: str) -> str:
    """Return the folder of a run in that of its version, which has its temporary folder's name."""
    return join_path(folder.url, split_path(temp_folder)[1])


def end_run(folder: Location, token: str, ended: str, mistake: UserError | None = None) -> None:
    """Note that a run has ended; what another run says there stays as it is.

    Args:
        folder: the folder.
        token: the run's token.
        ended: COMMITTED or FAILED.
        mistake: the mistake of the user's that has ended it.
    """
    old, run = _read(folder)
    if run is None or run.token != token or run.ended:
        return
    parts = (mistake.value, mistake.cause, mistake.cure) if mistake else None
    refused = isinstance(mistake, RefusedError)
    _say(folder, replace(run, ended=ended, mistake=parts, refused=refused), old)


class _Pointer(msgspec.Struct):
    """What is read of a manifest to know whose it is."""

    version: int = 0


def current_version(output: Location) -> int:
    """Return the number of the version whose run wrote the manifest in a folder; 0 for none."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(output.read_any(MANIFEST) or b"{}", type=_Pointer).version
    return 0


@dataclass(frozen=True)
class Workplace:
    """Where a run works, and how much its tasks take.

    Attributes:
        temp_folder: folder of its temporary files; every worker must reach it.
        output: folder of its data set; empty for a run that builds none.
        version: number of the version whose folder in it is the run's.
        token: the run's token.
        sizes: how much a task takes.
    """

    temp_folder: str
    output: str = ""
    version: int = 0
    token: str = ""
    sizes: TaskSizes = field(default_factory=TaskSizes)

    @property
    def folder(self) -> Location:
        """The folder of the run's version."""
        return locate(join_path(self.output, f"v{self.version}"))

    @property
    def scratch(self) -> str:
        """A folder of the run beside its files, in which they are written before they get names."""
        return _scratch_in(self.folder, self.temp_folder)

    def final_path(self, name: str) -> str:
        """Return the path of a file by its name in the manifest."""
        return join_path(self.output, name)

    def is_over(self) -> bool:
        """Return whether the run has ended, so that a worker has nothing left to do.

        An engine that loses a machine repeats work of that machine, even if a process there has
        meanwhile finished the data set and removed the temporary files.
        """
        if not self.output:
            return False
        run = read_run(self.folder)
        return run is None or run.token != self.token or bool(run.ended)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """End the run at a mistake of the user's in a block.

        Engines repeat what fails, but this would fail again.
        """
        try:
            yield
        except OutageError:
            raise
        except UserError as error:
            self.give_up(error)
            raise

    def give_up(self, mistake: UserError | None = None) -> None:
        """Note that the run has failed, if that can be noted: a full disk may be the reason.

        Args:
            mistake: the mistake of the user's that has ended it.
        """
        with suppress(OSError, UserError):
            if self.output:
                end_run(self.folder, self.token, FAILED, mistake)

    def has_committed(self) -> bool:
        """Return whether the run's data set is the one in the folder."""
        return current_version(locate(self.output)) == self.version


# An element, and the tag of the collection that it belongs to.
Output = tuple[str, Any]

_ELEMENTS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (ReadRange, LinesFile, Segment, WrittenFile)
}
_PREFIX = "done-"


def _are_intact(outputs: Iterable[Output]) -> bool:
    """Return whether the files that elements name are there and hold what was written."""
    elements = [element for _, element in outputs]
    files = [element for element in elements if isinstance(element, WrittenFile | LinesFile)]
    parts = [part for element in elements for part in getattr(element, "parts", ()) if part.path]
    return are_intact(parts) and all(
        has_digest(file.path, file.bytes, file.sha256) for file in files
    )


class Journal:
    """The entries of a run.

    Args:
        place: where the run works.
    """

    def __init__(self, place: Workplace) -> None:
        self._place, self._unsynced = place, list[str]()

    def once(
        self,
        name: str,
        work: Callable[[], Iterable[Output]],
        is_intact: Callable[[Iterable[Output]], bool] = _are_intact,
    ) -> tuple[list[Output], bool]:
        """Return the outputs of a unit of work, and whether it was finished before.

        There are none if the run is over.

        Args:
            name: name of the unit, such as "task-12".
            work: does the work; called only if it is not finished.
            is_intact: says whether the files that the outputs name hold what was written.
        """
        if self._place.is_over():
            return [], True
        earlier = outputs = self._read_entry(name, is_intact)
        if outputs is None:
            with self._place.at_work():
                outputs = list(work())
                entry = [(tag, type(element).__name__, element) for tag, element in outputs]
                write_file(self._path(name), seal(json.dumps(entry).encode()))
        files = (element for _, element in outputs if isinstance(element, WrittenFile))
        self._unsynced += [file.path for file in files]
        return outputs, earlier is not None

    def sync(self) -> None:
        """Wait until all files are on the disk that units of work have named since the last time.

        Other machines may see them only then, and cannot wait for it.
        """
        names, self._unsynced = self._unsynced, []
        if names and not self._place.is_over():
            locate(self._place.output).sync(names)

    def _path(self, name: str) -> str:
        return join_path(self._place.temp_folder, f"{_PREFIX}{name}.json")

    def _read_entry(
        self, name: str, is_intact: Callable[[Iterable[Output]], bool]
    ) -> list[Output] | None:
        path = self._path(name)
        try:
            with open_file(path) as stream:
                entry = json.loads(unseal(stream.read(), path))
            outputs = [(tag, _decode(kind, value)) for tag, kind, value in entry]
            # A machine that stopped may have kept a file's name, and lost its bytes.
            return outputs if is_intact(outputs) else None
        except (OSError, DamagedFileError):
            return None


def count_finished(paths: Iterable[str]) -> dict[str, int]:
    """Return how many units of each kind are finished by the files in a temporary folder.

    Example:
        {"task": 12, "shard": 3}
    """
    kinds: dict[str, int] = {}
    for path in paths:
        name = split_path(path)[1]
        if name.startswith(_PREFIX):
            kind = name.removeprefix(_PREFIX).removesuffix(".json").split("-", 1)[0]
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def _decode(kind: str, value: Any) -> Any:
    if kind in _ELEMENTS:
        return _ELEMENTS[kind](*value)
    return tuple(value) if kind == "tuple" else value
