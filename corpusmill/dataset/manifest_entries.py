"""The entries of a manifest: what was read and left out, provenance, removals, distributions.

    provenance/spans-train-00000-of-00032.parquet        of what the rows of a shard are made
    provenance/documents-train-00000-of-00032.parquet    the documents whose home the shard is

`corpusmill.provenance` writes and reads these files.

An objective's `measure` counts the distributions of rows before the examples are written. `recount`
counts them again from the columns that were written, ragged or padded, so that the two can be
compared.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Meta

from corpusmill.arrays.columns import Column
from corpusmill.corpus.batches import OFFSET_BITS, document_id
from corpusmill.corpus.document_options import CorpusReading, DocumentOptions, read_by_source
from corpusmill.errors import count_things
from corpusmill.formats.output_options import DEFAULT_NAME
from corpusmill.layout.placement import Layout, Repeat
from corpusmill.objectives.columns import measure_rows

# Counts take memory for each value up to the largest, which is refused beyond this or the longest
# row of the manifest.
_LARGEST = 2**16

Counts = npt.NDArray[np.int64]


def recount(
    batch: pa.RecordBatch, columns: Iterable[Column], longest: int = _LARGEST
) -> dict[str, Counts]:
    """The distributions that the columns of a batch give.

    Args:
        batch: rows as they are in a shard.
        columns: those to count, the tokens first.
        longest: the most tokens of a row.

    Returns:
        {"length": counts by value, "first_segment_length": ..., "second_segment_length": ...,
        "words": ..., "predictions": ..., "target_length": ..., "pieces": ..., "learned_tokens":
        ...} as far as there are
        columns of these roles, and one of each class by the column's name; each
        int64[largest value + 1].

    Raises:
        ValueError: a value is negative or too large.

    Example:
        One row with input_ids [2, 10, 11, 3, 12, 3] and token_type_ids [0, 0, 0, 0, 1, 1] gives
        "length" [0, 0, 0, 0, 0, 0, 1], "first_segment_length" [0, 0, 1] and
        "second_segment_length" [0, 1].
    """
    rows = measure_rows(batch, columns)
    for name, values in rows.items():
        largest = int(values.max(initial=0))
        if largest > max(longest, _LARGEST):
            raise ValueError(f"a row has the {name} {largest:,}, above {max(longest, _LARGEST):,}")
    return {name: np.bincount(values) for name, values in rows.items()}


def as_mapping(counts: Counts) -> dict[int, int]:
    """The counts of the values that occur; [0, 4, 0, 3] gives {1: 4, 3: 3}."""
    values = np.flatnonzero(counts)
    return dict(zip(values.tolist(), counts[values].tolist(), strict=True))


def from_mapping(numbers: Mapping[int, int]) -> Counts:
    """The counts of all values up to the largest; {1: 4, 3: 3} gives [0, 4, 0, 3]."""
    counts = np.zeros(1 + max(numbers, default=-1), np.int64)
    for value, number in numbers.items():
        counts[value] = number
    return counts


def add_all(totals: dict[str, Counts], more: Mapping[str, Counts]) -> None:
    """Add distributions to the totals of the same names; [1] and [0, 2] give [1, 2]."""
    for name, counts in more.items():
        before = totals.get(name, counts[:0])
        total = np.zeros(max(len(before), len(counts)), np.int64)
        total[: len(before)] += before
        total[: len(counts)] += counts
        totals[name] = total


def weigh_segments(distributions: Mapping[str, Counts | Mapping[int, int]]) -> int:
    """The tokens of both segments of all rows, without special tokens; 0 where rows have none."""
    names = ("first_segment_length", "second_segment_length")
    return sum(weigh(distributions[name]) for name in names if name in distributions)


def weigh(counts: Counts | Mapping[int, int]) -> int:
    """The sum of all values of a distribution; [4, 0, 3] and {0: 4, 2: 3} give 6."""
    if isinstance(counts, Mapping):
        return sum(value * number for value, number in counts.items())
    return int(counts @ np.arange(len(counts)))


# No sum of a few of them leaves 64 bits.
Number = Annotated[int, Meta(ge=0, le=2**56)]


# The characters of a longer text that stand in reports.
_SHOWN = 100


def shorten_texts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as reports show them: of a long text its beginning."""
    return {
        name: f"{value[:_SHOWN]}..." if isinstance(value, str) and len(value) > _SHOWN else value
        for name, value in options.items()
    }


