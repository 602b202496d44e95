"""The temporary folder of a run, its claim on the output folder, and the resumption of a run.

A temporary folder carries a mark, without which no folder is ever removed. Before a run works, it
writes to `run.json` in its folder what its output depends on. A run that was stopped leaves folder
and claim; `--resume` finds them, checks that nothing of this has changed, and continues in the same
folder, where the journal lists what is finished.
"""

import hashlib
import json
import re
import shutil
import socket
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psutil

from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Manifest
from corpusmill.dataset.manifest_json import decode, to_json
from corpusmill.errors import UserError, option
from corpusmill.location import TEMPORARY, Location, scheme_of
from pipeline.folders.changes import refuse_changes
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
    take_claim,
)
from transforms.storage.checksums import DamagedFileError, seal, unseal
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import file_exists, locate, remove_folder, write_file

# Says into which output folder a run writes.
_MARK = "corpusmill-run.json"
_NAME = re.compile(rf"{TEMPORARY}[0-9a-f]{{32}}")


def make_temporary_folder(output: Location, temp_location: Location | None, name: str = "") -> str:
    """Make a new folder for one run, in the output folder or another one.

    Args:
        output: the output folder.
        temp_location: the other one.
        name: of the new folder; by default no other run has the same.

    Raises:
        UserError: it cannot be made.
    """
    name = name or f"{TEMPORARY}{uuid4().hex}"
    folder = (temp_location or output) / name
    flag = option("temp_location", temp_location) if temp_location else option("output", output)
    path = folder.local_path()
    made = [above for above in (path.parents if path else ()) if not above.exists()]
    try:
        if path:
            path.mkdir(parents=True)
        # A store has no folders; only a write shows whether one may write there.
        write_file((folder / _MARK).url, json.dumps({"output": output.url}).encode())
    except OSError as error:
        remove_folder(folder.url)
        with suppress(OSError):
            for above in made:
                above.rmdir()
        raise UserError(
            flag, f"no folder can be made there ({error})", "Give a folder you can write to"
        ) from None
    except UserError as error:
        raise UserError(flag, *error.args[1:]) from None
    return folder.url


def is_folder_of_run(folder: str, output: Location, temp_location: Location | None) -> bool:
    """Return whether a run into an output folder has made this temporary folder.

    Args:
        folder: the temporary folder, as a claim names it.
        output: the output folder.
        temp_location: where temporary folders are made; in the output folder by default.
    """
    if not is_place_of_run(folder, output, temp_location):
        return False
    mark = locate(folder).read_any(_MARK)
    try:
        return bool(json.loads(mark or b"")["output"] == output.url)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def is_place_of_run(folder: str, output: Location, temp_location: Location | None) -> bool:
    """Return whether a run into an output folder would make this temporary folder.

    The arguments are those of `is_folder_of_run`.
    """
    parent, name = split_path(folder) if folder else ("", "")
    return bool(_NAME.fullmatch(name)) and parent in {output.url, (temp_location or output).url}


def is_removed(folder: str, output: Location, temp_location: Location | None) -> bool:
    """Return whether a run into an output folder has no temporary folder any more.

    The arguments are those of `is_folder_of_run`.
    """
    is_ours = is_place_of_run(folder, output, temp_location)
    return is_ours and locate(folder).read_any(_MARK) is None


def find_temporary_folders(names: Collection[str]) -> dict[str, int]:
    """Find the temporary folders of runs among the names of all files below an output folder.

    Returns:
        {folder: number of its files besides the mark}, where 0 means that the run has not begun to
        work.
    """
    marked = (name.removesuffix(f"/{_MARK}") for name in names if name.endswith(f"/{_MARK}"))
    files = Counter(name.split("/")[0] for name in names)
    return {folder: files[folder] - 1 for folder in marked if _NAME.fullmatch(folder)}


@contextmanager
def temporary_folder(output: Location, temp_location: Location | None) -> Iterator[str]:
    """Make a folder for a run that writes no data set, and remove it at the end of the block.

    Raises:
        UserError: it cannot be made.
    """
    parent = (temp_location or output).local_path()
    is_new = parent is not None and not parent.exists()
    folder = make_temporary_folder(output, temp_location)
    try:
        yield folder
    finally:
        remove_folder(folder)
        remove_empty_folders(output)
        if parent and is_new and not any(parent.iterdir()):
            parent.rmdir()


def remove_empty_folders(output: Location) -> None:
    """Remove temporary folders of earlier runs that have no files left, as after --replace."""
    root = output.local_path()
    for folder in root.glob(f"{TEMPORARY}*") if root else ():
        files = (path for path in folder.rglob("*") if path.is_file())
        if _NAME.fullmatch(folder.name) and all(path == folder / _MARK for path in files):
            shutil.rmtree(folder)


