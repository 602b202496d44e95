"""Records that are rows of a table: a Parquet, Arrow or Avro file.

Rows are stored in blocks. A block is read by the range that holds its first byte, so a file may be
cut anywhere. The id of a text is its row in the file, which the blocks of all formats tell.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.corpus.batches import (
    OFFSET_BITS,
    DocumentBatch,
    FileRange,
    ReadCounts,
    UnreadableError,
)
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.nested_fields import list_names
from corpusmill.corpus.records.record_documents import (
    NoTextError,
    RecordCollector,
    check_made_field,
    join_arrays,
    no_such_field,
    no_such_kept_field,
)
from corpusmill.corpus.tables.table import (
    Block,
    Table,
    TableStream,
    TextRows,
    lengths_of,
)
from corpusmill.corpus.text.line_kernels import find_invalid_utf_8
from corpusmill.corpus.text.lines import are_utf_8, explain_utf_8
from corpusmill.errors import UserError, option


class Fault(NamedTuple):
    """A fault that rows may have.

    Attributes:
        is_bad: bool[n], whether each row has it.
        reason: for which such rows are rejects.
        explain: returns the detail of a row that has it.
    """

    is_bad: npt.NDArray[np.bool_]
    reason: str
    explain: Callable[[int], str]


def find_faults(rows: TextRows, options: DocumentOptions) -> Iterator[Fault]:
    """Yield all faults of some rows. A row that has several is refused for the first one.

    Args:
        rows: n rows.
        options: with the names of the fields, and the most bytes of a text.
    """
    texts, limit, field = rows.texts, options.max_line_bytes, options.text_field
    is_null = ragged.to_numpy(texts.is_null())
    if options.text_maker:
        for reason in sorted({reason for reason, _ in rows.kinds.values()}):
            refused = [row for row, kind in rows.kinds.items() if kind[0] == reason]
            is_refused = np.isin(np.arange(len(texts)), refused)
            yield Fault(is_refused, reason, lambda row: rows.kinds[row][1])
    yield Fault(is_null, "not-text", lambda row: f"{field} holds {rows.kinds.get(row, 'null')}")
    yield _find_long("", texts, limit)
    text, offsets = ragged.from_arrow(texts)
    invalid = find_invalid_utf_8(text, offsets[:-1], offsets[1:])
    yield Fault(invalid, "invalid-utf-8", lambda row: explain_utf_8(texts[row].as_buffer()))
    for name, values in zip(options.keep_fields, rows.fields, strict=False):
        yield _find_long(f"{name} has ", values, limit)


def measure_texts(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return int64[n], the bytes of each text; 0 for a null."""
    sizes = np.where(ragged.to_numpy(texts.is_null()), 0, lengths_of(texts))
    return sizes.astype(np.int64)


def _find_long(name: str, values: pa.Array, limit: int) -> Fault:
    sizes = measure_texts(values)

    def explain(row: int) -> str:
        return f"{name}{sizes[row]} bytes, above --max-line-bytes {limit}"

    return Fault(sizes > limit, "record-too-long", explain)


# Each row owns this many bits of ids, for the documents that a long text is cut into.
PIECE_BITS = 12
MAX_ROWS = 2 ** (OFFSET_BITS - PIECE_BITS)

OpenTable = Callable[[TableStream, DocumentOptions], Table]


@dataclass
class _OpenBlock:
    """A block and its share of the file, and what is known of it while its rows are checked.

    Attributes:
        block: the block.
        bytes: from the block's first byte, or the file's if it is the first, to the next block.
        first_row: the file's row that is the first in the block.
        rows: the block's rows.
        text_bytes: text of the rows that were read so far, kept fields included.
        refused_bytes: text of those that were refused.
        lost: the share of the rows that cannot be read.
        is_read: whether no more of it is read.
    """

    block: Block
    bytes: int
    first_row: int
    rows: int
    text_bytes: int = 0
    refused_bytes: int = 0
    lost: float = 0.0
    is_read: bool = False

    @property
    def rejected_bytes(self) -> int:
        """How many bytes of the file the rejects take."""
        refused = self.refused_bytes / max(1, self.text_bytes)
        return round(self.bytes * (self.lost + (1 - self.lost) * refused))


