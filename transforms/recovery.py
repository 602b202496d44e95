"""How a run survives faults: its claim on the output folder, its signs of life, and its journal.

A run leaves its *claim* in the output folder before it works, so that of two runs into one folder
only one writes, and the commit continues only while the claim is still its own. In a local folder
and a bucket of Google Cloud Storage or S3 exactly one of two simultaneous runs gets the claim.
Elsewhere the last one keeps it, and the other one notices that when it looks again. The claim also
says how its run has ended. What an engine still does for a run that is over, such as work of a lost
machine that it repeats, ends without doing anything.

A unit of work (a task, a merge, a shard) produces small elements that name files. When it is
finished, they are written to an *entry* of the journal: a file of the unit's own in the run's
temporary folder. Whoever comes later takes the elements of the entry if all of its files still hold
what was written, and does the work otherwise: neither a retried bundle nor a resumed run repeats
finished work.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Any

import msgspec

from corpusmill.dataset.manifest import SUCCESS
from corpusmill.dataset.ownership import remove_named, remove_remains
from corpusmill.errors import OutageError, RefusedError, UserError, option
from corpusmill.limits import LIMITS, Limits
from corpusmill.location import Location
from transforms.elements import Candidates, LinesFile, ReadRange, Segment, WrittenFile
from transforms.storage.checksums import DamagedFileError, are_intact, has_digest, seal, unseal
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import (
    file_exists,
    last_written,
    list_folder,
    locate,
    open_file,
    read_existing,
    write_file,
)

CLAIM = "_RUNNING"

# How a run has ended.
COMMITTED, FAILED = "committed", "failed"


@dataclass(frozen=True)
class Claim:
    """A run's claim on an output folder.

    Attributes:
        token: identifies one start of a run; a resumed run has a new token. Empty if the claim is
            damaged, as after a power failure.
        temp_folder: temporary folder of the run.
        host: machine on which it was started.
        process: number of its process there.
        started: when that process was started, in seconds since 1970, by which it is distinguished
            from a later one with the same number.
        kind: what the run does: "build", "append" or "edit".
        outlives: whether the job may continue without that process.
        before: the content of `_SUCCESS` when the run began; empty if there was none. As only the
            run with the claim writes that file, any other content is this run's.
        ended: COMMITTED or FAILED once the run has ended, even if its command has not noticed it.
        mistake: value, cause and cure of the mistake of the user's that has ended it.
        refused: whether the same run would end like this again (`RefusedError`).
    """

    token: str
    temp_folder: str
    host: str
    process: int
    started: float
    kind: str = "build"
    outlives: bool = False
    before: str = ""
    ended: str = ""
    mistake: tuple[str, str, str] | None = None
    refused: bool = False

    @property
    def is_damaged(self) -> bool:
        """Whether nothing is known of the run."""
        return not self.token


_DAMAGED = Claim("", "", "", 0, 0.0)


def read_claim(output: str) -> Claim | None:
    """Read the claim on a folder; None if there is none.

    Raises:
        OSError: there may be one, but it cannot be read.
    """
    content = read_existing(_path(output))
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=Claim)
    except msgspec.MsgspecError:
        return _DAMAGED


def take_claim(output: str, claim: Claim, over: str | None = None) -> None:
    """Leave a claim on a folder.

    Args:
        output: the folder.
        claim: the claim of this run.
        over: token of the claim that it may replace.

    Raises:
        UserError: another run has a claim.
    """
    content = msgspec.json.encode(claim)
    current = read_claim(output)
    if current is not None and current.token != over:
        raise _refusal(output, current)
    # A claim that exists after all may be this run's own, whose receipt was lost.
    with suppress(FileExistsError):
        (locate(output) / CLAIM).write(content, new=current is None)
    check_claim(output, claim.token)


def return_claim(output: str, token: str, earlier: Claim) -> None:
    """Give the claim of a stopped run back, which this run has taken and not used."""
    check_claim(output, token)
    (locate(output) / CLAIM).write(msgspec.json.encode(earlier))


def check_claim(output: str, token: str) -> None:
    """Check that a folder still belongs to this run.

    Raises:
        UserError: it belongs to another run.
    """
    current = read_claim(output)
    if current is None or current.token != token:
        raise _refusal(output, current)


def end_claim(output: str, token: str, ended: str, mistake: UserError | None = None) -> None:
    """Note in this run's claim that it has ended; the claim of another run stays as it is.

    Args:
        output: the folder.
        token: the token of this run's claim.
        ended: COMMITTED or FAILED.
        mistake: the mistake of the user's that has ended it.
    """
    current = read_claim(output)
    if current is None or current.token != token or current.ended:
        return
    parts = (mistake.value, mistake.cause, mistake.cure) if mistake else None
    refused = isinstance(mistake, RefusedError)
    ended_claim = replace(current, ended=ended, mistake=parts, refused=refused)
    (locate(output) / CLAIM).write(msgspec.json.encode(ended_claim))


def drop_claim(output: str, token: str) -> None:
    """Remove this run's claim; the claim of another run stays.

    A warning says so where it cannot be removed: the claim tells that its run has ended.
    """
    current = read_claim(output)
    if current is None or current.token != token:
        return
    folder = locate(output)
    try:
        folder.delete([*_list_copies(folder), CLAIM])
    except (OSError, UserError) as error:
        _LOG.warning("%s/%s is not removed: %s", output, CLAIM, error)


def _list_copies(folder: Location) -> list[str]:
    """List the claims that a process has written whole, and did not live to rename."""
    path = folder.local_path()
    names = [copy.name for copy in path.glob(f"{CLAIM}.*")] if path else []
    return [name for name in names if is_copy(folder.read_any(name))]


def is_torn(content: bytes) -> bool:
    """Whether the content of a file may be a part of a claim, as after a power failure."""
    text = content.strip(b"\0")
    begin = msgspec.json.encode(_DAMAGED)[:10]
    return text[:10] == begin[: len(text)]


def is_copy(content: bytes | None) -> bool:
    """Whether the content of a file is that of a claim, or a part of one."""
    if content is None or is_torn(content):
        return content is not None
    try:
        return bool(msgspec.json.decode(content, type=Claim).token)
    except msgspec.MsgspecError:
        return False


def _refusal(output: str, claim: Claim | None) -> UserError:
    is_known = claim is not None and not claim.is_damaged
    who = f" (process {claim.process} on {claim.host})" if claim and is_known else ""
    return UserError(
        option("output", output),
        f"another run{who} writes into this folder",
        "Wait for it to end, or choose another folder",
    )


def _path(output: str) -> str:
    return join_path(output, CLAIM)


# First part of the names of files that workers write again and again.
SIGN = "alive-"
_SECONDS_BETWEEN_SIGNS = 30.0

_LOG = logging.getLogger(__name__)
# When this process has given its last sign of life, by temporary folder.
_given: dict[str, float] = {}


@dataclass(frozen=True)
class Workplace:
    """Where a run works, and within which limits.

    Attributes:
        temp_folder: folder of its temporary files; every worker must reach it.
        output: folder of its data set; empty for a run that builds none, and so has no claim.
        token: token of its claim on that folder.
        outlives: whether the job may continue without the command that started it; then workers
            give signs of life.
        limits: the thresholds of the run.
    """

    temp_folder: str
    output: str = ""
    token: str = ""
    outlives: bool = False
    limits: Limits = LIMITS

    def is_over(self) -> bool:
        """Return whether the run has ended, so that a worker has nothing left to do.

        An engine that loses a machine repeats work of that machine, even if a process there has
        meanwhile finished the data set and removed the temporary files.
        """
        if not self.output:
            return False
        claim = read_claim(self.output)
        if claim is None:
            return file_exists(join_path(self.output, SUCCESS))
        return claim.token != self.token or bool(claim.ended)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Give signs of life for the length of a block, and end the run at a mistake of the user's.

        Engines repeat what fails, but this would fail again.
        """
        try:
            if not self.outlives:
                yield
                return
            if time.monotonic() - _given.get(self.temp_folder, -1e9) >= _SECONDS_BETWEEN_SIGNS:
                self.give_sign()
            with self.alive():
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
                end_claim(self.output, self.token, FAILED, mistake)

    def has_committed(self) -> bool:
        """Return whether a run that is over has finished its data set."""
        claim = read_claim(self.output)
        return claim is None or (claim.token, claim.ended) == (self.token, COMMITTED)

    def clean_up(self) -> None:
        """Remove the temporary files of a run that has committed, and then its claim."""
        if self.has_committed() and read_claim(self.output) is not None:
            remove_named(locate(self.temp_folder))
            drop_claim(self.output, self.token)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Give signs of life for the length of a block, for those who cannot ask this process."""
        ended = Event()
        thread = Thread(target=self._give_signs, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _give_signs(self, ended: Event) -> None:
        while not ended.wait(_SECONDS_BETWEEN_SIGNS):
            self.give_sign()

    def give_sign(self) -> None:
        """Write a sign of life of this process; if that fails, the next one may not."""
        _given[self.temp_folder] = time.monotonic()
        name = f"{SIGN}{socket.gethostname()}-{os.getpid()}"
        try:
            write_file(join_path(self.temp_folder, name), str(time.time()).encode())
        except Exception as error:  # whatever a store's client raises
            _LOG.debug("no sign of life: %s", error)


def last_sign(temp_folder: str) -> float:
    """Return when a run has given its last sign of life, in seconds since 1970; 0 for none."""
    return last_written(join_path(temp_folder, SIGN))


# An element, and the tag of the collection that it belongs to.
Output = tuple[str, Any]

_ELEMENTS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (Candidates, ReadRange, LinesFile, Segment, WrittenFile)
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
        self._place = place

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
        earlier = self._read_entry(name, is_intact)
        if earlier is not None:
            return earlier, True
        with self._place.at_work():
            outputs = list(work())
            entry = [(tag, type(element).__name__, element) for tag, element in outputs]
            write_file(self._path(name), seal(json.dumps(entry).encode()))
        # Or else the command that started the run sees to it.
        if self._place.outlives and self._place.is_over():
            remove_remains(locate(self._place.temp_folder))
        return outputs, False

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


def count_finished(temp_folder: str) -> dict[str, int]:
    """Return how many units of each kind are finished.

    Raises:
        UserError: the folder cannot be listed, so that nothing is known.

    Example:
        {"task": 12, "shard": 3}
    """
    return count_entries(list_folder(temp_folder))


def count_entries(paths: Iterable[str]) -> dict[str, int]:
    """Return how many entries of each kind are among the files of a run, as `count_finished`."""
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
