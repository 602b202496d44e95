"""Compare the files of a data set with its manifest, on all workers of an engine.

    numbers of tasks ─ check ─┬─ problems ───────┬─ collect ─► a file
                              └─ counts ─ add up ┘

A task is a shard, or another file. Its check is that of `corpusmill.verify`, and workers read the
manifest themselves: only numbers, counts and problems go through the engine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.dataset.accounting import split_distributions
from corpusmill.dataset.file_checks import Problem, Task, check_task, count_bytes, list_tasks
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_entries import as_mapping, from_mapping
from corpusmill.dataset.manifest_json import decode
from corpusmill.errors import UserError
from corpusmill.location import Location
from corpusmill.verification.check_data_set import Totals
from transforms.coders import NamedOutputs
from transforms.shuffle.trees import read_collected
from transforms.tally import COUNTS, Count, Tally

PROBLEMS = "problems"
# The number of the task, what is wrong (`_BYTES` or `_ROWS`), the file, and the difference.
Found = tuple[int, str, str, str]
_BYTES, _ROWS = "bytes", "rows"

_TASKS, _UNCOUNTED = "verify.tasks", "uncounted."


@dataclass(frozen=True)
class Checking:
    """A data set that is checked.

    Attributes:
        folder: the folder with the files that the manifest lists; workers get a copy.
        digest: hexadecimal SHA-256 of the manifest.
        tasks: how many tasks it has.
        unread: files that are missing or of another size.
    """

    folder: Location
    digest: str
    tasks: int
    unread: frozenset[str]


@dataclass(frozen=True)
class _Loaded:
    """A manifest and its tasks, of which a process has one; Beam shares no tuple."""

    manifest: Manifest
    tasks: list[Task]


class _Check(beam.DoFn):
    """Check a task by its number."""

    def __init__(self, checking: Checking) -> None:
        self._checking, self._shared = checking, Shared()

    def setup(self) -> None:
        self._loaded = self._shared.acquire(self._load, tag=self._checking.digest)

    def _load(self) -> _Loaded:
        folder = self._checking.folder
        content = folder.read(MANIFEST)
        if sha256(content).hexdigest() != self._checking.digest:
            cause = "it has changed since the check began"
            raise UserError(f"{folder.url}/{MANIFEST}", cause, "Verify the data set again")
        manifest = decode(content, folder.url)
        return _Loaded(manifest, list_tasks(manifest))

    def process(self, element: int) -> Iterator[Found]:
        manifest, task = self._loaded.manifest, self._loaded.tasks[element]
        checking = self._checking
        checked = check_task(checking.folder, manifest, task, checking.unread)
        for kind, problems in ((_BYTES, checked.differences), (_ROWS, checked.faults)):
            yield from ((element, kind, one.file, one.what) for one in problems)
        tally = Tally()
        tally.add(_TASKS, 1)
        tally.add("read.bytes", count_bytes(manifest, task))
        if checked.counts is None:
            tally.add(f"{_UNCOUNTED}{task.split}", 1)
        for name, counts in (checked.counts or {}).items():
            for value, number in as_mapping(counts).items():
                tally.add(f"verify.{task.split}.{name}.{value}", number)
        yield from (TaggedOutput(COUNTS, count) for count in tally.counts())


class CheckFiles(beam.PTransform):
    """Check all files of a data set.

    Returns the collections PROBLEMS and COUNTS.

    Args:
        checking: the data set.
    """

    def __init__(self, checking: Checking) -> None:
        super().__init__()
        self._checking = checking

    def expand(self, begin: beam.pvalue.PBegin) -> NamedOutputs:
        """Spread the tasks over all workers."""
        return (
            begin
            | "CreateTasks" >> beam.Create([self._checking.tasks]).with_output_types(int)
            | "NumberTasks" >> beam.FlatMap(lambda number: [*range(number)]).with_output_types(int)
            | "SpreadTasks" >> beam.Reshuffle()
            | "Check"
            >> beam.ParDo(_Check(self._checking))
            .with_output_types(Found, **{COUNTS: Count})
            .with_outputs(COUNTS, main=PROBLEMS)
        )

    def display_data(self) -> dict[str, str | int]:
        """Show what is checked."""
        return {"folder": self._checking.folder.url, "tasks": self._checking.tasks}


def read_totals(path: str, tasks: int) -> Totals:
    """Read what all tasks have found.

    Args:
        path: where `CollectResult` has written the problems and counts of `CheckFiles`.
        tasks: how many there are.

    Raises:
        DamagedFileError: the file is damaged.
        RuntimeError: tasks were lost.
    """
    counts, found = read_collected(path)
    plain, distributions = split_distributions(counts)
    if plain.get(_TASKS) != tasks:
        raise RuntimeError(f"{plain.get(_TASKS, 0):,} of {tasks:,} tasks were checked")
    totals = Totals(uncounted={name.removeprefix(_UNCOUNTED) for name in plain})
    for number, kind, file, what in found:
        if kind == _BYTES:
            totals.differences.append(Problem(file, what))
        else:
            totals.faults.append((number, Problem(file, what)))
    for split, named in distributions.items():
        totals.counts[split] = {name: from_mapping(values) for name, values in named.items()}
    return totals