@dataclass(frozen=True)
class NamedFilter:
    """A filter.

    Attributes:
        name: as the user gave it.
        package: the installed package that provides it, with its version; None where there is none.
    """

    name: str
    package: str | None = None


@dataclass(frozen=True)
class EvaluationFile:
    """A file of an evaluation set.

    Attributes:
        path: its name below the folder of all of them.
        bytes: its size.
        sha256: hexadecimal digest of its bytes.
    """

    path: str
    bytes: Number
    sha256: str


@dataclass(frozen=True)
class Evaluation:
    """An evaluation set that documents were compared with.

    Attributes:
        files: sorted by path.
        passages: number of passages that were compared.
        ignored: number of passages that were too short.
        runs: number of different runs of words.
        sha256: hexadecimal digest of the runs' hashes.
    """

    files: tuple[EvaluationFile, ...]
    passages: Number
    ignored: Number
    runs: Number
    sha256: str


@dataclass(frozen=True)
class Filtering:
    """Which documents were left out.

    Attributes:
        filters: in the order in which they were asked.
        drop_duplicates: whether all but the first of equal documents were.
        evaluation: what documents were compared with, and dropped if they share a run of words.
        near_duplicates: the options by which documents were dropped because an earlier one is
            nearly the same; empty where they were kept.
    """

    filters: tuple[NamedFilter, ...] = ()
    drop_duplicates: bool = False
    evaluation: Evaluation | None = None
    near_duplicates: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The options of filters, as a command line has them."""
        duplicates = {"drop_duplicates": True} if self.drop_duplicates else {}
        files = self.evaluation.files if self.evaluation else ()
        return {
            "filter": [entry.name for entry in self.filters],
            **duplicates,
            **self.near_duplicates,
            "drop_overlap_with": [file.path for file in files],
        }


# Of a part that is added to a data set; names of its shards hold it.
ADDED_TAG = r"more\d+"
# Of a source; names of shards and of counts hold it, and tags must be told from it.
SOURCE_NAME = "[A-Za-z][A-Za-z0-9_]*"
SourceName = Annotated[str, Meta(pattern=rf"\A(?!{ADDED_TAG}\Z){SOURCE_NAME}\Z")]
_Checksum = Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}\Z")]
# They are looked for below a folder that the user names.
_CorpusPath = Annotated[str, Meta(pattern=r"\A(?!/)(?!([^\0]*/)?\.\.(/|\Z))[^\0]*\Z")]


@dataclass(frozen=True)
class SourceFile:
    """A file of the corpus.

    Attributes:
        path: its name below the input.
        bytes: its size.
        crc32c: checksum of its bytes, in hexadecimal; None where it was not computed, as for files
            on the hub, whose names hold the commit.
        unread: how many of its bytes are lost because it could not be read to its end: those after
            the damage, or all of them where it is not known what is missing; None where nothing is.
        resembles: the format or notation that part of it has, where it was read as text and nobody
            had said that it is; None where it is a text from its beginning.
    """

    path: _CorpusPath
    bytes: Number
    crc32c: _Checksum | None = None
    unread: Number | None = None
    resembles: Annotated[str, Meta(max_length=99)] | None = None


@dataclass(frozen=True)
class Source:
    """A part of the corpus with a name.

    Attributes:
        name: as the user named it; the names of its files begin with it and a slash.
        repeat: how often each of its documents was taken; the part after the decimal point is the
            probability of once more. Where parts of a data set took them differently, it is the
            mean by bytes.
        files: number of its files.
        bytes: their size.
        counts: of its own text, as those of all stages are in the manifest.
        options: those of `CorpusEntry.options` that are others for this source; None where all are
            the same.
    """

    name: SourceName
    repeat: Repeat
    files: Number
    bytes: Number
    counts: Mapping[str, Number] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CorpusEntry:
    """What was read.

    Attributes:
        options: how documents and sentences were found; of sources what they have in common.
        sentence_splitter: name and version of the splitter; None where lines are sentences.
        bytes: size of all files.
        files: sorted by path.
        package: the installed package that provides the input format; None for ours.
        filtering: which documents were left out; None where all were kept.
        sources: sorted by name; empty where no part of the corpus has a name.
    """

    options: Mapping[str, Any]
    sentence_splitter: str | None
    bytes: Number
    files: tuple[SourceFile, ...]
    package: str | None = None
    filtering: Filtering | None = None
    sources: tuple[Source, ...] = ()

    def source_of(self, file: int) -> str | None:
        """Return the name of the source of a file, by the file's number.

        None where no source has a name.
        """
        return self.files[file].path.partition("/")[0] if self.sources else None

    @property
    def documents(self) -> DocumentOptions:
        """How documents and sentences were found, without what differs from source to source."""
        return msgspec.convert(dict(self.options), DocumentOptions)

    @property
    def source_documents(self) -> dict[str, DocumentOptions]:
        """How documents and sentences of each source were found, by its name."""
        return {
            source.name: msgspec.convert(
                {**self.options, **(source.options or {})}, DocumentOptions
            )
            for source in self.sources
        }

    @property
    def reading(self) -> CorpusReading:
        """How each file was read."""
        if not any(source.options for source in self.sources):
            return self.documents
        documents = self.source_documents
        numbered = groupby(range(len(self.files)), self.source_of)
        parts = [(next(numbers), documents[str(name)]) for name, numbers in numbered]
        return read_by_source(self.documents, parts)

    def relative_to(self, common: "CorpusEntry") -> "CorpusEntry":
        """Return the entry with the common options of another one; sources are read as before.

        Fields that are kept of any source stay as they are. Without sources nothing changes.
        """
        if not self.sources:
            return self
        documents = replace(common.documents, keep_fields=self.documents.keep_fields)
        options = {
            name: each.differences(documents) for name, each in self.source_documents.items()
        }
        sources = (replace(each, options=options[each.name] or None) for each in self.sources)
        return replace(self, options=documents.recorded(), sources=tuple(sources))


# The folder of what one run has written, such as "v3", before the other parts of a name.
VERSION_FOLDER = r"v[1-9][0-9]{0,8}"
_IN_VERSION = re.compile(rf"({VERSION_FOLDER})/(.+)", re.DOTALL)


def base_name(file: str) -> str:
    """Return the name of a file without the folder of its version, by which it is unique.

    Example:
        "v3/provenance/removed-00000.parquet" gives "provenance/removed-00000.parquet".
    """
    match = _IN_VERSION.fullmatch(file)
    return match[2] if match else file


def version_of(file: str) -> int:
    """Return the number of the version that wrote a file; 0 for a file beside the versions."""
    match = _IN_VERSION.fullmatch(file)
    return int(match[1][1:]) if match else 0


VERSION = 1
Kind = Literal["spans", "documents"]
Ids = npt.NDArray[np.uint64]
_TAG = re.compile(rf"-({ADDED_TAG})-\d{{5}}-of-\d{{5}}\.parquet\Z")


@dataclass(frozen=True)
class Generation:
    """A part of a data set that was built at a time.

    Attributes:
        first_file: the number of the first file of its corpus, among all files.
        layout: by which its documents were spread over its shards.
        tag: stands in the names of its shards; empty for the first generation.
        shards: its number of shards of each split; empty where there is but one generation.
    """

    first_file: Annotated[int, Meta(ge=0, le=2**24)]
    layout: Layout
    tag: Annotated[str, Meta(pattern=rf"\A({ADDED_TAG})?\Z")] = ""
    shards: Mapping[str, Annotated[int, Meta(ge=0, le=2**31)]] = field(default_factory=dict)

    def first_file_of(self, source: int) -> int:
        """Return the number of the first file of a source of its layout, among all files."""
        return self.layout.sources[source].first_document >> OFFSET_BITS

    def group(self, split: str, source: str | None) -> str:
        """Return what takes the split's place in the names of shards of a split and source."""
        return "-".join(filter(None, (split, source, self.tag)))


