"""The run of a command: its claim on the output folder, its temporary folder, and its resumption.

A run first takes the claim, which names the temporary folder, and then makes the folder. Before it
works, it writes to `run.json` in its folder what its output depends on. A run that was stopped
leaves folder and claim; `--resume` finds them, checks that nothing of this has changed, and
continues in the same folder, where the journal lists what is finished.

Only the holder of the claim removes anything. A run that is refused leaves everything as it found
it, the claim of a stopped run included.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from corpusmill.dataset.manifest import SUCCESS, Manifest
from corpusmill.dataset.manifest_json import to_json
from corpusmill.dataset.ownership import remove_remains
from corpusmill.errors import OutageError, UserError, count_things, option
from corpusmill.limits import LIMITS, Limits
from pipeline.folders.changes import refuse_changes
from pipeline.folders.exchange import finish_exchange, remove_leftovers
from pipeline.folders.output import (
    Intent,
    Standing,
    list_stale,
    look,
    new_claim,
    reference_of,
)
from pipeline.folders.temporary_folder import (
    folder_of_run,
    list_missing,
    make_temporary_folder,
    new_folder,
    remove_empty,
)
from pipeline.recipe.inputs import InputFile
from pipeline.runners.failures import JobFailedError
from transforms.recovery import (
    COMMITTED,
    Claim,
    Workplace,
    check_claim,
    count_finished,
    drop_claim,
    read_claim,
    return_claim,
    take_claim,
)
from transforms.storage.checksums import DamagedFileError, seal, unseal
from transforms.storage.file_systems import join_path
from transforms.storage.files import locate, write_file

if TYPE_CHECKING:
    from pipeline.graph import Job

RECORD = "run.json"


@dataclass
class RunFolder:
    """The folder of one run.

    Attributes:
        path: its path, as workers open it.
        output: the absolute path of the output folder; empty for a run that writes no data set.
        stopped: the claim of the stopped run that this one resumes or replaces.
        earlier: the record of the run that this one resumes; None for a new run.
        standing: how the output folder stood when the run began.
        made: folders that were made for the run.
        token: the token of its own claim.
        before: the content of `_SUCCESS` when the run began; empty if there was none.
        outlives: whether the job may continue without this process.
        limits: the thresholds of the run.
        has_begun: whether the run's record is written, so that there may be work to resume.
        handed_over: whether it does, so that this process removes nothing.
        restart: how the run is started over if it fails.
    """

    path: str
    output: str = ""
    stopped: Claim | None = None
    earlier: Mapping[str, Any] | None = None
    standing: Standing | None = None
    made: tuple[Path, ...] = ()
    token: str = field(default_factory=lambda: uuid4().hex)
    before: str = ""
    outlives: bool = False
    limits: Limits = LIMITS
    has_begun: bool = False
    handed_over: bool = False
    restart: str = f"with {option('replace', True)} it starts over"

    @property
    def place(self) -> Workplace:
        """Where the run works."""
        return Workplace(self.path, self.output, self.token, self.outlives, self.limits)

    @property
    def is_committed(self) -> bool:
        """Whether the run has committed its data set.

        Only the run with the claim writes `_SUCCESS`. Its worker may have ended between that and
        the note in the claim.
        """
        claim = read_claim(self.output)
        if claim is None or claim.token != self.token:
            return False
        content = locate(self.output).read_any(SUCCESS)
        has_sealed = (content or b"").decode() not in {"", self.before}
        return claim.ended == COMMITTED or (has_sealed and not reference_of(content))

    @property
    def record_path(self) -> str:
        """The path of the run's record."""
        return join_path(self.path, RECORD)

    @property
    def range_bytes(self) -> int | None:
        """The longest range of the run that is resumed; its ranges must stay the same."""
        return self.earlier["range_bytes"] if self.earlier else None

    @property
    def stale(self) -> Sequence[str]:
        """Names of the files of a whole data set in the folder, which a new one replaces."""
        if self.earlier is not None:
            return list(self.earlier["stale"])
        return list_stale(self.standing) if self.standing else ()

    def begin(
        self, job: "Job", files: Sequence[InputFile], appended_to: Manifest | None = None
    ) -> None:
        """Write the run's record, or compare it if the run is resumed.

        Args:
            job: the job.
            files: the input.
            appended_to: the manifest of the data set to which the job adds; None for none.

        Raises:
            UserError: something has changed since the run began.
        """
        stale = [] if appended_to is not None else self.stale
        record = {
            "header": to_json(job.header),
            "layout": asdict(job.layout),
            "range_bytes": job.range_bytes,
            "limits": self.limits.values(),
            "inputs": {file.name: [file.bytes, file.modified] for file in files},
            "stale": list(stale),
        }
        if appended_to is not None:
            record["appended_to"] = to_json(appended_to)
            record["known_documents"] = "added" if job.held is None else "left out"
            self.restart = f"without {option('resume')} it starts over"
        # Comparisons after a restart are with what JSON makes of the record.
        content = json.dumps(record, ensure_ascii=False)
        if self.earlier is not None:
            refuse_changes(self.earlier, json.loads(content))
        self.write_record(content.encode())

    def write_record(self, record: bytes) -> None:
        """Remove what a stopped run has left that is not resumed, and write the run's own record.

        Args:
            record: what the run is, for those who resume it.
        """
        check_claim(self.output, self.token)
        if self.earlier is None and self.standing is not None:
            remove_leftovers(self.standing)
        self.has_begun = True
        write_file(self.record_path, seal(record))
        # Planning may have taken a while.
        self.place.give_sign()

    def check_committed(self) -> None:
        """Check that a job that has ended has committed its data set.

        Raises:
            UserError: a mistake of the user's has ended it, or another run has taken the folder.
            JobFailedError: it has not.
        """
        check_claim(self.output, self.token)
        if self.is_committed:
            return
        claim = read_claim(self.output)
        if claim and claim.mistake:
            raise UserError(*claim.mistake)
        raise JobFailedError(
            "the job ended before it had finished the data set. If its workers are on other "
            f"machines, check that they see the files in {self.output}"
        )


