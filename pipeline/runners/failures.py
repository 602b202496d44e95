"""Why a job failed, from what its engine reports: often a traceback of a hundred lines."""

import re
from dataclasses import dataclass

import grpc

from corpusmill.errors import UserError

_WHERE = re.compile(r" \[while running [^\]]*\]")
# As Python ends the traceback of one, which is all that an engine passes on.
_USER_ERROR = re.compile(rf"{UserError.__module__}\.{UserError.__qualname__}: ([^\n]+)")
_NO_SPACE = re.compile(r"No space left on device[^\n]*|Disk quota exceeded[^\n]*")
_NO_CODE = re.compile(r"ModuleNotFoundError: (No module named '[\w.]+')")
_NO_FILE = re.compile(r"(?:FileNotFoundError|No such file)[^\n]*_temporary-[^\n]*")


class JobFailedError(Exception):
    """A job failed, and not because of a mistake of the user's.

    Args:
        cause: what happened.
        cure: what to do.
    """

    def __init__(self, cause: str, cure: str) -> None:
        self.cause, self.cure = cause, cure
        super().__init__(cause, cure)

    def __str__(self) -> str:
        return f"{self.cause}. {self.cure}"


class JobCancelledError(Exception):
    """Somebody else than this command cancelled the job on its engine."""


class WorkerDiedError(Exception):
    """A worker process on this machine ended before its work did."""


@dataclass(frozen=True)
class _Fault:
    """One kind of fault: what engines report of it, and what we tell the user."""

    pattern: re.Pattern[str]
    cause: str
    cure: str


# The most telling first: a worker whose memory ran out is also reported as lost.
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
        "If its log says that memory ran out, give workers more memory; otherwise run again",
    ),
    _Fault(
        re.compile(r"didn't get control connection[^\n]*|Timed out while waiting for command"),
        "no worker began to work",
        "Look into the log of the worker pool: its Python must have Beam and the job's code",
    ),
)


def raise_user_error(trace: str) -> None:
    """Raise the user's mistake that a worker found, if its trace shows one.

    Raises:
        UserError: it does.
    """
    explained = explain_failure(trace)
    if isinstance(explained, UserError):
        raise explained from None


def raise_explained(error: Exception) -> None:
    """Raise the user's mistake or the known fault that an engine's error is about, if any.

    Raises:
        UserError: a worker found a mistake of the user's.
        JobFailedError: the fault is a known one.
        KeyboardInterrupt: Beam turned an interrupt of a stage in this process into an error.
    """
    if re.match(r"(.*\n)*KeyboardInterrupt( \[while running|\n|$)", str(error)):
        raise KeyboardInterrupt from None
    if isinstance(error, grpc.RpcError):
        code = getattr(error, "code", lambda: "no answer")()
        raise JobFailedError(
            f"the connection to the engine was lost ({code})",
            "Check on the engine whether the job is still running",
        ) from error
    # Some faults are known by the name of the error, such as MemoryError.
    explained = explain_failure(f"{type(error).__qualname__}: {error}")
    if explained:
        raise explained from error


def explain_failure(text: str) -> UserError | JobFailedError | None:
    """Explain the message of a failed job.

    Args:
        text: the engine's message, with the traces of workers in it.

    Returns:
        The user's mistake that a worker found, or the fault; None if the text shows neither.
    """
    # Engines pass a trace on as it is, or quoted with its line breaks escaped.
    text = _WHERE.sub("", text.replace("\\n", "\n"))
    if match := _USER_ERROR.search(text):
        value, _, rest = match.group(1).partition(": ")
        cause, _, cure = rest.partition(". ")
        return UserError(value, cause, cure.rstrip("."))
    if match := _NO_SPACE.search(text):
        return UserError(
            "--output, --temp-location",
            f"the disk is full ({match.group().strip()})",
            "Free some space, or put temporary files on another disk with --temp-location",
        )
    if match := _NO_CODE.search(text):
        return UserError(
            "--runner",
            f"its workers lack code of the job ({match.group(1)})",
            "Install the wheels of deploy/build_wheels.py, and what they need, in the workers' "
            "image; or give both wheels, the library's first, with --extra_package after --",
        )
    if match := _NO_FILE.search(text):
        return UserError(
            "--temp-location",
            f"workers cannot reach the temporary folder ({match.group().strip()})",
            "Give a folder that all workers and this machine share, or one in an object store",
        )
    for fault in _FAULTS:
        if match := fault.pattern.search(text):
            return JobFailedError(f"{fault.cause} ({match.group().strip()})", fault.cure)
    return None
