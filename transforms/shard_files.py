"""The names of a data set's files, which are known before the first is written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from corpusmill.dataset import manifest as manifests
from corpusmill.dataset.editing import rejects_name
from corpusmill.dataset.manifest import CARD, ROOT, TOKENIZER, TOKENIZER_CONFIG, FileEntry, Shard
from corpusmill.dataset.manifest_entries import NEAR_DUPLICATES, Generation, provenance_name
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from transforms.elements import DOCUMENTS, NEAR, SPANS, WrittenFile


@dataclass(frozen=True)
class FileNames:
    """How the files of shards are named.

    Attributes:
        version: number of the version in whose folder they are.
        layout: how the examples are spread over shards.
        suffixes: suffixes of the files of a shard.
        joined: {split: name without suffix} if all shards of a split become one file.
        pattern: pattern of the shards' names; None for the default.
        sources: names of the sources, in the order of the layout's; empty where there is but one.
        generation: in whose names the tag of a generation stands; None without provenance.
    """

    version: int
    layout: Layout
    suffixes: tuple[str, ...]
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

    def name(self, shard: int, part: int) -> str:
        """Return the name of a file of a shard.

        Args:
            shard: number of the shard.
            part: number of the file's suffix, or SPANS, DOCUMENTS or NEAR.
        """
        if part == NEAR:
            return self.folder + NEAR_DUPLICATES
        split, source = self.split_of(shard), self.source_of(shard)
        tag = self.generation.tag if self.generation else ""
        group = "-".join(filter(None, (split, source, tag)))
        first, total = self.layout.range_around(shard)
        number = shard - first
        if part == DOCUMENTS:
            return self.folder + provenance_name("documents", group, number, total)
        if part == SPANS:
            return self.folder + provenance_name("spans", group, number, total)
        if self.joined:
            name = self.joined[split] + (f"-{source}" if source else "") + self.suffixes[0]
        else:
            name = manifests.shard_name(group, number, total, self.suffixes[0], self.pattern)
        return self.folder + part_names(name, self.suffixes)[part]

    def position(self, file: WrittenFile) -> tuple[int, int, int, int]:
        """Return the key of the manifest's order."""
        source = self.layout.source_of(file.shard) or 0
        return (self.layout.split_of(file.shard), source, file.shard, file.part)

    def entry(self, file: WrittenFile) -> FileEntry:
        """Return the entry of a file in the manifest, a `Shard` if it holds a shard's rows."""
        written = (self.name(file.shard, file.part), file.bytes, file.sha256)
        if file.part:
            return FileEntry(*written)
        return Shard(*written, file.rows, file.tokens, source=self.source_of(file.shard))

    @property
    def parts(self) -> Sequence[int]:
        """The part of each file of a shard."""
        provenance = (SPANS, DOCUMENTS) if self.generation else ()
        return (*range(len(self.suffixes)), *provenance)

    def list_all(self, output_format: str) -> Iterator[str]:
        """Yield the names of all files that a run may write, without the version's folder.

        Args:
            output_format: name of the format.
        """
        names = {
            self.name(shard, part) for shard in range(self.layout.shards) for part in self.parts
        }
        names.add(self.name(0, NEAR))
        yield from (name.removeprefix(self.folder) for name in (*names, self.rejects))
        yield from list_small(output_format)


def list_small(output_format: str) -> Iterator[str]:
    """Yield the names of the files of a version that are copied beside the manifest."""
    companions = FORMATS[output_format].companion_names
    yield from (f"{ROOT}{name}" for name in (CARD, TOKENIZER, TOKENIZER_CONFIG, *companions))
