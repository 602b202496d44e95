"""Commit a data set: check the counts, rename the files, write the manifest and last `_SUCCESS`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

import transforms.coders  # noqa: F401  registers those of the elements
from corpusmill.dataset import manifest as manifests
from corpusmill.dataset import manifest_json
from corpusmill.dataset.accounting import (
    Expected,
    find_imbalances,
    is_of_the_run,
    split_distributions,
    split_sources,
)
from corpusmill.dataset.card import render_card
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.dataset.croissant import render_croissant
from corpusmill.dataset.manifest import FileEntry, Manifest, Shard, Split, entry_of
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.layout.length_bins import LengthBin
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from transforms.checksums import join_checksums, read_blocks, unseal
from transforms.elements import ReadRange, RejectsFile, WrittenFile
from transforms.lineage import report_data_set
from transforms.recovery.claim import COMMITTED, check_claim, end_claim
from transforms.recovery.publish import Move
from transforms.recovery.reveal import reveal
from transforms.recovery.workplace import Workplace
from transforms.refusals import check_rejects, explain_emptiness, refuse_findings
from transforms.storage.files import create_file, new_path, read_file
from transforms.tally import Count, Sketch, add_up, limit_distinct


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
        is_awaited: whether a command waits for the job, which then removes the temporary folder and
            the claim; otherwise the commit removes them.
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
    sources: tuple[str, ...] = ()


class _Commit(beam.DoFn):
    """Commit the data set once; a second attempt continues where the first one stopped.

    Nothing happens if the run is over: a retry cures neither a mistake nor a claim that is lost.
    """

    def __init__(self, options: CommitOptions, layout: Layout) -> None:
        self._options, self._layout = options, layout

    def process(
        self,
        _: bytes,
        written: list[WrittenFile],
        counts: Sequence[Count],
        rejects: list[RejectsFile],
        ranges: Sequence[ReadRange],
    ) -> Iterator[str]:
        sums = limit_distinct(dict(counts)) | {"write.rejects": sum(f.rejects for f in rejects)}
        place = self._options.place
        if not place.is_over():
            with place.at_work():
                check_claim(place.output, place.token)
                self._commit(written, sums, rejects, ranges)
            end_claim(place.output, place.token, COMMITTED)
        # A first attempt may have finished the data set without living to report it.
        if place.has_committed():
            report_data_set(place.output)
        if not self._options.is_awaited:
            place.clean_up()
        yield place.output

    def _commit(
        self,
        written: list[WrittenFile],
        sums: dict[str, int],
        rejects: list[RejectsFile],
        ranges: Sequence[ReadRange],
    ) -> None:
        self._check_counts(written, sums)
        record_path = self._options.record_path
        record = json.loads(unseal(read_file(record_path), record_path))
        # Every file is prepared before the first gets its final name.
        whole = self._join_shards(written) if self._options.joined else written
        entries = [(file, self._entry(file)) for file in sorted(whole, key=self._position)]
        moves = [Move(file.path, self._final(entry.file), entry.bytes) for file, entry in entries]
        shards_of: dict[str, list[Shard]] = {}
        for file, entry in entries:
            if isinstance(entry, Shard):
                shards_of.setdefault(self._split_of(file), []).append(entry)
        files = [entry for _, entry in entries if not isinstance(entry, Shard)]
        header = _add_checksums(manifest_json.from_json(record["header"]), ranges)
        path = self._options.tokenizer_path
        tokenizer_json = b"".join(read_blocks(path, header.tokenizer.sha256))
        files.append(entry_of(manifests.TOKENIZER, tokenizer_json))
        if rejects:
            joined = new_path(self._options.place.temp_folder, "rejects")
            size, sha256 = _join_files(sorted(rejects), joined)
            moves.append(Move(joined, self._final(manifests.REJECTS), size))
            files.append(FileEntry(manifests.REJECTS, size, sha256))
        manifest = _add_results(header, sums, shards_of, files)
        if self._options.strict:
            refuse_findings(manifest)
        contents = {manifests.TOKENIZER: tokenizer_json, **_describe(manifest, tokenizer_json)}
        # Joining may have taken a while.
        place = self._options.place
        check_claim(place.output, place.token)
        reveal(place.output, place.temp_folder, moves, contents, record["stale"])

    def _check_counts(self, written: list[WrittenFile], sums: dict[str, int]) -> None:
        check_rejects(sums, self._options.max_rejects)
        rows = sum(file.rows for file in written)
        shards = len({file.shard for file in written})
        problems = find_imbalances(sums, self._options.expected, rows, shards)
        if problems:
            raise RuntimeError("the counts of the stages disagree: " + "; ".join(problems))
        if not rows:
            raise explain_emptiness(self._options.place.output, sums)

    def _split_of(self, file: WrittenFile) -> str:
        return SPLIT_NAMES[self._layout.split_of(file.shard)]

    def _entry(self, file: WrittenFile) -> FileEntry:
        suffixes, bins, split = self._options.suffixes, self._options.bins, self._split_of(file)
        source = self._source_of(file)
        group = f"{split}-{source}" if source else split
        begin = manifests.bin_name(group, file.bin, len(bins)) if bins else group
        if self._options.joined:
            shard = self._options.joined[split] + (f"-{source}" if source else "") + suffixes[0]
        else:
            first, total = self._layout.range_around(file.shard)
            number, pattern = file.shard - first, self._options.shard_name
            shard = manifests.shard_name(begin, number, total, suffixes[0], pattern)
        name = part_names(shard, suffixes)[file.part]
        if file.part:
            return FileEntry(name, file.bytes, file.sha256)
        length_bin = asdict(bins[file.bin]) if bins else {}
        content = (file.rows, file.tokens)
        return Shard(name, file.bytes, file.sha256, *content, **length_bin, source=source)

    def _source_of(self, file: WrittenFile) -> str | None:
        number = self._layout.source_of(file.shard)
        return None if number is None else self._options.sources[number]

    def _position(self, file: WrittenFile) -> tuple[int, int, int, int, int]:
        """Return the key of the manifest's order, which keeps the shards of a bin together."""
        source = self._layout.source_of(file.shard) or 0
        return (self._layout.split_of(file.shard), source, file.bin, file.shard, file.part)

    def _join_shards(self, written: list[WrittenFile]) -> Iterator[WrittenFile]:
        """Join the files of a split's and source's shards, in the order of their numbers."""

        def kind(file: WrittenFile) -> tuple[str, str, int]:
            return self._split_of(file), self._source_of(file) or "", file.part

        for (split, _, part), group in groupby(sorted(written, key=kind), kind):
            files = sorted(group)
            if len(files) == 1:
                yield files[0]
                continue
            path = new_path(self._options.place.temp_folder, f"joined-{split}-{part}")
            size, sha256 = _join_files(files, path)
            rows, tokens = sum(file.rows for file in files), sum(file.tokens for file in files)
            yield WrittenFile(files[0].shard, part, path, rows, tokens, size, sha256, bin=0)

    def _final(self, name: str) -> str:
        return str(FileSystems.join(self._options.place.output, *name.split("/")))


