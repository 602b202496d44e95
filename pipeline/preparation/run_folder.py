"""The temporary folder of a run, its claim on the output folder, and how a stopped run goes on.

What a run is made of is written to `run.json` in its folder before it works. A run that was stopped
leaves folder and claim; `--resume` finds them, makes sure that nothing that a byte depends on has
changed, and works on in the same folder, where the journal says what is finished.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset.manifest import SUCCESS, Manifest
from corpusmill.dataset.manifest_json import to_json
from corpusmill.errors import UserError
from pipeline.preparation.inputs import InputFile, absolute, is_local, read_bytes
from pipeline.preparation.output import make_temporary_folder, remove_empty_folders
from transforms.recovery.claim import Claim, drop_claim, read_claim, take_claim
from transforms.recovery.journal import count_finished
from transforms.storage.files import create_file, file_exists, remove_folder

_RECORD = "run.json"


@dataclass
class RunFolder:
    """The folder of one run.

    Attributes:
        path: of the folder, as workers open it.
        output: the folder that it writes into, absolute; empty for a run that writes no data set.
        stopped: the claim of the run before it, which it goes on with or replaces.
        earlier: the record of the run that it goes on with; None for a new one.
        made: folders that were made for it.
        token: of its own claim.
        handed_over: whether the job goes on without this process, which then leaves all as it is.
    """

    path: str
    output: str = ""
    stopped: Claim | None = None
    earlier: Mapping[str, Any] | None = None
    made: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: uuid4().hex)
    handed_over: bool = False

    @property
    def record_path(self) -> str:
        """The file of the run's record."""
        return str(FileSystems.join(self.path, _RECORD))

    @property
    def range_bytes(self) -> int | None:
        """Of the run that goes on, whose ranges must be the same."""
        return self.earlier["range_bytes"] if self.earlier else None

    def begin(
        self,
        header: Manifest,
        layout: object,
        range_bytes: int,
        files: Sequence[InputFile],
        stale: Sequence[str],
    ) -> None:
        """Claim the output folder and write the run's record; one that goes on must be as it was.

        Args:
            header: the manifest without its results.
            layout: a dataclass, how the data set is spread.
            range_bytes: longest range.
            files: the input.
            stale: files in the output folder that the commit replaces.

        Raises:
            UserError: something has changed since the run began, or another run has the folder.
        """
        record = {
            "header": to_json(header),
            "layout": asdict(layout),  # type: ignore[call-overload]
            "range_bytes": range_bytes,
            "inputs": {of.name: [of.bytes, of.modified] for of in files},
            "stale": list(stale),
        }
        # What was written and read again compares as it will after a restart.
        content = json.dumps(record, ensure_ascii=False)
        if self.earlier is not None:
            _refuse_changes(self.earlier, json.loads(content))
        over = self.stopped.token if self.stopped else None
        take_claim(self.output, _claim(self.token, self.path), over)
        self._refuse_finished(stale)
        if self.stopped and self.earlier is None:
            remove_folder(self.stopped.temp_folder)
        with create_file(self.record_path) as stream:
            stream.write(content.encode())

    def _refuse_finished(self, stale: Sequence[str]) -> None:
        """Refuse a data set that another run finished between our look at the folder and our claim.

        The claim is given back.
        """
        if SUCCESS not in stale and file_exists(FileSystems.join(self.output, SUCCESS)):
            drop_claim(self.output, self.token)
            raise _too_late(self.output)


@contextmanager
def run_folder(output: str, temp_location: str | None, resume: bool) -> Iterator[RunFolder]:
    """The folder of a run that builds a data set, removed at its end.

    Where the run fails and something in it is finished, folder and claim are kept, and the error
    carries a note of how to go on.

    Args:
        output: folder of the data set.
        temp_location: where the folder is made; in the output folder by default.
        resume: whether to go on with a run that was stopped.

    Raises:
        UserError: no folder can be made.
    """
    folder = _open(output, temp_location, resume)
    try:
        yield folder
    except BaseException as error:
        if isinstance(error, FileNotFoundError) and _is_gone(folder.path):
            # A run that ends removes empty folders, as those of runs that were killed.
            raise _too_late(folder.output) from None
        finished = count_finished(folder.path)
        if not finished:
            _remove(folder)
        else:
            error.add_note(_describe(finished, folder))
        raise
    if not folder.handed_over:
        _remove(folder)


