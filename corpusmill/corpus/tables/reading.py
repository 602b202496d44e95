"""Records that are rows of a table, such as those of Parquet, Arrow and Avro files.

Rows are stored in blocks. A block is read by the range that holds its first byte, so that a file
may be cut anywhere; a text is known by its row in the file, which all formats' blocks tell.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.corpus.batches import (
    OFFSET_BITS,
    REJECTS_PER_BATCH,
    DocumentBatch,
    ReadCounts,
    Reject,
    document_id,
)
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.records.documents import documents_of, no_such_field
from corpusmill.corpus.tables.table import (
    MAX_BATCH_ROWS,
    BadTableError,
    Block,
    Table,
    TableStream,
    lengths_of,
)
from corpusmill.errors import UserError

# A row owns so many ids, for the documents that a long text is cut into.
_PIECE_BITS = 12
MAX_ROWS = 2 ** (OFFSET_BITS - _PIECE_BITS)

OpenTable = Callable[[TableStream, int, str], Table]


class _Stretch(NamedTuple):
    """A block and its share of the file: from its first byte, or the file's, to the next block."""

    block: Block
    bytes: int
    first_row: int
    rows: int


def _lay_out(blocks: Iterator[Block], size: int) -> Iterator[_Stretch]:
    """The stretches of a file, which together are all of it if there is any block."""
    begin = row = 0
    block = next(blocks, None)
    while block:
        following = next(blocks, None)
        end = following.offset if following else size
        # More rows than there are ids for are as a rule said by a damaged block.
        rows = block.rows if block.rows <= MAX_ROWS - row else 0
        yield _Stretch(block, end - begin, row, rows)
        begin, row, block = end, row + rows, following


class _Rows(NamedTuple):
    """Rows of a block: the file's row that is first, and what the table gave."""

    row: int
    block: Block
    texts: pa.Array
    kinds: Mapping[int, str]


class _Collector:
    """Gathers the rows of one range until they are taken as a batch."""

    def __init__(self, file: str, file_index: int, options: DocumentOptions) -> None:
        self._file, self._options = file, options
        self._first_id = np.uint64(document_id(file_index, 0))
        self._clear()

    def _clear(self) -> None:
        self._ids = [np.empty(0, np.uint64)]
        self._texts: list[pa.Array] = []
        self._unchecked: list[_Rows] = []
        self._bytes = self._rows = 0
        self._rejects: list[Reject] = []
        self.counts = ReadCounts()

    def add(self, rows: _Rows) -> None:
        """Take rows of a block."""
        self._unchecked.append(rows)
        self._bytes += rows.texts.nbytes
        self._rows += len(rows.texts)

    def refuse(self, offset: int, length: int, reason: str, detail: str) -> None:
        """Note a block or a file that could not be read."""
        self._check()
        self._rejects.append(Reject(self._file, offset, length, reason, detail))

    def is_full(self, batch_bytes: int) -> bool:
        """Whether enough was gathered."""
        is_long = self._rows >= MAX_BATCH_ROWS or len(self._rejects) >= REJECTS_PER_BATCH
        return is_long or self._bytes >= batch_bytes

    def take(self) -> DocumentBatch:
        """Give what was gathered."""
        self._check()
        batch = documents_of(
            np.concatenate(self._ids),
            _join(self._texts),
            self._options,
            self._rejects,
            self.counts,
            2**_PIECE_BITS,
        )
        self._clear()
        return batch

    def _check(self) -> None:
        """Sort out rows without a text; all at once where there is none, as blocks may be small."""
        texts = _join([rows.texts for rows in self._unchecked])
        if self._are_good(texts):
            spans = [np.arange(of.row, of.row + len(of.texts)) for of in self._unchecked]
            self._keep(texts, np.concatenate([np.empty(0, np.int64), *spans]))
        else:
            for rows in self._unchecked:
                self._sift(rows)
        self._unchecked = []

    def _keep(self, texts: pa.Array, rows: np.ndarray) -> None:
        self._texts.append(texts)
        self._ids.append(self._first_id + (rows.astype(np.uint64) << np.uint64(_PIECE_BITS)))

    def _are_good(self, texts: pa.Array) -> bool:
        longest = lengths_of(texts).max(initial=0)
        return not texts.null_count and longest <= self._options.max_line_bytes and _is_utf_8(texts)

    def _sift(self, rows: _Rows) -> None:
        good = np.ones(len(rows.texts), np.bool_)
        for at, text in enumerate(rows.texts):
            fault = self._find_fault(text, rows.kinds.get(at, "null"))
            if fault:
                good[at] = False
                length = text.as_buffer().size if text.is_valid else 0
                reason, detail = fault[0], f"row {rows.row + at}: {fault[1]}"
                self._rejects.append(Reject(self._file, rows.block.offset, length, reason, detail))
        self.counts += ReadCounts(rejected_rows=len(good) - int(good.sum()))
        self._keep(rows.texts.filter(pa.array(good)), rows.row + np.flatnonzero(good))

    def _find_fault(self, text: pa.Scalar, kind: str) -> tuple[str, str] | None:
        """Reason and detail where a row holds no text that can be taken."""
        if not text.is_valid:
            return "not-text", f"{self._options.text_field} holds {kind}"
        content, limit = text.as_buffer(), self._options.max_line_bytes
        if content.size > limit:
            return "record-too-long", f"{content.size} bytes, above --max-line-bytes {limit}"
        try:
            str(content, "utf-8")
        except UnicodeDecodeError as error:
            return "invalid-utf-8", str(error)
        return None


