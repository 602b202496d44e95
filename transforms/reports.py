"""What a run reports to its engine: log lines of each piece of work, and lineage.

Beam's own readers and writers report lineage as metrics, whose values are names of a catalog
(`gcs:bucket.folder/file`). These functions report ours in the same words. Beam rolls up what
exceeds a hundred names; the files of a corpus are rolled up before, because a plan of millions of
files would otherwise be reported one name after another.

An engine's log shows which work was done where. Workers pass records of level INFO on to the
engine's own log. Never print in a worker: not every engine reads what a worker prints, and a worker
whose output nobody reads stops.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Lineage

from corpusmill.corpus.hub_data_sets import is_hub_path
from corpusmill.errors import printable
from transforms.elements import PlannedRange
from transforms.recovery import Journal, Output
from transforms.tally import COUNTS, Count, show

_MOST_NAMES = 100


def roll_up(paths: Iterable[str], most: int = _MOST_NAMES) -> tuple[str, ...]:
    """Return the files themselves, or as long as there are too many, the folders around them.

    Example:
        ["gs://b/x/1", "gs://b/x/2", "gs://b/y/3"] with most=2 gives ("gs://b/x/", "gs://b/y/").

    Args:
        paths: paths of files.
        most: the largest number of names. Of more folders without a common one, such as buckets,
            the first are returned.
    """
    names = list(dict.fromkeys(map(printable, paths)))  # metrics are UTF-8, but not every name is
    while len(names) > most:
        folders = list(dict.fromkeys(map(_folder_around, names)))
        if folders == names:
            return tuple(names[:most])
        names = folders
    return tuple(names)


def _folder_around(path: str) -> str:
    """Return the folder of a file or of a folder, with a slash at its end; a root as it is."""
    root = path.find("://") + 3 if "://" in path else 0
    folder = path.rstrip("/").rpartition("/")[0] + "/"
    return folder if len(folder) > root else path


def report_sources(paths: Iterable[str]) -> None:
    """Report, from a DoFn, which files or folders the run reads.

    Args:
        paths: names that `roll_up` returned.
    """
    for path in paths:
        if is_hub_path(path):
            # Catalogs know no name for the hub; theirs for anything else is `custom`.
            name = path.partition("://")[2]
            Lineage.sources().add("custom", "huggingface", name, last_segment_sep="/")
        else:
            FileSystems.report_source_lineage(path)


def report_data_set(folder: str) -> None:
    """Report, from a DoFn, the folder of the finished data set."""
    FileSystems.report_sink_lineage(folder)


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
