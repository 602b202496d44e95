"""Lineage: which data a run reads and writes, for the catalogs of the engines that keep one.

Beam's own readers and writers report it as metrics, whose values are names of a catalog
(`gcs:bucket.folder/file`). These functions report ours in the same words. Beam rolls up what
exceeds a hundred names; the files of a corpus are rolled up before, because a plan of millions of
files would otherwise be reported one name after another.
"""

from collections.abc import Iterable

from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Lineage

from corpusmill.corpus.hub.data_sets import is_hub_path
from corpusmill.errors import printable

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
