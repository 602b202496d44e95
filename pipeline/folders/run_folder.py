"""The run of a command: the folder of its version, its temporary folder, and its resumption.

A run first says in the folder of a new version what it does, and then makes its temporary folder.
Before it works, it writes to `run.json` there what its output depends on, and to the record of the
version which files it will write. A run that was stopped leaves all of it; `--resume` checks that
nothing of what its output depends on has changed, and continues in the same folders, where the
journal lists what is finished.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_json import decode, to_json
from corpusmill.dataset.ownership import OwnFolder, read_record, remove_version, write_record
from corpusmill.errors import OutageError, UserError, count_things, option
from corpusmill.location import TEMPORARY, Location
from pipeline.folders.changes import refuse_changes
from pipeline.folders.standing import (
    Intent,
    Standing,
    UnfinishedRun,
    describe_process,
    hold_folder,
    read_unfinished,
)
from pipeline.runners.engine import Submitted
from pipeline.runners.failures import JobFailedError
from transforms.commit.pointer import digest, tidy
from transforms.recovery import (
    FAILED,
    Run,
    Workplace,
    begin_run,
    end_run,
    read_run,
    retire_run,
)
from transforms.storage.checksums import DamagedFileError, seal, unseal
from transforms.storage.file_systems import join_path
from transforms.storage.files import write_file
from transforms.task_sizes import TaskSizes

if TYPE_CHECKING:
    from pipeline.graph import Job
    from pipeline.recipe.inputs import InputFile

RECORD = "run.json"


@dataclass
class RunFolder:
    """The folders of one run.

    Attributes:
        own: the run, which has not finished.
        standing: how the output folder stood when the run began.
        sizes: how much a task takes.
        earlier: the record of the run that this one resumes; None for a new run.
        record: names of the files that it writes, in the folder of its version.
        has_begun: whether the run's record is written, so that there may be work to resume.
        handed_over: whether the job continues without this process, which then removes nothing.
        restart: how the run is started over if it fails.
    """

    own: UnfinishedRun
    standing: Standing
    sizes: TaskSizes
    earlier: Mapping[str, Any] | None = None
    record: Sequence[str] = ()
    has_begun: bool = False
    handed_over: bool = False
    restart: str = f"with {option('replace', True)} it starts over"

    @property
    def path(self) -> str:
        """The path of its temporary folder, as workers open it."""
        return self.own.run.temp_folder

    @property
    def place(self) -> Workplace:
        """Where the run works."""
        own, token = self.own, self.own.run.token
        return Workplace(self.path, own.output.url, own.number, token, self.sizes)

    @property
    def is_committed(self) -> bool:
        """Whether the run has committed its data set."""
        return self.place.has_committed()

    @property
    def range_bytes(self) -> int | None:
        """The longest range of the run that is resumed; its ranges must stay the same."""
        return self.earlier["range_bytes"] if self.earlier else None

    def begin(
        self,
        job: "Job",
        files: "Sequence[InputFile]",
        appended_to: Manifest | None = None,
    ) -> None:
        """Write the run's record, or compare it if the run is resumed.

        Args:
            job: the job.
            files: the input.
            appended_to: the manifest of the data set to which the job adds; None for none.

        Raises:
            UserError: something has changed since the run began.
        """
        record = {
            "header": to_json(job.header),
            "layout": asdict(job.layout),
            "range_bytes": job.range_bytes,
            "task_sizes": asdict(self.sizes),
            "inputs": {file.name: [file.bytes, file.modified] for file in files},
        }
        if appended_to is not None:
            record["appended_to"] = to_json(appended_to)
            record["known_documents"] = "added" if job.held is None else "left out"
            self.restart = f"without {option('resume')} it starts over"
        # Comparisons after a restart are with what JSON makes of the record.
        content = json.dumps(record, ensure_ascii=False)
        if self.earlier is not None:
            refuse_changes(self.earlier, json.loads(content))
        self.begin_work(job.names.list_all(job.output_options.output_format))
        write_file(record_path(self.place), seal(content.encode()))

    def begin_work(self, names: Iterable[str]) -> None:
        """Retire the stopped runs that are not resumed, and list what will be written.

        Their temporary files are removed. What is in their versions stays until this run has
        committed: one that is working after all may do so first.

        Args:
            names: of the files that the run will write, in the folder of its version.
        """
        for other in self.standing.unfinished:
            # It may have been resumed meanwhile.
            stopped = read_unfinished(other.output, other.number)
            is_other = stopped.number != self.own.number and not stopped.is_alive
            if is_other and retire_run(stopped.folder, stopped.run, stopped.run):
                for temporary in stopped.temporary_folders:
                    temporary.discard()
        self.has_begun, self.record = True, tuple(names)
        write_record(self.own.folder, self.record)

    def submit(self, run: Callable[[Callable[[], bool]], Submitted]) -> Submitted:
        """Run a job that commits the data set, or hand it over.

        Args:
            run: runs the job; it is given what tells whether the data set is committed.

        Raises:
            UserError: a mistake of the user's has ended the job.
            JobFailedError: it ended before it had finished the data set.
        """
        submitted = run(lambda: self.is_committed)
        self.handed_over = not (submitted.done or submitted.dry)
        if submitted.done and not self.is_committed:
            said = read_run(self.own.folder)
            if said and said.mistake:
                raise UserError(*said.mistake)
            raise JobFailedError(
                "the job ended before it had finished the data set. If its workers are on other "
                f"machines, check that they see the files in {self.own.output}"
            )
        return submitted


def record_path(place: Workplace) -> str:
    """Return the path of the record of what a run's output depends on."""
    return join_path(place.temp_folder, RECORD)


