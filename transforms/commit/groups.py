"""A data set of very many files: groups of them are moved, or deleted, by many tasks.

    decide ─ groups ─► copy ─► pass on ─ groups ─► move ─► finish

All that the steps must know is in files: `PlannedReveal` lists the groups, and `_Group` the files
of one. The steps themselves are those of `transforms.commit.replace`, whose promises hold.

Many tasks also remove the temporary files of a large run, each those whose names begin alike. An
object store lists a thousand files with a request, one request after the other, so that one task
would take an hour for some millions. Only files of a store are removed in this way; a folder of
this machine is listed as a whole, and removed with one call.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import apache_beam as beam

from corpusmill.dataset.manifest import SUCCESS
from corpusmill.dataset.ownership import delete_temporary
from transforms.commit.contents import Decided
from transforms.commit.rename import Move
from transforms.commit.replace import Reveal
from transforms.recovery import Workplace
from transforms.storage.checksums import seal as seal_content
from transforms.storage.checksums import unseal
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import locate, map_ahead, new_path, read_file, write_file
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


# A group: its number, and the path of its list.
Group = tuple[int, str]


@dataclass(frozen=True)
class _Group:
    """Files that one task copies, and then moves.

    Attributes:
        seal: the content of the data set's `_SUCCESS`, as text.
        moves: the files.
        removed: names of files of the earlier data set, which are deleted.
        appends: whether the files are added to those of the earlier data set.
    """

    seal: str
    moves: Sequence[Move]
    removed: Sequence[str]
    appends: bool = False


@dataclass(frozen=True)
class PlannedReveal:
    """All that the steps of one task each must know.

    Attributes:
        contents: {name: content} of the small files, in the order in which they are written.
        groups: paths of the groups' lists.
        appends: whether the files are added to those of an earlier data set.
    """

    contents: Mapping[str, bytes]
    groups: Sequence[str]
    appends: bool = False

    def steps(self, place: Workplace) -> Reveal:
        """Return the steps of the reveal."""
        return Reveal(place.output, place.temp_folder, self.contents[SUCCESS], self.appends)

    def check_groups(self, numbers: Iterable[int], done: str) -> None:
        """Check that a step was taken with every group.

        Args:
            numbers: those of the groups with which it was taken, some perhaps twice.
            done: what was done, for the message.

        Raises:
            RuntimeError: a group is missing.
        """
        if missing := {*range(len(self.groups))} - {*numbers}:
            total = len(self.groups)
            raise RuntimeError(f"{len(missing)} of {total} groups of files were not {done}")

    def write(self, folder: str) -> str:
        """Write it to a file of a folder, and return its path."""
        contents = [(name, b64encode(content).decode()) for name, content in self.contents.items()]
        return _write_sealed(folder, [contents, self.groups, self.appends])

    @classmethod
    def read(cls, path: str) -> "PlannedReveal":
        """Read what `write` wrote."""
        contents, groups, appends = _read_sealed(path)
        decoded = {name: b64decode(text) for name, text in contents}
        return cls(decoded, groups, appends)


def plan_reveal(
    place: Workplace,
    decided: Decided,
    group_files: int,
) -> str:
    """Cut a reveal into groups, and write the lists of all.

    Args:
        place: where the run works.
        decided: what becomes the data set.
        group_files: the most files that a group moves, and the most that it deletes.

    Returns:
        The path of the `PlannedReveal`.
    """
    moves, contents, stale, appends = decided
    folder, seal = place.temp_folder, contents[SUCCESS]
    steps = Reveal(place.output, folder, seal, appends)
    steps.record(moves, contents, stale)
    removed = steps.list_removed(stale, moves, contents)
    groups = [
        _Group(seal.decode(), moves[begin:end], removed[begin:end], appends)
        for begin in range(0, max(len(moves), len(removed)), group_files)
        for end in (begin + group_files,)
    ]
    paths = list(map_ahead(lambda group: _write_sealed(folder, asdict(group)), groups))
    return PlannedReveal(contents, paths, appends).write(folder)


def _write_sealed(folder: str, content: Any) -> str:
    path = new_path(folder, "reveal", ".json")
    write_file(path, seal_content(json.dumps(content).encode()))
    return path


def _read_sealed(path: str) -> Any:
    return json.loads(unseal(read_file(path), path))


def _read_group(path: str) -> _Group:
    content = _read_sealed(path)
    moves = [Move(*move) for move in content["moves"]]
    return _Group(content["seal"], moves, content["removed"], content["appends"])


class _ListGroups(beam.DoFn):
    """List the groups of a planned reveal."""

    def process(self, path: str) -> Iterator[Group]:
        yield from enumerate(PlannedReveal.read(path).groups)


class _HandleGroup(beam.DoFn):
    """Take a step with the files of a group, unless the run is over."""

    def __init__(self, place: Workplace, step: Callable[[Reveal, _Group], None]) -> None:
        self._place, self._step = place, step

    def process(self, element: Group) -> Iterator[int]:
        number, path = element
        place = self._place
        if place.is_over():
            return
        with place.at_work():
            group = _read_group(path)
            seal = group.seal.encode()
            self._step(Reveal(place.output, place.temp_folder, seal, group.appends), group)
        yield number


def _copy(steps: Reveal, group: _Group) -> None:
    steps.copy(group.moves)


def _move(steps: Reveal, group: _Group) -> None:
    steps.move(group.moves, group.removed)


class _PassOn(beam.DoFn):
    """Pass readers on once all groups are copied, and list the groups again."""

    def __init__(self, place: Workplace) -> None:
        self._place = place

    def process(self, _: bytes, decided: Iterable[str], copied: Iterable[int]) -> Iterator[Group]:
        place = self._place
        if place.is_over():
            return
        with place.at_work():
            [path] = decided
            planned = PlannedReveal.read(path)
            planned.check_groups(copied, "copied")
            planned.steps(place).pass_on(planned.contents)
        yield from enumerate(planned.groups)


class MoveInGroups(beam.PTransform):
    """Copy and move the files of a planned reveal, with a task for each group.

    Takes the path of a `PlannedReveal`, and returns the numbers of the groups that were moved.

    Args:
        place: where the run works.
    """

    def __init__(self, place: Workplace) -> None:
        super().__init__()
        self._place = place

    def expand(self, decided: beam.PCollection[str]) -> beam.PCollection[int]:
        """Deal the groups out to workers, twice."""
        copied = (
            decided
            | "ListGroups" >> beam.ParDo(_ListGroups()).with_output_types(Group)
            | "SpreadCopies" >> beam.Reshuffle()
            | "CopyGroup" >> beam.ParDo(_HandleGroup(self._place, _copy)).with_output_types(int)
        )
        # From one impulse, like the other stages that run once and read what all workers report.
        pass_on = beam.ParDo(_PassOn(self._place), *map(beam.pvalue.AsList, (decided, copied)))
        return (
            decided.pipeline
            | "StartMoves" >> beam.Impulse()
            | "PassOn" >> pass_on.with_output_types(Group)
            | "SpreadMoves" >> beam.Reshuffle()
            | "MoveGroup" >> beam.ParDo(_HandleGroup(self._place, _move)).with_output_types(int)
        )
