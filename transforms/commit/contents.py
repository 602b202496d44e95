"""Decide what a data set holds: check the counts, and prepare all of its files.

Shards have their final names already; what is joined from files of several tasks gets its own here.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, Protocol

import numpy as np

from corpusmill.corpus.batches import MAX_DETAIL
from corpusmill.corpus.filters.near_duplicates import read_shown
from corpusmill.dataset import manifest_json
from corpusmill.dataset.accounting import Expected, find_imbalances, split_files
from corpusmill.dataset.card import describe
from corpusmill.dataset.editing import add_results, add_unread, join_manifests
from corpusmill.dataset.manifest import (
    MANIFEST,
    ROOT,
    SUCCESS,
    TOKENIZER,
    FileEntry,
    Manifest,
    Shard,
)
from corpusmill.dataset.manifest_entries import SourceFile
from transforms.commit.pointer import Committed
from transforms.elements import NEAR, LinesFile, ReadRange, WrittenFile
from transforms.recovery import Workplace
from transforms.refusals import (
    check_rejects,
    explain_emptiness,
    name_first,
    refuse_findings,
    refuse_lost_files,
)
from transforms.shard_files import FileNames
from transforms.shuffle.trees import concatenate, join_rejects
from transforms.storage.checksums import join_checksums, read_blocks, unseal
from transforms.storage.files import create_once, open_file, read_file
from transforms.tally import limit_distinct


def add_checksums(header: Manifest, ranges: Sequence[ReadRange], first_file: int = 0) -> Manifest:
    """Add the checksums of the files of which every byte was read; the arguments are alike."""
    corpus = header.corpus
    own = [part._replace(file_index=part.file_index - first_file) for part in ranges]
    whole = _join_ranges(own, [file.bytes for file in corpus.files])
    files = tuple(
        replace(file, crc32c=f"{whole[index]:08x}") if index in whole else file
        for index, file in enumerate(corpus.files)
    )
    return replace(header, corpus=replace(corpus, files=files))


def _join_ranges(ranges: Sequence[ReadRange], sizes: Sequence[int]) -> dict[int, int]:
    """Return the checksums of the files of which every byte was read, by position."""
    if not ranges:
        return {}
    rows = np.unique(np.array(ranges, np.int64), axis=0)
    index, starts, lengths, checksums = rows.T
    found, firsts = np.unique(index, return_index=True)
    # Whether a range begins where the one before it in its file has ended.
    follows = starts == np.roll(starts + lengths, 1)
    follows[firsts] = starts[firsts] == 0
    is_whole = np.logical_and.reduceat(follows, firsts)
    is_whole &= np.add.reduceat(lengths, firsts) == np.array(sizes, np.int64)[found]
    joined = join_checksums(checksums.astype(np.uint32), lengths, firsts)
    return dict(zip(found[is_whole].tolist(), joined[is_whole].tolist(), strict=True))


def write_small(manifest: Manifest, tokenizer_path: str, place: Workplace) -> Committed:
    """Write the small files of a data set, which are copied beside the manifest at its end.

    Args:
        manifest: complete, but for the entries of these files.
        tokenizer_path: of the tokenizer.json that was used.
        place: where the run works.
    """
    folder = f"v{place.version}/{ROOT}"
    tokenizer = replace(manifest.tokenizer, file=f"{folder}{TOKENIZER}")
    manifest = replace(manifest, version=place.version, tokenizer=tokenizer)
    tokenizer_json = b"".join(read_blocks(tokenizer_path, tokenizer.sha256))
    contents = describe(manifest, manifest.small_files(tokenizer_json.decode()), folder)
    copies = {name: contents[name] for name in contents if name not in {MANIFEST, SUCCESS}}
    for name, content in copies.items():
        with create_once(place.final_path(f"{folder}{name}"), place.scratch) as stream:
            stream.write(content)
    return Committed(contents[MANIFEST], copies)


@dataclass(frozen=True)
class CommitOptions:
    """How a data set is committed.

    Attributes:
        place: where the run works.
        tokenizer_path: the tokenizer.json that was used.
        record_path: file written before the run: {"header": the manifest without its results}.
        expected: what the counts must add up to.
        max_rejects: largest number of rejects from 1, or their largest share of the lines and rows
            below 1; None allows all.
        strict: whether a data set with findings is refused.
        tasks: number of tasks, each of which may have rejects.
        is_awaited: whether a command waits for the job, which then removes the temporary files;
            otherwise the commit removes them.
    """

    place: Workplace
    tokenizer_path: str
    record_path: str
    expected: Expected
    max_rejects: float | None
    strict: bool = False
    is_awaited: bool = False
    tasks: int = 1


class Inputs(NamedTuple):
    """What the stages have made.

    Attributes:
        written: the files of all shards.
        counts: the counts of all stages.
        rejects: the rejects, in one file or several.
        ranges: what was read, with checksums.
    """

    written: Sequence[WrittenFile]
    counts: dict[str, int]
    rejects: Sequence[LinesFile]
    ranges: Sequence[ReadRange]


@dataclass(frozen=True)
class CommitWork:
    """What the stages of a commit depend on.

    Attributes:
        place: where the run works.
        tasks: number of tasks, each of which may have rejects.
        is_awaited: whether a command waits for the job, as in `CommitOptions`.
    """

    place: Workplace
    tasks: int = 1
    is_awaited: bool = False


class Decider(Protocol):
    """Decides what becomes a data set."""

    @property
    def work(self) -> CommitWork:
        """How much there is to do."""

    def decide(self, inputs: Inputs) -> Committed:
        """Prepare every file of the data set.

        Raises:
            UserError: a mistake of the user's stands against it.
        """


class Decision:
    """Decides what becomes the data set that a job builds.

    Args:
        options: how the data set is committed.
        names: how its files are named.

    Attributes:
        work: what the stages depend on.
    """

    def __init__(self, options: CommitOptions, names: FileNames) -> None:
        self._options, self._names = options, names
        self.work = CommitWork(options.place, options.tasks, options.is_awaited)

    def decide(self, inputs: Inputs) -> Committed:
        """Prepare every file of the data set.

        Raises:
            RuntimeError: the counts of the stages disagree.
            UserError: the data set is empty or of little use, or has too many rejects; or another
                run has taken the folder.
        """
        sums, unread, lost = split_files(limit_distinct(inputs.counts))
        sums |= {"write.rejects": sum(file.lines for file in inputs.rejects)}
        record_path, names, place = self._options.record_path, self._names, self._options.place
        record = json.loads(unseal(read_file(record_path), record_path))
        generation = names.generation
        first_file = generation.first_file if generation else 0
        header = add_unread(manifest_json.from_json(record["header"]), unread, first_file)
        first = name_first(inputs.rejects).removeprefix("; ")[:MAX_DETAIL]
        header = replace(header, first_reject=first or None)
        self._check_counts(inputs, sums, header.corpus.files)
        if self._options.max_rejects is None:
            refuse_lost_files(header.corpus.files, lost, first_file, inputs.rejects)
        for file in (file for file in inputs.written if file.part == NEAR):
            with open_file(file.path, file.bytes) as table:
                header = replace(header, near_pairs=read_shown(table))
        whole = sorted(self._join_shards(inputs.written), key=names.position)
        entries = [(file, names.entry(file)) for file in whole]
        if len({entry.file for _, entry in entries}) < len(entries):
            raise RuntimeError("two files would have the same name")
        shards_of: dict[str, list[Shard]] = {}
        for file, entry in entries:
            if isinstance(entry, Shard):
                shards_of.setdefault(names.split_of(file.shard), []).append(entry)
        files = [entry for _, entry in entries if not isinstance(entry, Shard)]
        header = add_checksums(header, inputs.ranges, first_file)
        if inputs.rejects:
            [joined] = join_rejects(0, inputs.rejects, place)
            size, digest = self._put(names.rejects, [joined])
            files.append(FileEntry(names.rejects, size, digest))
        manifest = add_results(header, sums, shards_of, files)
        earlier = record.get("appended_to")
        if earlier is not None:
            manifest = join_manifests(manifest_json.from_json(earlier), manifest)
        if self._options.strict:
            refuse_findings(manifest)
        return write_small(manifest, self._options.tokenizer_path, place)

    def _put(self, name: str, files: Iterable[WrittenFile | LinesFile]) -> tuple[int, str]:
        """Join temporary files to a file of the data set; return its size and its SHA-256."""
        place = self._options.place
        with create_once(place.final_path(name), place.scratch) as stream:
            return concatenate(files, stream)

    def _check_counts(
        self,
        inputs: Inputs,
        sums: dict[str, int],
        files: Sequence[SourceFile],
    ) -> None:
        check_rejects(sums, self._options.max_rejects, files, inputs.rejects)
        rows = sum(file.rows for file in inputs.written)
        shards = len({file.shard for file in inputs.written})
        problems = find_imbalances(sums, self._options.expected, rows, shards)
        if problems:
            raise RuntimeError("the counts of the stages disagree: " + "; ".join(problems))
        if not rows:
            raise explain_emptiness(self._options.place.output, sums, inputs.rejects)

    def _join_shards(self, written: Sequence[WrittenFile]) -> Iterator[WrittenFile]:
        """Join the files of a split's and source's shards, if the format has but one of them.

        Files of provenance stay as they are.
        """
        names = self._names
        if not names.joined:
            yield from written
            return
        yield from (file for file in written if file.part < 0)
        written = [file for file in written if file.part >= 0]

        def kind(file: WrittenFile) -> tuple[str, str, int]:
            return names.split_of(file.shard), names.source_of(file.shard) or "", file.part

        for (_, _, part), group in groupby(sorted(written, key=kind), kind):
            files = sorted(group)
            name = names.name(files[0].shard, part)
            size, sha256 = self._put(name, files)
            rows, tokens = sum(file.rows for file in files), sum(file.tokens for file in files)
            yield WrittenFile(files[0].shard, part, name, rows, tokens, size, sha256)
