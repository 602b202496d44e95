"""Claims on output folders, so that of two runs into one folder only one writes.

A run leaves its *claim* in the folder before it works, and the commit continues only while the
claim is still its own. In a local folder and a bucket of Google Cloud Storage or S3 exactly one of
two simultaneous runs gets the claim. Elsewhere the last one keeps it, and the other one notices
that when it looks again.

The claim also says how its run has ended. What an engine still does for a run that is over, such as
work of a lost machine that it repeats, ends without doing anything.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from corpusmill.errors import RefusedError, UserError, option
from corpusmill.location import Location
from transforms.storage.file_systems import join_path
from transforms.storage.files import locate, read_existing

CLAIM = "_RUNNING"

_LOG = logging.getLogger(__name__)

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

    What cannot be removed is only told in a warning: the claim says that its run has ended.
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
