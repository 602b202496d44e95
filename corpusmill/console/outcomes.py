"""How a command ends badly: the one message that the user reads, and the exit status."""

import errno
import os
import re
import traceback
from collections.abc import Mapping
from contextlib import suppress
from tempfile import mkstemp
from typing import NamedTuple

from corpusmill.console.process import FAILURE, INTERRUPTED, USER_ERROR
from corpusmill.console.terminal import Terminal, drop_unread_output
from corpusmill.errors import (
    NoMatchError,
    OutageError,
    UserError,
    as_flag,
    first_line,
    option,
    spell,
)

_LONGEST_MESSAGE = 6000

_SPACE = (
    "Free some space, or name another disk (temporary files follow "
    f"{option('temp_location')} and TMPDIR)"
)
_RIGHTS = "Change the permissions, or name another place"
_PLACE = "Name another place"
_MACHINE = "Repair the disk or mount, or name another place"
_LIMITS = "Raise the limit (ulimit)"
_MEMORY = "Free some, raise the limit (ulimit -v), or use a machine with more"
_NO_MEMORY = re.compile("failed to map segment|[Cc]annot allocate memory|malloc of size")
# What the system refuses for reasons that lie with the user's paths, and with the machine.
REFUSALS = {
    errno.EACCES: _RIGHTS, errno.EPERM: _RIGHTS, errno.EISDIR: _PLACE, errno.ENOTDIR: _PLACE,
    errno.ELOOP: _PLACE, errno.ENAMETOOLONG: _PLACE, errno.ENOTCONN: _MACHINE,
}  # fmt: skip
_CURES = REFUSALS | {
    errno.EMFILE: _LIMITS, errno.ENFILE: _LIMITS, errno.EFBIG: _LIMITS, errno.EAGAIN: _LIMITS,
}  # fmt: skip
# What may pass or be mended during a run: numbers of the system's errors, the cause and the cure.
PASSING_FAULTS = (
    ((errno.ENOSPC, errno.EDQUOT), "the disk is full", _SPACE),
    ((errno.EIO, errno.ENODEV, errno.EROFS), "the disk or its mount fails", _MACHINE),
    ((errno.ESTALE,), "the file server does not know it any more", _MACHINE),
    ((errno.EBUSY, errno.ETXTBSY), "another program uses it", "End that, or name another place"),
    ((errno.EXDEV,), "it is on another disk than the folder around it", _PLACE),
)
# Without the name of a file it may be anything, and so it may in a trace.
_MOVED = ((errno.ENOENT,), "somebody has moved or removed it", "Put it back, or name another place")


class Outcome(NamedTuple):
    """How a command ended.

    Attributes:
        status: the exit status.
        text: the message.
        fields: the parts of the message, for a log.
    """

    status: int
    text: str
    fields: Mapping[str, str]


def report_error(error: BaseException) -> int:
    """Print why a command ended, in one message, and return the exit status."""
    if isinstance(error, BrokenPipeError) and drop_unread_output():
        return 0
    outcome = explain(error)
    print_outcome(outcome)
    return outcome.status


def print_outcome(outcome: Outcome) -> None:
    """Print the message of an outcome, if it can be printed at all."""
    with suppress(OSError):
        Terminal(stderr=True).print(outcome.text)


def explain(error: BaseException) -> Outcome:
    """Return how a command ends because of an error."""
    match blame_system(error) or error:
        case UserError() as mistake:
            parts = {"value": mistake.value, "cause": mistake.cause, "cure": mistake.cure}
            status = FAILURE if isinstance(mistake, NoMatchError | OutageError) else USER_ERROR
            return outcome_of(status, f"error: {mistake}{notes_of(error)}", parts)
        case _ if _lacks_memory(error):
            text = f"memory ran out ({first_line(error) or type(error).__name__}). {_MEMORY}"
            return outcome_with_trace(error, text)
        case KeyboardInterrupt():
            text = str(error) or "the command did not finish"
            return outcome_of(INTERRUPTED, f"interrupted: {text}{notes_of(error, '. ')}")
        case _:
            lines = str(error).strip().splitlines() or [""]
            cause = lines[-1]
            if len(lines) == 1:  # or else it is a worker's trace, and this names the error
                named = ["an unforeseen fault", type(error).__name__, cause]
                cause = ": ".join(filter(None, named))
            return outcome_with_trace(error, cause)


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether memory ran out, or an error came of that: a library that could not be loaded, say."""
    while error is not None:
        is_refused = isinstance(error, OSError) and error.errno == errno.ENOMEM
        if isinstance(error, MemoryError) or is_refused or _NO_MEMORY.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def outcome_of(status: int, text: str, fields: Mapping[str, str] | None = None) -> Outcome:
    """Return an outcome, whose message is cut if a long foreign name or text is in it."""
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[: _LONGEST_MESSAGE // 2]} ... {text[-_LONGEST_MESSAGE // 2 :]}"
    return Outcome(status, text, fields or {})


def outcome_with_trace(error: BaseException, cause: str) -> Outcome:
    """Return the outcome of a fault, whose trace goes to a file, and not to the user."""
    trace = "".join(traceback.format_exception(error))
    try:
        handle, path = mkstemp(prefix="corpusmill-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(trace)
        trace, where = path, f"The whole trace is in {path}"
    except OSError as failure:
        where = f"Its trace cannot be written ({first_line(failure)})"
    text = f"error: {cause.rstrip('.')}. {where}{notes_of(error, '. ')}"
    return outcome_of(FAILURE, text, {"trace": trace})


def blame_system(error: BaseException) -> UserError | None:
    """Return the user's mistake or the state of the machine that an error of the system is about.

    None if it may as well be a fault of the program.
    """
    from corpusmill.location import NotAFileError  # noqa: PLC0415  most commands end well

    if isinstance(error, NotAFileError):
        return UserError(
            str(error.filename), str(error.strerror), "Remove it, or name another place"
        )
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return UserError(
            "this process", str(error), f"{_LIMITS[:-1]} -u of processes, -v of memory)"
        )
    if not isinstance(error, OSError):
        return None
    value = None if error.filename is None else str(error.filename)
    for numbers, cause, cure in (*PASSING_FAULTS, _MOVED) if value else PASSING_FAULTS:
        if error.errno in numbers:
            value = value or "a file or standard output"
            return OutageError(value, f"{cause} ({error.strerror})", f"{cure}; then run again")
    cure = _CURES.get(error.errno or 0, "")
    if not cure or (value is None and cure is not _LIMITS):  # the latter of a connection, perhaps
        return None
    return UserError(value or "this process", str(error.strerror), cure)


def notes_of(error: BaseException, begin: str = " ") -> str:
    """Join the notes on an error, such as how to resume."""
    notes = (f"{begin}{note}" for note in getattr(error, "__notes__", []))
    return spell("".join(notes), as_flag)