@contextmanager
def run_folder(
    standing: Standing, intent: Intent, limits: Limits, outlives: bool = False
) -> Iterator[RunFolder]:
    """Claim an output folder, make the folder of the run, and remove both at the end.

    If a run that can be resumed fails after some of its work is finished, folder and claim stay,
    and the error gets a note that says how to resume. After a mistake of the user's, which would be
    made again, and before the run has begun to work, all is as it was.

    Args:
        standing: how the output folder stands, as `check_output` has accepted and `settle` left it.
        intent: what the command does there.
        limits: the thresholds of the run.
        outlives: whether the job may continue without this process.

    Raises:
        UserError: no folder can be made, or another run has the output folder.
    """
    folder = _claim(standing, intent, outlives)
    folder.limits = limits
    try:
        _open(folder, standing, intent)
        yield folder
    except BaseException as error:
        if isinstance(error, OutageError) and folder.has_begun and intent.resumable:
            # The store would be waited for once more. Folder and claim stay, as after a kill.
            error.add_note(f"The same command with {option('resume', True)} continues")
        else:
            with suppress(OutageError):  # of another store than the one that the error is about
                _leave(folder, intent, error)
        raise
    if not folder.handed_over:
        _finish(folder)


def settle(standing: Standing, kind: str) -> Standing:
    """Finish what a stopped run has begun in a folder, if readers see it already.

    Args:
        standing: how the folder stands.
        kind: what the command does that finishes it, as `Claim` has it.

    Returns:
        How the folder stands then.

    Raises:
        UserError: the data set is damaged, or another run has the folder.
    """
    if not standing.has_revealed:
        return standing
    output, stopped, token = standing.output, standing.claim, uuid4().hex
    # The claim says nothing of a data set before, so that what readers see counts as revealed.
    claim = new_claim(token, stopped.temp_folder if stopped else "", kind)
    take_claim(output.url, claim, stopped.token if stopped else None)
    finish_exchange(standing)
    drop_claim(output.url, token)
    return look(output, standing.temp_location)


def _claim(standing: Standing, intent: Intent, outlives: bool) -> RunFolder:
    """Take the claim on an output folder."""
    output, stopped = standing.output, standing.claim
    root = output.local_path()
    places = (output, standing.temp_location or output)
    made = tuple(path for place in places for path in list_missing(place))
    earlier = _read_earlier(standing) if intent.resumes else None
    path = new_folder(output, standing.temp_location)
    before = (standing.seal or b"").decode(errors="replace")
    if stopped is not None and earlier is not None:
        path, before = stopped.temp_folder, stopped.before
    folder = RunFolder(path, output.url, stopped, earlier, standing, made, before=before)
    folder.outlives = outlives
    claim = new_claim(folder.token, path, intent.kind)
    claim = replace(claim, outlives=outlives, before=before)
    try:
        if root:
            root.mkdir(parents=True, exist_ok=True)
        take_claim(output.url, claim, stopped.token if stopped else None)
    except OSError as error:
        remove_empty(folder.made)
        cause = f"no folder can be made there ({error.strerror})"
        cure = "Give a folder you can write to"
        raise UserError(option("output", output), cause, cure) from None
    except UserError as error:  # another run was faster, or a store refuses
        remove_empty(folder.made)
        raise error.about(option("output", output)) from None
    return folder


