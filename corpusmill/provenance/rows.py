"""The rows of a shard and what they are made of: which tokens of which documents.

A file of provenance stands beside each shard. It has a record for each row:

    document   the id of the document that the row was built from
    repeat     which of the document's passes it was
    index      the row's number in that pass
    spans      the tokens in the row, in their order: {document, first_token, tokens}; `document` is
               null for the row's own one

Rows follow one another at random in a shard, by a key that their document, repeat and index give
(`corpusmill.layout.placement.draw_keys`). So a group of records is stored in the order of the
documents, where neighbors are alike and take a third of the room, and their places in the shard are
derived from their keys again. Rows in another order are stored as they come.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA
from corpusmill.layout.placement import draw_keys, sort_order

_SPAN = pa.struct(
    [("document", pa.uint64()), ("first_token", pa.uint32()), ("tokens", pa.uint32())]
)
SCHEMA = pa.schema([*IDENTITY_SCHEMA, pa.field("spans", pa.list_(_SPAN))])

# The column that objectives build, and the numbers of a span in it.
SPANS = "spans"
_NUMBERS = 3
# A group ends with the row that makes it reach one of these; a shard of the default size fits.
_GROUP_ROWS, _GROUP_SPANS = 2**18, 2**20
# Which groups are in the order of their documents, in the file's metadata.
_IS_DERIVED = b"corpusmill.places_are_derived"
_SPAN_DOCUMENTS = "spans.list.element.document"
_ENCODED = (
    *IDENTITY_SCHEMA.names,
    *(f"spans.list.element.{field.name}" for field in _SPAN),
)

Integers = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint64]


class Sink(Protocol):
    """Where the bytes of a file go."""

    @property
    def closed(self) -> bool:
        """Whether it is closed."""

    def write(self, data: bytes, /) -> int:
        """Take bytes."""


@dataclass(frozen=True)
class Origins:
    """What the rows of a group are made of, in the order in which they are stored.

    Attributes:
        places: int64[rows], where each row stands in its shard.
        documents: uint64[rows], the ids of the documents from which they were built.
        repeats: int64[rows], in which pass.
        indices: int64[rows], the numbers of the rows in their passes.
        span_offsets: int64[rows + 1] into the spans.
        span_documents: uint64[spans], whose tokens they are.
        first_tokens: int64[spans], the place of their first token in its document.
        tokens: int64[spans], their numbers of tokens.
    """

    places: Integers
    documents: Ids
    repeats: Integers
    indices: Integers
    span_offsets: Integers
    span_documents: Ids
    first_tokens: Integers
    tokens: Integers

    def find(self, documents: Ids) -> npt.NDArray[np.bool_]:
        """Return bool[rows]: whether each row was built from some documents, or holds their tokens.

        Args:
            documents: uint64[n], their ids.
        """
        found = np.isin(self.documents, documents)
        rows = np.repeat(np.arange(len(found)), np.diff(self.span_offsets))
        found[rows[np.isin(self.span_documents, documents)]] = True
        return found


class RowsWriter:
    """Writes the file of a shard. Its bytes depend on the rows alone.

    Args:
        sink: where the bytes go.
        seed: the data set's seed.
    """

    def __init__(self, sink: Sink, seed: int) -> None:
        self._writer = pq.ParquetWriter(
            sink,
            SCHEMA,
            compression="zstd",
            compression_level=6,
            use_dictionary=False,
            column_encoding=dict.fromkeys(_ENCODED, "BYTE_STREAM_SPLIT"),
        )
        self._seed = seed
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._spans = 0
        self._derived: list[bool] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the rows that come next in the shard.

        Args:
            rows: of `corpusmill.layout.sorting.keyed_schema`; without the column `spans` their
                documents alone are kept.
        """
        names = [*IDENTITY_SCHEMA.names, *({SPANS} & {*rows.schema.names})]
        self._waiting.append(rows.select(names))
        self._rows += rows.num_rows
        self._spans += len(rows.column(SPANS).flatten()) // _NUMBERS if SPANS in names else 0
        if self._rows >= _GROUP_ROWS or self._spans >= _GROUP_SPANS:
            self._write()

    def _write(self) -> None:
        group = pa.concat_batches(self._waiting)
        self._waiting, self._rows, self._spans = [], 0, 0
        identity = [group.column(name).to_numpy() for name in IDENTITY_SCHEMA.names]
        is_derived = _are_sorted(identity, self._seed)
        self._derived.append(is_derived)
        if is_derived:
            group = ragged.take_rows(group, np.lexsort(identity[::-1]))
        columns = [*group.columns[: len(IDENTITY_SCHEMA)], _spans_of(group)]
        stored = pa.record_batch(columns, schema=SCHEMA)
        self._writer.write_batch(stored, row_group_size=max(1, stored.num_rows))

    def close(self) -> None:
        """Write the rows that wait, and the end of the file."""
        if self._waiting:
            self._write()
        self._writer.add_key_value_metadata({_IS_DERIVED.decode(): json.dumps(self._derived)})
        self._writer.close()

    def abandon(self) -> None:
        """Write nothing more: the file is of no use."""
        self._writer.is_open = False


