"""Decide what a data set holds: check the counts, and prepare all of its files.

Before it, nothing has a final name; after it, files are only given theirs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import NamedTuple, Protocol

import numpy as np

from corpusmill.corpus.batches import MAX_DETAIL
from corpusmill.dataset import manifest as manifests
from corpusmill.dataset import manifest_json
from corpusmill.dataset.accounting import (
    Expected,
    find_imbalances,
    is_of_the_run,
    split_distributions,
    split_files,
    split_sources,
)
from corpusmill.dataset.card import describe
from corpusmill.dataset.editing import join_manifests, rejects_name
from corpusmill.dataset.manifest import FileEntry, Manifest, Shard, Split
from corpusmill.dataset.manifest_entries import Generation, SourceFile, provenance_name
from corpusmill.formats.shard_formats import part_names
from corpusmill.layout.length_bins import LengthBin
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from transforms.commit.rename import Move
from transforms.elements import DOCUMENTS, SPANS, LinesFile, ReadRange, WrittenFile
from transforms.recovery import Workplace, check_claim
from transforms.refusals import (
    check_rejects,
    explain_emptiness,
    name_first,
    refuse_findings,
    refuse_lost_files,
)
from transforms.shuffle.trees import concatenate, join_rejects
from transforms.storage.checksums import join_checksums, read_blocks, unseal
from transforms.storage.file_systems import join_path
from transforms.storage.files import new_path, read_file
from transforms.tally import limit_distinct


@dataclass(frozen=True)
class FileNames:
    """How the files of shards are named, and listed.

    Attributes:
        layout: how the examples are spread over shards.
        suffixes: suffixes of the files of a shard.
        bins: the length bins into which each shard is divided; empty where lengths are mixed.
        joined: {split: name without suffix} if all shards of a split become one file.
        pattern: pattern of the shards' names; None for the default.
        sources: names of the sources, in the order of the layout's; empty where there is but one.
        generation: in whose names the tag of a generation stands; None without provenance.
    """

    layout: Layout
    suffixes: tuple[str, ...]
    bins: tuple[LengthBin, ...]
    joined: Mapping[str, str]
    pattern: str | None
    sources: tuple[str, ...]
    generation: Generation | None = None

    def split_of(self, file: WrittenFile) -> str:
        """Return the name of a file's split."""
        return SPLIT_NAMES[self.layout.split_of(file.shard)]

    def source_of(self, file: WrittenFile) -> str | None:
        """Return the name of a file's source; None where there is but one."""
        number = self.layout.source_of(file.shard)
        return None if number is None else self.sources[number]

    def position(self, file: WrittenFile) -> tuple[int, int, int, int, int]:
        """Return the key of the manifest's order, which keeps the shards of a bin together."""
        source = self.layout.source_of(file.shard) or 0
        return (self.layout.split_of(file.shard), source, file.bin, file.shard, file.part)

    def entry(self, file: WrittenFile) -> FileEntry:
        """Return the entry of a file in the manifest, a `Shard` if it holds a shard's rows."""
        suffixes, bins, split = self.suffixes, self.bins, self.split_of(file)
        source = self.source_of(file)
        tag = self.generation.tag if self.generation else ""
        group = "-".join(filter(None, (split, source, tag)))
        begin = manifests.bin_name(group, file.bin, len(bins)) if bins else group
        first, total = self.layout.range_around(file.shard)
        number = file.shard - first
        if file.part == DOCUMENTS:
            name = provenance_name("documents", group, number, total)
            return FileEntry(name, file.bytes, file.sha256)
        if file.part == SPANS:
            name = provenance_name("spans", begin, number, total)
            return FileEntry(name, file.bytes, file.sha256)
        if self.joined:
            shard = self.joined[split] + (f"-{source}" if source else "") + suffixes[0]
        else:
            shard = manifests.shard_name(begin, number, total, suffixes[0], self.pattern)
        name = part_names(shard, suffixes)[file.part]
        if file.part:
            return FileEntry(name, file.bytes, file.sha256)
        length_bin = asdict(bins[file.bin]) if bins else {}
        content = (file.rows, file.tokens)
        return Shard(name, file.bytes, file.sha256, *content, **length_bin, source=source)


def add_unread(header: Manifest, unread: Mapping[int, int], first_file: int = 0) -> Manifest:
    """Add the unread bytes of the files that could not be read to their end.

    Args:
        header: the manifest without its results.
        unread: these bytes by the number of the file.
        first_file: the number of the first file of its corpus.
    """
    files = list(header.corpus.files)
    for index, number in unread.items():
        files[index - first_file] = replace(files[index - first_file], unread=number)
    return replace(header, corpus=replace(header.corpus, files=tuple(files)))


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


