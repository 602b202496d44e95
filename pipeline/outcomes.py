"""How a command ends: the one message that the user reads, and the exit status."""

import errno
import logging
import os
import signal
import sys
import traceback
from contextlib import suppress
from tempfile import mkstemp
from types import FrameType
from typing import Any, Self

import psutil
from apache_beam.io.filesystem import BeamIOError

from corpusmill.dataset.storage import NotAFileError
from corpusmill.errors import UserError, first_line
from pipeline.console.run_log import LogOptions, log_event
from pipeline.console.terminal import Terminal, drop_unread_output
from pipeline.runners.failures import JobCancelledError, JobFailedError, WorkerDiedError

# They hold for a job that runs elsewhere as well; --no-wait exits with 0 once it is submitted.
USER_ERROR, FAILURE, CANCELLED, INTERRUPTED = 2, 1, 3, 130

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_LONGEST_MESSAGE = 6000

_SPACE = "Free some space, or name another disk; temporary files follow --temp-location and TMPDIR"
_RIGHTS = "Change the permissions, or name another place"
_PLACE = "Name another place"
_MACHINE = "Repair the disk or mount, or name another place"
_LIMITS = "Raise the limit (ulimit)"
# What the system refuses for reasons that lie with the machine or the user's paths.
_CURES = {
    errno.ENOSPC: _SPACE, errno.EDQUOT: _SPACE, errno.EROFS: _RIGHTS, errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS, errno.EISDIR: _PLACE, errno.ENOTDIR: _PLACE, errno.ELOOP: _PLACE,
    errno.ENAMETOOLONG: _PLACE, errno.EIO: _MACHINE, errno.ESTALE: _MACHINE,
    errno.EMFILE: _LIMITS, errno.ENFILE: _LIMITS, errno.EFBIG: _LIMITS,
}  # fmt: skip


def report_error(error: BaseException, log: LogOptions) -> int:
    """Print why a command ended, in one message, and return the exit status."""
    if isinstance(error, BrokenPipeError) and drop_unread_output():
        return 0
    status, text, fields = _explain(error)
    if len(text) > _LONGEST_MESSAGE:  # with a foreign name or text in it
        text = f"{text[: _LONGEST_MESSAGE // 2]} ... {text[-_LONGEST_MESSAGE // 2 :]}"
    if not log.takes_stderr:
        with suppress(OSError):
            Terminal(stderr=True).print(text)
    if log.takes_stderr or log.log_file:
        log_event("run_failed", text, {"status": status, **fields}, logging.ERROR)
    return status


def _explain(error: BaseException) -> tuple[int, str, dict[str, str]]:
    """Return the exit status, the message, and its parts."""
    match blame_system(error) or error:
        case UserError() as mistake:
            parts = {"value": mistake.value, "cause": mistake.cause, "cure": mistake.cure}
            return USER_ERROR, f"error: {mistake}{_notes(error)}", parts
        case KeyboardInterrupt():
            outcome = str(error) or "the command did not finish"
            return INTERRUPTED, f"interrupted: {outcome}{_notes(error, '. ')}", {}
        case JobCancelledError():
            text = f"cancelled: somebody cancelled job {error}; the data set is not complete"
            return CANCELLED, text + _notes(error, ". "), {"job_id": str(error)}
        case WorkerDiedError():
            text = (
                f"error: a worker process died ({error}). No file of the data set was published. "
                f"If memory ran out, give fewer --workers; otherwise run again.{_notes(error)}"
            )
            return FAILURE, text, {}
        case _:  # the trace goes to a file, not to the user
            cause = str(error).strip()
            if not isinstance(error, JobFailedError):
                lines = cause.splitlines() or [""]
                cause = lines[-1]
                if len(lines) == 1:  # or else it is a worker's trace, and this names the error
                    named = ["an unforeseen fault", type(error).__name__, cause]
                    cause = ": ".join(filter(None, named))
            trace, where = _write_trace(error)
            return FAILURE, f"error: {cause.rstrip('.')}. {where}{_notes(error, '. ')}", trace


def blame_system(error: BaseException) -> UserError | None:
    """Return the user's mistake or the state of the machine that an error of the system is about.

    None if it may as well be a fault of the program.
    """
    if isinstance(error, BeamIOError):
        details = (error.exception_details or {}).values()
        error = next((one for one in details if isinstance(one, OSError)), error)
    if isinstance(error, NotAFileError):
        return UserError(
            str(error.filename), str(error.strerror), "Remove it, or name another place"
        )
    if not isinstance(error, OSError) or error.errno not in _CURES:
        return None
    cure, cause = _CURES[error.errno], str(error.strerror)
    if cure is _SPACE:
        cause = f"the disk is full ({cause})"
    elif error.filename is None:  # of a connection, perhaps
        return None
    value = "a file or standard output" if error.filename is None else str(error.filename)
    return UserError(value, cause, cure)


def _notes(error: BaseException, begin: str = " ") -> str:
    """Join the notes on an error, such as how to resume."""
    return "".join(f"{begin}{note}" for note in getattr(error, "__notes__", []))


def _write_trace(error: BaseException) -> tuple[dict[str, str], str]:
    """Write the trace to a file, and say where it is."""
    trace = "".join(traceback.format_exception(error))
    try:
        handle, path = mkstemp(prefix="corpusmill-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(trace)
    except OSError as failure:
        return {"trace": trace}, f"Its trace cannot be written ({first_line(failure)})"
    return {"trace": path}, f"The whole trace is in {path}"


class EndingSignals:
    """Handles Ctrl-C and requests to end, for the length of a command.

    The first one raises KeyboardInterrupt, so that the run removes what it cannot resume from. The
    next one ends the process at once; what it leaves can be resumed as after a power failure.
    """

    def __init__(self) -> None:
        self._previous: dict[signal.Signals, Any] = {}
        self._came = False

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignore them from now on, as the command has ended."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, _: int, __: FrameType | None) -> None:
        if self._came:
            _end_at_once()
        self._came = True
        raise KeyboardInterrupt


def _end_at_once() -> None:
    with suppress(OSError):
        os.write(sys.stderr.fileno(), b"interrupted: ended at once, without cleaning up\n")
    exit_now(INTERRUPTED)


def exit_now(status: int) -> None:
    """End the process and its workers at once: a failed engine leaves threads that never end."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # its reader is gone, or it is closed
            stream.flush()
    os._exit(status)
