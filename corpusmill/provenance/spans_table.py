"""The table of spans: of which tokens of which documents the rows of a shard are made.

A Parquet file stands beside each shard. It has a line for each span of a row, in the order of the
rows and of their text:

    row          uint32, the number of the row in the shard
    place        uint32, the number of the span in the row, from 0
    document     uint64, the id of the document (`corpusmill.provenance.documents_table`)
    first_token  uint32, the place of the span's first token among those of the document
    tokens       uint32, its number of tokens
    repeat       uint16, in which pass over its document the row was built

A row without spans has one line, with the document it was built from and 0 tokens. Lines stand in
groups of the same size, of which one is read to look up a row.
"""

from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays import ragged
from corpusmill.formats.shard_formats import Sink
from corpusmill.knobs import knob
from corpusmill.objectives.columns import SPANS
from corpusmill.provenance.documents_table import Ids, read_bounds

Integers = npt.NDArray[np.int64]

_TYPES = {
    "row": np.uint32, "place": np.uint32, "document": np.uint64, "first_token": np.uint32,
    "tokens": np.uint32, "repeat": np.uint16,
}  # fmt: skip
SCHEMA = pa.schema(
    [pa.field(name, pa.from_numpy_dtype(kind), nullable=False) for name, kind in _TYPES.items()]
)
_NUMBERS = 3
# Where documents have this many rows of a group, on average, a dictionary of them saves bytes.
_LINES_A_DOCUMENT = 3


class Spans(NamedTuple):
    """Some lines of the table, in its order; numbers may have any type of integers.

    Attributes:
        rows: integers[spans], the numbers of the rows in the shard, ascending.
        places: integers[spans], the numbers of the spans in their rows.
        documents: uint64[spans], ids.
        first_tokens: integers[spans].
        tokens: integers[spans].
        repeats: integers[spans].
    """

    rows: np.ndarray
    places: np.ndarray
    documents: Ids
    first_tokens: np.ndarray
    tokens: np.ndarray
    repeats: np.ndarray

    def take(self, lines: npt.NDArray[np.generic]) -> "Spans":
        """Return some lines.

        Args:
            lines: int64[n], their numbers; or bool[spans], whether each is taken.
        """
        return Spans(*(column[lines] for column in self))


_NOTHING = Spans(*(np.zeros(0, kind) for kind in _TYPES.values()))


GROUP_LINES = knob("group_lines", 2**17)
"""The lines of spans that are encoded together. In a group of 131,072 a row is looked up in four
milliseconds; smaller ones take more bytes for the documents in each."""


class SpansWriter:
    """Writes the table of a shard. Its bytes depend on the rows alone, not on their batches.

    Args:
        sink: receives the file's bytes.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writer: pq.ParquetWriter | None = None
        self._waiting, self._rows, self._lines = list[pa.RecordBatch](), 0, 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows of the shard.

        Args:
            rows: with the identity and the column SPANS, without which their documents alone are
                kept.
        """
        documents, repeats = (rows.column(name).to_numpy() for name in ("document", "repeat"))
        if SPANS.name in rows.schema.names:
            values, offsets = ragged.from_arrow(rows.column(SPANS.name))
        else:
            values, offsets = np.zeros(0, np.uint64), np.zeros(rows.num_rows + 1, np.int32)
        counts = np.diff(offsets) // _NUMBERS
        spans = values[offsets[0] : offsets[-1]].reshape(-1, _NUMBERS).T
        if not counts.all():
            empty = np.flatnonzero(counts == 0)
            places = (np.cumsum(counts) - counts)[empty]
            nothing = np.zeros(len(empty), np.uint64)
            own = np.stack([documents[empty], nothing, nothing])
            spans, counts = np.insert(spans, places, own, axis=1), np.maximum(counts, 1)
        numbers = np.arange(self._rows, self._rows + rows.num_rows, dtype=np.uint32)
        firsts = (np.cumsum(counts) - counts).astype(np.uint32)
        places = np.arange(spans.shape[1], dtype=np.uint32) - np.repeat(firsts, counts)
        named, first_tokens, tokens = spans
        self.add_lines(
            Spans(
                np.repeat(numbers, counts), places, named, first_tokens, tokens,
                np.repeat(repeats, counts),
            )
        )  # fmt: skip
        self._rows += rows.num_rows

    def add_lines(self, spans: Spans) -> None:
        """Add lines that follow those before."""
        columns = [
            pa.array(column.astype(kind, copy=False))
            for column, kind in zip(spans, _TYPES.values(), strict=True)
        ]
        lines = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        while self._lines + lines.num_rows >= GROUP_LINES:
            room = GROUP_LINES - self._lines
            self._waiting.append(lines.slice(0, room))
            self._write()
            lines = lines.slice(room)
        if lines.num_rows:
            self._waiting.append(lines)
            self._lines += lines.num_rows

    def _write(self) -> None:
        """Write a group. As one piece, or the pages would depend on the pieces."""
        group = pa.concat_batches(self._waiting) if self._waiting else SCHEMA.empty_table()
        self._writer = self._writer or self._open(group)
        if self._waiting:
            self._writer.write_batch(group, row_group_size=GROUP_LINES)
        self._waiting, self._lines = [], 0

    def _open(self, group: pa.RecordBatch | pa.Table) -> pq.ParquetWriter:
        documents = np.sort(group.column("document").to_numpy())
        changes = np.count_nonzero(documents[1:] != documents[:-1])
        # Differences of rows take a tenth of their bytes. Those of ids that seldom recur take as
        # many as the ids, and half of the time.
        deltas = ["row"] if changes * _LINES_A_DOCUMENT < group.num_rows else ["row", "document"]
        return pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in SCHEMA.names if name not in deltas],
            column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
            write_statistics=["row"],
            store_schema=False,
        )

    def close(self) -> None:
        """Write the last group and the end of the file; the sink stays open."""
        if self._waiting or self._writer is None:
            self._write()
        assert self._writer  # noqa: S101  a group opens it
        self._writer.close()

    def abandon(self) -> None:
        """Write nothing more: the file is of no use."""
        if self._writer:
            self._writer.is_open = False