def add_results(
    header: Manifest,
    counts: dict[str, int],
    shards: Mapping[str, list[Shard]],
    files: Sequence[FileEntry],
) -> Manifest:
    """Add what was made: counts, shards by split, and the other files."""
    common, of_sources = split_sources(counts)
    plain, distributions = split_distributions(common)
    sources = tuple(
        replace(source, counts=dict(sorted(of_sources.get(source.name, {}).items())))
        for source in header.corpus.sources
    )
    corpus = replace(header.corpus, sources=sources)
    splits = {
        name: Split.from_shards(shards[name], distributions.get(name, {}))
        for name in SPLIT_NAMES
        if name in shards
    }
    kept = {name: number for name, number in plain.items() if not is_of_the_run(name)}
    return replace(header, corpus=corpus, counts=kept, splits=splits, files=tuple(files))


def describe_with_tokenizer(manifest: Manifest, path: str) -> dict[str, bytes]:
    """Render the small files of a data set, as `describe`, of which a tokenizer.json is one."""
    tokenizer_json = b"".join(read_blocks(path, manifest.tokenizer.sha256))
    return describe(manifest, manifest.small_files(tokenizer_json.decode()))


def count_groups(files: int, place: Workplace) -> int:
    """Return the number of groups in which files are moved; 0 for few, which one task moves."""
    fan_in = place.limits.stages.fan_in
    return 0 if files <= fan_in else -(-files // fan_in)


@dataclass(frozen=True)
class CommitOptions:
    """How a data set is committed.

    Attributes:
        place: where the run works.
        tokenizer_path: the tokenizer.json that was used.
        record_path: file written before the run: {"header": the manifest without its results,
            "stale": names of the files of an earlier data set in the folder, which is replaced}.
        suffixes: suffixes of the files of a shard.
        expected: what the counts must add up to.
        max_rejects: largest number of rejects from 1, or their largest share of the lines and rows
            below 1; None allows all.
        strict: whether a data set with findings is refused.
        bins: the length bins into which each shard is divided; empty where lengths are mixed.
        joined: {split: name without suffix} if all shards of a split become one file.
        shard_name: pattern of the shards' names; None for the default.
        sources: names of the sources, in the order of the layout's; empty where there is but one.
        tasks: number of tasks, each of which may have rejects.
        is_awaited: whether a command waits for the job, which then removes the temporary folder and
            the claim; otherwise the commit removes them.
        generation: the part of the data set that is built; None without provenance.
    """

    place: Workplace
    tokenizer_path: str
    record_path: str
    suffixes: tuple[str, ...]
    expected: Expected
    max_rejects: float | None
    strict: bool = False
    bins: tuple[LengthBin, ...] = ()
    joined: Mapping[str, str] = field(default_factory=dict)
    shard_name: str | None = None
    is_awaited: bool = False
    generation: Generation | None = None
    sources: tuple[str, ...] = ()
    tasks: int = 1

    @property
    def files_a_shard(self) -> int:
        """Number of files of a shard."""
        bins = max(1, len(self.bins))
        return bins * len(self.suffixes) + (bins + 1 if self.generation else 0)

    def count_groups(self, layout: Layout) -> int:
        """Return the number of groups of files that are moved; 0 if one task moves all."""
        files = layout.shards * self.files_a_shard
        return 0 if self.joined else count_groups(files, self.place)


class Decided(NamedTuple):
    """What becomes a data set.

    Attributes:
        moves: the large files.
        contents: {name: content} of the small files, in the order in which they are written.
        stale: names of the files of an earlier data set.
        appends: whether the files are added to those of an earlier data set.
    """

    moves: list[Move]
    contents: dict[str, bytes]
    stale: list[str]
    appends: bool = False


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
    """How much a commit has to do, and so how it is shared out among tasks.

    Attributes:
        place: where the run works.
        shards: number of shards.
        files_a_shard: number of files of a shard.
        groups: the number of groups of files that are moved; 0 if one task moves all.
        tasks: number of tasks, each of which may have rejects.
        is_awaited: whether a command waits for the job, as in `CommitOptions`.
    """

    place: Workplace
    shards: int
    files_a_shard: int
    groups: int = 0
    tasks: int = 1
    is_awaited: bool = False

    @property
    def shards_a_list(self) -> int:
        """How many shards have their files in one list, where these are moved in groups."""
        return max(1, self.place.limits.stages.fan_in // self.files_a_shard)


class Decider(Protocol):
    """Decides what becomes a data set."""

    @property
    def work(self) -> CommitWork:
        """How much there is to do."""

    def decide(self, inputs: Inputs) -> Decided:
        """Prepare every file of the data set.

        Raises:
            UserError: a mistake of the user's stands against it.
        """


class Decision:
    """Decides what becomes the data set that a job builds.

    Args:
        options: how the data set is committed.
        layout: how the examples are spread over shards.

    Attributes:
        work: how much there is to do.
        names: how the files are named.
    """

    def __init__(self, options: CommitOptions, layout: Layout) -> None:
        self._options = options
        self.work = CommitWork(
            options.place,
            layout.shards,
            options.files_a_shard,
            options.count_groups(layout),
            options.tasks,
            options.is_awaited,
        )
        self.names = FileNames(
            layout,
            options.suffixes,
            options.bins,
            options.joined,
            options.shard_name,
            options.sources,
            options.generation,
        )

    def decide(self, inputs: Inputs) -> Decided:
        """Prepare every file of the data set.

        Raises:
            RuntimeError: the counts of the stages disagree.
            UserError: the data set is empty or of little use, or has too many rejects; or another
                run has taken the folder.
        """
        sums, unread, lost = split_files(limit_distinct(inputs.counts))
        sums |= {"write.rejects": sum(file.lines for file in inputs.rejects)}
        record_path, names, place = self._options.record_path, self.names, self._options.place
        record = json.loads(unseal(read_file(record_path), record_path))
        generation = self._options.generation
        first_file = generation.first_file if generation else 0
        header = add_unread(manifest_json.from_json(record["header"]), unread, first_file)
        first = name_first(inputs.rejects).removeprefix("; ")[:MAX_DETAIL]
        header = replace(header, first_reject=first or None)
        self._check_counts(inputs, sums, header.corpus.files)
        if self._options.max_rejects is None:
            refuse_lost_files(header.corpus.files, lost, first_file, inputs.rejects)
        # Every file is prepared before the first gets its final name.
        whole = sorted(self._join_shards(inputs.written), key=names.position)
        entries = [(file, names.entry(file)) for file in whole]
        if len({entry.file for _, entry in entries}) < len(entries):
            raise RuntimeError("two files would have the same name")
        moves = [Move(file.path, self._final(entry.file), entry.bytes) for file, entry in entries]
        shards_of: dict[str, list[Shard]] = {}
        for file, entry in entries:
            if isinstance(entry, Shard):
                shards_of.setdefault(names.split_of(file), []).append(entry)
        files = [entry for _, entry in entries if not isinstance(entry, Shard)]
        header = add_checksums(header, inputs.ranges, first_file)
        if inputs.rejects:
            [joined] = join_rejects(0, inputs.rejects, place)
            name = rejects_name(generation.tag if generation else "")
            moves.append(Move(joined.path, self._final(name), joined.bytes))
            files.append(FileEntry(name, joined.bytes, joined.sha256))
        manifest = add_results(header, sums, shards_of, files)
        earlier = record.get("appended_to")
        if earlier is not None:
            manifest = join_manifests(manifest_json.from_json(earlier), manifest)
        if self._options.strict:
            refuse_findings(manifest)
        contents = describe_with_tokenizer(manifest, self._options.tokenizer_path)
        # Joining may have taken a while.
        check_claim(place.output, place.token)
        return Decided(moves, contents, record["stale"], earlier is not None)

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
        if not self._options.joined:
            yield from written
            return
        yield from (file for file in written if file.part in {SPANS, DOCUMENTS})
        written = [file for file in written if file.part not in {SPANS, DOCUMENTS}]
        names = self.names

        def kind(file: WrittenFile) -> tuple[str, str, int]:
            return names.split_of(file), names.source_of(file) or "", file.part

        for (split, _, part), group in groupby(sorted(written, key=kind), kind):
            files = sorted(group)
            if len(files) == 1:
                yield files[0]
                continue
            place = self._options.place
            path = new_path(place.temp_folder, f"joined-{split}-{part}")
            size, sha256 = concatenate(files, path, place.limits.stages.small_file_bytes)
            rows, tokens = sum(file.rows for file in files), sum(file.tokens for file in files)
            yield WrittenFile(files[0].shard, part, path, rows, tokens, size, sha256, bin=0)

    def _final(self, name: str) -> str:
        return join_path(self._options.place.output, *name.split("/"))