@contextmanager
def resumable_folder(
    output: Location, temp_location: Location | None, identity: object, resume: bool
) -> Iterator[str]:
    """Make a folder for a run, and remove it at the end.

    Its name holds a digest of all that the result depends on, so that a stopped run is found again
    by the same input and options alone. If the run fails after some of its work is finished, the
    folder stays, and the error gets a note that says how to resume.

    Args:
        output: the file that the run writes.
        temp_location: where the folder is made; beside the file by default.
        identity: all that the file depends on, as JSON can hold it.
        resume: whether to resume a run that was stopped.

    Raises:
        UserError: the run was stopped or is at work and is not to be resumed, or there is none.
    """
    parent = locate(split_path(output.url)[0])
    content = json.dumps([output.url, identity], sort_keys=True)
    name = TEMPORARY + hashlib.sha256(content.encode()).hexdigest()[:32]
    path = ((temp_location or parent) / name).url
    exists = is_folder_of_run(path, parent, temp_location)
    if resume and not exists:
        cause = "no run with this input and these options was stopped there"
        raise UserError(
            f"{option('output', output)} {option('resume')}", cause, f"Leave {option('resume')} out"
        )
    if exists and not resume:
        cause = f"a run with this input and these options was stopped, or works in {path}"
        cure = f"Add {option('resume', True)} to continue it, or remove that folder"
        raise UserError(option("output", output), cause, cure)
    if not exists:
        make_temporary_folder(parent, temp_location, name)
    try:
        yield path
    except BaseException as error:
        finished = count_finished(path)
        if finished:
            error.add_note(describe_finished(finished, path))
        else:
            remove_folder(path)
        raise
    remove_folder(path)
    remove_empty_folders(parent)


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
        replaced: the temporary folder of the stopped run that this one replaces; empty for none.
        made: folders that were made for the run.
        token: the token of its own claim.
        earlier_seal: the content of `_SUCCESS` when the run began; None if there was none.
        outlives: whether the job may continue without this process.
        handed_over: whether it does, so that this process removes nothing.
        restart: how the run is started over if it fails.
    """

    path: str
    output: str = ""
    stopped: Claim | None = None
    earlier: Mapping[str, Any] | None = None
    replaced: str = ""
    made: tuple[Path, ...] = ()
    token: str = field(default_factory=lambda: uuid4().hex)
    earlier_seal: bytes | None = None
    outlives: bool = False
    handed_over: bool = False
    restart: str = f"with {option('replace', True)} it starts over"

    @property
    def place(self) -> Workplace:
        """Where the run works."""
        return Workplace(self.path, self.output, self.token, self.outlives)

    @property
    def is_committed(self) -> bool:
        """Whether the run has committed its data set.

        Only the run with the claim writes `_SUCCESS`. Its worker may have ended between that and
        the note in the claim.
        """
        claim = read_claim(self.output)
        if claim is None or claim.token != self.token:
            return False
        seal = locate(self.output).read_any(SUCCESS)
        has_sealed = seal not in {None, self.earlier_seal} and b" " not in (seal or b"").strip()
        return claim.ended == COMMITTED or has_sealed

    @property
    def record_path(self) -> str:
        """The path of the run's record."""
        return join_path(self.path, RECORD)

    @property
    def range_bytes(self) -> int | None:
        """The longest range of the run that is resumed; its ranges must stay the same."""
        return self.earlier["range_bytes"] if self.earlier else None

    def begin(
        self,
        job: "Job",
        files: Sequence[InputFile],
        stale: Sequence[str],
        appended_to: Manifest | None = None,
    ) -> None:
        """Claim the output folder and write the run's record, or compare it if the run is resumed.

        Args:
            job: the job.
            files: the input.
            stale: files in the output folder that the commit replaces.
            appended_to: the manifest of the data set to which the job adds; None for none.

        Raises:
            UserError: something has changed since the run began, or another run has the folder.
        """
        record = {
            "header": to_json(job.header),
            "layout": asdict(job.layout),
            "range_bytes": job.range_bytes,
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
        self.claim(content.encode(), stale, appended_to)

    def claim(self, record: bytes, stale: Sequence[str], changed: Manifest | None = None) -> None:
        """Claim the output folder, and write the run's record.

        Args:
            record: what the run is, for those who resume it.
            stale: files in the output folder that the commit replaces.
            changed: the manifest of the data set that the run changes; None for none.

        Raises:
            UserError: another run has the folder, or has changed what is in it.
        """
        over = self.stopped.token if self.stopped else None
        process = psutil.Process()
        place = (socket.gethostname(), process.pid, process.create_time())
        take_claim(self.output, Claim(self.token, self.path, *place, self.outlives), over)
        self.earlier_seal = locate(self.output).read_any(SUCCESS)
        if changed is None:
            self._refuse_finished(stale)
        elif self.earlier is None:
            self._refuse_other(changed)
        if self.replaced:
            remove_folder(self.replaced)
        write_file(self.record_path, seal(record))
        if self.outlives:
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

    def _refuse_finished(self, stale: Sequence[str]) -> None:
        """Refuse, and give the claim back, if another run finished a data set before our claim."""
        if SUCCESS not in stale and file_exists(join_path(self.output, SUCCESS)):
            drop_claim(self.output, self.token)
            raise _too_late(self.output)

    def _refuse_other(self, manifest: Manifest) -> None:
        """Refuse, and give the claim back, if another run changed the data set before our claim."""
        content = locate(self.output).read_any(MANIFEST)
        if content is None or decode(content, self.output) != manifest:
            drop_claim(self.output, self.token)
            cause = "another run has meanwhile changed the data set"
            raise UserError(self.output, cause, "Run the command again")


@contextmanager
def run_folder(
    output: Location,
    temp_location: Location | None,
    resume: bool,
    outlives: bool = False,
    resumable: bool = True,
) -> Iterator[RunFolder]:
    """Make the folder of a run that builds a data set, and remove it at the end.

    If a run that can be resumed fails after some of its work is finished, folder and claim stay,
    and the error gets a note that says how to resume.

    Args:
        output: the folder of the data set.
        temp_location: where the folder is made; in the output folder by default.
        resume: whether to resume a run that was stopped.
        outlives: whether the job may continue without this process.
        resumable: whether a run that fails can be resumed.

    Raises:
        UserError: no folder can be made.
    """
    folder = _open_run_folder(output, temp_location, resume)
    folder.outlives = outlives
    try:
        yield folder
    except BaseException as error:
        if isinstance(error, FileNotFoundError) and _is_gone(folder.path):
            # A run that ends removes the empty folders of others, such as runs that were killed.
            raise _too_late(folder.output) from None
        if isinstance(error, KeyboardInterrupt) and not error.args:
            whole, none = "the data set is complete", "no file of the data set was published"
            error.args = (whole if folder.is_committed else none,)
        finished = count_finished(folder.path) if resumable else {}
        if not finished or folder.is_committed:
            _remove(folder, output)
        else:
            # What an engine that is out of reach still does ends by this.
            folder.place.give_up()
            error.add_note(describe_finished(finished, folder.path, f", {folder.restart}"))
        raise
    if not folder.handed_over:
        _remove(folder, output)


def _is_gone(folder: str) -> bool:
    return scheme_of(folder) is None and not Path(folder).exists()


def _too_late(output: str) -> UserError:
    return UserError(
        option("output", output),
        "another run has meanwhile finished a data set there",
        f"Give another folder, or add {option('replace', True)}",
    )


def _open_run_folder(output: Location, temp_location: Location | None, resume: bool) -> RunFolder:
    claim = read_claim(output.url)
    replaced = ""
    # A claim may come from anywhere: what it names is only touched if a run has made it.
    if claim is not None and is_folder_of_run(claim.temp_folder, output, temp_location):
        record = join_path(claim.temp_folder, RECORD)
        content = locate(record).read_any() if resume else None
        # A run without a record was stopped before it began; a damaged one cannot be compared.
        with suppress(DamagedFileError):
            if content is not None:
                earlier = json.loads(unseal(content, record))
                return RunFolder(claim.temp_folder, output.url, claim, earlier)
        replaced = claim.temp_folder
    root, temp_root = output.local_path(), (temp_location or output).local_path()
    made = tuple(path for path in (root, temp_root) if path and not path.exists())
    folder = make_temporary_folder(output, temp_location)
    if root:
        root.mkdir(parents=True, exist_ok=True)
    return RunFolder(folder, output.url, claim, replaced=replaced, made=made)


def name_units(finished: Mapping[str, int]) -> str:
    """Put units of work into words.

    Example:
        {"task": 12, "shard": 1} gives "12 tasks and 1 shard".
    """
    return " and ".join(
        f"{number:,} {kind}{'s' if number > 1 else ''}" for kind, number in finished.items()
    )


def describe_finished(finished: Mapping[str, int], folder: str, further: str = "") -> str:
    """Say what a stopped run has finished, and how to go on.

    Args:
        finished: units of work, as `count_finished` returns them.
        folder: the temporary folder of the run.
        further: another way to go on, after a comma.
    """
    return (
        f"Finished so far: {name_units(finished)}. The same command with "
        f"{option('resume', True)} continues from "
        f"there{further}; to give up, remove {folder}"
    )


def _remove(folder: RunFolder, output: Location) -> None:
    remove_folder(folder.path)
    drop_claim(folder.output, folder.token)
    remove_empty_folders(output)
    for path in folder.made:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