class SpansFile:
    """A table of spans, of which only what is asked for is read.

    Args:
        stream: the file, seekable; it is closed with this.

    Raises:
        ValueError: it is not such a table.
    """

    def __init__(self, stream: BinaryIO) -> None:
        # Arrow would read it ahead by threads, which must not outlive Python.
        self._stream, self._file = stream, pq.ParquetFile(stream, pre_buffer=False)
        if not self._file.schema_arrow.equals(SCHEMA):
            raise ValueError("it does not hold the spans of rows")
        # A row may be in several groups.
        self._firsts, self._lasts = read_bounds(self._file).astype(np.int64).T

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._lasts[-1]) + 1 if len(self._lasts) else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read_rows(self, rows: Integers) -> Spans:
        """Return the spans of some rows; each group that holds any is read once.

        Args:
            rows: int64[n], their numbers, ascending.
        """
        found = []
        for group, (first, last) in enumerate(zip(self._firsts, self._lasts, strict=True)):
            begin, end = np.searchsorted(rows, first), np.searchsorted(rows, last, "right")
            if begin < end:
                spans = self._read(group)
                is_wanted = np.zeros(last - first + 1, np.bool_)
                is_wanted[rows[begin:end] - first] = True
                found.append(spans.take(is_wanted[spans.rows - first]))
        return _join(found)

    def groups(self) -> Iterator[Spans]:
        """Yield all spans, group by group."""
        yield from map(self._read, range(len(self._firsts)))

    def find_rows(self, documents: Ids) -> Integers:
        """Return the rows that hold tokens of some documents, int64[n], ascending.

        Args:
            documents: uint64[m], their ids.
        """
        found = [np.zeros(0, np.int64)]
        for group in range(len(self._firsts)):
            [named] = self._read_columns(group, ["document"])
            lines = np.flatnonzero(np.isin(named, documents))
            if len(lines):
                [rows] = self._read_columns(group, ["row"])
                found.append(rows[lines].astype(np.int64))
        return np.unique(np.concatenate(found))

    def _read(self, group: int) -> Spans:
        rows, *others = self._read_columns(group, SCHEMA.names)
        return Spans(rows.astype(np.int64), *others)

    def _read_columns(self, group: int, names: Sequence[str]) -> list[np.ndarray]:
        table = self._file.read_row_group(group, list(names), use_threads=False)
        columns = [ragged.to_numpy(table.column(name).chunk(0)) for name in names]
        if names[0] == "row":
            rows, bounds = columns[0], (self._firsts[group], self._lasts[group])
            if (rows[0], rows[-1]) != bounds or (rows[1:] < rows[:-1]).any():
                raise ValueError("its rows are not those that its groups tell")
        return columns


def _join(parts: Sequence[Spans]) -> Spans:
    """Return the spans of all parts."""
    return Spans(*map(np.concatenate, zip(_NOTHING, *parts, strict=True)))


def copy_spans(file: SpansFile, writer: SpansWriter, kept: npt.NDArray[np.bool_]) -> None:
    """Write the spans of some rows, which are numbered anew.

    Args:
        file: the spans of a shard.
        writer: takes those of the new shard; it is not closed.
        kept: bool[rows], whether each row is kept.
    """
    numbers = np.cumsum(kept) - 1
    for spans in file.groups():
        own = spans.take(kept[spans.rows])
        writer.add_lines(own._replace(rows=numbers[own.rows]))
