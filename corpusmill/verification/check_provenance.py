"""The provenance of a data set compared with its shards, and its documents with its counts.

All that needs no text is checked: every row of a shard has its spans, as many tokens as its
columns say, of documents that are at home where the layout puts them, and which the tables list
with as many tokens. What cannot be told is which of the documents of a shard a row is made of, save
where the order of the rows follows from their documents, and whether a digest is that of a text.
"""

from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.columns import Role, column_of
from corpusmill.arrays.ragged import is_padded, row_lengths
from corpusmill.dataset.file_checks import Checked, Problem, Task, check_digest, check_task
from corpusmill.dataset.manifest import (
    Manifest,
    ProvenanceFile,
    Shard,
    name_documents,
    name_spans,
)
from corpusmill.dataset.manifest_entries import count_in_rows, measure_rows, removal_name
from corpusmill.dataset.shards import damaged_file
from corpusmill.errors import UserError
from corpusmill.layout.placement import SPLIT_NAMES, draw_keys, sort_order
from corpusmill.location import Location
from corpusmill.provenance.documents_table import Ids, documents_schema
from corpusmill.provenance.spans_table import Integers, SpansFile
from corpusmill.provenance.store import OriginStore, open_documents, open_spans

# By this name the number of documents and of their tokens are counted, as of no split.
DOCUMENTS = "documents"


class TokenBounds:
    """How many tokens of documents each row of a shard holds, as far as its columns tell.

    Rows of segments tell it; of others the special tokens may be of the text or not.

    Args:
        manifest: of the data set.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._columns = manifest.columns
        self._is_special = np.zeros(manifest.tokenizer.vocab_size, np.bool_)
        self._is_special[list(manifest.tokenizer.special.all_ids)] = True
        self._least, self._most = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of the shard."""
        rows = measure_rows(batch, self._columns)
        if "first_segment_length" in rows:
            most = least = rows["first_segment_length"] + rows["second_segment_length"]
        else:
            most = rows["length"] + rows.get("target_length", 0)
            least = most - self._count_special(batch)
        self._least.append(least)
        self._most.append(most)

    def _count_special(self, batch: pa.RecordBatch) -> Integers:
        total = np.zeros(batch.num_rows, np.int64)
        for column in self._columns:
            if column.role in {Role.TOKEN_IDS, Role.TARGET_IDS}:
                array = batch.column(column.name)
                total += count_in_rows(array, lambda ids, _: self._is_special[ids])
                if is_padded(array) and self._is_special[column.pad]:
                    total -= array.type.list_size - row_lengths(array, column.pad)
        return total

    def holds(self, tokens: Integers) -> npt.NDArray[np.bool_]:
        """Return whether each row may hold this number of tokens of documents, bool[rows]."""
        least, most = np.concatenate(self._least), np.concatenate(self._most)
        fits: npt.NDArray[np.bool_] = (least <= tokens) & (tokens <= most)
        return fits


class _Rows(NamedTuple):
    """What a table of spans tells of its rows and documents.

    Attributes:
        documents: uint64[rows], the first document of each row, as the file has it.
        repeats: int64[rows].
        tokens: int64[rows], the tokens of documents in it.
        named: uint64[n], the ids of all documents, each once, ascending.
        ends: int64[n], the end of the last token of each.
    """

    documents: Ids
    repeats: Integers
    tokens: Integers
    named: Ids
    ends: Integers


def _read_rows(file: SpansFile) -> _Rows:
    """Read a table of spans.

    Raises:
        ValueError: rows or their spans are not numbered one after the other.
    """
    rows = len(file)
    firsts, repeats = np.zeros(rows, np.uint64), np.zeros(rows, np.int64)
    tokens = np.zeros(rows, np.int64)
    named, ends = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    last = (-1, 0, 0, 1)
    for spans in file.groups():
        row, place, repeat, count = (
            column.astype(np.int64)
            for column in (spans.rows, spans.places, spans.repeats, spans.tokens)
        )
        before = [
            np.concatenate([[end], column[:-1]])
            for end, column in zip(last, (row, place, repeat, count), strict=True)
        ]
        is_new = row != before[0]
        follows = np.where(is_new, (row == before[0] + 1) & (place == 0), place == before[1] + 1)
        # A row without spans has one line, and a row has one repeat.
        follows &= is_new | ((repeat == before[2]) & (count > 0) & (before[3] > 0))
        if not follows.all():
            raise ValueError("its rows, or their spans, are not numbered one after the other")
        firsts[row[is_new]], repeats[row[is_new]] = spans.documents[is_new], repeat[is_new]
        np.add.at(tokens, row, count)
        documents, places = np.unique(spans.documents, return_inverse=True)
        own = np.zeros(len(documents), np.int64)
        np.maximum.at(own, places, spans.first_tokens.astype(np.int64) + count)
        named.append(documents)
        ends.append(own)
        last = (row[-1], place[-1], repeat[-1], count[-1])
    documents, places = np.unique(np.concatenate(named), return_inverse=True)
    largest = np.zeros(len(documents), np.int64)
    np.maximum.at(largest, places, np.concatenate(ends))
    return _Rows(firsts, repeats, tokens, documents, largest)