def _is_gone(folder: str) -> bool:
    return is_local(folder) and not Path(folder).exists()


def _too_late(output: str) -> UserError:
    return UserError(
        f"--output {output}",
        "another run has finished a data set there meanwhile",
        "Give another folder, or add --replace",
    )


def is_alive(claim: Claim) -> bool:
    """Whether the process that left a claim is at work on this machine."""
    # A run of this very process has failed, or nobody could ask.
    if claim.host != socket.gethostname() or claim.process == os.getpid():
        return False
    try:
        return bool(abs(psutil.Process(claim.process).create_time() - claim.started) < 1)
    except psutil.Error:
        return False


def refuse_a_living_run(output: str) -> None:
    """Refuse a folder that a run of this machine writes into now.

    Raises:
        UserError: one does.
    """
    try:
        claim = read_claim(absolute(output))
    except UserError as error:  # of an object store
        raise UserError(f"--output {output}", error.cause, error.cure) from None
    if claim is not None and is_alive(claim):
        raise UserError(
            f"--output {output}",
            f"another run (process {claim.process}) writes into this folder",
            "Wait for it, or give another folder",
        )


def _open(output: str, temp_location: str | None, resume: bool) -> RunFolder:
    root = absolute(output)
    claim = read_claim(root)
    if claim is not None and resume:
        content = read_bytes(FileSystems.join(claim.temp_folder, _RECORD))
        # Without a record it was stopped before it had begun.
        with suppress(ValueError):
            return RunFolder(claim.temp_folder, root, claim, json.loads(content or b""))
    made = tuple(
        path
        for path in (root, absolute(temp_location or output))
        if is_local(path) and not Path(path).exists()
    )
    path = make_temporary_folder(output, temp_location)
    if is_local(root):
        Path(root).mkdir(parents=True, exist_ok=True)
    return RunFolder(path, root, claim, made=made)


def _claim(token: str, temp_folder: str) -> Claim:
    process = psutil.Process()
    return Claim(token, temp_folder, socket.gethostname(), process.pid, process.create_time())


def _refuse_changes(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    changes = list(_compare_inputs(earlier["inputs"], now["inputs"]))
    for part in ("header", "layout"):
        changes += _compare(earlier[part], now[part])
    if changes:
        more = f", and {len(changes) - 3} more changes" if len(changes) > 3 else ""
        raise UserError(
            "--resume",
            f"it is not the run that was stopped: {'; '.join(changes[:3])}{more}",
            "Give the same input and options, or begin anew with --replace",
        )


def _compare_inputs(
    earlier: Mapping[str, list[float]], now: Mapping[str, list[float]]
) -> Iterator[str]:
    for name in sorted(earlier.keys() | now.keys()):
        if name not in now:
            yield f"the input {name} is gone"
        elif name not in earlier:
            yield f"the input {name} is new"
        elif earlier[name][0] != now[name][0]:
            yield f"the input {name} had {earlier[name][0]:,} bytes and has {now[name][0]:,}"
        elif earlier[name][1] != now[name][1]:
            yield f"the input {name} was written since"


def _compare(earlier: Any, now: Any, name: str = "") -> list[str]:
    """Where two records differ; the files of a corpus are compared as inputs."""
    if name == "corpus.files":
        return []
    if not (isinstance(earlier, dict) and isinstance(now, dict)):
        return [] if earlier == now else [f"{name} was {earlier} and is {now}"]
    changes: list[str] = []
    for key in sorted(earlier.keys() | now.keys()):
        below = f"{name}.{key}" if name else key
        changes += _compare(earlier.get(key), now.get(key), below)
    return changes


def say_finished(finished: Mapping[str, int]) -> str:
    """Units of work in words.

    Example:
        {"task": 12, "shard": 1} gives "12 tasks and 1 shard".
    """
    return " and ".join(
        f"{number:,} {kind}{'s' if number > 1 else ''}" for kind, number in finished.items()
    )


def _describe(finished: Mapping[str, int], folder: RunFolder) -> str:
    return (
        f"Finished so far: {say_finished(finished)}. The same command with --resume goes on from "
        f"there, one with --replace begins anew; to give up, remove {folder.path}"
    )


def _remove(folder: RunFolder) -> None:
    remove_folder(folder.path)
    drop_claim(folder.output, folder.token)
    remove_empty_folders(folder.output)
    for path in folder.made:
        if Path(path).is_dir() and not any(Path(path).iterdir()):
            Path(path).rmdir()