@contextmanager
def run_folder(
    standing: Standing, intent: Intent, sizes: TaskSizes, outlives: bool = False
) -> Iterator[RunFolder]:
    """Take the folder of a version, make the folders of the run, and remove these at the end.

    If a run that can be resumed fails after some of its work is finished, all stays, and the error
    gets a note that says how to resume. After a mistake of the user's, which would be made again,
    and before the run has begun to work, all is as it was.

    Args:
        standing: how the output folder stands, as `check_output` has accepted and `settle` left it.
        intent: what the command does there.
        sizes: how much a task takes.
        outlives: whether the job may continue without this process.

    Raises:
        UserError: no folder can be made.
        JobFailedError: another run has meanwhile finished a data set there.
    """
    output = standing.output
    places = (output, standing.temp_location or output)
    made = [path for place in places for path in list_missing(place)]
    with ExitStack() as held:
        own, earlier = _take(standing, intent, outlives, made, held)
        folder = RunFolder(own, standing, sizes, earlier)
        try:
            for temporary in folder.own.temporary_folders:
                if not (folder.earlier is not None and temporary.is_there()):
                    make_temporary_folder(temporary, output, standing.temp_location)
            yield folder
        except BaseException as error:
            if isinstance(error, OutageError) and folder.has_begun and intent.resumable:
                # The store would be waited for once more. All stays, as after a kill.
                error.add_note(f"The same command with {option('resume', True)} continues")
                raise
            with suppress(OutageError):  # of another store than the one that the error is about
                _leave(folder, intent, error)
                remove_empty(made)
            raise
        if not folder.handed_over:
            if folder.is_committed:
                _finish(own)
            else:
                _remove(folder)
            remove_empty(made)


