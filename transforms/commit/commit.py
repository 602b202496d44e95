"""Commit a data set: check the counts, write the manifest, and remove what it does not list.

    shards ────────────────────────────┐
    rejects ─ joined, in a tree ───────┴─► commit ─► remove temporary files ─► end

All large files have their names by now, in the folder of the run's version. One task checks the
counts, syncs the files, and exchanges the manifest by one conditional write: of two runs that began
from the same one, only the first succeeds. An attempt may be killed at any moment and made again.

Nothing happens if the run is over: a retry cures neither a mistake nor a data set that is another.

Most temporary files are removed by many tasks where they are many, each of those whose names begin
alike. An object store lists a thousand files with a request, one request after the other, so that
one task would take an hour for some millions. Only files of a store are removed in this way; a
folder of this machine is listed as a whole.
"""

from collections.abc import Iterator, Sequence

import apache_beam as beam

import transforms.coders  # noqa: F401  registers those of the elements
from corpusmill.dataset.ownership import delete_temporary
from transforms.commit.contents import Decider, Inputs
from transforms.commit.pointer import commit, tidy
from transforms.elements import LinesFile, ReadRange, WrittenFile
from transforms.recovery import COMMITTED, Workplace, end_run
from transforms.shuffle.trees import JoinInTree, Tree, join_rejects
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import locate
from transforms.storage.objects import find_object, is_object_path
from transforms.tally import Count, Sketch, add_up

# Names of which a run has one or more for each task or merge, before a random number in
# hexadecimal; and those before the number of a task or a shard.
_BEFORE_RANDOM = ("spill-", "rejects-")
_BEFORE_NUMBER = ("done-task-", "done-merge-", "done-shard-", "shard-")


class _Commit(beam.DoFn):
    """Commit a data set; a second attempt continues where the first one stopped."""

    def __init__(self, decider: Decider) -> None:
        self._decider, self._place = decider, decider.work.place

    def process(
        self,
        _: bytes,
        written: list[WrittenFile],
        counts: Sequence[Count],
        rejects: list[LinesFile],
        ranges: Sequence[ReadRange],
    ) -> Iterator[str]:
        place = self._place
        if not place.is_over():
            with place.at_work():
                inputs = Inputs(written, dict(counts), rejects, ranges)
                commit(place, self._decider.decide(inputs))
            end_run(place.folder, place.token, COMMITTED)
        yield place.output


class _End(beam.DoFn):
    """Clean up after a run that is over, and pass on the folder of its data set."""

    def __init__(self, place: Workplace, is_awaited: bool) -> None:
        self._place, self._is_awaited = place, is_awaited

    def process(self, folder: str, _: Sequence[str] = ()) -> Iterator[str]:
        # A first attempt may have finished the data set without living to report it.
        if self._place.has_committed() and not self._is_awaited:
            tidy(locate(folder))
        yield folder


def list_prefixes(folder: str) -> Iterator[str]:
    """Yield the beginnings of the paths of a run's many files, each of a hundredth or less."""
    if not is_object_path(folder):
        return
    names = [f"{name}{byte:02x}" for name in _BEFORE_RANDOM for byte in range(256)]
    names += [f"{name}{number}" for name in _BEFORE_NUMBER for number in range(10, 100)]
    yield from (join_path(folder, name) for name in names)


def _list_removed(_: str, place: Workplace) -> Iterator[str]:
    """Yield what is to be removed of a run that has committed."""
    if place.has_committed():
        yield from list_prefixes(place.temp_folder)


def _remove(prefix: str) -> str:
    folder = locate(split_path(prefix)[0])
    begin = f"{folder.url}/"
    store, name = find_object(prefix)
    delete_temporary(folder, (file.path.removeprefix(begin) for file in store.list(name)))
    return prefix


class CommitDataset(beam.PTransform):
    """Make a data set of shards that are written; return the folder once it is complete.

    Args:
        decider: decides what becomes the data set.
        counts: collections of ("stage.name", number).
        rejects: the rejects of all tasks.
        ranges: what was read, with checksums.
        sketches: collections of ("stage.name", sketch).
    """

    def __init__(
        self,
        decider: Decider,
        counts: list[beam.PCollection[Count]],
        rejects: beam.PCollection[LinesFile],
        ranges: beam.PCollection[ReadRange],
        sketches: Sequence[beam.PCollection[Sketch]] = (),
    ) -> None:
        super().__init__()
        self._sketches, self._ranges = sketches, ranges
        self._decider, self._counts, self._rejects = decider, counts, rejects

    def expand(self, shards: beam.PCollection[WrittenFile]) -> beam.PCollection[str]:
        """Add up the counts, and commit after all shards."""
        work, rejects = self._decider.work, self._rejects
        tree = Tree(work.tasks, join_rejects, LinesFile, work.place)
        if tree.has_levels:
            rejects |= "JoinRejects" >> JoinInTree(tree)
        counts = add_up(self._counts, self._sketches)
        inputs = map(beam.pvalue.AsList, (shards, counts, rejects, self._ranges))
        once = shards.pipeline | "StartCommit" >> beam.Impulse()
        commit_all = beam.ParDo(_Commit(self._decider), *inputs).with_output_types(str)
        committed = once | "Commit" >> commit_all
        removed = []
        if tree.has_levels:
            prefixes = (
                committed
                | "ListPrefixes" >> beam.FlatMap(_list_removed, work.place).with_output_types(str)
                | "SpreadRemovals" >> beam.Reshuffle()
                | "RemoveFiles" >> beam.Map(_remove).with_output_types(str)
            )
            removed = [beam.pvalue.AsList(prefixes)]
        end = beam.ParDo(_End(work.place, work.is_awaited), *removed)
        return committed | "End" >> end.with_output_types(str)

    def display_data(self) -> dict[str, str]:
        """Show the output folder."""
        return {"output": self._decider.work.place.output}
