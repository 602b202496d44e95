"""How the folder stands that a command writes into, and which runs have not finished there.

A folder is empty, or holds a data set, or the versions of runs that have not finished, or both.
"""

import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import psutil

from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_entries import VERSION_FOLDER
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.ownership import OwnFiles, OwnFolder
from corpusmill.dataset.shards import RUN
from corpusmill.errors import UserError, option
from corpusmill.location import Location, refuse_special
from transforms.recovery import Run, count_finished, read_run

_IN_DATA_SET = re.compile(rf"{VERSION_FOLDER}(/|\Z)")
# What runs do.
BUILD, APPEND, EDIT = "build", "append", "edit"


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that has not made its version the data set.

    Attributes:
        number: of its version.
        run: what it says of itself.
        folder: of its version.
        output: the folder of the data set.
    """

    number: int
    run: Run
    folder: Location
    output: Location

    @cached_property
    def temporary_folders(self) -> Sequence[OwnFolder]:
        """Its temporary folders, whether they are there or not."""
        return self.run.list_folders(self.folder, self.output)

    @property
    def has_work(self) -> bool:
        """Whether its temporary folder is there, which is marked as that of a run into this one."""
        return bool(self.temporary_folders) and self.temporary_folders[0].is_there()

    @property
    def finished(self) -> Mapping[str, int]:
        """The units of work that it has finished, as `count_finished`."""
        return count_finished(self.temporary_folders[0].place.list()) if self.has_work else {}

    @property
    def is_alive(self) -> bool | None:
        """Whether it is running; None where that is not known, as on another machine.

        A wrong answer costs work, and no data.
        """
        run, is_held = self.run, is_folder_held(self.folder)
        if run.ended or not run.token:
            return False
        is_gone = run.host == socket.gethostname() and not _is_process(run.process)
        if is_held or run.outlives:
            return is_held or None
        return False if is_held is False or is_gone else None

    @property
    def who(self) -> str:
        """Who it is, for messages."""
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.run.started))
        return f"since {since} (process {self.run.process} on {self.run.host})"


def read_unfinished(output: Location, number: int) -> UnfinishedRun:
    """Read what the run of a version says of itself."""
    folder = output / f"v{number}"
    return UnfinishedRun(number, read_run(folder) or Run(""), folder, output)


def describe_process(token: str, temp_folder: str, kind: str = BUILD) -> Run:
    """Return what a run says of itself that this process has started.

    Args:
        token: the run's token.
        temp_folder: its temporary folder.
        kind: what it does.
    """
    process = psutil.Process()
    place = (socket.gethostname(), process.pid, process.create_time())
    return Run(token, temp_folder, *place, kind)


def _is_process(number: int) -> bool:
    """Whether this machine has a process of this number that may be a run, but this one."""
    try:
        status = psutil.Process(number).status()
    except psutil.Error:
        return False
    return number != os.getpid() and status != psutil.STATUS_ZOMBIE


@contextmanager
def hold_folder(folder: Location) -> Iterator[None]:
    """Let others know that this process is alive, as long as the block lasts.

    The system gives the lock back when the process ends, whatever its clock, its name or the names
    of its machine are. A folder that cannot be locked, as in a store, is not.

    Args:
        folder: of the version.
    """
    path, descriptor = folder.local_path(), -1
    if path:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    opened = {descriptor} - {-1}

    def close() -> None:
        if opened:
            os.close(opened.pop())

    # A worker that outlives its command for a moment would hold the folder.
    os.register_at_fork(after_in_child=close)
    try:
        yield
    finally:
        close()


def is_folder_held(folder: Location) -> bool | None:
    """Return whether a process holds a folder; None where that is not known."""
    path = folder.local_path()
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the file system has no such locks
        return None
    finally:
        os.close(descriptor)
    return False


@dataclass(frozen=True)
class Standing:
    """How a folder stands.

    Attributes:
        output: the folder.
        temp_location: where temporary folders are made; in the version's folder by default.
        base: the SHA-256 of the manifest; empty if there is none.
        manifest: the manifest; None for none.
        own: the files that are ours.
        unfinished: the runs that have not finished, the youngest last.
        foreign: names of files that are not ours.
        last_version: the highest number of a version; 0 for none.
    """

    output: Location
    temp_location: Location | None
    base: str
    manifest: Manifest | None
    own: OwnFiles
    unfinished: tuple[UnfinishedRun, ...]
    foreign: tuple[str, ...]
    last_version: int

    @property
    def stopped(self) -> UnfinishedRun | None:
        """The youngest of the runs that were stopped; None for none."""
        return self.unfinished[-1] if self.unfinished else None


def look(output: Location, temp_location: Location | None) -> Standing:
    """Read how a folder stands.

    Args:
        output: the folder.
        temp_location: where temporary folders are made; in the version's folder by default.

    Raises:
        UserError: the folder cannot be read, is the root of a file system, or has links in it; or
            its manifest is damaged, or of another version of corpusmill.
        NotAFileError: it has something else in the place of a file.
    """
    if not output.url.strip("/"):
        cause = "it is the folder that holds everything on this machine"
        raise UserError(option("output", output), cause, "Name a folder in it")
    try:
        listed = output.list()
        for path in map(output.local_path, listed):
            if path:
                refuse_special(path)
        content, links = output.read_any(MANIFEST), output.list_links()
    except UserError as error:  # of an object store
        raise error.about(option("output", output)) from None
    # In the place of a file or a folder of a data set.
    own_links = (name for name in links if _IN_DATA_SET.match(name) or "/" not in name)
    if link := next(own_links, ""):
        cause = f"{link} is a link there, and nothing is written or removed through links"
        cure = "Put a copy of what it leads to in its place, or move it away"
        raise UserError(str(output), cause, cure)
    is_ours = content is not None and b'"corpusmill"' in content[:100]
    manifest = decode(content, str(output)) if content is not None and is_ours else None
    own = OwnFiles.find(output, listed, manifest)
    current = manifest.version if manifest else 0
    unfinished = tuple(
        read_unfinished(output, number)
        for number, names in sorted(own.versions.items())
        if number != current and f"v{number}/{RUN}" in names
    )
    files = (int(name[1:]) for name in listed if re.fullmatch(VERSION_FOLDER, name))
    versions = {current, *own.versions, *files}
    foreign = tuple(sorted(listed.keys() - own.names))
    return Standing(
        output, temp_location, digest(content), manifest, own, unfinished, foreign, max(versions)
    )


def digest(content: bytes | None) -> str:
    """Return the SHA-256 of a manifest; empty if there is none."""
    return sha256(content).hexdigest() if content is not None else ""
