"""How the folder stands that a command writes into, and what the command may do there.

A folder is empty, or holds a data set, or the versions of runs that have not finished, or both.
`_REFUSALS` is the table of docs/explanation/states-of-a-folder.md, "What each command does".
"""

import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

import psutil

from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_entries import VERSION_FOLDER
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.ownership import OwnFiles, OwnFolder
from corpusmill.dataset.shards import RUN
from corpusmill.errors import UserError, option
from corpusmill.location import Location, refuse_special
from transforms.commit.pointer import digest, finish
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
        """Whether it can be resumed: its temporary folder is there, with the mark of such a run."""
        return bool(self.run.token and self.temporary_folders) and (
            self.temporary_folders[0].is_there()
        )

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


def check_output(output: Location, temp_location: Location | None, intent: Intent) -> Standing:
    """Refuse an output folder in which a command may not do what it is to do.

    Nothing is changed.

    Args:
        output: the folder.
        temp_location: where temporary folders are made; in the version's folder by default.
        intent: what the command does.

    Returns:
        How the folder stands.

    Raises:
        UserError: the folder is refused.
        NotAFileError: it has something else in the place of a file.
    """
    folders = {"output": None if intent.changes else output, "temp_location": temp_location}
    for name, folder in folders.items():
        path = folder.local_path() if folder else None
        for around in (path, *path.parents) if path else ():
            if around.exists() and not around.is_dir():
                cause = f"{'it' if around == path else around} is a file, and no folder"
                raise UserError(option(name, folder), cause, "Give a new or an empty folder")
    standing = look(output, temp_location)
    refusals = _REFUSALS[intent.kind]
    for state in _list_states(standing):
        if state in refusals and (refusal := refusals[state](standing, intent)):
            raise refusal
    return standing


def settle(standing: Standing) -> Standing:
    """Finish what the run has left to do that wrote the manifest.

    Args:
        standing: how the folder stands.

    Returns:
        How the folder stands then.
    """
    is_changed = standing.manifest is not None and finish(standing.own, standing.manifest)
    return look(standing.output, standing.temp_location) if is_changed else standing


class _State(Enum):
    """What may be true of a folder; several states may be at once."""

    RUN_AT_WORK = auto()
    NO_DATA_SET = auto()
    FILES_OF_OTHERS = auto()
    STOPPED_RUN = auto()
    DATA_SET = auto()


def _list_states(standing: Standing) -> Iterator[_State]:
    """Yield the states of a folder, those first that say most."""
    if any(run.is_alive is not False for run in standing.unfinished):
        yield _State.RUN_AT_WORK
    if standing.manifest is None:
        yield _State.NO_DATA_SET
    if standing.foreign:
        yield _State.FILES_OF_OTHERS
    if standing.stopped:
        yield _State.STOPPED_RUN
    if standing.manifest is not None:
        yield _State.DATA_SET


def _wait(standing: Standing, intent: Intent) -> UserError | None:
    """Refuse to write where a run is at work, or may be and the user has not said otherwise."""
    for run in standing.unfinished:
        is_alive, output = run.is_alive, option("output", standing.output)
        if is_alive:
            cause = f"a run is at work there {run.who}"
            return UserError(output, cause, "Wait for it to end, or choose another folder")
        if is_alive is None and not (intent.resumes or intent.replaces):
            ways = {BUILD: f"add {option('resume', True)} or {option('replace', True)}"}
            ways[APPEND] = f"add {option('resume', True)}"
            way = f"{ways.get(intent.kind, 'run its command again')}, or remove {run.folder}"
            cause = f"a run may be at work there {run.who}"
            return UserError(output, cause, f"Wait for it to end. If it has: {way}")
    return None


