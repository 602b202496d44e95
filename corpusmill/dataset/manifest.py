"""The manifest `dataset.json`: what a data set is, what it was made from, and what it must contain.

It holds no time, host or path of the run, so that the same input, options and seed give the same
manifest; of a tokenizer that was read from a file it holds the file's name alone. `Manifest` and
its parts are the file's entries, in the file's order:

    {"format": "corpusmill", "format_version": 2, "sha256": "...", "corpusmill_version": "0.1.0",
     "objective": {"name": "bert", "options": {...}, "repeats": 10}, "seed": 1,
     "tokenizer": {...}, "output": {...}, "columns": [{"name": "input_ids", ...}], "corpus": {...},
     "counts": {"read.documents": 9, ...},
     "splits": {"train": {"rows": 7, "tokens": 900,
     "shards": [{"file": "v1/train-00000-of-00001.parquet", "bytes": 5021, "sha256": "...",
     "rows": 7, "tokens": 900}], "distributions": {"length": [...], ...}}},
     "files": [{"file": "v1/root/tokenizer.json", "bytes": 12, "sha256": "..."}, ...],
     "version": 1}
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct, convert

from corpusmill.arrays.columns import Column
from corpusmill.corpus.filters.functions import NearPair
from corpusmill.dataset.manifest_entries import (
    VERSION_FOLDER,
    CorpusEntry,
    Number,
    Provenance,
    Removal,
    SourceName,
    base_name,
)
from corpusmill.formats.output_options import DEFAULT_NAME, OutputOptions
from corpusmill.formats.shard_formats import FORMATS, DataSetContents, ShardFormat, part_names
from corpusmill.tokenization.tokenizer_file import (
    MOST_TOKENS,
    SpecialTokens,
    TokenizerFile,
    TokenizerOptions,
    describe_tokenizer,
    token_dtype,
)

MANIFEST, SUCCESS = "dataset.json", "_SUCCESS"
CARD = "README.md"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
REJECTS = "rejects/rejects.jsonl"
# Files in this folder of a version are copied beside the manifest, where others look for them.
ROOT = "root/"

# Without a leading dot there is neither a folder above nor a hidden file.
_NAME = r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*"
_FileName = Annotated[str, Meta(pattern=rf"\A{_NAME}(/{_NAME})*\Z")]
_Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


# Of the entries of files there may be 100,000. A Struct is read straight from JSON, takes less than
# half of a dataclass's time and memory, and is nothing that garbage collection looks at.
class FileEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the data set and what its bytes must be.

    Attributes:
        file: name relative to the data set's folder.
        bytes: its size.
        sha256: hexadecimal digest of its bytes.
    """

    file: _FileName
    bytes: Number
    sha256: _Digest


class Shard(FileEntry, frozen=True, forbid_unknown_fields=True):
    """A shard and what it must contain.

    Attributes:
        rows: number of examples.
        tokens: sum of their lengths.
        source: name of the source of all its rows; None where no source has a name.
    """

    file: Annotated[str, Meta(pattern=rf"\A({VERSION_FOLDER}/)?{_NAME}\Z")]
    rows: Number
    tokens: Number
    source: SourceName | None = None


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

    rows: Number
    tokens: Number
    shards: tuple[Shard, ...]
    distributions: Mapping[str, Mapping[int, Number]]

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


# Facts of objectives that put tokens around documents.
_BOUNDS = frozenset({"begin_of_text", "end_of_text"})