def _add_checksums(header: Manifest, ranges: Sequence[ReadRange]) -> Manifest:
    """Add the checksums of the files of which every byte was read."""
    corpus, whole = header.corpus, dict[int, tuple[int, int]]()
    for index, start, length, checksum in sorted(ranges):
        end, before = whole.get(index, (0, 0))
        if start == end:
            whole[index] = end + length, join_checksums(before, checksum, length)
    files = tuple(
        replace(file, crc32c=f"{whole[index][1]:08x}")
        if whole.get(index, (-1, 0))[0] == file.bytes
        else file
        for index, file in enumerate(corpus.files)
    )
    return replace(header, corpus=replace(corpus, files=files))


def _add_results(
    header: Manifest,
    counts: dict[str, int],
    shards: Mapping[str, list[Shard]],
    files: Sequence[FileEntry],
) -> Manifest:
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


def _join_files(files: Iterable[WrittenFile | RejectsFile], joined: str) -> tuple[int, str]:
    """Write several files into a new one; return its size in bytes and its SHA-256."""
    with create_file(joined) as stream:
        target = HashingWriter(stream)
        for file in files:
            for block in read_blocks(file.path, file.sha256):
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
    if manifest.corpus.sources:
        files |= _describe_blend(manifest)
    manifest = manifest.with_files(files)
    described = {
        manifests.CROISSANT: render_croissant(manifest),
        manifests.CARD: render_card(manifest),
    }
    content = manifest_json.encode(manifest.with_files(described))
    return {
        **files,
        **described,
        manifests.MANIFEST: content,
        manifests.SUCCESS: manifest_json.seal(content),
    }


def _describe_blend(manifest: Manifest) -> dict[str, bytes]:
    tokens = {
        name: {shard.file: shard.tokens for shard in split.shards if shard.tokens}
        for name, split in manifest.splits.items()
    }
    return FORMATS[manifest.output.format].blend_files(tokens)


class CommitDataset(beam.PTransform):
    """Give written shards their final names; return the folder once it is complete.

    Args:
        options: how the data set is committed.
        layout: how the examples are spread over shards.
        counts: collections of ("stage.name", number).
        rejects: the rejects of all tasks.
        ranges: what was read, with checksums.
        sketches: collections of ("stage.name", sketch).
    """

    def __init__(
        self,
        options: CommitOptions,
        layout: Layout,
        counts: list[beam.PCollection[Count]],
        rejects: beam.PCollection[RejectsFile],
        ranges: beam.PCollection[ReadRange],
        sketches: Sequence[beam.PCollection[Sketch]] = (),
    ) -> None:
        super().__init__()
        self._sketches, self._ranges = sketches, ranges
        self._options, self._layout, self._counts, self._rejects = options, layout, counts, rejects

    def expand(self, shards: beam.PCollection[WrittenFile]) -> beam.PCollection[str]:
        """Add up the counts, and run the commit once after all shards."""
        inputs = map(
            beam.pvalue.AsList,
            (shards, add_up(self._counts, self._sketches), self._rejects, self._ranges),
        )
        once = shards.pipeline | "StartCommit" >> beam.Impulse()
        return once | "Commit" >> beam.ParDo(
            _Commit(self._options, self._layout), *inputs
        ).with_output_types(str)

    def display_data(self) -> dict[str, str]:
        """Show the output folder."""
        return {"output": self._options.place.output}
