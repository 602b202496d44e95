"""How the folder stands that a command writes into, and whether the command may.

A folder is empty, or holds a data set, or the versions of runs that have not finished, or both.
docs/explanation/states-of-a-folder.md lists the states, and what each command does in them.
"""

import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import psutil

from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_entries import VERSION_FOLDER
from corpusmill.dataset.ownership import OwnFiles
from corpusmill.dataset.shards import RUN, decode_whole
from corpusmill.errors import UserError, option
from corpusmill.location import Location, refuse_special
from transforms.recovery import Run, count_finished, read_run

# What runs do.
BUILD, APPEND, EDIT = "build", "append", "edit"
_DOES = {BUILD: "builds the data set", APPEND: "adds to the data set", EDIT: "removes documents"}


@dataclass(frozen=True)
class Intent:
    """What a command does with the folder that it writes into.

    Attributes:
        kind: BUILD, APPEND or EDIT.
        replaces: whether it may replace a data set in the folder.
        resumes: whether it may continue a run that was stopped.
    """

    kind: str = BUILD
    replaces: bool = False
    resumes: bool = False

    @property
    def changes(self) -> bool:
        """Whether it changes the data set in the folder, which must be there."""
        return self.kind != BUILD

    @property
    def resumable(self) -> bool:
        """Whether it can continue runs at all."""
        return self.kind != EDIT


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
    def has_work(self) -> bool:
        """Whether its temporary folder is there, which is marked as that of a run into this one."""
        temp_folder = self.run.own_folder(self.output)
        return temp_folder is not None and temp_folder.is_there()

    @cached_property
    def finished(self) -> Mapping[str, int]:
        """The units of work that it has finished, as `count_finished`."""
        return count_finished(self.run.temp_folder) if self.has_work else {}

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
        content: of the manifest; None for none.
        manifest: the manifest; None for none.
        unfinished: the runs that have not finished, the youngest last.
        foreign: names of files that are not ours.
        last_version: the highest number of a version; 0 for none.
    """

    output: Location
    temp_location: Location | None
    content: bytes | None
    manifest: Manifest | None
    unfinished: tuple[UnfinishedRun, ...]
    foreign: tuple[str, ...]
    last_version: int

    @property
    def base(self) -> str:
        """The SHA-256 of the manifest; empty if there is none."""
        return sha256(self.content).hexdigest() if self.content is not None else ""

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
        content = output.read_any(MANIFEST)
    except UserError as error:  # of an object store
        raise error.about(option("output", output)) from None
    _refuse_links(output)
    is_ours = content is not None and b'"corpusmill"' in content[:100]
    manifest = decode_whole(content, output) if content is not None and is_ours else None
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
    return Standing(output, temp_location, content, manifest, unfinished, foreign, max(versions))


def _refuse_links(output: Location) -> None:
    """Refuse a folder in which a link is in the place of a file or a folder of a data set."""
    for name in output.list_links():
        top = name.partition("/")[0]
        if re.fullmatch(VERSION_FOLDER, top) or "/" not in name:
            cause = f"{name} is a link there, and nothing is written or removed through links"
            cure = "Put a copy of what it leads to in its place, or move it away"
            raise UserError(str(output), cause, cure)


def check_output(output: Location, temp_location: Location | None, intent: Intent) -> Standing:
    """Refuse an output folder in which a command may not do what it is to do.

    Nothing is changed.

    Args:
        output: the folder.
        temp_location: where temporary folders are made; in the version's folder by default.
        intent: what the command does.

    Raises:
        UserError: the folder is refused.
        NotAFileError: it has something else in the place of a file.
    """
    if not intent.changes:
        _refuse_file("output", output)
    if temp_location:
        _refuse_file("temp_location", temp_location)
    standing = look(output, temp_location)
    for unfinished in standing.unfinished:
        _refuse_alive(unfinished, intent)
    if intent.changes:
        _check_changed(standing, intent)
    else:
        _check_new(standing, intent)
    return standing


def _refuse_alive(unfinished: UnfinishedRun, intent: Intent) -> None:
    """Refuse to write where a run is at work, or may be and the user has not said otherwise."""
    is_alive, output = unfinished.is_alive, unfinished.output
    if is_alive:
        cause = f"a run is at work there {unfinished.who}"
        cure = "Wait for it to end, or choose another folder"
        raise UserError(option("output", output), cause, cure)
    if is_alive is None and not (intent.resumes or intent.replaces):
        cause = f"a run may be at work there {unfinished.who}"
        ways = {BUILD: f"add {option('resume', True)} or {option('replace', True)}"}
        ways[APPEND] = f"add {option('resume', True)}"
        cure = f"Wait for it to end. If it has: {ways.get(intent.kind, 'run its command again')}"
        cure += f", or remove {unfinished.folder}"
        raise UserError(option("output", output), cause, cure)


def _refuse_file(name: str, folder: Location) -> None:
    """Refuse a folder that cannot be made, as a file has its path or that of a folder around it."""
    path = folder.local_path()
    for place in (path, *path.parents) if path else ():
        if place.exists() and not place.is_dir():
            cause = f"{'it' if place == path else place} is a file, and no folder"
            raise UserError(option(name, folder), cause, "Give a new or an empty folder")


def _check_new(standing: Standing, intent: Intent) -> None:
    """Refuse a folder for a new data set."""
    output, stopped, foreign = standing.output, standing.stopped, standing.foreign
    if intent.resumes and standing.manifest and not stopped:
        return
    if foreign:
        flag = option("replace") if intent.replaces else option("resume") * intent.resumes
        raise UserError(
            f"{option('output', output)} {flag}".rstrip(),
            f"it is not empty, and has a file that is not part of a data set ({foreign[0]})",
            "Move that file away, or give a new or an empty folder",
        )
    if stopped and intent.resumes:
        _refuse_other(standing, stopped, intent, f"Start over with {option('replace', True)}")
    elif not intent.replaces and (standing.manifest or (stopped and stopped.finished)):
        raise _in_use(standing)


def _in_use(standing: Standing) -> UserError:
    stopped = standing.stopped
    cause = "it holds a data set" if standing.manifest else "it has an unfinished data set"
    if stopped and stopped.run.mistake:
        # Nobody may have waited for the run to say it.
        cause += f" (its run ended with: {': '.join(stopped.run.mistake[:2])})"
    ways = [f"add {option('replace', True)}"]
    if stopped and stopped.finished:
        ways.insert(0, f"add {option('resume', True)}")
    cure = f"Give another folder, or {', or '.join(ways)}"
    return UserError(option("output", standing.output), cause, cure)


def _check_changed(standing: Standing, intent: Intent) -> None:
    """Refuse a folder whose data set is to be changed."""
    output, stopped = standing.output, standing.stopped
    if standing.manifest is None:
        if intent.kind == EDIT:
            return  # reading it says why there is none
        raise UserError(
            f"{option('output', output)} {option('append')}",
            "there is no complete data set to which anything could be added",
            f"Leave {option('append')} out, or build one first",
        )
    if stopped and intent.resumes:
        _refuse_other(standing, stopped, intent, f"Leave {option('resume')} out, which starts over")
    elif stopped and stopped.run.kind != intent.kind and stopped.finished:
        cause = f"a run was stopped that {_DOES[stopped.run.kind]}"
        cure = (
            f"Resume it: its command, with {option('resume', True)}; or, to give up what it has "
            f"finished, remove {stopped.folder}"
        )
        raise UserError(str(output), cause, cure)


def _refuse_other(standing: Standing, stopped: UnfinishedRun, intent: Intent, over: str) -> None:
    """Refuse to resume a run of another kind, or one that began from another data set."""
    run = stopped.run
    if run.token and run.kind != intent.kind:
        cause = f"the stopped run {_DOES[run.kind]}"
        cure = "Run the command again that was stopped"
        if APPEND in {run.kind, intent.kind}:
            wanted = run.kind == APPEND
            cure = f"Add {option('append')}" if wanted else f"Leave {option('append')} out"
        raise UserError(option("resume"), cause, cure)
    if run.base != standing.base:
        cause = "the data set has changed since the stopped run began"
        raise UserError(option("resume"), cause, over)
