"""The temporary files of a run that has committed, removed by many tasks where they are many.

Each task removes those whose names begin alike. An object store lists a thousand files with a
request, one request after the other, so that one task would take an hour for some millions. Only
files of a store are removed in this way; a folder of this machine is listed as a whole.
"""

from collections.abc import Iterator

import apache_beam as beam

from corpusmill.dataset.ownership import delete_temporary
from transforms.recovery import Workplace
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import locate
from transforms.storage.objects import find_object, is_object_path

# Names of which a run has one or more for each task or merge, before a random number in
# hexadecimal; and those before the number of a task or a shard.
_BEFORE_RANDOM = ("spill-", "candidates-", "rejects-")
_BEFORE_NUMBER = ("done-task-", "done-merge-", "done-shard-", "shard-")


def list_prefixes(folder: str) -> Iterator[str]:
    """Yield the beginnings of the paths of a run's many files, each of a hundredth or less."""
    if not is_object_path(folder):
        return
    names = [f"{name}{byte:02x}" for name in _BEFORE_RANDOM for byte in range(256)]
    names += [f"{name}{number}" for name in _BEFORE_NUMBER for number in range(10, 100)]
    yield from (join_path(folder, name) for name in names)


class _ListPrefixes(beam.DoFn):
    """List what is to be removed of a run that has committed."""

    def __init__(self, place: Workplace) -> None:
        self._place = place

    def process(self, _: str) -> Iterator[str]:
        if self._place.has_committed():
            yield from list_prefixes(self._place.temp_folder)


class RemoveTemporaryFiles(beam.PTransform):
    """Remove most temporary files of a run once its data set is finished.

    Takes the folder of the data set, and returns the beginnings of the paths that were removed.

    Args:
        place: where the run works.
    """

    def __init__(self, place: Workplace) -> None:
        super().__init__()
        self._place = place

    def expand(self, finished: beam.PCollection[str]) -> beam.PCollection[str]:
        """Deal the beginnings out to workers."""
        return (
            finished
            | "ListPrefixes" >> beam.ParDo(_ListPrefixes(self._place)).with_output_types(str)
            | "SpreadRemovals" >> beam.Reshuffle()
            | "RemoveFiles" >> beam.Map(_remove).with_output_types(str)
        )


def _remove(prefix: str) -> str:
    place = locate(split_path(prefix)[0])
    begin = f"{place.url}/"
    store, name = find_object(prefix)
    listed = (file.path.removeprefix(begin) for file in store.list(name))
    delete_temporary(place, listed)
    return prefix