class ProvenanceCheck:
    """Checks the files of a data set, shards and provenance together.

    Args:
        folder: of the data set.
        manifest: of the data set.
        unread: files that are missing or of another size.
    """

    def __init__(self, folder: Location, manifest: Manifest, unread: frozenset[str]) -> None:
        self._folder, self._manifest, self._unread = folder, manifest, unread
        self._is_ours = manifest.objective.package is None
        self._is_joined = manifest.output.shard_format.joined
        self._spans, self._documents = dict[str, ProvenanceFile](), dict[str, ProvenanceFile]()
        self._removals = dict[str, int]()
        # Documents that any shard may draw from are looked up once.
        self._known, self._lock = dict[int, int](), Lock()
        if manifest.provenance:
            self._store = OriginStore(folder, manifest)
            for split in manifest.splits:
                of_split = name_spans(manifest, split)
                key = "name" if self._is_joined else "shard"
                self._spans |= {getattr(file, key): file for file in of_split}
                self._documents |= {file.name: file for file in name_documents(manifest, split)}
            for number, removal in enumerate(manifest.removals):
                name = manifest.path_of(removal_name(number))
                self._removals[name] = removal.documents

    def check(self, task: Task) -> Checked:
        """Read the files of a task and compare them with the manifest, and with one another."""
        subject = task.shard.file if task.shard else task.files[0]
        spans = self._spans.get(subject)
        bounds = TokenBounds(self._manifest) if spans and task.shard and self._is_ours else None
        follow = bounds.add if bounds else None
        checked = check_task(self._folder, self._manifest, task, self._unread, follow)
        if checked.differences or checked.faults or checked.counts is None:
            return checked
        try:
            if spans and spans.name not in self._unread:
                self._check_spans(spans, task.shard, bounds)
            elif subject in self._documents:
                return self._check_documents(self._documents[subject])
            elif subject in self._removals:
                self._check_removal(subject)
        except (UserError, ValueError) as error:
            name = spans.name if spans else subject
            cause = error.cause if isinstance(error, UserError) else str(error)
            # Damaged bytes, and the file that this one is compared with, concern other tasks.
            is_told = any(check_digest(self._manifest.entries[name], self._folder))
            is_other = isinstance(error, UserError) and not error.value.endswith(f"/{name}")
            if not is_told and not is_other:
                return Checked(faults=(Problem(name, cause),), counts=checked.counts)
        return checked

    def check_spans(self, shard: Shard) -> None:
        """Compare the spans of a shard's rows with the layout and the tables of documents.

        Raises:
            UserError: they are not those of the shard.
        """
        file = self._spans[shard.file]
        try:
            self._check_spans(file, shard, None)
        except ValueError as error:
            raise damaged_file(self._folder, file.name, str(error)) from error

    def _check_removal(self, name: str) -> None:
        with open_documents(self._folder, name) as table:
            listed = sum(group.num_rows for group in table.groups())
        if listed != self._removals[name]:
            number = self._removals[name]
            raise ValueError(f"lists {listed:,} documents, and {number:,} were removed")

    def _check_documents(self, file: ProvenanceFile) -> Checked:
        """Check that documents are at home in a table, and count them and their tokens."""
        keep_fields = self._manifest.corpus.options.get("keep_fields", ())
        total = np.zeros(2, np.int64)
        with open_documents(self._folder, file.name) as table:
            if table.schema.names != documents_schema(keep_fields).names:
                raise ValueError("its columns are not the fields that were kept")
            for group in table.groups():
                ids = self._store.check_ids(file.name, group.column("document").to_numpy())
                if (self._store.homes(file.generation, ids) != file.number).any():
                    raise ValueError("it lists documents that are at home in another shard")
                total += (len(ids), int(group.column("tokens").to_numpy().sum(dtype=np.int64)))
        return Checked(counts={DOCUMENTS: total})

    def _check_spans(
        self, file: ProvenanceFile, shard: Shard | None, bounds: TokenBounds | None
    ) -> None:
        with open_spans(self._folder, file.name) as table:
            if shard and len(table) != shard.rows:
                raise ValueError(f"tells of {len(table):,} rows, and the shard has other ones")
            rows = _read_rows(table)
        layout = file.generation.layout
        if not shard and file.number in {0, layout.train_shards}:
            self._store.row_starts(SPLIT_NAMES[layout.split_of(file.number)])
        provenance = self._manifest.provenance
        assert provenance  # noqa: S101  there are spans
        if provenance.has_spans:
            if bounds and not bounds.holds(rows.tokens).all():
                raise ValueError("tells of more or fewer tokens than rows of the shard hold")
        elif rows.tokens.any():
            raise ValueError("has spans, and the manifest says that it has none")
        self._check_homes(file, rows)
        is_drawn = self._is_ours and column_of(self._manifest.columns, Role.SEGMENTS)
        if is_drawn and not self._manifest.removals and not file.generation.layout.firsts:
            self._check_order(file, rows)
        self._check_named(file, rows)

    def _check_homes(self, file: ProvenanceFile, rows: _Rows) -> None:
        """A shard builds the documents of some homes, each in some repeats."""
        layout = file.generation.layout
        first, count = layout.range_around(file.number)
        repeats = layout.repeats_of(file.number, file.number, self._manifest.objective.repeats).stop

        ids = self._store.check_ids(file.name, rows.named)
        homes = self._store.homes(file.generation, ids).astype(np.int64)
        is_near = (homes >= first) & (homes < first + count)
        distances = np.where(is_near, (file.number - homes) % count, repeats)
        # There are far fewer documents than rows.
        of_rows = distances[np.searchsorted(rows.named, rows.documents)]
        if (of_rows != rows.repeats % count).any() or (rows.repeats >= repeats).any():
            raise ValueError("has rows of documents that another shard builds")
        if not self._store.has_random_documents and (distances >= repeats).any():
            raise ValueError("has tokens of documents that another shard builds")

    def _check_order(self, file: ProvenanceFile, rows: _Rows) -> None:
        """The rows of a pair of segments are in the order that is drawn for their documents."""
        order = np.lexsort((rows.repeats, rows.documents))
        documents, repeats = rows.documents[order], rows.repeats[order]
        numbers = np.arange(len(order))
        is_next = np.zeros(len(order), np.bool_)
        is_next[1:] = (documents[1:] == documents[:-1]) & (repeats[1:] == repeats[:-1])
        indices = numbers - np.maximum.accumulate(np.where(is_next, 0, numbers))
        keys = draw_keys(documents, repeats, indices, seed=file.generation.layout.seed)
        drawn = sort_order(keys, documents, repeats, indices)
        is_same = (documents[drawn] == rows.documents) & (repeats[drawn] == rows.repeats)
        if not is_same.all():
            raise ValueError("has rows in another order than that of their documents")

    def _check_named(self, file: ProvenanceFile, rows: _Rows) -> None:
        ids = self._store.check_ids(file.name, rows.named)
        tokens = self._count_tokens(file, ids)
        if (tokens < 0).any():
            number = int(np.count_nonzero(tokens < 0))
            raise ValueError(f"has tokens of {number:,} documents that no table lists")
        if (rows.ends > tokens).any():
            raise ValueError("has tokens that lie behind the ends of their documents")

    def _count_tokens(self, file: ProvenanceFile, ids: Ids) -> Integers:
        """Return the tokens of documents, int64[n]; -1 for those that no table lists."""
        homes = self._store.homes(file.generation, ids).astype(np.int64)
        layout, repeats = file.generation.layout, self._manifest.objective.repeats
        near = [home for home in np.unique(homes).tolist()
                if file.number in layout.shards_of(home, repeats)]  # fmt: skip
        is_near = np.isin(homes, near)
        found = self._look_up(ids[is_near])
        with self._lock:
            new = [each for each in ids[~is_near].tolist() if each not in self._known]
            self._known |= self._look_up(np.array(new, np.uint64))
        found |= {each: self._known.get(each, -1) for each in ids[~is_near].tolist()}
        return np.array([found.get(each, -1) for each in ids.tolist()], np.int64)

    def _look_up(self, ids: Ids) -> dict[int, int]:
        found = dict[int, int]()
        for table in self._store.find_tables(ids, ["document", "tokens"]):
            pairs = (table.column(name).to_pylist() for name in ("document", "tokens"))
            found |= dict(zip(*pairs, strict=True))
        return found


def compare_documents(manifest: Manifest, counted: Integers) -> Iterator[str]:
    """Compare the documents of all tables with the counts of a manifest.

    Args:
        manifest: the manifest.
        counted: int64[2], the number of documents and of their tokens.
    """
    documents, tokens = counted.tolist()
    removed = sum(removal.documents for removal in manifest.removals)
    expected = manifest.counts.get("tokenize.documents", documents + removed) - removed
    if documents != expected:
        yield f"its tables list {documents:,} documents, and its counts tell of {expected:,}"
    if not manifest.removals and manifest.counts.get("tokenize.tokens", tokens) != tokens:
        yield f"its tables list documents of {tokens:,} tokens, and its counts tell of others"