def _lay_out(blocks: Iterator[Block], size: int) -> Iterator[_OpenBlock]:
    """Yield the blocks of a file, whose shares together are all of it if there is any."""
    begin = row = 0
    block = next(blocks, None)
    while block:
        following = next(blocks, None)
        end = following.offset if following else size
        # A block that claims more rows than there are ids is nearly always a damaged one.
        rows = block.rows if block.rows <= MAX_ROWS - row else 0
        yield _OpenBlock(block, end - begin, row, rows)
        begin, row, block = end, row + rows, following


class _TableReader(RecordCollector):
    """Reads blocks of a table.

    Args:
        part: the range.
    """

    def __init__(self, part: FileRange) -> None:
        super().__init__(part, 2**PIECE_BITS)
        # The file's row that is the first of some rows, their block, and the rows.
        self._unchecked: list[tuple[int, _OpenBlock, TextRows]] = []
        self._open: list[_OpenBlock] = []

    def read(self, table: Table, opened: _OpenBlock) -> Iterator[DocumentBatch]:
        """Yield the batches that are full; every row of the block is a record or rejected."""
        block, row, end = opened.block, opened.first_row, opened.first_row + opened.rows
        self.counts += ReadCounts(bytes=opened.bytes, rows=opened.rows)
        self._open.append(opened)
        try:
            self._check_field(table)
            for rows in block.texts():
                if opened.rows < block.rows:
                    cause = f"at most {MAX_ROWS:,} rows of a table are read"
                    last = f"row {row + block.rows:,} of {self.part.file}"
                    raise UserError(last, cause, "Split the file")
                if row + len(rows.texts) > end:
                    detail = f"it has more than its declared {opened.rows} rows"
                    raise UnreadableError("damaged-block", detail)
                if not len(rows.texts):  # there may be any number of blocks without rows
                    continue
                columns = (rows.texts, *rows.fields)
                opened.text_bytes += sum(int(lengths_of(column).sum()) for column in columns)
                self._unchecked.append((row, opened, rows))
                # Counted once more when they are checked: at worst, a batch with rejects ends
                # early.
                self.text_bytes += sum(column.nbytes for column in columns)
                self.rows += len(rows.texts)
                row += len(rows.texts)
                if self.is_full:
                    yield self.take()
            if row < end or opened.rows < block.rows:
                detail = f"it has fewer than its declared {block.rows} rows"
                raise UnreadableError("damaged-block", detail)
        except UnreadableError as error:
            lost = f"rows {row} to {end - 1}" if row < end else "no row"
            self.counts += ReadCounts(rejected_rows=end - row)
            self.check()
            opened.lost = (end - row) / opened.rows if opened.rows else 1.0
            detail = f"{lost}: {error.detail}"
            self.refuse(block.offset, block.length, error.reason, detail, row)
        opened.is_read = True
        if self.is_full:
            yield self.take()

    def _check_field(self, table: Table) -> None:
        if not table.fields.text:
            detail = f"its fields are {list_names(table.fields.names())}"
            raise UnreadableError("missing-field", detail)
        if held := table.fields.held:
            raise UnreadableError("not-text", f"{self.part.options.text_field} holds {held}")

    def take(self) -> DocumentBatch:
        self.check()
        size = sum(opened.rejected_bytes for opened in self._open if opened.is_read)
        self.counts += ReadCounts(rejected_bytes=size)
        self._open = [opened for opened in self._open if not opened.is_read]
        return super().take()

    def check(self) -> None:
        """Add the rows that hold a text, and refuse the others."""
        # Rows of several blocks are checked together, as blocks may be small.
        unchecked, self._unchecked = self._unchecked, []
        if not unchecked:
            return
        columns = [column for _, _, rows in unchecked for column in (rows.texts, *rows.fields)]
        longest = max((lengths_of(column).max(initial=0) for column in columns), default=0)
        if longest <= self.part.options.max_line_bytes:  # a longer one may not be copied
            texts = join_arrays([rows.texts for _, _, rows in unchecked])
            if not texts.null_count and are_utf_8(texts.view(pa.large_string())):
                spans = [np.arange(len(rows.texts)) + first for first, _, rows in unchecked]
                parts = zip(*(rows.fields for _, _, rows in unchecked), strict=True)
                fields = [pa.concat_arrays(column) for column in parts]
                self._add_rows(np.concatenate(spans), texts, fields)
                return
        for first, opened, rows in unchecked:
            self._sift(first, opened, rows)

    def _add_rows(self, rows: np.ndarray, texts: pa.Array, fields: Sequence[pa.Array]) -> None:
        if len(texts):
            self.add(rows << PIECE_BITS, [texts], np.ones(len(texts), np.int64), fields)

    def _sift(self, first: int, opened: _OpenBlock, rows: TextRows) -> None:
        """Add the rows that are good, and refuse the others for the first fault that they have."""
        good, sizes = np.ones(len(rows.texts), np.bool_), measure_texts(rows.texts)
        for fault in find_faults(rows, self.part.options):
            bad = np.flatnonzero(fault.is_bad & good)
            good[bad] = False
            explain = partial(_explain, fault, first, bad)
            offsets = np.full(len(bad), opened.block.offset)
            self.refuse_many(offsets, sizes[bad], fault.reason, explain, first + bad)
        opened.refused_bytes += int(sizes[~good].sum())
        self.counts += ReadCounts(rejected_rows=len(good) - int(good.sum()))
        texts, *fields = (column.filter(pa.array(good)) for column in (rows.texts, *rows.fields))
        self._add_rows(first + np.flatnonzero(good), texts, fields)


