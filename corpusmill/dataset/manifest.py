"""The manifest `dataset.json`: what a data set is, what it was made from, and what it must contain.

It holds no time, host or path of the run, so that the same input, options and seed give the same
manifest. `Manifest` and its parts are the file's entries, in the file's order:

    {"format": "corpusmill", "format_version": 3, "corpusmill_version": "0.1.0",
     "objective": {"name": "bert", "options": {...}, "repeats": 10}, "seed": 1,
     "tokenizer": {...}, "output": {...}, "columns": [{"name": "input_ids", ...}], "corpus": {...},
     "counts": {"read.documents": 9, ...},
     "splits": {"train": {"rows": 7, "tokens": 900,
     "shards": [{"file": "train-00000-of-00001.parquet", "bytes": 5021, "sha256": "...",
     "rows": 7, "tokens": 900}], "distributions": {"length": [...], ...}}},
     "files": [{"file": "tokenizer.json", "bytes": 12, "sha256": "..."}, ...]}
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from corpusmill.arrays.columns import Column
from corpusmill.formats import shard_names
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.tokenizer_file import MOST_TOKENS, TokenizerFile, token_dtype

MANIFEST, SUCCESS, CARD = "dataset.json", "_SUCCESS", "README.md"
TOKENIZER, REJECTS = "tokenizer.json", "rejects/rejects.jsonl"

_Number = Annotated[int, Meta(ge=0, le=2**62)]
_Share = Annotated[float, Meta(ge=0, lt=1)]
# Without a leading dot there is neither a folder above nor a hidden file.
_NAME = r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*"
_FileName = Annotated[str, Meta(pattern=rf"\A{_NAME}(/{_NAME})*\Z")]
_ShardName = Annotated[str, Meta(pattern=rf"\A{_NAME}\Z")]
_Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True)
class FileEntry:
    """A file of the data set and what its bytes must be.

    Attributes:
        file: name relative to the data set's folder.
        bytes: its size.
        sha256: hexadecimal digest of its bytes.
    """

    file: _FileName
    bytes: _Number
    sha256: _Digest


@dataclass(frozen=True)
class Shard(FileEntry):
    """A shard and what it must contain.

    Attributes:
        rows: number of examples.
        tokens: sum of their lengths.
        bin: number of its length bin; this and the next two are None without bins.
        min_length: tokens of the shortest example that the bin may hold.
        max_length: tokens of the longest one.
    """

    file: _ShardName
    rows: _Number
    tokens: _Number
    bin: _Number | None = None
    min_length: _Number | None = None
    max_length: _Number | None = None


@dataclass(frozen=True)
class Split:
    """A split, such as "train".

    Attributes:
        rows: number of examples.
        tokens: sum of their lengths.
        shards: in the order in which they are read.
        distributions: by name, how many rows have each value that occurs, in the order of the
            values. Where there are rows, "length" is one of them.
    """

    rows: _Number
    tokens: _Number
    shards: tuple[Shard, ...]
    distributions: Mapping[str, Mapping[int, _Number]]

    @classmethod
    def from_shards(
        cls, shards: Iterable[Shard], distributions: Mapping[str, Mapping[int, int]]
    ) -> "Split":
        """The split with these shards, and distributions as in `Split`."""
        entries = tuple(shards)
        return cls(
            sum(shard.rows for shard in entries),
            sum(shard.tokens for shard in entries),
            entries,
            distributions,
        )

    @property
    def longest(self) -> int:
        """Tokens of the longest example."""
        return max(self.distributions.get("length", ()), default=0)

    @property
    def bytes(self) -> int:
        """Size of all shards."""
        return sum(shard.bytes for shard in self.shards)


@dataclass(frozen=True)
class ObjectiveEntry:
    """The objective.

    Attributes:
        name: its name on the command line.
        options: its options by name.
        repeats: how many times each document was built.
    """

    name: str
    options: Mapping[str, Any]
    repeats: _Number


@dataclass(frozen=True)
class TokenizerEntry:
    """The tokenizer.

    Attributes:
        file: its file in the data set.
        name: as the user gave it.
        form: the kind of file that it was read from.
        revision: commit on the hub; None for a local file.
        options: how it was read.
        sha256: hexadecimal digest of the file.
        vocab_size: largest id + 1.
        special: its special tokens.
        words: the rule of words by which tokens are masked together; None without one.
    """

    file: _FileName
    name: str
    form: str
    revision: str | None
    options: Mapping[str, Any]
    sha256: _Digest
    vocab_size: Annotated[int, Meta(ge=1, le=MOST_TOKENS)]
    special: SpecialTokens
    words: str | None = None

    @classmethod
    def from_tokenizer(cls, tokenizer: TokenizerFile, words: str | None = None) -> "TokenizerEntry":
        """The entry of a tokenizer whose file is `tokenizer.json`."""
        return cls(
            file=TOKENIZER,
            name=tokenizer.name,
            form=tokenizer.form,
            revision=tokenizer.revision,
            options=asdict(tokenizer.options),
            sha256=tokenizer.digest,
            vocab_size=tokenizer.vocab_size,
            special=tokenizer.special,
            words=words,
        )

    @property
    def token_dtype(self) -> np.dtype:
        """The type of token ids."""
        return token_dtype(self.vocab_size)


@dataclass(frozen=True)
class OutputEntry:
    """How the shards were written.

    Attributes:
        format: their file format.
        options: all of the options of the output.
        validation_share: share of the documents in the validation split.
    """

    format: str
    options: OutputOptions
    validation_share: _Share


@dataclass(frozen=True)
class SourceFile:
    """A file of the corpus.

    Attributes:
        path: its name below the input.
        bytes: its size.
    """

    path: str
    bytes: _Number


@dataclass(frozen=True)
class CorpusEntry:
    """What was read.

    Attributes:
        options: how documents and sentences were found.
        sentence_splitter: name and version of the splitter; None where lines are sentences.
        bytes: size of all files.
        files: sorted by path.
    """

    options: Mapping[str, Any]
    sentence_splitter: str | None
    bytes: _Number
    files: tuple[SourceFile, ...]


@dataclass(frozen=True)
class Manifest:
    """All that is known of a data set. Before a run, counts, splits and files are empty.

    Attributes:
        corpusmill_version: of the job that wrote it.
        objective: what the examples are for.
        seed: of all random draws.
        tokenizer: by which text became ids.
        output: how the shards were written.
        columns: of every shard.
        corpus: what was read.
        counts: sums over all stages, by name ("read.documents").
        splits: by name, those with shards.
        files: every other file, companions of shards among them.
    """

    corpusmill_version: str
    objective: ObjectiveEntry
    seed: int
    tokenizer: TokenizerEntry
    output: OutputEntry
    columns: tuple[Column, ...]
    corpus: CorpusEntry
    counts: Mapping[str, _Number] = field(default_factory=dict)
    splits: Mapping[str, Split] = field(default_factory=dict)
    files: tuple[FileEntry, ...] = ()

    @property
    def entries(self) -> dict[str, FileEntry]:
        """Every file but the manifest and `_SUCCESS`, by name; shards as `Shard`."""
        shards = [shard for split in self.splits.values() for shard in split.shards]
        return {entry.file: entry for entry in (*self.files, *shards)}

    @property
    def rows(self) -> int:
        """Examples of all splits."""
        return sum(split.rows for split in self.splits.values())

    def parts(self, shard: str) -> tuple[str, ...]:
        """The names of a shard's files: its own, and those of its companions (".idx")."""
        options = self.output.options
        return part_names(shard, FORMATS[options.output_format].suffixes(options))

    def glob(self, split: str) -> str:
        """A glob of the names of all shards of a split."""
        first = self.splits[split].shards[0].file
        return shard_names.shard_glob(self.output.options.shard_name, split, first)

    def with_files(self, contents: Mapping[str, bytes]) -> "Manifest":
        """The manifest with entries of further files, given by name and content."""
        entries = (entry_of(name, content) for name, content in contents.items())
        return replace(self, files=(*self.files, *entries))


def entry_of(name: str, content: bytes) -> FileEntry:
    """The entry of a file with this content."""
    return FileEntry(name, len(content), hashlib.sha256(content).hexdigest())


def shard_name(split: str, number: int, total: int, suffix: str, pattern: str | None = None) -> str:
    """The final name of a shard: train-00003-of-00008.parquet.

    Args:
        split: "train" or "validation".
        number: of the shard in its split, from 0.
        total: shards of the split.
        suffix: of the file.
        pattern: of the whole name; None for the usual one.
    """
    return shard_names.fill(pattern or shard_names.DEFAULT + suffix, split, number, total)


def bin_name(split: str, length_bin: int, total: int) -> str:
    """What takes the split's place in the names of a bin's shards: train-bin-02-of-08."""
    return f"{split}-bin-{length_bin:02d}-of-{total:02d}"
