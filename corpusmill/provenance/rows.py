"""The rows of a shard and what they are made of: which tokens of which documents.

A file of provenance stands beside each shard. Rows are stored in groups; a group is one record,
each of whose columns is many numbers (`corpusmill.provenance.packing`), and tells

    document   the id of the document that each row was built from
    repeat     which of the document's passes it was
    index      the row's number in that pass
    spans      the tokens in the row, in their order: document, first token, number of tokens

Rows follow one another at random in a shard, by a key that their document, repeat and index give
(`corpusmill.layout.placement.draw_keys`). So a group is stored in the order of the documents, where
neighbors are alike and take a fraction of the room, and the places of its rows in the shard are
derived from their keys again: among the rows of the group, where these came in the order of the
shard, and otherwise among all rows of the file. Rows in another order than that of their keys are
stored as they come.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import BinaryIO, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA
from corpusmill.arrays.ragged import RowBuffer
from corpusmill.layout.placement import draw_keys, sort_order
from corpusmill.provenance.byte_planes import from_bytes, to_bytes
from corpusmill.provenance.key_ranks import MOST_KEYS, KeyRanks
from corpusmill.provenance.packed_rows import KEY_COLUMNS, PackedRows, holds_any
from corpusmill.provenance.packing import DOCUMENTS, TYPES, pack
from corpusmill.provenance.spans import Ids, Integers, Rows, join

SCHEMA = pa.schema([pa.field(name, pa.binary(), nullable=False) for name in TYPES])

# The column that objectives build, and the numbers of a span in it.
SPANS = "spans"
_NUMBERS = 3
_LISTS = pa.list_(pa.uint64())
# What rows are made of, as they come.
ORIGIN_SCHEMA = pa.schema([*IDENTITY_SCHEMA, pa.field(SPANS, _LISTS, nullable=False)])
# A group ends with the row that makes it reach one of these; a shard of the default size fits.
_GROUP_ROWS, _GROUP_SPANS = 2**21, 2**22
# The number of rows of each group, and whether it is in the order of its documents, in the file's
# metadata.
_GROUPS = b"corpusmill.groups"
# Whether rows came in another order than that of the shard, likewise.
_BY_KEY = b"corpusmill.by-key"
# There may be a writer for each of a hundred length bins.
_SMALL_BYTES = 2**16

# A method of `KeyRanks`.
Translate = Callable[[KeyRanks, Integers], Integers]


class Sink(Protocol):
    """Where the bytes of a file go."""

    @property
    def closed(self) -> bool:
        """Whether it is closed."""

    def write(self, data: bytes, /) -> int:
        """Take bytes."""


class RowsWriter:
    """Writes the file of a shard. Its bytes depend on the rows alone.

    Args:
        sink: where the bytes go.
        seed: the data set's seed.
        by_key: whether rows are added in any order, and stand in the shard in that of their keys.
        waiting: keeps the rows of a group, of `ORIGIN_SCHEMA`, in memory that one writer after the
            other can use; by default its own.
    """

    def __init__(
        self, sink: Sink, seed: int, by_key: bool = False, waiting: RowBuffer | None = None
    ) -> None:
        self._writer = pq.ParquetWriter(
            sink,
            SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        )
        self._seed, self._by_key = seed, by_key
        self._waiting = waiting or RowBuffer(ORIGIN_SCHEMA, _SMALL_BYTES)
        self._waiting.clear()
        self._rows = self._spans = 0
        self._groups: list[tuple[int, bool]] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, those that come next in the shard unless keys tell their places.

        Args:
            rows: with the identity and the column `spans`, without which their documents alone are
                kept.
        """
        if SPANS not in rows.schema.names:
            nothing = ragged.to_arrow(np.empty(0, np.uint64), np.zeros(rows.num_rows + 1, np.int32))
            rows = rows.append_column(SPANS, nothing)
        self._waiting.add(rows.select(ORIGIN_SCHEMA.names))
        self._rows += rows.num_rows
        offsets = rows.column(SPANS).offsets
        self._spans += (offsets[-1].as_py() - offsets[0].as_py()) // _NUMBERS
        if self._rows >= _GROUP_ROWS or self._spans >= _GROUP_SPANS:
            self.end_group()

    def end_group(self) -> None:
        """Write the rows that wait as a group, if there are any."""
        if not self._rows:
            return
        group, self._rows, self._spans = self._waiting.rows(), 0, 0
        identity = [group.column(name).to_numpy() for name in IDENTITY_SCHEMA.names]
        is_derived = self._by_key or _are_sorted(identity, self._seed)
        self._groups.append((group.num_rows, is_derived))
        order = _document_order(identity) if is_derived else np.arange(group.num_rows)
        columns = pack(identity, *ragged.from_arrow(group.column(SPANS)), order)
        self._waiting.clear()
        packed = [[to_bytes(columns[name], dtype)] for name, dtype in TYPES.items()]
        self._writer.write_batch(pa.record_batch(packed, schema=SCHEMA))

    def close(self) -> None:
        """Write the rows that wait, and the end of the file."""
        self.end_group()
        entries = {_GROUPS: self._groups, _BY_KEY: self._by_key}
        self._writer.add_key_value_metadata({k.decode(): json.dumps(v) for k, v in entries.items()})
        self._writer.close()

    def abandon(self) -> None:
        """Write nothing more: the file is of no use."""
        self._writer.is_open = False


