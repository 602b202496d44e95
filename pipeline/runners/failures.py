"""Why a job failed, from what its engine reports: often a traceback of a hundred lines."""

import os
import re
import sys
import traceback
from dataclasses import dataclass

from corpusmill.console.outcomes import PASSING_FAULTS, REFUSALS
from corpusmill.errors import OutageError, RefusedError, UserError, option

# Whoever asks for a bundle that failed hears that it did, as an effect of its failure.
_EFFECT = "\nThe above exception was the direct cause of the following exception:"
_FAILED_BEFORE = "Bundle processing associated with "
_WHERE = re.compile(r" \[while running [^\]]*\]")
# The last line of a traceback, which is all that an engine passes on of the error.
_KINDS = {kind.__qualname__: kind for kind in (UserError, OutageError, RefusedError)}
_USER_ERROR = re.compile(rf"{UserError.__module__}\.({'|'.join(_KINDS)}): ([^\n]+)")


class JobFailedError(Exception):
    """A job failed, but not through a mistake of the user's; says what happened and what to do."""


class JobCancelledError(Exception):
    """Somebody else than this command cancelled the job on its engine."""


class WorkerDiedError(Exception):
    """A worker process on this machine, or a rank, ended before its work did.

    Args:
        cause: how it ended.
        worker: the worker.
    """

    def __init__(self, cause: str, worker: object = None) -> None:
        super().__init__(cause)
        self.worker = worker


@dataclass(frozen=True)
class _Fault:
    """One kind of fault: what engines report of it, and what we tell the user.

    Attributes:
        pattern: finds the fault in a report; its group, or else all of it, is the detail to show.
        cause: what happened.
        cure: what to do.
        value: the flags that cure it, if it is a mistake of the user's.
        kind: the class of the error, if there are such flags.
    """

    pattern: re.Pattern[str]
    cause: str
    cure: str
    value: str | option = ""
    kind: type[UserError] = UserError


_PLACES = f"{option('input')}, {option('output')}, {option('temp_location')}"
# The most telling first: a worker whose memory ran out is also reported as lost.
_FAULTS = (
    *(
        _Fault(
            re.compile(rf"(?:{'|'.join(map(os.strerror, numbers))})[^\n]*"),
            cause,
            f"{cure}; then run again",
            _PLACES,
            OutageError,
        )
        for numbers, cause, cure in PASSING_FAULTS
    ),
    _Fault(
        re.compile(
            r"(?:Too many open files|File too large|can't start new thread"
            r"|Resource temporarily unavailable)[^\n]*"
        ),
        "a limit of the machine is reached",
        "Raise the limit (ulimit -n of open files, -f of the size of files, -u of processes, -v of "
        f"memory), or give fewer {option('workers')}",
        option("workers"),
    ),
    _Fault(
        re.compile(r"NotAFileError: \[Errno \d+\] ([^\n]+)"),
        "something else is in the place of a file",
        "Remove it, or name another place; then run again",
        _PLACES,
    ),
    _Fault(
        re.compile(rf"(?:{'|'.join(map(os.strerror, REFUSALS))})[^\n]*"),
        "a file or folder cannot be read or written",
        "Repair it or its permissions, or name another one",
        _PLACES,
    ),
    _Fault(
        re.compile(r"ModuleNotFoundError: (No module named '[\w.]+')"),
        "its workers lack code of the job",
        "Install the wheels of corpusmill and corpusmill-job, which `make wheels` builds, in the "
        "workers' image; or give both, corpusmill's first, with --extra_package after --",
        option("runner"),
    ),
    _Fault(
        re.compile(r"(?:FileNotFoundError|No such file)[^\n]*_temporary-[^\n]*"),
        "workers cannot reach the temporary folder",
        "Give a folder that all workers and this machine share, or one in an object store",
        option("temp_location"),
    ),
    _Fault(
        re.compile(
            r"Out of memory: Killed process[^\n]*|lack of memory|OOMKilled|MemoryError"
            r"|OutOfMemoryError[^\n]*|exceeding memory limits|Cannot allocate memory"
            r"|malloc of size \d+ failed|failed to map segment|exit (?:code|status):? 137"
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
        UserError: if the traceback holds a mistake of the user's.
    """
    explained = explain_failure(trace)
    if isinstance(explained, UserError):
        raise explained from None


def raise_explained(error: Exception) -> None:
    """Raise the user's mistake or the known fault that an engine's error is about, if any.

    Raises:
        UserError: a worker found a mistake of the user's.
        JobFailedError: the fault is a known one.
        RuntimeError: the error only repeats that a bundle had failed; this one says why.
    """
    # It is imported where an engine has been used.
    if "grpc" in sys.modules and isinstance(error, sys.modules["grpc"].RpcError):
        code = getattr(error, "code", lambda: "no answer")()
        raise JobFailedError(
            f"the connection to the engine was lost ({code}). "
            "Check on the engine whether the job is still running"
        ) from error
    # Some faults are known by the name of the error, such as MemoryError, or by what caused it.
    # Without a limit, lines of source code could be taken for reports.
    explained = explain_failure("".join(traceback.format_exception(error, limit=0)))
    if explained:
        raise explained from error
    failure, _, effect = str(error).rpartition(_EFFECT)
    if failure and _FAILED_BEFORE in effect:
        raise RuntimeError(failure.strip()) from error


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
        value, _, rest = match.group(2).partition(": ")
        cause, _, cure = rest.partition(". ")
        return _KINDS[match.group(1)](value, cause, cure.rstrip("."))
    for fault in _FAULTS:
        if match := fault.pattern.search(text):
            cause = f"{fault.cause} ({match.group(match.lastindex or 0).strip()})"
            if fault.value:
                return fault.kind(fault.value, cause, fault.cure)
            return JobFailedError(f"{cause}. {fault.cure}")
    return None