@dataclass(frozen=True)
class Provenance:
    """How provenance was written.

    Attributes:
        version: of the files.
        generations: the parts of the data set, in the order of their files.
        has_spans: whether the objective tells which tokens a row is made of, and not only which
            document it was built from.
    """

    version: Annotated[int, Meta(ge=1, le=1)]
    generations: Annotated[tuple[Generation, ...], Meta(min_length=1)]
    has_spans: bool = True

    def generation_of(self, name: str) -> Generation:
        """Return the generation that a file of provenance belongs to.

        Args:
            name: of the file (`provenance_name`).
        """
        tag = _TAG.search(name)
        if len(self.generations) == 1 or tag is None:
            return self.generations[0]
        return next(one for one in self.generations if one.tag == tag[1])

    def files_of(self, generation: Generation, files: int) -> tuple[int, int]:
        """Return the number of a generation's first file among all files, and of the next one's.

        Args:
            generation: one of these generations.
            files: the number of all files.
        """
        following = self.generations[self.generations.index(generation) + 1 :]
        return generation.first_file, following[0].first_file if following else files

    def numbers_of(self, documents: Ids) -> npt.NDArray[np.int64]:
        """Return the number of each document's generation, int64[n].

        Args:
            documents: uint64[n], their ids in the data set.
        """
        firsts = [document_id(generation.first_file, 0) for generation in self.generations]
        ends = np.searchsorted(np.array(firsts, np.uint64), documents, side="right")
        numbers: npt.NDArray[np.int64] = ends - 1
        return numbers