def _move_files(standing: Standing, intent: Intent) -> UserError | None:
    """Refuse a folder with files that are not ours, unless nothing is left to do there."""
    if intent.resumes and standing.manifest and not standing.stopped:
        return None
    value = f"{option('output', standing.output)}"
    if intent.replaces or intent.resumes:
        value += f" {option('replace' if intent.replaces else 'resume')}"
    file = standing.foreign[0]
    cause = f"it is not empty, and has a file that is not part of a data set ({file})"
    return UserError(value, cause, "Move that file away, or give a new or an empty folder")


def _need_replace(standing: Standing, intent: Intent) -> UserError | None:
    """Refuse to put a data set in the place of another one, or of finished work."""
    stopped = standing.stopped
    finished = stopped.finished if stopped else {}
    if intent.replaces or intent.resumes or not (standing.manifest or finished):
        return None
    cause = "it holds a data set" if standing.manifest else "it has an unfinished data set"
    if stopped and stopped.run.mistake:
        # Nobody may have waited for the run to say it.
        cause += f" (its run ended with: {': '.join(stopped.run.mistake[:2])})"
    resume = f"add {option('resume', True)}, or " if finished else ""
    cure = f"Give another folder, or {resume}add {option('replace', True)}"
    return UserError(option("output", standing.output), cause, cure)


def _resume_build(standing: Standing, intent: Intent) -> UserError | None:
    """Refuse to lose finished work, or to resume a run that this build cannot continue."""
    if not intent.resumes:
        return _need_replace(standing, intent)
    return _refuse_other(standing, intent, f"Start over with {option('replace', True)}")


def _resume_append(standing: Standing, intent: Intent) -> UserError | None:
    """Refuse to lose another command's finished work, or to resume what cannot be continued."""
    if not intent.resumes:
        return _resume_it(standing, intent)
    return _refuse_other(standing, intent, f"Leave {option('resume')} out, which starts over")


def _resume_it(standing: Standing, intent: Intent) -> UserError | None:
    """Refuse to lose what another command has finished."""
    stopped = standing.stopped
    if stopped is None or stopped.run.kind == intent.kind or not stopped.finished:
        return None
    if standing.manifest is None:  # reading it says so
        return None
    cause = f"a run was stopped that {_DOES[stopped.run.kind]}"
    cure = f"Resume it: its command, with {option('resume', True)}; or, to give up what it has "
    cure += f"finished, remove {stopped.folder}"
    return UserError(str(standing.output), cause, cure)


def _build_first(standing: Standing, _: Intent) -> UserError:
    """Refuse to add to nothing."""
    return UserError(
        f"{option('output', standing.output)} {option('append')}",
        "there is no complete data set to which anything could be added",
        f"Leave {option('append')} out, or build one first",
    )


def _refuse_other(standing: Standing, intent: Intent, over: str) -> UserError | None:
    """Refuse to resume a run of another kind, or one that began from another data set."""
    stopped = standing.stopped
    run = stopped.run if stopped else None
    if run and run.token and run.kind != intent.kind:
        cure = "Run the command again that was stopped"
        if APPEND in {run.kind, intent.kind}:
            wanted = run.kind == APPEND
            cure = f"Add {option('append')}" if wanted else f"Leave {option('append')} out"
        return UserError(option("resume"), f"the stopped run {_DOES[run.kind]}", cure)
    if run and run.base != standing.base:
        cause = "the data set has changed since the stopped run began"
        return UserError(option("resume"), cause, over)
    return None


_Refusal = Callable[[Standing, Intent], UserError | None]
# What a command is told in a state; where nothing stands here, it goes on.
_REFUSALS: Mapping[str, Mapping[_State, _Refusal]] = {
    BUILD: {
        _State.RUN_AT_WORK: _wait,
        _State.FILES_OF_OTHERS: _move_files,
        _State.STOPPED_RUN: _resume_build,
        _State.DATA_SET: _need_replace,
    },
    APPEND: {
        _State.RUN_AT_WORK: _wait,
        _State.NO_DATA_SET: _build_first,
        _State.STOPPED_RUN: _resume_append,
    },
    EDIT: {
        _State.RUN_AT_WORK: _wait,
        _State.STOPPED_RUN: _resume_it,
    },
}