def _join(texts: list[pa.Array]) -> pa.Array:
    if len(texts) == 1:
        return texts[0]  # not copied
    return pa.concat_arrays([pa.array([], pa.large_binary()), *texts])


def _is_utf_8(texts: pa.Array) -> bool:
    try:
        texts.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


class _BlockReader:
    """Reads blocks of a table into a collector.

    Args:
        table: the file.
        collector: takes the rows.
        text_field: name of the field that holds the text.
        batch_bytes: about how much text a batch has.
    """

    def __init__(
        self, table: Table, collector: _Collector, text_field: str, batch_bytes: int
    ) -> None:
        self._table, self._collector, self._batch_bytes = table, collector, batch_bytes
        self._fault: BadTableError | None = None
        if text_field not in table.fields:
            detail = f"its fields are {', '.join(table.fields) or 'none'}"
            self._fault = BadTableError("missing-field", detail)
        elif text_field not in table.text_fields:
            detail = f"{text_field} holds {table.fields[text_field]}"
            self._fault = BadTableError("not-text", detail)

    def read(self, stretch: _Stretch, file: str) -> Iterator[DocumentBatch]:
        """Give the batches that are full; every row of the block is a record or rejected."""
        block, row, end = stretch.block, stretch.first_row, stretch.first_row + stretch.rows
        self._collector.counts += ReadCounts(bytes=stretch.bytes, rows=stretch.rows)
        fault = self._fault or block.fault
        try:
            if fault:
                raise fault
            for texts, kinds in self._table.texts(block):
                if stretch.rows < block.rows:
                    cause = f"of a table at most {MAX_ROWS:,} rows a file are read"
                    last = f"row {row + block.rows:,} of {file}"
                    raise UserError(last, cause, "Split the file")
                if row + len(texts) > end:
                    detail = f"it has more than the {stretch.rows} rows that it says"
                    raise BadTableError("damaged-block", detail)
                self._collector.add(_Rows(row, block, texts, kinds))
                row += len(texts)
                if self._collector.is_full(self._batch_bytes):
                    yield self._collector.take()
            if row < end or stretch.rows < block.rows:
                detail = f"it has fewer than the {block.rows} rows that it says"
                raise BadTableError("damaged-block", detail)
        except BadTableError as bad:
            lost = f"rows {row} to {end - 1}" if row < end else "no row"
            self._collector.counts += ReadCounts(rejected_rows=end - row)
            self._collector.refuse(block.offset, block.length, bad.reason, f"{lost}: {bad.detail}")
        if self._collector.is_full(self._batch_bytes):
            yield self._collector.take()


def check_table(
    open_table: OpenTable, stream: BinaryIO, file: str, options: DocumentOptions
) -> None:
    """Refuse a file that is no such table, or that has no such field of text.

    Args:
        open_table: the format.
        stream: the file, seekable.
        file: its path.
        options: with the text field.

    Raises:
        UserError: with the fields that exist, or those that hold text.
    """
    name = options.text_field
    try:
        source = TableStream(stream)
        table = open_table(source, source.seek(0, 2), name)
    except BadTableError as bad:
        cause = f"it cannot be read as {options.input_format} ({bad.detail})"
        raise UserError(f"--input {file}", cause, "Mend it or leave it out") from None
    if name not in table.fields:
        raise no_such_field(file, name, list(table.fields))
    if name not in table.text_fields:
        cause = f"in {file} this field holds {table.fields[name]}"
        texts = ", ".join(table.text_fields) or "none here"
        raise UserError(f"--text-field {name}", cause, f"Name a field that holds text: {texts}")


def read_table(
    open_table: OpenTable,
    stream: BinaryIO,
    file: str,
    file_index: int,
    start: int,
    end: int | None,
    options: DocumentOptions,
    batch_bytes: int = 2**20,
) -> Iterator[DocumentBatch]:
    """Read the rows of the blocks whose first byte lies in a byte range of a file.

    The bytes of a block that are counted reach to the next one, so that the counts of all blocks
    are the file's size. What cannot be read of the file itself is told by the range of byte 0.

    Args:
        open_table: the format.
        stream: the file, seekable.
        file: path for the rejects.
        file_index: index of the file in the sorted list of inputs, for the documents' ids.
        start: first byte of the range.
        end: byte after the range; None for the end of the file.
        options: text field and limits.
        batch_bytes: about how much text a batch has.

    Yields:
        At least one batch. Ids are file_index << 40 | row << 12 | piece of a text that was cut.

    Raises:
        UserError: for a file index or a row that does not fit a document id.
    """
    source = TableStream(stream)
    size = source.seek(0, 2)
    last = size if end is None else min(end, size)
    collector = _Collector(file, file_index, options)
    if start < last:
        is_empty = True
        try:
            table = open_table(source, size, options.text_field)
            reader = _BlockReader(table, collector, options.text_field, batch_bytes)
            for stretch in _lay_out(table.blocks(), size):
                is_empty = False
                if stretch.block.offset >= last:
                    break
                if stretch.block.offset >= start:
                    yield from reader.read(stretch, file)
        except BadTableError as bad:
            if start == 0:
                collector.refuse(0, size, bad.reason, bad.detail)
        if start == 0 and is_empty:
            collector.counts += ReadCounts(bytes=size)
    yield collector.take()
