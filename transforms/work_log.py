"""What a worker says of a unit of work, so that an engine's log shows what was done, and where.

Workers of engines pass records of level INFO on to the engine's own log; never print there, as not
every engine reads what a worker prints, and a worker that is not read from stops.
"""

import logging
import time
from collections.abc import Iterable, Sequence

from transforms.plan import FileRange
from transforms.tally import Count

_LOG = logging.getLogger(__name__)
_TOLD = (
    "read.bytes",
    "read.rejects",
    "tokenize.documents",
    "tokenize.tokens",
    "build.examples",
    "write.rows",
)


def log_begin(unit: str, ranges: Sequence[FileRange]) -> None:
    """Say what is read for a unit of work: where it never ends, this is the last that is heard.

    Args:
        unit: its name, such as "task-12".
        ranges: of the input.
    """
    if ranges and _LOG.isEnabledFor(logging.INFO):
        first, last = ranges[0], ranges[-1]
        end = "its end" if last.end < 0 else str(last.end)
        _LOG.info("%s begins: %s from %d to %s %s", unit, first.name, first.start, last.name, end)


def log_end(unit: str, begin: float, counts: Iterable[Count], found: bool = False) -> None:
    """Say that a unit of work is done.

    Args:
        unit: its name, such as "task-12".
        begin: when it began, by `time.monotonic`.
        counts: all that was counted in it.
        found: whether it was finished before.
    """
    if found:
        _LOG.info("%s was finished before", unit)
        return
    told = ", ".join(f"{name}={number}" for name, number in counts if name in _TOLD)
    _LOG.info("%s is done: seconds=%.1f, %s", unit, time.monotonic() - begin, told)