# The table of the documents that were left out because others are nearly the same.
NEAR_DUPLICATES = "provenance/near-duplicates.parquet"


def provenance_name(kind: Kind, group: str, number: int, total: int) -> str:
    """Return the name of a file of provenance, without the folder of its version.

    Args:
        kind: what it holds.
        group: what takes the split's place in the names of shards.
        number: of the shard in its group, from 0.
        total: shards of the group.
    """
    shard = DEFAULT_NAME.format(split=group, shard=number, shards=total)
    return f"provenance/{kind}-{shard}.parquet"


def list_provenance(files: Iterable[str], kind: Kind, split: str) -> Iterator[str]:
    """Yield a split's files of provenance, in the order of its shards.

    Args:
        files: the names of a data set's files, in the manifest's order.
        kind: what they hold.
        split: "train" or "validation".
    """
    begin = f"provenance/{kind}-{split}-"
    yield from (name for name in files if base_name(name).startswith(begin))


@dataclass(frozen=True)
class Removal:
    """Rows that are not in a data set any more, and why.

    The counts of a manifest are those of the build, so that they still balance; the rows that it
    has written are those of the shards and of all removals.

    Attributes:
        reason: which documents were removed ("url LIKE '%example%'"), in words or in SQL.
        documents: the number of these documents.
        rows: the number of rows that held any of their tokens.
        tokens: the tokens of these rows.
        segment_tokens: the tokens of both segments of these rows, without special tokens; 0 where
            rows have none.
        is_listed: whether a file of provenance lists the documents (`removal_name`).
    """

    reason: str
    documents: Number
    rows: Number
    tokens: Number
    segment_tokens: Number = 0
    is_listed: bool = True

    def __str__(self) -> str:
        return (
            f"{count_things(self.documents, 'document')} ({self.reason}), with "
            f"{count_things(self.rows, 'row')} of {count_things(self.tokens, 'token')}"
        )


def removal_name(number: int) -> str:
    """Return the name of the file that lists the documents of a removal, without its version.

    Args:
        number: of the removal, in the manifest's order.
    """
    return f"provenance/removed-{number:05d}.parquet"