def _document_order(identity: Sequence[np.ndarray]) -> Integers:
    """Return the rows in the order of document, repeat and index, int64[rows]."""
    documents, repeats, indices = (column.astype(np.uint64) for column in identity)
    documents -= documents.min(initial=2**64 - 1)
    bits = [int(column.max(initial=0)).bit_length() for column in (documents, repeats, indices)]
    # Most often they fit into a number, which is sorted in a third of the time.
    if sum(bits) <= 64:
        keys = (
            (documents << np.uint64(bits[1] + bits[2])) | (repeats << np.uint64(bits[2])) | indices
        )
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        if (ordered[1:] != ordered[:-1]).all():
            return order
    return np.lexsort((indices, repeats, documents))


def _are_sorted(identity: list[np.ndarray], seed: int) -> bool:
    """Return whether rows follow one another by their keys, as `_places` derives it."""
    keys = draw_keys(*identity, np.uint64(seed))
    if (keys[1:] > keys[:-1]).all():
        return True
    return bool((sort_order(keys, *identity) == np.arange(len(keys))).all())


class RowsFile:
    """A file that `RowsWriter` wrote.

    Args:
        stream: the file.
        seed: the data set's seed.
        most_keys: as of `corpusmill.provenance.key_ranks.KeyRanks`.

    Attributes:
        by_key: whether the rows of all groups stand in the shard in the order of their keys, as
            `RowsWriter` has it.

    Raises:
        ValueError: it is not such a file.
    """

    def __init__(self, stream: BinaryIO, seed: int, most_keys: int = MOST_KEYS) -> None:
        # Arrow would read it ahead by threads, which must not outlive Python.
        self._file = pq.ParquetFile(stream, pre_buffer=False)
        metadata = self._file.metadata
        groups, self.by_key = (
            json.loads((metadata.metadata or {}).get(name, b"null")) for name in (_GROUPS, _BY_KEY)
        )
        if groups is None or len(groups) != metadata.num_row_groups:
            raise ValueError("it does not hold the provenance of rows")
        self._derived = [is_derived for _, is_derived in groups]
        self._starts = np.cumsum([0, *(rows for rows, _ in groups)])
        self._stream, self._seed, self._most_keys = stream, seed, most_keys
        self._kept: dict[int, PackedRows] = {}

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._starts[-1])

    def rows(self, places: Integers) -> Rows:
        """Return what some rows are made of; each group that holds any is unpacked once.

        Args:
            places: int64[n], where the rows stand in the shard.
        """
        if self._is_scattered:
            return self._take(self._ranks.numbers_at(places))
        return self._take(places, KeyRanks.numbers_at)

    def _take(self, numbers: Integers, translate: Translate | None = None) -> Rows:
        """Return some rows by their numbers as they are stored, or what gives these in a group."""
        parts, places = list[Rows](), [np.empty(0, np.int64)]
        for group, own in self._groups_of(numbers):
            in_group = numbers[own] - self._starts[group]
            if translate:
                in_group = self._within(group, in_group, translate)
            parts.append(self._read(group).take(in_group))
            places.append(own)
        return join(parts).take(np.argsort(np.concatenate(places)))

    def _groups_of(self, numbers: Integers) -> Iterator[tuple[int, Integers]]:
        """Yield the groups of some rows, each with the places of its own ones among them."""
        groups = np.searchsorted(self._starts, numbers, side="right") - 1
        for group in np.unique(groups).tolist():
            yield group, np.flatnonzero(groups == group)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def groups(self) -> Iterator[tuple[Integers, Rows]]:
        """Yield all groups as they are stored: int64[rows], the numbers of rows, and the rows."""
        for group in range(len(self._derived)):
            yield self._numbers_of(group), self._read(group).unpack()

    def find(self, documents: Ids) -> tuple[Integers, Rows]:
        """Return the rows that were built from some documents, or hold their tokens.

        Args:
            documents: uint64[n], their ids.

        Returns:
            int64[n], where the rows stand in the shard, ascending; and the rows.
        """
        found = list(self.find_groups(documents))
        numbers = np.concatenate([np.empty(0, np.int64), *(numbers for numbers, _ in found)])
        places = self.places_of(numbers)
        order = np.argsort(places)
        return places[order], join([rows for _, rows in found]).take(order)

    def find_groups(self, documents: Ids) -> Iterator[tuple[Integers, Rows]]:
        """Yield the rows that were built from some documents, or hold their tokens, as `groups`.

        Little is read of groups without such a row.

        Args:
            documents: uint64[n], their ids.
        """
        for group in range(len(self._derived)):
            known = self._read_columns(group, [DOCUMENTS])
            if holds_any(known[DOCUMENTS], documents):
                rows = self._read(group, known)
                numbers = rows.find(documents)
                yield numbers + self._starts[group], rows.take(numbers)

    def places_of(self, numbers: Integers) -> Integers:
        """Return where some rows stand in the shard, int64[n].

        Args:
            numbers: int64[n], the numbers of the rows in the order in which they are stored.
        """
        if self._is_scattered:
            return self._ranks.places_of(numbers)
        places = numbers.copy()
        for group, own in self._groups_of(numbers):
            start = self._starts[group]
            places[own] = start + self._within(group, numbers[own] - start, KeyRanks.places_of)
        return places

    def _within(self, group: int, values: Integers, translate: Translate) -> Integers:
        """Return the places of a group's rows, or their numbers, both from the group's first on."""
        if not self._derived[group]:
            return values
        keys = [self._read(group).keys(self._seed)]
        return translate(KeyRanks(np.array([0, len(keys[0])]), keys.__getitem__), values)

    def _read(self, group: int, known: Mapping[str, np.ndarray] | None = None) -> PackedRows:
        """Read a group, of which some columns may be known; the last one that was read is kept."""
        if group not in self._kept:
            columns = known or {}
            missing = [name for name in SCHEMA.names if name not in columns]
            self._kept.clear()
            self._kept[group] = PackedRows({**columns, **self._read_columns(group, missing)})
        return self._kept[group]

    def _read_columns(self, group: int, names: Sequence[str]) -> dict[str, np.ndarray]:
        table = self._file.read_row_group(group, names, use_threads=False)
        return {name: from_bytes(table.column(name)[0].as_py(), TYPES[name]) for name in names}

    def _numbers_of(self, group: int) -> Integers:
        return np.arange(self._starts[group], self._starts[group + 1])

    @property
    def _is_scattered(self) -> bool:
        """Whether the rows of each group stand anywhere in the shard."""
        return self.by_key and len(self._derived) > 1

    @cached_property
    def _ranks(self) -> KeyRanks:
        """Where the rows of all groups stand, if these are scattered."""
        return KeyRanks(self._starts, self._read_keys, self._read_identity, self._most_keys)

    def _read_keys(self, group: int) -> Ids:
        """Return the keys of a group's rows, uint64[rows]."""
        kept = self._kept.get(group)
        return (kept or PackedRows(self._read_columns(group, KEY_COLUMNS))).keys(self._seed)

    def _read_identity(self, numbers: Integers) -> Sequence[np.ndarray]:
        """Return the documents, repeats and indices of some rows."""
        return self._take(numbers)[:3]