def _open(folder: RunFolder, standing: Standing, intent: Intent) -> None:
    """Make the run's folder, in an output folder that is as it was before the claim."""
    output = standing.output
    if output.read_any(SUCCESS) != standing.seal:
        if intent.changes:
            cause = "another run has meanwhile changed the data set"
            raise UserError(str(output), cause, "Run the command again")
        raise UserError(
            option("output", output),
            "another run has meanwhile finished a data set there",
            f"Give another folder, or add {option('replace', True)}",
        )
    if folder.earlier is None:
        own = folder_of_run(locate(folder.path), output)
        make_temporary_folder(own, output, standing.temp_location)


def _read_earlier(standing: Standing) -> Mapping[str, Any] | None:
    """Read the record of the run that is to be resumed; None if it was stopped before it began."""
    if standing.claim is None or not standing.has_work:
        return None
    record = join_path(standing.claim.temp_folder, RECORD)
    content = locate(record).read_any()
    # A damaged record cannot be compared.
    with suppress(DamagedFileError):
        if content is not None:
            earlier: Mapping[str, Any] = json.loads(unseal(content, record))
            return earlier
    return None


def _leave(folder: RunFolder, intent: Intent, error: BaseException) -> None:
    """Leave an output folder after an error."""
    claim, place = read_claim(folder.output), locate(folder.path)
    if claim is None or claim.token != folder.token:
        # All else belongs to another run, and so does this folder, if it has taken it.
        if claim is None or claim.temp_folder != folder.path:
            folder_of_run(place, locate(folder.output)).discard()
            remove_remains(place)
        return
    if isinstance(error, KeyboardInterrupt) and not error.args:
        whole, none = "the data set is complete", "no file of the data set was published"
        error.args = (whole if folder.is_committed else none,)
    if not folder.has_begun and folder.stopped is not None:
        if folder.earlier is None:
            folder_of_run(place, locate(folder.output)).discard()
        return_claim(folder.output, folder.token, folder.stopped)
        remove_empty(folder.made)
        return
    finished = count_finished(folder.path) if intent.resumable and folder.has_begun else {}
    # What the data is stands against the run, so that it would be refused again.
    is_refused = claim.refused or (intent.changes and claim.mistake is not None)
    if not finished or is_refused or folder.is_committed:
        _finish(folder)
        return
    # What an engine that is out of reach still does ends by this.
    folder.place.give_up()
    command = "The same command" if claim.mistake is None else "Once that is changed, the command"
    error.add_note(describe_finished(finished, folder.path, command, f", {folder.restart}"))


def _finish(folder: RunFolder) -> None:
    """Remove what belongs to a run, its folder and its claim last."""
    output = locate(folder.output)
    standing = look(output, folder.standing.temp_location if folder.standing else None)
    if standing.has_revealed:
        finish_exchange(standing)
    else:
        remove_leftovers(standing)
    if folder.stopped is not None and folder.standing is not None and not folder.has_begun:
        remove_leftovers(folder.standing)
    drop_claim(folder.output, folder.token)
    remove_empty(folder.made)


def name_units(finished: Mapping[str, int]) -> str:
    """Put units of work into words.

    Example:
        {"task": 12, "shard": 1} gives "12 tasks and 1 shard".
    """
    return " and ".join(count_things(number, kind) for kind, number in finished.items())


def describe_finished(
    finished: Mapping[str, int], folder: str, command: str = "The same command", further: str = ""
) -> str:
    """Say what a stopped run has finished, and how to go on.

    Args:
        finished: units of work, as `count_finished` returns them.
        folder: the temporary folder of the run.
        command: what goes on.
        further: another way to go on, after a comma.
    """
    return (
        f"Finished so far: {name_units(finished)}. {command} with "
        f"{option('resume', True)} continues from "
        f"there{further}; to give up, remove {folder}"
    )