def _spans_of(rows: pa.RecordBatch) -> pa.ListArray:
    """Return the spans of rows as they are written."""
    if SPANS not in rows.schema.names:
        return ragged.to_arrow(pa.array([], _SPAN), np.zeros(rows.num_rows + 1, np.int32))
    values, offsets = ragged.from_arrow(rows.column(SPANS))
    spans = values[offsets[0] : offsets[-1]].reshape(-1, _NUMBERS)
    offsets = (offsets - offsets[0]) // _NUMBERS
    owners = np.repeat(rows.column("document").to_numpy(), np.diff(offsets))
    documents = pa.array(spans[:, 0], mask=spans[:, 0] == owners)
    columns = [documents, *(pa.array(spans[:, number].astype(np.uint32)) for number in (1, 2))]
    return ragged.to_arrow(pa.StructArray.from_arrays(columns, fields=list(_SPAN)), offsets)


def _are_sorted(identity: list[np.ndarray], seed: int) -> bool:
    """Return whether rows follow one another by their keys, as `_places` derives it."""
    keys = draw_keys(*identity, np.uint64(seed))
    if (keys[1:] > keys[:-1]).all():
        return True
    return bool((sort_order(keys, *identity) == np.arange(len(keys))).all())


def _places(identity: list[np.ndarray], seed: int) -> Integers:
    """Return the number of the row at each place, int64[rows], for rows that are sorted by key."""
    return sort_order(draw_keys(*identity, np.uint64(seed)), *identity)


class RowsFile:
    """A file that `RowsWriter` wrote.

    Args:
        stream: the file.
        seed: the data set's seed.

    Raises:
        ValueError: it is not such a file.
    """

    def __init__(self, stream: BinaryIO, seed: int) -> None:
        # Arrow would read it ahead by threads, which must not outlive Python.
        self._file = pq.ParquetFile(stream, pre_buffer=False)
        metadata = self._file.metadata
        self._derived = json.loads((metadata.metadata or {}).get(_IS_DERIVED, b"[]"))
        groups = range(metadata.num_row_groups)
        self._starts = np.cumsum([0, *(metadata.row_group(n).num_rows for n in groups)])
        self._stream, self._seed = stream, seed
        if self._file.schema_arrow.names != SCHEMA.names or len(self._derived) != len(groups):
            raise ValueError("it does not hold the provenance of rows")

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._starts[-1])

    def origins(self, row: int) -> tuple[Origins, int]:
        """Return the group of a row, and the row's number in it."""
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        origins = self._read(group)
        return origins, int(np.flatnonzero(origins.places == row)[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def groups(self) -> Iterator[Origins]:
        """Yield all groups."""
        yield from map(self._read, range(len(self._derived)))

    def find_groups(self, documents: Ids, in_spans_only: bool = False) -> Iterator[Origins]:
        """Yield the groups with a row of some documents; of the others little is read.

        Args:
            documents: uint64[n], their ids.
            in_spans_only: whether none of the rows was built from them, so that at most they hold
                their tokens.
        """
        columns = [_SPAN_DOCUMENTS] if in_spans_only else ["document", _SPAN_DOCUMENTS]
        for group in range(len(self._derived)):
            table = self._file.read_row_group(group, columns, use_threads=False).combine_chunks()
            named = [table.column("spans").combine_chunks().flatten().field(0)]
            named += [column.combine_chunks() for column in table.columns[:-1]]
            if any(np.isin(ids.drop_null().to_numpy(), documents).any() for ids in named):
                yield self._read(group)

    def _read(self, group: int) -> Origins:
        table = self._file.read_row_group(group, use_threads=False).combine_chunks()
        identity = [table.column(name).combine_chunks().to_numpy() for name in SCHEMA.names[:-1]]
        places = np.arange(table.num_rows)
        if self._derived[group]:
            places = np.empty(table.num_rows, np.int64)
            places[_places(identity, self._seed)] = np.arange(table.num_rows)
        lists = table.column("spans").combine_chunks()
        offsets = lists.offsets.to_numpy().astype(np.int64)
        documents, firsts, tokens = lists.flatten().flatten()
        own = documents.is_null().to_numpy(zero_copy_only=False)
        owners = np.repeat(identity[0], np.diff(offsets))
        others = documents.fill_null(0).to_numpy()
        repeats, indices = (values.astype(np.int64) for values in identity[1:])
        return Origins(
            places + self._starts[group],
            identity[0],
            repeats,
            indices,
            offsets - offsets[0],
            np.where(own, owners, others),
            firsts.to_numpy().astype(np.int64),
            tokens.to_numpy().astype(np.int64),
        )
