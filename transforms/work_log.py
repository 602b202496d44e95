"""Log what a worker does, so that an engine's log shows which work was done where.

Workers pass records of level INFO on to the engine's own log. Never print in a worker: not every
engine reads what a worker prints, and a worker whose output nobody reads stops.
"""

import logging
import time
from collections.abc import Iterable, Sequence

from transforms.plan import PlannedRange
from transforms.tally import Count

_LOG = logging.getLogger(__name__)
_LOGGED = {
    "read.bytes",
    "read.rejects",
    "tokenize.documents",
    "tokenize.tokens",
    "build.examples",
    "write.rows",
}


def log_begin(unit: str, ranges: Sequence[PlannedRange]) -> None:
    """Log which input a unit of work reads; if it never ends, this is its last record.

    Args:
        unit: name of the unit, such as "task-12".
        ranges: ranges of the input.
    """
    if ranges and _LOG.isEnabledFor(logging.INFO):
        first, last = ranges[0], ranges[-1]
        end = "its end" if last.end < 0 else str(last.end)
        _LOG.info("%s begins: %s from %d to %s %s", unit, first.name, first.start, last.name, end)


def log_end(unit: str, begin: float, counts: Iterable[Count], is_repeated: bool = False) -> None:
    """Log that a unit of work is done.

    Args:
        unit: name of the unit, such as "task-12".
        begin: when it began, by `time.monotonic`.
        counts: all counts of the unit.
        is_repeated: whether it was finished before.
    """
    if is_repeated:
        _LOG.info("%s was finished before", unit)
        return
    logged = ", ".join(f"{name}={number}" for name, number in counts if name in _LOGGED)
    _LOG.info("%s is done: seconds=%.1f, %s", unit, time.monotonic() - begin, logged)
