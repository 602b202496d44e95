"""The provenance of a data set, whose files are opened as they are needed."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.text_hashes import DOCUMENT_COLUMNS
from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.corpus.input_formats import piece_bits
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_entries import (
    Generation,
    Kind,
    list_provenance,
    provenance_name,
    removal_name,
)
from corpusmill.dataset.shards import damaged_file
from corpusmill.errors import UserError, count_things, in_one_line, option
from corpusmill.layout.placement import SPLIT_NAMES, assign_splits
from corpusmill.location import Location
from corpusmill.processors import count_processors
from corpusmill.provenance.documents_table import DocumentsTable, Ids
from corpusmill.provenance.spans_table import Integers, Spans, SpansFile

Item = TypeVar("Item")
Found = TypeVar("Found")

_MOST_THREADS = 8


@dataclass(frozen=True)
class DocumentRecord:
    """What a data set keeps of a document.

    Attributes:
        document: its id.
        length: bytes of its record in its file, after decompression; 1 in tables; 0 if its reader
            does not tell.
        tokens: its number of tokens.
        digest: of its text (`corpusmill.arrays.text_hashes`).
        fields: the kept fields that it has, by name.
    """

    document: int
    length: int
    tokens: int
    digest: int
    fields: Mapping[str, str]

    @property
    def file_number(self) -> int:
        """The number of its file among those of the corpus."""
        return self.document >> OFFSET_BITS

    @property
    def place(self) -> int:
        """Where it begins in its file: a byte after decompression; in tables row << 12 | piece."""
        return self.document & ((1 << OFFSET_BITS) - 1)


@dataclass(frozen=True)
class Span:
    """Tokens of a document.

    Attributes:
        document: id of the document.
        first_token: the place of the first one among the document's tokens.
        tokens: their number.
    """

    document: int
    first_token: int
    tokens: int


@dataclass(frozen=True)
class RowOrigin:
    """Where a row comes from.

    Attributes:
        split: the split.
        row: number of the row in the split.
        shard: file name of its shard.
        shard_row: number of the row in its shard.
        document: id of the document from which it was built; the first one, if it joins several.
        repeat: in which pass over the document.
        spans: the tokens in it, in their order, without special tokens; empty if the objective does
            not tell them.
    """

    split: str
    row: int
    shard: str
    shard_row: int
    document: int
    repeat: int
    spans: tuple[Span, ...]

    @property
    def documents(self) -> tuple[int, ...]:
        """The ids of all documents in it, each once."""
        named = (span.document for span in self.spans)
        return tuple(dict.fromkeys((self.document, *named) if not self.spans else named))


def records_of(table: pa.Table) -> Iterator[DocumentRecord]:
    """Yield the documents of a table (`corpusmill.provenance.documents_table`)."""
    for row in table.to_pylist():
        document, length, tokens, digest = (row.pop(name) for name in DOCUMENT_COLUMNS)
        fields = {name: value for name, value in row.items() if value is not None}
        yield DocumentRecord(document, length, tokens, digest, fields)


class Follow(Protocol):
    """Passes on items while they are counted."""

    def __call__(self, items: Iterable[Item], total: int, what: str) -> Iterable[Item]:
        """Return the items.

        Args:
            items: the items.
            total: their number.
            what: what is done with them, in a word or two.
        """


def pass_on(items: Iterable[Item], total: int, what: str) -> Iterable[Item]:  # noqa: ARG001
    """Return the items without showing anything."""
    return items


class OriginStore:
    """Finds the origins of rows, and the rows of documents.

    Args:
        folder: of the data set.
        manifest: of the data set.
        follow: shows how many files are read.

    Attributes:
        folder: of the data set.
        manifest: of the data set.

    Raises:
        UserError: the data set was built without provenance.
    """

    def __init__(self, folder: Location, manifest: Manifest, follow: Follow = pass_on) -> None:
        if manifest.provenance is None:
            cause = "it was built without provenance"
            raise UserError(
                str(folder), cause, f"Build it again, without {option('provenance', False)}"
            )
        self.folder, self.manifest, self._follow = folder, manifest, follow
        self._provenance = manifest.provenance
        self._reading = manifest.corpus.reading
        self._starts: dict[str, list[int]] = {}
        self._ends: dict[str, list[int]] = {}
        self._file_rows: dict[str, int] = {}

    def piece_bits_of(self, file: int) -> int:
        """Return the piece bits (`corpusmill.corpus.registry.CorpusFormat`) of a file."""
        return piece_bits(self._reading.of_file(file))

    def names(self, kind: Kind, split: str) -> list[str]:
        """Return the names of a split's files, in the order of its shards."""
        return list(list_provenance((entry.file for entry in self.manifest.files), kind, split))

    def origins(self, split: str, rows: Sequence[int]) -> Iterator[RowOrigin]:
        """Yield where rows of a split come from, shard by shard; each group is read once.

        Args:
            split: name of the split.
            rows: their numbers in it.

        Raises:
            IndexError: there is no such row.
            UserError: a file of provenance is damaged.
        """
        wanted, total = np.unique(np.array(rows, np.int64)), self.manifest.splits[split].rows
        if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < total:
            raise IndexError(f"{split} has {count_things(total, 'row')}, from 0")
        names, starts = self.names("spans", split), self._row_starts(split)
        files = np.searchsorted(starts, wanted, side="right") - 1
        numbers = np.unique(files).tolist()
        parts = ((names[file], wanted[files == file] - starts[file]) for file in numbers)
        followed = self._follow(
            search_in_order(self._read_rows, parts), len(numbers), "files of spans read"
        )
        for file, spans in zip(numbers, followed, strict=True):
            yield from self._describe(split, starts[file], spans, names[file])

    def _read_rows(self, part: tuple[str, Integers]) -> Spans:
        """Return the spans of some rows by the name of their file."""
        name, rows = part
        with self._open_spans(name) as file:
            spans = file.read_rows(rows)
        if len(np.unique(spans.rows)) < len(rows):
            raise damaged_file(self.folder, name, "it lacks rows of its shard")
        return spans

    def rows_of(self, documents: Ids) -> Iterator[RowOrigin]:
        """Yield every row that was built from some documents or holds their tokens, in order.

        Args:
            documents: uint64[n], their ids.

        Raises:
            UserError: a file of provenance is damaged.
        """
        splits = self._splits_of(documents)
        for number, split in enumerate(SPLIT_NAMES):
            own = documents if self._are_grouped else documents[splits == number]
            if len(own) and split in self.manifest.splits:
                yield from self._rows_in(split, own)

    def _rows_in(self, split: str, documents: Ids) -> Iterator[RowOrigin]:
        starts, near = self._row_starts(split), self._files_near(documents)
        by_tag = {generation.tag: held for generation, held in self._by_generation(documents)}
        files = [
            (name, start, by_tag[generation.tag])
            for name, start in zip(self.names("spans", split), starts, strict=False)
            if (generation := self._provenance.generation_of(name)).tag in by_tag
            and (name in near or self.has_random_documents)
        ]
        searched = search_in_order(self._search, ((name, own) for name, _, own in files))
        followed = self._follow(searched, len(files), "files of spans searched")
        for (name, start, _), spans in zip(files, followed, strict=True):
            yield from self._describe(split, start, spans, name)

    def _search(self, part: tuple[str, Ids]) -> Spans:
        """Return the spans of all rows with documents."""
        name, documents = part
        with self._open_spans(name) as file:
            return file.read_rows(file.find_rows(documents))

    @contextmanager
    def _open_spans(self, name: str) -> Iterator[SpansFile]:
        """Open a table of spans, as `open_spans`, and compare its rows with those of its shard."""
        with open_spans(self.folder, name) as file:
            if len(file) != self._file_rows[name]:
                raise ValueError(f"it tells of {len(file):,} rows, which its shard does not have")
            yield file

    @property
    def has_random_documents(self) -> bool:
        """Whether rows hold tokens of documents that are at home anywhere."""
        return self.manifest.counts.get("pool.documents", 0) > 0

    def files_with(self, documents: Ids) -> set[str]:
        """Return the files that may tell of some documents: their tables, and those of spans.

        Args:
            documents: uint64[n], their ids.
        """
        tables = {
            self._file_of("documents", generation, home)
            for generation, own in self._by_generation(documents)
            for home, _ in self._by_home(generation, own)
        }
        splits = self.manifest.splits if self.has_random_documents else ()
        drawn = {name for split in splits for name in self.names("spans", split)}
        return tables | self._files_near(documents) | drawn

    def _file_of(self, kind: Kind, generation: Generation, shard: int) -> str:
        """Return the name of the spans or the documents of a shard."""
        group, first, total = self._group_of(generation, shard)
        return self.manifest.path_of(provenance_name(kind, group, shard - first, total))

    def _files_near(self, documents: Ids) -> set[str]:
        """Return the files of spans beside the shards that build some documents."""
        repeats = self.manifest.objective.repeats
        return {
            self._file_of("spans", generation, shard)
            for generation, own in self._by_generation(documents)
            for home, _ in self._by_home(generation, own)
            for shard in generation.layout.shards_of(home, repeats)
        }

    def _by_generation(self, documents: Ids) -> Iterator[tuple[Generation, Ids]]:
        """Yield the generations of documents, each with its own ones."""
        numbers = self._provenance.numbers_of(documents)
        for number in np.unique(numbers).tolist():
            yield self._provenance.generations[number], documents[numbers == number]

    def _by_home(self, generation: Generation, documents: Ids) -> Iterator[tuple[int, Ids]]:
        """Yield the shards that documents of a generation may be at home in, with these documents.

        Where they are joined, that is every shard, as their groups decide it.
        """
        if self._are_grouped:
            yield from ((shard, documents) for shard in range(generation.layout.shards))
            return
        homes = generation.layout.homes(documents, self._splits_of(documents))
        yield from ((home, documents[homes == home]) for home in np.unique(homes).tolist())

    @property
    def _are_grouped(self) -> bool:
        return self.manifest.corpus.documents.grouping is not None

    def _check_ids(self, name: str, documents: Ids) -> None:
        """Refuse a file of provenance with documents of files that the corpus does not have."""
        generation = self._provenance.generation_of(name)
        first, end = self._provenance.files_of(generation, len(self.manifest.corpus.files))
        numbers = documents >> np.uint64(OFFSET_BITS)
        if ((numbers < first) | (numbers >= end)).any():
            cause = "it names documents of files that its part of the data set does not have"
            raise damaged_file(self.folder, name, cause)

    def _group_of(self, generation: Generation, shard: int) -> tuple[str, int, int]:
        """Return the name of a shard's split and source, their first shard and number of shards."""
        layout = generation.layout
        source = layout.source_of(shard)
        name = None
        if source is not None:
            name = self.manifest.corpus.source_of(generation.first_file_of(source))
        group = generation.group(SPLIT_NAMES[layout.split_of(shard)], name)
        return (group, *layout.range_around(shard))

    def documents(self, ids: Iterable[int]) -> Mapping[int, DocumentRecord]:
        """Return what is known of documents, by id.

        Raises:
            UserError: a file of provenance is damaged, or does not list one of them.
        """
        wanted = np.unique(np.array([*ids], np.uint64))
        tables = self.find_tables(wanted)
        records = {record.document: record for table in tables for record in records_of(table)}
        if missing := [number for number in wanted.tolist() if number not in records]:
            cause = f"the data set holds no document {missing[0]}"
            raise UserError(f"document {missing[0]}", cause, "Give an id of `corpusmill trace`")
        return records

    def find_tables(self, documents: Ids) -> Iterator[pa.Table]:
        """Yield those of some documents that the data set has, as `tables`, a file at a time.

        Args:
            documents: uint64[n], their ids, ascending.

        Raises:
            UserError: a file of provenance is damaged.
        """
        places = []
        for generation, own in self._by_generation(documents):
            places += [(generation, *home) for home in self._by_home(generation, own)]
        found = search_in_order(self._find_at_home, places)
        yield from self._follow(found, len(places), "files of documents read")

    def _find_at_home(self, place: tuple[Generation, int, Ids]) -> pa.Table:
        generation, home, documents = place
        name = self._file_of("documents", generation, home)
        with open_documents(self.folder, name) as table:
            return self._check_table(name, table.find(documents))

    def tables(self, split: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the documents of a split, some at a time (`corpusmill.provenance.documents_table`).

        Args:
            split: name of the split.
            columns: the columns to read, of which `document` is the first; None for all.

        Raises:
            UserError: a file of provenance is damaged.
        """
        for name in self.names("documents", split):
            with open_documents(self.folder, name) as documents:
                for table in documents.groups(columns):
                    yield self._check_table(name, table)

    def documents_at(self, file: str, place: int) -> list[DocumentRecord]:
        """Return the document that holds a byte, or a row, of a file.

        There may be several, where files that were added to the data set have the same name.

        Args:
            file: name of the file as the manifest lists it, or its end.
            place: the byte after decompression; in tables the number of the row.

        Raises:
            UserError: there is no such file, or none of its documents in the data set holds it.
        """
        numbers, found = self._numbers_of(file), dict[int, DocumentRecord]()
        for split in self.manifest.splits:
            for name in self.names("documents", split):
                with open_documents(self.folder, name) as table:
                    for number in numbers:
                        rows = table.find_place(number, place, self.piece_bits_of(number))
                        for record in records_of(self._check_table(name, rows)):
                            last = found.get(number, record)
                            found[number] = max(last, record, key=lambda each: each.document)
        if not found:
            cause = "no document of the data set holds it: it may be a title, a reject or left out"
            raise UserError(f"{option('offset', place)} of {file}", cause, "Give another place")
        return [record for _, record in sorted(found.items())]

    def _numbers_of(self, file: str) -> list[int]:
        paths = [entry.path for entry in self.manifest.corpus.files]
        ending = [n for n, path in enumerate(paths) if path == file or path.endswith(f"/{file}")]
        if file in paths:
            return [number for number, path in enumerate(paths) if path == file]
        if len({paths[number] for number in ending}) != 1:
            known = ", ".join(paths[:3]) + (", ..." if len(paths) > 3 else "")
            cause = f"{len(ending)} files of the corpus have this name; it has {known}"
            raise UserError(option("file", file), cause, "Give the name as the manifest lists it")
        return ending

    def _splits_of(self, documents: Ids) -> npt.NDArray[np.uint8]:
        """Return the number of each document's split, which its id decides."""
        return assign_splits(self.manifest.seed, documents, self.manifest.output.validation_share)

    def _row_starts(self, split: str) -> list[int]:
        """Return the number in the split of each file's first row."""
        if split not in self._starts:
            names, shards = self.names("spans", split), self.manifest.splits[split].shards
            rows = [shard.rows for shard in shards]
            if len(names) != len(shards):  # the shards of the format are joined
                rows = []
                for name in names:
                    with open_spans(self.folder, name) as file:
                        rows.append(len(file))
                if sum(rows) != self.manifest.splits[split].rows:
                    cause = f"the files about {split} do not tell of its rows"
                    raise damaged_file(self.folder, MANIFEST, cause)
            self._starts[split] = [0, *accumulate(rows)]
            self._file_rows.update(zip(names, rows, strict=True))
        return self._starts[split]

    def _describe(self, split: str, start: int, spans: Spans, name: str) -> Iterator[RowOrigin]:
        """Yield the origins of the rows of some spans of a file.

        Args:
            split: name of the split.
            start: the number in the split of the file's first row.
            spans: all spans of these rows.
            name: of the file.
        """
        self._check_ids(name, spans.documents)
        shards = self.manifest.splits[split].shards
        if split not in self._ends:
            self._ends[split] = list(accumulate(shard.rows for shard in shards))
        ends = self._ends[split]
        lines = zip(*(column.tolist() for column in spans), strict=True)
        for number, own in groupby(lines, key=itemgetter(0)):
            row, known = start + number, list(own)
            shard = bisect_right(ends, row)
            yield RowOrigin(
                split,
                row,
                shards[shard].file,
                row - ends[shard] + shards[shard].rows,
                known[0][2],
                known[0][5],
                tuple(Span(*line[2:5]) for line in known if line[4]),
            )

    def _check_table(self, name: str, table: pa.Table) -> pa.Table:
        """Return a table of documents, whose ids are checked as by `_check_ids`."""
        self._check_ids(name, table.column("document").to_numpy())
        return table


@contextmanager
def open_spans(folder: Location, name: str) -> Iterator[SpansFile]:
    """Open a table of spans for the block that reads it.

    Args:
        folder: of the data set.
        name: of the file.

    Raises:
        UserError: if the file is damaged.
    """
    with _naming(folder, name), SpansFile(folder.open(name)) as file:
        yield file


@contextmanager
def open_documents(folder: Location, name: str) -> Iterator[DocumentsTable]:
    """Open a table of documents for the block that reads it, as `open_spans`."""
    with _naming(folder, name), folder.open(name) as stream:
        yield DocumentsTable(stream)


@contextmanager
def _naming(folder: Location, name: str) -> Iterator[None]:
    """Name the file in whose reading an error is raised."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # Arrow's errors of damaged files are of many kinds
        cause = f"its provenance cannot be read ({in_one_line(error)})"
        raise damaged_file(folder, name, cause) from error


def search_in_order(
    search: Callable[[Item], Found], items: Iterable[Item], most_threads: int = _MOST_THREADS
) -> Iterator[Found]:
    """Yield what is found in each item, in their order, while threads search the next ones.

    Args:
        search: finds something in an item.
        items: what is searched; of these, and of what is found, a few are in memory.
        most_threads: how many threads search at a time, if there are as many cores.

    Raises:
        Exception: what `search` raises, when it is the item's turn.
    """
    number = min(most_threads, count_processors())
    with ThreadPoolExecutor(number) as threads:
        ahead = deque[Future[Found]]()
        try:
            for item in items:
                ahead.append(threads.submit(search, item))
                if len(ahead) > 2 * number:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def list_removed(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the lists of documents that were removed."""
    for number, removal in enumerate(manifest.removals):
        if removal.is_listed:
            yield manifest.path_of(removal_name(number))


def list_tables(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the tables of all documents that a data set has or had.

    Args:
        manifest: of the data set, which has provenance.
    """
    entries = [entry.file for entry in manifest.files]
    for split in manifest.splits:
        yield from list_provenance(entries, "documents", split)
    # What was removed must not come back with the next crawl.
    yield from list_removed(manifest)


def read_column(folder: Location, names: Iterable[str], column: str) -> Iterator[Ids]:
    """Yield a column of tables of documents, uint64[n], a group of them at a time.

    Args:
        folder: of the data set.
        names: of the tables.
        column: "document" or "digest".
    """
    for name in names:
        with open_documents(folder, name) as documents:
            for table in documents.groups([column]):
                yield table.column(column).combine_chunks().to_numpy()
