"""Temporary files to a data set: check counts, rename, write the manifest, and `_SUCCESS` last."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from uuid import uuid4

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset import manifest as manifests
from corpusmill.dataset import manifest_json
from corpusmill.dataset.accounting import (
    Expected,
    find_imbalances,
    is_of_the_run,
    split_distributions,
)
from corpusmill.dataset.card import render_card
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.dataset.manifest import FileEntry, Manifest, Shard, Split, entry_of
from corpusmill.errors import UserError
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.layout.length_bins import LengthBin
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from transforms.elements import RejectsFile, WrittenFile
from transforms.recovery.claim import check_claim, drop_claim, read_claim
from transforms.recovery.publish import Move
from transforms.recovery.reveal import reveal
from transforms.storage.files import create_file, file_exists, open_file, remove_folder


@dataclass(frozen=True)
class CommitOptions:
    """What the commit needs to know beside its inputs.

    Attributes:
        output: the data set's folder.
        temp_folder: where files are prepared.
        tokenizer_path: the tokenizer.json that was used.
        record_path: file of what is known before the run: {"header": the manifest's first entries,
            "stale": files of an earlier data set in the folder, which this one replaces}.
        claim: token of the run's claim on the folder.
        suffixes: of the files of a shard.
        expected: what the counts must add up to.
        max_rejects: most rejects allowed: a number from 1, or a share of the lines below 1; None
            allows all.
        bins: ranges of lengths that each shard is parted into; none where lengths are mixed.
        joined: where all shards of a split become one file, its name without the suffix, by split.
        shard_name: the pattern of the shards' names; None for the usual one.
    """

    output: str
    temp_folder: str
    tokenizer_path: str
    record_path: str
    claim: str
    suffixes: tuple[str, ...]
    expected: Expected
    max_rejects: float | None
    bins: tuple[LengthBin, ...] = ()
    joined: Mapping[str, str] = field(default_factory=dict)
    shard_name: str | None = None


class _Commit(beam.DoFn):
    """Runs once; a second attempt finds what the first one moved and goes on from there."""

    def __init__(self, options: CommitOptions, layout: Layout) -> None:
        self._options, self._layout = options, layout

    def process(
        self,
        _: bytes,
        written: list[WrittenFile],
        counts: list[tuple[str, int]],
        rejects: list[RejectsFile],
    ) -> Iterator[str]:
        sums = {**dict(counts), "write.rejects": sum(part.rejects for part in rejects)}
        if not self._is_done():
            check_claim(self._options.output, self._options.claim)
            self._commit(written, sums, rejects)
            drop_claim(self._options.output, self._options.claim)
        # Also of a run that nobody waits for nothing stays.
        remove_folder(self._options.temp_folder)
        yield self._options.output

    def _is_done(self) -> bool:
        """Whether an attempt before this one came to its end."""
        success = self._final(manifests.SUCCESS)
        return read_claim(self._options.output) is None and file_exists(success)

    def _commit(
        self, written: list[WrittenFile], sums: dict[str, int], rejects: list[RejectsFile]
    ) -> None:
        check_rejects(sums, self._options.max_rejects)
        with open_file(self._options.record_path) as stream:
            record = json.loads(stream.read())
        rows = sum(file.rows for file in written)
        shards = len({file.shard for file in written})
        problems = find_imbalances(sums, self._options.expected, rows, shards)
        if problems:
            raise RuntimeError("the counts of the stages disagree: " + "; ".join(problems))
        # Everything is prepared before anything is given its name.
        whole = self._join_shards(written) if self._options.joined else written
        entries = [(file, self._entry(file)) for file in sorted(whole, key=self._place)]
        moves = [Move(file.path, self._final(entry.file), entry.bytes) for file, entry in entries]
        shards_of: dict[str, list[Shard]] = {}
        for file, entry in entries:
            if isinstance(entry, Shard):
                shards_of.setdefault(self._split_of(file), []).append(entry)
        files = [entry for _, entry in entries if not isinstance(entry, Shard)]
        tokenizer_json = self._read_tokenizer()
        files.append(entry_of(manifests.TOKENIZER, tokenizer_json))
        for path, entry in self._join_rejects(rejects):
            moves.append(Move(path, self._final(entry.file), entry.bytes))
            files.append(entry)
        header = manifest_json.from_json(record["header"])
        manifest = _add_results(header, sums, shards_of, files)
        contents = {manifests.TOKENIZER: tokenizer_json, **_describe(manifest, tokenizer_json)}
        # Joining may have taken a while.
        check_claim(self._options.output, self._options.claim)
        reveal(self._options.output, self._options.temp_folder, moves, contents, record["stale"])

    def _split_of(self, file: WrittenFile) -> str:
        return SPLIT_NAMES[self._layout.split_of(file.shard)]

    def _entry(self, file: WrittenFile) -> FileEntry:
        suffixes, bins, split = self._options.suffixes, self._options.bins, self._split_of(file)
        begin = manifests.bin_name(split, file.bin, len(bins)) if bins else split
        if self._options.joined:
            shard = self._options.joined[split] + suffixes[0]
        else:
            validation = file.shard >= self._layout.train_shards
            number = file.shard - (self._layout.train_shards if validation else 0)
            of = self._layout.validation_shards if validation else self._layout.train_shards
            shard = manifests.shard_name(begin, number, of, suffixes[0], self._options.shard_name)
        name = part_names(shard, suffixes)[file.part]
        if file.part:
            return FileEntry(name, file.bytes, file.sha256)
        of_bin = asdict(bins[file.bin]) if bins else {}
        return Shard(name, file.bytes, file.sha256, file.rows, file.tokens, **of_bin)

    def _place(self, file: WrittenFile) -> tuple[int, int, int, int]:
        """The order of the manifest: a bin's shards stand together."""
        return (self._layout.split_of(file.shard), file.bin, file.shard, file.part)

    def _join_shards(self, written: list[WrittenFile]) -> Iterator[WrittenFile]:
        """One file a split and part, from those of its shards in the order of their numbers."""

        def kind(file: WrittenFile) -> tuple[str, int]:
            return self._split_of(file), file.part

        for (split, part), of_kind in groupby(sorted(written, key=kind), kind):
            files = sorted(of_kind)
            if len(files) == 1:
                yield files[0]
                continue
            path = self._new_path(f"joined-{split}-{part}")
            size, sha256 = _join_files([file.path for file in files], path)
            rows, tokens = sum(file.rows for file in files), sum(file.tokens for file in files)
            yield WrittenFile(files[0].shard, part, path, rows, tokens, size, sha256, bin=0)

    def _final(self, name: str) -> str:
        return str(FileSystems.join(self._options.output, *name.split("/")))

    def _read_tokenizer(self) -> bytes:
        with open_file(self._options.tokenizer_path) as stream:
            return stream.read()

    def _join_rejects(self, rejects: list[RejectsFile]) -> Iterator[tuple[str, FileEntry]]:
        if rejects:
            joined = self._new_path("rejects")
            size, sha256 = _join_files([part.path for part in sorted(rejects)], joined)
            yield joined, FileEntry(manifests.REJECTS, size, sha256)

    def _new_path(self, name: str) -> str:
        """Of this attempt alone: another one may be writing the same."""
        return str(FileSystems.join(self._options.temp_folder, f"{name}-{uuid4().hex}"))


