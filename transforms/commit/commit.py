"""Commit a data set: check the counts, rename the files, write the manifest and last `_SUCCESS`.

    shards ─ lists of them, in a tree ─┐
    rejects ─ joined, in a tree ───────┴─► decide ─► copy and move in groups ─► finish ─► remove
                                                                              temporary files
One task decides, and one finishes: they handle references, counts and small files. A data set of
few files is moved by the task that decides, and then there are no other stages.

Nothing happens if the run is over: a retry cures neither a mistake nor a claim that is lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import apache_beam as beam

import transforms.coders  # noqa: F401  registers those of the elements
from transforms.commit.contents import Decider, Inputs
from transforms.commit.groups import (
    MoveInGroups,
    PlannedReveal,
    RemoveTemporaryFiles,
    plan_reveal,
)
from transforms.commit.replace import reveal
from transforms.elements import LinesFile, ReadRange, WrittenFile
from transforms.recovery import COMMITTED, Workplace, check_claim, end_claim
from transforms.reports import report_data_set
from transforms.shuffle.trees import (
    JoinInTree,
    ListFiles,
    Tree,
    join_lines,
    join_rejects,
    read_lists,
)
from transforms.tally import Count, Sketch, add_up


class _Commit(beam.DoFn):
    """Commit a data set of few files; a second attempt continues where the first one stopped."""

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
                check_claim(place.output, place.token)
                decided = self._decider.decide(Inputs(written, dict(counts), rejects, ranges))
                reveal(place.output, place.temp_folder, *decided)
            end_claim(place.output, place.token, COMMITTED)
        yield place.output


class _Decide(beam.DoFn):
    """Decide what becomes a data set of many files, and yield the path of a `PlannedReveal`."""

    def __init__(self, decider: Decider) -> None:
        self._decider, self._place = decider, decider.work.place

    def process(
        self,
        _: bytes,
        lists: list[LinesFile],
        counts: Sequence[Count],
        rejects: list[LinesFile],
        ranges: Sequence[ReadRange],
    ) -> Iterator[str]:
        place = self._place
        if place.is_over():
            return
        with place.at_work():
            check_claim(place.output, place.token)
            written = list(read_lists(lists, place.limits.stages.small_file_bytes))
            inputs = Inputs(written, dict(counts), rejects, ranges)
            path = plan_reveal(place, self._decider.decide(inputs), place.limits.stages.fan_in)
        yield path


class _Finish(beam.DoFn):
    """Finish a data set whose groups of files are moved."""

    def __init__(self, place: Workplace) -> None:
        self._place = place

    def process(self, _: bytes, decided: Iterable[str], moved: Iterable[int]) -> Iterator[str]:
        place = self._place
        if not place.is_over():
            with place.at_work():
                check_claim(place.output, place.token)
                [path] = decided
                planned = PlannedReveal.read(path)
                planned.check_groups(moved, "moved")
                planned.steps(place).finish(planned.contents)
            end_claim(place.output, place.token, COMMITTED)
        yield place.output


class _End(beam.DoFn):
    """Clean up after a run that is over, and pass on the folder of its data set."""

    def __init__(self, place: Workplace, is_awaited: bool) -> None:
        self._place, self._is_awaited = place, is_awaited

    def process(self, folder: str, _: Sequence[str] = ()) -> Iterator[str]:
        # A first attempt may have finished the data set without living to report it.
        if self._place.has_committed():
            report_data_set(folder)
        if not self._is_awaited:
            self._place.clean_up()
        yield folder


class CommitDataset(beam.PTransform):
    """Give written shards their final names; return the folder once it is complete.

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
        work = self._decider.work
        tree = Tree(work.tasks, join_rejects, LinesFile, work.place)
        rejects = self._rejects
        has_many_files = tree.has_levels or work.groups
        if tree.has_levels:
            rejects |= "JoinRejects" >> JoinInTree(tree)
        if work.groups:
            lists = -(-work.shards // work.shards_a_list)
            tree = replace(tree, units=lists, join=join_lines)
            shards |= "ListShards" >> ListFiles(work.shards_a_list, work.place)
            if tree.has_levels:
                shards |= "JoinLists" >> JoinInTree(tree)
        counts = add_up(self._counts, self._sketches)
        inputs = map(beam.pvalue.AsList, (shards, counts, rejects, self._ranges))
        once = shards.pipeline | "StartCommit" >> beam.Impulse()
        if work.groups:
            decide = beam.ParDo(_Decide(self._decider), *inputs)
            decided = once | "Decide" >> decide.with_output_types(str)
            moved = decided | "MoveInGroups" >> MoveInGroups(work.place)
            done = map(beam.pvalue.AsList, (decided, moved))
            commit = beam.ParDo(_Finish(work.place), *done)
        else:
            commit = beam.ParDo(_Commit(self._decider), *inputs)
        committed = once | "Commit" >> commit.with_output_types(str)
        removed = []
        if has_many_files:
            prefixes = committed | "RemoveFiles" >> RemoveTemporaryFiles(work.place)
            removed = [beam.pvalue.AsList(prefixes)]
        end = beam.ParDo(_End(work.place, work.is_awaited), *removed)
        return committed | "End" >> end.with_output_types(str)

    def display_data(self) -> dict[str, str]:
        """Show the output folder."""
        return {"output": self._decider.work.place.output}
