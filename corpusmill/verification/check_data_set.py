"""A data set compared with its manifest: every byte, every count, every file."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from corpusmill.dataset.accounting import Expected, find_imbalances, name_of_source
from corpusmill.dataset.file_checks import (
    Checked,
    Problem,
    Task,
    check_digest,
    check_size,
    check_task,
    count_bytes,
    list_tasks,
)
from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Manifest
from corpusmill.dataset.manifest_entries import Counts, add_all, as_mapping, weigh_segments
from corpusmill.dataset.manifest_json import DamagedManifestError, decode
from corpusmill.dataset.ownership import OwnFiles
from corpusmill.errors import UserError
from corpusmill.location import Location, locate
from corpusmill.processors import count_processors

# What the hub and its client add to the folder of a data set.
_FILES_OF_THE_HUB = (".gitattributes", ".cache/huggingface/")


@dataclass(frozen=True)
class Listed:
    """A data set whose list of files has been compared with its manifest, and no file yet.

    Attributes:
        folder: the folder with the files that the manifest lists.
        manifest: the manifest.
        problems: what is wrong with the manifest and the list.
        sizes: the files of another size.
        unread: files that are missing or of another size.
    """

    folder: Location
    manifest: Manifest
    problems: tuple[Problem, ...]
    sizes: tuple[Problem, ...]
    unread: frozenset[str]


@dataclass
class Totals:
    """What tasks have found, added in any order.

    Attributes:
        differences: what is wrong with the bytes of files.
        faults: what is wrong with the rows of shards, each with the number of its task.
        counts: the distributions of each split.
        uncounted: the splits of which a shard could not be counted.
    """

    differences: list[Problem] = field(default_factory=list)
    faults: list[tuple[int, Problem]] = field(default_factory=list)
    counts: dict[str, dict[str, Counts]] = field(default_factory=dict)
    uncounted: set[str] = field(default_factory=set)

    def add(self, number: int, task: Task, checked: Checked) -> None:
        """Add what a task has found, by its number in `list_tasks`."""
        self.differences += checked.differences
        self.faults += ((number, fault) for fault in checked.faults)
        if checked.counts is None:
            self.uncounted.add(task.split)
        else:
            add_all(self.counts.setdefault(task.split, {}), checked.counts)


def verify(folder: Location | str | Path, workers: int | None = None) -> list[Problem]:
    """Read a data set and compare it with its manifest.

    Every byte is read, and everything that the rows tell is counted again: rows, tokens,
    distributions. Memory is bounded by a row group for each worker.

    Args:
        folder: the data set's folder, its path, or a URL that fsspec knows.
        workers: threads, each of which checks a shard at a time; None for one per processor.

    Returns:
        All differences, the same for any number of workers; an empty list for a sound data set.

    Raises:
        UserError: the folder does not hold a data set, or its manifest is not allowed.
    """
    listed = compare_list(folder if isinstance(folder, Location) else locate(str(folder)))
    if not isinstance(listed, Listed):
        return listed
    tasks, totals = list_tasks(listed.manifest), Totals()

    def check(number: int) -> Checked:
        return check_task(listed.folder, listed.manifest, tasks[number], listed.unread)

    # The largest first, so that all threads end together.
    order = sorted(
        range(len(tasks)), key=lambda number: -count_bytes(listed.manifest, tasks[number])
    )
    with ThreadPoolExecutor(workers or count_processors()) as threads:
        for number, checked in zip(order, threads.map(check, order), strict=True):
            totals.add(number, tasks[number], checked)
    return conclude(listed, totals)


def compare_list(folder: Location) -> Listed | list[Problem]:
    """Compare the list of a data set's files with its manifest.

    Returns:
        The list's problems alone if the manifest cannot be trusted.

    Raises:
        UserError: the folder does not hold a data set, or its manifest is not allowed.
    """
    folder = folder.pin()
    files = folder.list()
    manifest, problems = _read_manifest(folder, files)
    if manifest is None:
        return problems
    entries = manifest.entries
    missing = entries.keys() - files.keys()
    problems += [Problem(name, "missing") for name in sorted(missing)]
    problems += _compare_copies(folder, manifest, files)
    listed = {*entries, *manifest.copies, MANIFEST, SUCCESS}
    owned = OwnFiles.find(folder, files, manifest).names | listed
    problems += [
        Problem(name, "extra: the manifest does not list it")
        for name in sorted(files.keys() - owned)
        if not name.startswith(_FILES_OF_THE_HUB)
    ]
    present = entries.keys() & files.keys()
    sizes = tuple(problem for name in present for problem in check_size(entries[name], files[name]))
    unread = frozenset(missing.union(problem.file for problem in sizes))
    return Listed(folder, manifest, tuple(problems), sizes, unread)


def conclude(listed: Listed, totals: Totals) -> list[Problem]:
    """Return all differences of a data set whose tasks are done, in their order.

    Args:
        listed: the data set.
        totals: what the tasks have found.
    """
    manifest = listed.manifest
    problems = [*listed.problems]
    problems += sorted((*listed.sizes, *totals.differences), key=lambda problem: problem.file)
    problems += (fault for _, fault in sorted(totals.faults, key=lambda problem: problem[0]))
    for name, split in manifest.splits.items():
        if name not in totals.uncounted:
            counts = totals.counts.get(name, {})
            problems += (
                Problem(MANIFEST, f"{name}: the distribution {kind} is not that of the rows")
                for kind, stated in split.distributions.items()
                if kind in counts and as_mapping(counts[kind]) != stated
            )
    return [*problems, *_check_manifest(manifest)]


def _read_manifest(
    folder: Location, files: Mapping[str, int]
) -> tuple[Manifest | None, list[Problem]]:
    """The manifest, and problems with it; None where it cannot be trusted."""
    if MANIFEST not in files:
        if SUCCESS in files:
            return None, [Problem(MANIFEST, "missing")]
        cause = f"it holds no {MANIFEST}" if files else "it is empty or does not exist"
        cause += ", so it is not a data set"
        raise UserError(str(folder), cause, "Give the folder that a build wrote")
    try:
        content = folder.read(MANIFEST)
    except OSError as error:
        return None, [Problem(MANIFEST, f"it cannot be read: {error}")]
    try:
        return decode(content, str(folder)), []
    except DamagedManifestError as error:
        cause = f"{error.cause}, and without a trustworthy manifest nothing else was checked"
        return None, [Problem(MANIFEST, cause)]


def _compare_copies(
    folder: Location, manifest: Manifest, files: Mapping[str, int]
) -> Iterator[Problem]:
    """Compare the files beside the manifest with those of which they are copies."""
    for name, entry in manifest.copies.items():
        if name not in files:
            yield Problem(name, f"missing: it is a copy of {entry.file}")
        elif any(check_digest(replace(entry, file=name), folder)):
            yield Problem(name, f"it is not the copy of {entry.file} that it should be")


def _check_manifest(manifest: Manifest) -> Iterator[Problem]:
    """What the manifest states twice, and what follows from other counts."""
    tokenizer, entries, counts = manifest.tokenizer, manifest.entries, manifest.counts
    if tokenizer.file not in entries or entries[tokenizer.file].sha256 != tokenizer.sha256:
        cause = f"it lists another {tokenizer.file} than the one that made the data set"
        yield Problem(MANIFEST, cause)
    shards = sum(len(split.shards) for split in manifest.splits.values())
    rows = manifest.rows
    # Ranges and bytes of text belong to the run, which is over.
    expected = Expected(counts.get("read.ranges", 0), -1, shards, manifest.objective.repeats)
    written = rows + sum(removal.rows for removal in manifest.removals)
    if counts.get("write.rows", written) != written:
        kinds = "its splits and removals hold" if manifest.removals else "its splits hold"
        cause = f"its count write.rows is {counts['write.rows']:,}, {kinds} {written:,}"
        yield Problem(MANIFEST, cause)
    tokens = sum(weigh_segments(split.distributions) for split in manifest.splits.values())
    tokens += sum(removal.segment_tokens for removal in manifest.removals)
    if counts.get("write.segment_tokens", tokens) != tokens:
        cause = f"its count write.segment_tokens is not the {tokens:,} of its distributions"
        yield Problem(MANIFEST, cause)
    of_sources = {
        name_of_source(source.name, name): number
        for source in manifest.corpus.sources
        for name, number in source.counts.items()
    }
    for sentence in find_imbalances({**counts, **of_sources}, expected, written, shards):
        yield Problem(MANIFEST, f"its counts disagree: {sentence}")
