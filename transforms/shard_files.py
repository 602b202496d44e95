"""The names of a data set's files, which are known before the first is written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from corpusmill.dataset import manifest as manifests
from corpusmill.dataset.editing import rejects_name
from corpusmill.dataset.manifest import (
    CARD,
    ROOT,
    TOKENIZER,
    TOKENIZER_CONFIG,
    FileEntry,
    Shard,
)
from corpusmill.dataset.manifest_entries import Generation, provenance_name
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.layout.length_bins import LengthBin
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from transforms.elements import DOCUMENTS, SPANS, WrittenFile


@dataclass(frozen=True)
class FileNames:
    """How the files of shards are named.

    Attributes:
        version: number of the version in whose folder they are.
        layout: how the examples are spread over shards.
        suffixes: suffixes of the files of a shard.
        bins: the length bins into which each shard is divided; empty where lengths are mixed.
        joined: {split: name without suffix} if all shards of a split become one file.
        pattern: pattern of the shards' names; None for the default.
        sources: names of the sources, in the order of the layout's; empty where there is but one.
        generation: in whose names the tag of a generation stands; None without provenance.
    """

    version: int
    layout: Layout
    suffixes: tuple[str, ...]
    bins: tuple[LengthBin, ...]
    joined: Mapping[str, str]
    pattern: str | None
    sources: tuple[str, ...]
    generation: Generation | None = None

    @property
    def folder(self) -> str:
        """The folder of the version, before the names in it."""
        return f"v{self.version}/"

    @property
    def rejects(self) -> str:
        """The name of the file of rejects."""
        return self.folder + rejects_name(self.generation.tag if self.generation else "")

    def split_of(self, shard: int) -> str:
        """Return the name of a shard's split."""
        return SPLIT_NAMES[self.layout.split_of(shard)]

    def source_of(self, shard: int) -> str | None:
        """Return the name of a shard's source; None where there is but one."""
        number = self.layout.source_of(shard)
        return None if number is None else self.sources[number]

    def name(self, shard: int, part: int, length_bin: int = 0) -> str:
        """Return the name of a file of a shard.

        Args:
            shard: number of the shard.
            part: number of the file's suffix, or SPANS or DOCUMENTS.
            length_bin: number of its length bin.
        """
        split, source = self.split_of(shard), self.source_of(shard)
        tag = self.generation.tag if self.generation else ""
        group = "-".join(filter(None, (split, source, tag)))
        first, total = self.layout.range_around(shard)
        number, begin = shard - first, group
        if self.bins:
            begin = manifests.bin_name(group, length_bin, len(self.bins))
        if part == DOCUMENTS:
            return self.folder + provenance_name("documents", group, number, total)
        if part == SPANS:
            return self.folder + provenance_name("spans", begin, number, total)
        if self.joined:
            name = self.joined[split] + (f"-{source}" if source else "") + self.suffixes[0]
        else:
            name = manifests.shard_name(begin, number, total, self.suffixes[0], self.pattern)
        return self.folder + part_names(name, self.suffixes)[part]

    def position(self, file: WrittenFile) -> tuple[int, int, int, int, int]:
        """Return the key of the manifest's order, which keeps the shards of a bin together."""
        source = self.layout.source_of(file.shard) or 0
        return (self.layout.split_of(file.shard), source, file.bin, file.shard, file.part)

    def entry(self, file: WrittenFile) -> FileEntry:
        """Return the entry of a file in the manifest, a `Shard` if it holds a shard's rows."""
        written = (self.name(file.shard, file.part, file.bin), file.bytes, file.sha256)
        if file.part:
            return FileEntry(*written)
        length_bin = asdict(self.bins[file.bin]) if self.bins else {}
        content = (file.rows, file.tokens)
        return Shard(*written, *content, **length_bin, source=self.source_of(file.shard))

    @property
    def parts(self) -> Sequence[tuple[int, int]]:
        """The length bin and the part of each file of a shard."""
        bins = range(max(1, len(self.bins)))
        parts = [(number, part) for number in bins for part in range(len(self.suffixes))]
        if self.generation:
            parts += [*((number, SPANS) for number in bins), (0, DOCUMENTS)]
        return parts

    def list_all(self, output_format: str) -> Iterator[str]:
        """Yield the names of all files that a run may write, without the version's folder.

        Args:
            output_format: name of the format.
        """
        names = {
            self.name(shard, part, number)
            for shard in range(self.layout.shards)
            for number, part in self.parts
        }
        yield from (name.removeprefix(self.folder) for name in (*names, self.rejects))
        yield from list_small(output_format)


def list_small(output_format: str) -> Iterator[str]:
    """Yield the names of the files of a version that are copied beside the manifest."""
    companions = FORMATS[output_format].companion_names
    yield from (f"{ROOT}{name}" for name in (CARD, TOKENIZER, TOKENIZER_CONFIG, *companions))