def _take(
    standing: Standing, intent: Intent, outlives: bool, made: list[Path], held: ExitStack
) -> tuple[UnfinishedRun, Mapping[str, Any] | None]:
    """Take the folder of a new version, or that of the run that is resumed, with its record."""
    output, stopped = standing.output, standing.stopped if intent.resumes else None
    earlier = _read_earlier(stopped) if stopped else None
    number = stopped.number if stopped else 0
    run = describe_process(uuid4().hex, "", intent.kind)
    run = replace(run, outlives=outlives, base=standing.base)
    try:
        if stopped and earlier is not None:
            held.enter_context(hold_folder(stopped.folder))
            run = replace(run, temp_folder=stopped.run.temp_folder)
            if not begin_run(stopped.folder, run, stopped.run):
                cause = "another command has just resumed the run"
                raise UserError(option("resume"), cause, "Wait for it to end")
        else:
            for number in count(standing.last_version + 1):  # another run may take a number
                parent = output / f"v{number}"
                temporary = new_folder(standing.temp_location or parent)
                run = replace(run, temp_folder=temporary.url)
                if path := parent.local_path():
                    path.mkdir(parents=True, exist_ok=True)
                    made.insert(0, path)
                # Before it says that it is there, so that nobody takes it for dead.
                held.enter_context(hold_folder(parent))
                if begin_run(parent, run):
                    break
    except OSError as error:
        remove_empty(made)
        cause = f"no folder can be made there ({error.strerror})"
        cure = "Give a folder you can write to"
        raise UserError(option("output", output), cause, cure) from None
    except UserError as error:  # a store refuses
        remove_empty(made)
        raise error.about(option("output", output)) from None
    return UnfinishedRun(number, run, output / f"v{number}", output), earlier


def _read_earlier(stopped: UnfinishedRun) -> Mapping[str, Any] | None:
    """Read the record of the run that is to be resumed; None if it was stopped before it began."""
    folders = stopped.temporary_folders if stopped.has_work else ()
    content = folders[0].place.read_any(RECORD) if folders else None
    try:
        return None if content is None else json.loads(unseal(content, RECORD))
    except DamagedFileError:  # it cannot be compared
        return None


def _leave(folder: RunFolder, intent: Intent, error: BaseException) -> None:
    """Leave an output folder after an error.

    Raises:
        JobFailedError: another run is the cause of the error.
    """
    own, run = folder.own, read_run(folder.own.folder)
    if run is None or run.token != own.run.token:
        raise _lose(folder, run) from None
    is_committed = folder.is_committed
    if not is_committed and digest(own.output.read_any(MANIFEST)) != folder.standing.base:
        _remove(folder)
        cause = f"another run has meanwhile finished a data set in {own.output}"
        raise JobFailedError(f"{cause}: v{own.number}, of this run, is removed") from None
    if isinstance(error, KeyboardInterrupt) and not error.args:
        whole, none = "the data set is complete", "no file of the data set was published"
        error.args = (whole if is_committed else none,)
    if is_committed:
        _finish(own)
        return
    if not folder.has_begun and folder.earlier is not None:
        end_run(own.folder, run.token, FAILED)
        return
    finished = own.finished if intent.resumable and folder.has_begun else {}
    # What the data is stands against the run, so that it would be refused again.
    is_refused = run.refused or (intent.changes and run.mistake is not None)
    if not finished or is_refused:
        _remove(folder)
        return
    # What an engine that is out of reach still does ends by this.
    folder.place.give_up()
    command = "The same command" if run.mistake is None else "Once that is changed, the command"
    error.add_note(describe_finished(finished, str(own.folder), command, f", {folder.restart}"))


def _finish(own: UnfinishedRun) -> None:
    """Finish what a run that has committed its data set has left to do."""
    tidy(own.output)
    # If another run went on in its place and removed them, this one may have written to them since.
    for temporary in own.temporary_folders:
        temporary.discard(was_there=True)


def _lose(folder: RunFolder, run: Run | None) -> JobFailedError:
    """Remove what is left of a run whose folder is another one's, or gone; return its error."""
    own = folder.own
    if run is None and not folder.is_committed:
        _remove(folder)
    elif run is None or not run.token or run.temp_folder != folder.path:
        # In the folder of a run that is not retired another one may go on.
        for temporary in own.temporary_folders:
            temporary.discard(was_there=True)
    if run is None:
        cause = f"another run, or somebody else, has removed or moved {own.folder}"
        return JobFailedError(f"{cause}. Run again where nothing else changes the folder")
    return JobFailedError(f"another run has taken over v{own.number} of {own.output}")