def _add_results(
    header: Manifest,
    counts: dict[str, int],
    shards: Mapping[str, list[Shard]],
    files: Sequence[FileEntry],
) -> Manifest:
    plain, distributions = split_distributions(counts)
    splits = {
        name: Split.from_shards(shards[name], distributions.get(name, {}))
        for name in SPLIT_NAMES
        if name in shards
    }
    kept = {name: number for name, number in plain.items() if not is_of_the_run(name)}
    return replace(header, counts=kept, splits=splits, files=tuple(files))


def _join_files(paths: Iterable[str], joined: str) -> tuple[int, str]:
    """Write files one behind the other into a new one; gives its bytes and their sha256."""
    with create_file(joined) as stream:
        target = HashingWriter(stream)
        for path in paths:
            with open_file(path) as source:
                while block := source.read(2**20):
                    target.write(block)
    return target.bytes, target.sha256


def _describe(manifest: Manifest, tokenizer_json: bytes) -> dict[str, bytes]:
    """The files that describe the data set; the last one declares it complete."""
    shards = {
        name: [shard.file for shard in split.shards] for name, split in manifest.splits.items()
    }
    files = FORMATS[manifest.output.format].companion_files(
        shards, tokenizer_json.decode(), manifest.objective.options
    )
    manifest = manifest.with_files(files)
    card = {manifests.CARD: render_card(manifest)}
    content = manifest_json.encode(manifest.with_files(card))
    return {
        **files,
        **card,
        manifests.MANIFEST: content,
        manifests.SUCCESS: manifest_json.seal(content),
    }


def check_rejects(counts: dict[str, int], max_rejects: float | None) -> None:
    """Refuse a corpus with more rejects than allowed.

    Args:
        counts: of all stages.
        max_rejects: a number from 1, or a share of the lines and rows below 1; 0 allows none, None
            all.

    Raises:
        UserError: there are more.
    """
    lines = counts.get("read.lines", 0) + counts.get("read.rows", 0)
    # A reject may stand for all rows of a damaged block, or for bytes that are no line.
    refused = counts.get("read.rejected_lines", 0) + counts.get("read.rejected_rows", 0)
    rejects = max(counts.get("read.rejects", 0), refused)
    if max_rejects is None:
        return
    allowed = max_rejects if max_rejects >= 1 else max_rejects * lines
    if rejects > allowed:
        raise UserError(
            f"--max-rejects {max_rejects:g}",
            f"{rejects:,} of {lines:,} input lines and rows are rejects",
            "Mend the input, or allow more; a run without --max-rejects lists them in rejects/",
        )


def _add(numbers: Iterable[int]) -> int:
    # Of the bare `sum`, Beam does not know the type, and would pickle every count.
    return sum(numbers)


class CommitDataset(beam.PTransform):
    """Give written shards their final names; gives the folder once it is complete.

    Args:
        options: names, header, expectations.
        layout: how the examples are spread.
        counts: collections of ("stage.name", number).
        rejects: collection of the ranges' rejects.
    """

    def __init__(
        self,
        options: CommitOptions,
        layout: Layout,
        counts: list[beam.PCollection[tuple[str, int]]],
        rejects: beam.PCollection[RejectsFile],
    ) -> None:
        super().__init__()
        self._options, self._layout, self._counts, self._rejects = options, layout, counts, rejects

    def expand(self, shards: beam.PCollection[WrittenFile]) -> beam.PCollection[str]:
        """Add up the counts and run the commit once, behind all shards."""
        joined = self._counts | "JoinCounts" >> beam.Flatten()
        sums = joined | "AddCounts" >> beam.CombinePerKey(_add)
        inputs = (beam.pvalue.AsList(of) for of in (shards, sums, self._rejects))
        once = shards.pipeline | "StartCommit" >> beam.Impulse()
        return once | "Commit" >> beam.ParDo(
            _Commit(self._options, self._layout), *inputs
        ).with_output_types(str)

    def display_data(self) -> dict[str, str]:
        """Where it goes."""
        return {"output": self._options.output}
