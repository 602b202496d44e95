"""The log of a run: events with fields, as text for people or as JSON for what follows the run.

An event is a record of Python's logging with its data as extra fields, so that every handler works
with it. Beam's own records stay hidden except with `--log-level debug`.
"""

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from corpusmill.console.terminal import Terminal
from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import CheckedOptions, Range

if TYPE_CHECKING:
    from corpusmill.inspection.findings import Finding

PROGRESS = "progress"

_EVENTS = logging.getLogger("pipeline")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
# How our logs begin, in either format, and a file that is empty.
_BEGIN_OF_LOG = re.compile(rb'\{"time": "|\d{4}-\d\d-\d\d \d\d:|\Z')
# The loggers of Beam and its engines; a job service passes records on to "root".
_BEAMS = ("apache_beam", "root", "PrismRunner", "SdkWorker")


@dataclass(frozen=True)
class LogOptions(CheckedOptions):
    """What is logged during a run, and where."""

    log_format: Literal["text", "json"] = "text"
    """Format of the log: text for people, or json, with one object in each line."""
    log_level: Literal["debug", "info", "warning"] | None = None
    """Lowest level that is logged: warning; info, which adds the events of the run, and is the
    default with json; or debug, which adds the records of Beam, its engine and workers in this
    process."""
    log_file: str | None = None
    """File to which the log is appended; by default the log is written to standard error."""
    log_seconds: Annotated[float, Range(0.01, 10**6)] = 30.0
    """Seconds between two records of progress, which is logged if no progress line is shown."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is not valid.
        """
        super().__post_init__()
        if self.log_file and "://" in self.log_file:
            raise UserError(
                option("log_file", self.log_file),
                "it is not a local file",
                "Give a path on this machine",
            )

    @property
    def takes_stderr(self) -> bool:
        """Whether standard error is reserved for JSON."""
        return self.log_format == "json" and not self.log_file

    @property
    def level(self) -> int:
        """The level as a number, as Python's logging has it."""
        return _LEVELS[self.log_level or ("info" if self.log_format == "json" else "warning")]


def log_event(
    event: str, text: str, fields: Mapping[str, object], level: int = logging.INFO
) -> None:
    """Log an event of the run.

    Args:
        event: its name, for programs.
        text: its description, for people.
        fields: its data, in types that JSON has.
        level: the level in Python's logging.
    """
    _EVENTS.log(level, text, extra={"event": event, **fields})


def log_findings(findings: "Iterable[Finding]") -> None:
    """Log an event for each finding."""
    for finding in findings:
        log_event("finding", str(finding), {"finding": asdict(finding)})


@contextmanager
def open_log(options: LogOptions) -> Iterator[None]:
    """Write the log until the block ends.

    Raises:
        UserError: the file cannot be written.
    """
    root, beam = logging.getLogger(), logging.getLogger("apache_beam")
    debug = options.level == logging.DEBUG
    levels = {
        # Libraries' debug output would drown ours.
        root: logging.INFO if debug else logging.WARNING,
        # The errors that it logs are raised as well.
        beam: logging.INFO if debug else logging.CRITICAL,
        # Workers in this process log each task here.
        logging.getLogger("transforms"): logging.INFO if debug else logging.WARNING,
        # Progress is logged at every level; the handler lets it pass.
        _EVENTS: min(options.level, logging.INFO),
    }
    handler = _create_handler(options.log_file)

    def is_chosen(record: logging.LogRecord) -> bool:
        if getattr(record, "event", "") == PROGRESS:
            return True
        is_ours = not record.name.startswith(_BEAMS)
        return record.levelno >= options.level and (is_ours or debug)

    handler.addFilter(is_chosen)
    handler.setFormatter(_create_formatter(options.log_format))
    previous = {logger: logger.level for logger in levels}
    for logger, level in levels.items():
        logger.setLevel(level)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
        for logger, level in previous.items():
            logger.setLevel(level)


class _LogFile(logging.FileHandler):
    """A log file. If it can no longer be written, one warning says so, and the run continues."""

    _is_told = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  logging's name
        """Say why it cannot be written."""
        if not self._is_told:
            self._is_told = True
            text = f"warning: --log-file {self.baseFilename}: {sys.exc_info()[1]}"
            Terminal(stderr=True).print(text)

    def close(self) -> None:
        """Close the file, even if its last records cannot be written."""
        with suppress(OSError):
            super().close()


def _create_handler(path: str | None) -> logging.Handler:
    if not path:
        return logging.StreamHandler(sys.stderr)
    try:
        if Path(path).is_fifo():
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # fails if nobody reads it
        elif Path(path).is_file() and not _BEGIN_OF_LOG.match(Path(path).read_bytes()):
            cause = "the file exists, and is not a log of ours"
            raise UserError(option("log_file", path), cause, "Name another file")
        return _LogFile(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UserError(
            option("log_file", path), f"it cannot be written ({error})", "Give another file"
        ) from None


def _create_formatter(log_format: str) -> logging.Formatter:
    if log_format == "text":
        return logging.Formatter(
            "%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S"
        )
    from pythonjsonlogger.json import JsonFormatter  # noqa: PLC0415  few runs log JSON

    return JsonFormatter(
        ["levelname", "name", "message"],
        rename_fields={"levelname": "level", "name": "logger", "exc_info": "trace"},
        defaults={"time": ""},  # in front
        timestamp="time",
        json_ensure_ascii=False,
    )
