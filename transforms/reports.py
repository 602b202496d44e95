"""What a run reports to its engine: log lines of each piece of work.

They show which work was done where. Workers pass records of level INFO on to the engine's own log.
Never print in a worker: not every engine reads what a worker prints, and a worker whose output
nobody reads stops.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from transforms.elements import PlannedRange
from transforms.recovery import Journal, Output
from transforms.tally import COUNTS, Count, show

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
        end = "its end" if last.end is None else str(last.end)
        _LOG.info("%s begins: %s from %d to %s %s", unit, first.name, first.start, last.name, end)


def run_once(journal: Journal, name: str, work: Callable[[], Iterable[Output]]) -> list[Output]:
    """Do a unit of work unless it is finished, log that it is done, and return its outputs.

    Args:
        journal: journal of the run.
        name: name of the unit, such as "task-12".
        work: does the work.
    """
    begin = time.monotonic()
    outputs, is_repeated = journal.once(name, work)
    counts: list[Count] = [value for tag, value in outputs if tag == COUNTS]
    if is_repeated:
        _LOG.info("%s was finished before", name)
        for count in counts:
            show(count)
    else:
        logged = ", ".join(f"{count}={number}" for count, number in counts if count in _LOGGED)
        _LOG.info("%s is done: seconds=%.1f, %s", name, time.monotonic() - begin, logged)
    return outputs
