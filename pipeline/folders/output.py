"""What each command may do in the folder that it writes into, however that stands.

`_REFUSALS` is the table of docs/explanation/states-of-a-folder.md, "What each command does".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from corpusmill.errors import UserError, option
from corpusmill.location import Location
from pipeline.folders.standing import APPEND, BUILD, EDIT, Standing, look

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