def _explain(fault: Fault, first: int, rows: npt.NDArray[np.int64], index: int) -> str:
    row = int(rows[index])
    return f"row {first + row}: {fault.explain(row)}"


def check_table(
    open_table: OpenTable, stream: BinaryIO, file: str, options: DocumentOptions
) -> None:
    """Refuse a file that is not such a table, or whose fields of text or kept fields are not one.

    Args:
        open_table: opens tables of the format.
        stream: the file, seekable.
        file: its path.
        options: with these fields.

    Raises:
        UserError: names the existing fields, or those that hold text.
    """
    name = options.text_field
    try:
        table = open_table(TableStream(stream), options)
    except UnreadableError as error:
        cause = f"it cannot be read as {options.input_format} ({error.detail})"
        cure = "Repair it or leave it out"
        if error.reason == "doubled-field":
            cause = f"{error.detail}, and which of them is meant is not certain"
            flags = f"{option('text_field')} or {option('keep_fields')}"
            cure = f"Rename all but one, or name another field with {flags}"
        raise UserError(option("input", file), cause, cure) from None
    fields = table.fields
    check_made_field(file, list(fields.names()), options)
    if not fields.text:
        raise no_such_field(file, name, fields.names())
    if fields.held:
        cause = f"in {file} this field holds {fields.held}"
        cure = f"Name a field that holds text: {list_names(fields.names(with_text=True))}"
        raise NoTextError(option("text_field", name), cause, cure, fields.names())
    for name, found in zip(options.keep_fields, fields.kept, strict=True):
        if not found:
            raise no_such_kept_field(options.mention_field(name), file, fields.names())


def read_table(open_table: OpenTable, stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the rows of the blocks whose first byte lies in a byte range of a file.

    The counted bytes of a block reach to the next block, so that those of all blocks add up to the
    file's size. What cannot be read of the file itself is reported by the range of byte 0.

    Args:
        open_table: opens tables of the format.
        stream: the file, seekable.
        part: the range, with the text field.

    Yields:
        At least one batch. Ids are file_index << 40 | row << 12 | index of the piece of a text that
        was cut. The length of each document is 1, a row.

    Raises:
        UserError: the table has more than 2**28 rows.
    """
    source, reader = TableStream(stream), _TableReader(part)
    size = source.size
    start, last = part.start, min(part.bounds[1], size)
    if start < last:
        is_empty = True
        try:
            table = open_table(source, part.options)
            for opened in _lay_out(table.blocks(), size):
                is_empty = False
                if opened.block.offset >= last:
                    break
                if opened.block.offset >= start:
                    yield from reader.read(table, opened)
        except UnreadableError as error:
            if start == 0:
                reader.refuse(0, size, error.reason, error.detail)
                reader.counts += ReadCounts(rejected_bytes=size, unfinished_files=1)
        if start == 0 and is_empty:
            reader.counts += ReadCounts(bytes=size)
    yield reader.take()