def _remove(folder: RunFolder) -> None:
    """Remove what a run that is given up has made, unless another run continues it."""
    own, run = folder.own, read_run(folder.own.folder)
    is_own = run is None or run.token in {"", own.run.token}
    if not (is_own and retire_run(own.folder, run or own.run, run)):
        return
    folders = [(each, folder.has_begun or each.is_there()) for each in own.temporary_folders]
    for temporary, was_there in folders:
        temporary.discard(was_there)
    content = own.output.read_any(MANIFEST)
    # Its command may not have heard that it has committed, and another one have added to that.
    kept = decode(content, str(own.output)).entries if content is not None else ()
    record = folder.record or read_record(own.folder)
    remove_version(own.output, own.number, record, kept)
    for temporary, was_there in folders:
        if was_there:  # a worker that does not know yet that it is over may still write
            temporary.discard(was_there)


def name_units(finished: Mapping[str, int]) -> str:
    """Put units of work into words.

    Example:
        {"task": 12, "pool": 1, "shard": 1} gives "12 tasks, 1 pool and 1 shard".
    """
    things = [count_things(number, kind) for kind, number in finished.items()]
    return " and ".join(filter(None, [", ".join(things[:-1]), *things[-1:]]))


def describe_finished(
    finished: Mapping[str, int], folder: str, command: str = "The same command", further: str = ""
) -> str:
    """Say what a stopped run has finished, and how to go on.

    Args:
        finished: units of work, as `count_finished` returns them.
        folder: of the run.
        command: what goes on.
        further: another way to go on, after a comma.
    """
    return (
        f"Finished so far: {name_units(finished)}. {command} with "
        f"{option('resume', True)} continues from "
        f"there{further}; to give up, remove {folder}"
    )


def new_folder(parent: Location) -> Location:
    """Return a temporary folder in another one that no other run has."""
    return parent / f"{TEMPORARY}{uuid4().hex}"


def make_temporary_folder(
    folder: OwnFolder, output: Location, temp_location: Location | None
) -> None:
    """Make a folder for one run, in the output folder or another one, unless it exists.

    Args:
        folder: the folder.
        output: the output folder.
        temp_location: the other one.

    Raises:
        UserError: it cannot be made, or something that is not ours is in its place.
    """
    flag = option("temp_location", temp_location) if temp_location else option("output", output)
    made = list_missing(folder.place)[1:]
    try:
        folder.make()
    except FileExistsError:
        if not folder.is_there():
            cause = f"a folder {folder.place} is there, which is not ours"
            raise UserError(flag, cause, "Move it away") from None
    except OSError as error:
        folder.discard()
        remove_empty(made)
        raise UserError(
            flag,
            f"no folder can be made there ({error.strerror})",
            "Give a folder you can write to",
        ) from None
    except UserError as error:
        raise error.about(flag) from None


@contextmanager
def temporary_folder(output: Location, temp_location: Location | None) -> Iterator[str]:
    """Make a folder for a run that writes no data set, and remove it at the end of the block.

    Raises:
        UserError: it cannot be made.
    """
    folder = OwnFolder(new_folder(temp_location or output), {"output": ""})
    with empty_again(temp_location or output):
        make_temporary_folder(folder, output, temp_location)
        try:
            yield folder.place.url
        finally:
            folder.discard()


@contextmanager
def empty_again(folder: Location) -> Iterator[None]:
    """Remove a folder at the end of a block, if the block has made it and left it empty."""
    missing = list_missing(folder)
    try:
        yield
    finally:
        remove_empty(missing)


def list_missing(folder: Location) -> list[Path]:
    """List a folder of this machine and those around it that do not exist, the innermost first."""
    path = folder.local_path()
    return [each for each in (path, *path.parents) if not each.exists()] if path else []


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders that are empty."""
    for folder in folders:
        with suppress(OSError):  # it is not, or was not made
            folder.rmdir()