@dataclass(frozen=True)
class ObjectiveEntry:
    """The objective.

    Attributes:
        name: its name on the command line.
        options: its options by name.
        repeats: how many times each document was built.
        package: the installed package that provides it, with its version; None for ours.
        facts: what the objective found in the tokenizer, by name (`Objective.facts`).
        preset: the preset from which the options are; None for none.
    """

    name: str
    options: Mapping[str, Any]
    repeats: Number
    package: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None

    @property
    def bounds_of_text(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The ids before and after each document; None for an objective that adds none.

        Raises:
            ValueError: the facts have something else under these names.
        """
        if not self.facts.keys() >= _BOUNDS:
            return None
        bounds = [self.facts[name] for name in sorted(_BOUNDS)]
        begin, end = convert(bounds, tuple[tuple[Number, ...], tuple[Number, ...]])
        return begin, end


@dataclass(frozen=True)
class TokenizerEntry:
    """The tokenizer.

    Attributes:
        file: its file in the data set.
        name: as the user gave it, or of a file or folder the last part of its path.
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
            name=tokenizer.public_name,
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

    def to_tokenizer(self, content: str) -> TokenizerFile:
        """The tokenizer as it was read for the build, from the content of its file."""
        return TokenizerFile(
            name=self.name,
            json=content,
            vocab_size=self.vocab_size,
            special=self.special,
            digest=hashlib.sha256(content.encode()).hexdigest(),
            form=self.form,
            options=convert(dict(self.options), TokenizerOptions),
            revision=self.revision,
        )


@dataclass(frozen=True)
class OutputEntry:
    """How the shards were written.

    Attributes:
        format: their file format.
        options: all of the options of the output.
        validation_share: share of the documents in the validation split.
        num_shards: shards of the train split, before a format joins them.
        package: the installed package that provides the format; None for ours.
        order: "corpus" where documents keep the order of the corpus; None where they are shuffled.
    """

    format: str
    options: OutputOptions
    validation_share: Annotated[float, Meta(ge=0, lt=1)]
    num_shards: Annotated[int, Meta(ge=1, le=2**31)]
    package: str | None = None
    order: Literal["corpus"] | None = None

    @property
    def shard_format(self) -> ShardFormat:
        """The format.

        Raises:
            MissingPackageError: its package is not installed.
        """
        return FORMATS.load_recorded(self.format, self.package)


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
        provenance: how the files about the provenance of rows were written; None without them.
        removals: what was removed after the build, in order.
        first_reject: where the first reject is, and what is wrong with it, in words.
        near_pairs: some of the near-duplicates that were left out, of each source.
        version: number of the folder of the run that wrote the manifest.
    """

    corpusmill_version: str
    objective: ObjectiveEntry
    seed: int
    tokenizer: TokenizerEntry
    output: OutputEntry
    columns: tuple[Column, ...]
    corpus: CorpusEntry
    counts: Mapping[str, Number] = field(default_factory=dict)
    splits: Mapping[str, Split] = field(default_factory=dict)
    files: tuple[FileEntry, ...] = ()
    provenance: Provenance | None = None
    removals: tuple[Removal, ...] = ()
    first_reject: Annotated[str, Meta(max_length=2**14)] | None = None
    near_pairs: tuple[NearPair, ...] = ()
    version: Annotated[int, Meta(ge=1, lt=10**9)] = 1

    @cached_property
    def entries(self) -> Mapping[str, FileEntry]:
        """Every file but the manifest and `_SUCCESS`, by name; shards as `Shard`."""
        shards = [shard for split in self.splits.values() for shard in split.shards]
        return {entry.file: entry for entry in (*self.files, *shards)}

    @cached_property
    def paths(self) -> Mapping[str, str]:
        """The names of all files, by their names without the folder of a version.

        Example:
            {"train-00000-of-00001.parquet": "v1/train-00000-of-00001.parquet"}
        """
        return {base_name(file): file for file in self.entries}

    def path_of(self, name: str) -> str:
        """The file with a name, which is taken as it is where no version has it."""
        return self.paths.get(name, name)

    @property
    def copies(self) -> Mapping[str, FileEntry]:
        """The files that are copied beside the manifest, by the names of their copies."""
        named = ((base_name(entry.file), entry) for entry in self.files)
        return {name.removeprefix(ROOT): entry for name, entry in named if name.startswith(ROOT)}

    @property
    def longest(self) -> int:
        """Tokens of the longest example of all splits."""
        return max(split.longest for split in self.splits.values())

    @property
    def rows(self) -> int:
        """Examples of all splits."""
        return sum(split.rows for split in self.splits.values())

    @property
    def bounds_in_words(self) -> str:
        """A sentence that says which tokens begin and end a document; empty without such tokens."""
        bounds = self.objective.bounds_of_text
        if bounds is None:
            return ""
        named = {role: self.tokenizer.special.find(role) for role in ("bos", "eos")}
        begin, end = (
            ", ".join(f"token {each}" + f" ({role})" * (each == token) for each in side)
            or "no token of its own"
            for side, (role, token) in zip(bounds, named.items(), strict=True)
        )
        return f"Each document begins with {begin}, and ends with {end}."

    @cached_property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of a shard's files: its own, and those of its companions.

        Raises:
            MissingPackageError: the package of the format is not installed.
        """
        return self.output.shard_format.suffixes(self.output.options)

    def parts(self, shard: str) -> tuple[str, ...]:
        """The names of a shard's files, those of its companions (".idx") included."""
        return part_names(shard, self.suffixes)

    def small_files(self, tokenizer_json: str) -> dict[str, bytes]:
        """The files of the tokenizer, and those by which its format lists shards, by name."""
        options = self.objective.options
        shards = {name: split.shards for name, split in self.splits.items()}
        has_sources = bool(self.corpus.sources)
        contents = DataSetContents(shards, self.columns, tokenizer_json, options, has_sources)
        template = options.get("chat_template")
        config = describe_tokenizer(tokenizer_json, self.tokenizer.special, template)
        files = FORMATS[self.output.format].companion_files(contents)
        return {TOKENIZER: tokenizer_json.encode(), TOKENIZER_CONFIG: config, **files}

    def with_files(self, contents: Mapping[str, bytes]) -> "Manifest":
        """The manifest with entries of files, by name and content, in place of earlier ones."""
        kept = (entry for entry in self.files if entry.file not in contents)
        entries = (entry_of(name, content) for name, content in contents.items())
        return replace(self, files=(*kept, *entries))


def entry_of(name: str, content: bytes) -> FileEntry:
    """The entry of a file with this content."""
    return FileEntry(name, len(content), hashlib.sha256(content).hexdigest())


def shard_name(split: str, number: int, total: int, suffix: str, pattern: str | None = None) -> str:
    """The name of a shard in the folder of its version: train-00003-of-00008.parquet.

    Args:
        split: "train" or "validation".
        number: of the shard in its split, from 0.
        total: shards of the split.
        suffix: of the file.
        pattern: of the whole name; None for the usual one.
    """
    name = pattern or DEFAULT_NAME + suffix
    return name.format(split=split, shard=number, shards=total)
