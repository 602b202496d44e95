"""Why a job failed, from what its engine says of it: often a trace of a hundred lines."""

import re
from dataclasses import dataclass

import grpc

from corpusmill.errors import UserError

_WHERE = re.compile(r" \[while running [^\]]*\]")
_USER_ERROR = re.compile(r"corpusmill\.faults\.UserError: ([^\n]+)")
_NO_SPACE = re.compile(r"No space left on device[^\n]*|Disk quota exceeded[^\n]*")
_NO_CODE = re.compile(r"ModuleNotFoundError: (No module named '[\w.]+')")
_NO_FILE = re.compile(r"(?:FileNotFoundError|No such file)[^\n]*_temporary-[^\n]*")


class JobFailedError(Exception):
    """A job ended without its data set, and not by a mistake of the user's.

    Args:
        cause: what happened.
        cure: what to do; empty where nobody knows.
    """

    def __init__(self, cause: str, cure: str) -> None:
        self.cause, self.cure = cause, cure
        super().__init__(cause, cure)

    def __str__(self) -> str:
        return f"{self.cause}. {self.cure}".rstrip()


class JobCancelledError(Exception):
    """A job was cancelled on its engine, by somebody else than this command."""


@dataclass(frozen=True)
class _Fault:
    """What engines say of one kind of fault."""

    words: re.Pattern[str]
    cause: str
    cure: str


# In the order of what tells most: of a worker that memory ran out on, it is also said to be lost.
_FAULTS = (
    _Fault(
        re.compile(
            r"Out of memory: Killed process[^\n]*|lack of memory|OOMKilled|MemoryError"
            r"|OutOfMemoryError[^\n]*|exceeding memory limits|Cannot allocate memory"
            r"|malloc of size \d+ failed|exit (?:code|status):? 137"
        ),
        "memory ran out on a worker",
        "Give workers more memory, let fewer tasks run at once on each, or write more shards "
        "(--num-shards)",
    ),
    _Fault(
        re.compile(
            r"SDK (?:harness [\w-]+|worker|harness)? ?[Dd]isconnect(?:ed)?\b"
            r"|worker lost contact with the service"
            r"|Timed out waiting for an update from the worker|Data channel closed"
            r"|Channel closed prematurely"
            r"|Heartbeat of TaskManager[^\n]*timed out|ExecutorLostFailure|signal: killed"
        ),
        "a worker was lost",
        "If its log says that memory ran out, give workers more; otherwise run again",
    ),
    _Fault(
        re.compile(r"didn't get control connection[^\n]*|Timed out while waiting for command"),
        "no worker began to work",
        "Look into the log of the worker pool: its Python must have Beam and the job's code",
    ),
)


def raise_user_error(error: Exception) -> None:
    """Raise what a worker reported as text as the user's error that it is, if it is one.

    Raises:
        UserError: it is.
    """
    explained = explain_failure(_text_of(error))
    if isinstance(explained, UserError):
        raise explained from None


def raise_explained(error: Exception) -> None:
    """Raise what an engine reported as the user's error or the fault that it stands for, if any.

    Raises:
        UserError: a worker found a mistake of the user's.
        JobFailedError: the fault is a known one.
        KeyboardInterrupt: in this process Beam makes an error of what interrupts a stage.
    """
    if re.match(r"(.*\n)*KeyboardInterrupt( \[while running|\n|$)", str(error)):
        raise KeyboardInterrupt from None
    if isinstance(error, grpc.RpcError):
        code = getattr(error, "code", lambda: "no answer")()
        raise JobFailedError(
            f"the connection to the engine was lost ({code})",
            "Look at the engine whether the job goes on without it",
        ) from error
    explained = explain_failure(_text_of(error))
    if explained:
        raise explained from error


def _text_of(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}: {error}"


def explain_failure(text: str) -> UserError | JobFailedError | None:
    """What a failed job's message stands for.

    Args:
        text: of the engine, with the traces of workers in it.

    Returns:
        The mistake of the user's that a worker found, or the fault; None where it tells neither.
    """
    # Engines pass a trace on as it is, or quoted with its line breaks escaped.
    text = _WHERE.sub("", text.replace("\\n", "\n"))
    if found := _USER_ERROR.search(text):
        value, _, rest = found.group(1).partition(": ")
        cause, _, cure = rest.partition(". ")
        return UserError(value, cause, cure.rstrip("."))
    if found := _NO_SPACE.search(text):
        return UserError(
            "--output, --temp-location",
            f"the disk is full ({found.group(0).strip()})",
            "Free some space, or put temporary files on another disk with --temp-location",
        )
    if found := _NO_CODE.search(text):
        return UserError(
            "--runner",
            f"its workers lack code of the job ({found.group(1)})",
            "Install the wheels of deploy/build_wheels.py, and what they need, in the workers' "
            "image; or give both, the library's first, with --extra_package behind --",
        )
    if found := _NO_FILE.search(text):
        return UserError(
            "--temp-location",
            f"workers cannot reach the temporary folder ({found.group(0).strip()})",
            "Give a folder that all workers and this machine share, or one of an object store",
        )
    for fault in _FAULTS:
        if said := fault.words.search(text):
            return JobFailedError(f"{fault.cause} ({said.group(0).strip()})", fault.cure)
    return None
