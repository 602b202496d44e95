"""What a finished data set is: the names of its files, its manifest, and its other small files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from corpusmill.dataset import manifest as manifests
from corpusmill.dataset import manifest_json
from corpusmill.dataset.accounting import is_of_the_run, split_distributions, split_sources
from corpusmill.dataset.card import render_card
from corpusmill.dataset.manifest import FileEntry, Manifest, Shard, Split
from corpusmill.dataset.provenance import Generation, provenance_name
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.layout.length_bins import LengthBin
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from transforms.checksums import join_checksums
from transforms.elements import DOCUMENTS, SPANS, ReadRange, WrittenFile


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


def add_checksums(header: Manifest, ranges: Sequence[ReadRange], first_file: int = 0) -> Manifest:
    """Add the checksums of the files of which every byte was read.

    Args:
        header: the manifest without its results.
        ranges: what was read.
        first_file: the number of the first file of its corpus.
    """
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


def describe(manifest: Manifest, tokenizer_json: bytes) -> dict[str, bytes]:
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
    described = {manifests.CARD: render_card(manifest)}
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
