"""Rows of CSV and TSV files, by Python's `csv` module: the cell of one column is a document.

What separates cells, and what quotes mean, is told by options, or by the beginning of the file.

A quoted cell may hold newlines, so where rows begin can only be found by reading from the start: a
file is read whole. Rows are parsed strictly: a stray quote within a quoted cell is an error. After
a row that fails, the line after its first line is the next row, so that a stray quote costs one
line, not the file.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.corpus.batches import DocumentBatch, FileRange, ReadCounts, UnreadableError
from corpusmill.corpus.decompression import HEAD_BYTES, DamagedStreamError, peek
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.csv_dialects import Dialect, find_dialect
from corpusmill.corpus.records.record_documents import (
    RecordCollector,
    check_made_field,
    make_text,
    no_such_field,
    no_such_kept_field,
    to_text,
)
from corpusmill.corpus.text.line_kernels import INVALID_UTF_8, TOO_LONG
from corpusmill.corpus.text.lines import (
    BYTE_ORDER_MARK,
    LineBlock,
    LineReader,
    refuse_lines,
    reject_line,
)
from corpusmill.errors import UserError, option

# Enough for a header; a longer one is judged by the run itself.
_PROBE_BYTES = 2**20
# Reason and detail for which a row is refused.
_Failure = tuple[str, str]
# The quoted cell of a row is not closed by the end of the waiting lines.
_OPEN = ("open", "")
# What Python's reader says then.
_END_MESSAGE = "unexpected end of data"


class _Rows(RecordCollector):
    """Parses lines as rows; the lines of a row that has not ended yet wait.

    Args:
        part: the file.
        dialect: its dialect.
    """

    def __init__(self, part: FileRange, dialect: Dialect) -> None:
        super().__init__(part)
        self._dialect = dialect
        self._header: list[str] | None = None
        self._fields = ""
        # The index of the text column, and the number of columns. Without a text column the number
        # is -1, which no row has.
        self._column, self._columns = 0, -1
        # Of texts that are made, the columns of their fields.
        self._parts: dict[str, int] | None = None
        # The lines that wait, the byte at which each starts and the last one ends, and what is
        # wrong with the line that starts at a byte.
        self._lines: list[str] = []
        self._offsets = [0]
        self._bad: dict[int, _Failure] = {}
        # Waiting lines are parsed again when they have this many bytes.
        self._enough_bytes = 0
        # The indices of the columns that are kept; -1 for one that the header does not name.
        self._kept: list[int] = []
        # Of the rows just parsed, the texts, the kept cells of each column, and the bytes at which
        # the rows start and end.
        self._cells: list[str] = []
        self._kept_cells: list[list[str | None]] = [[] for _ in range(part.options.num_fields)]
        # The columns that are judged.
        self._judged: dict[str, int] = {}
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._blank_lines = self._rejected_bytes = 0

    @property
    def offset(self) -> int:
        """The byte of the file at which the first waiting line starts."""
        return self._offsets[0]

    def add_lines(self, block: LineBlock) -> None:
        """Add lines. A line that is too long ends an open row, which is too long as well."""
        first = 0
        for line in np.flatnonzero(block.kinds == TOO_LONG).tolist():
            self._wait(block, first, line)
            self.parse(("row-too-long", "a quoted cell continues in a line that is too long"))
            self._find_header([])
            refuse_lines(self, block, np.array([line]))
            self._offsets = [int(block.offsets[line + 1])]
            size = int(block.offsets[line + 1] - block.offsets[line])
            self.counts += ReadCounts(bytes=size)
            first = line + 1
        self._wait(block, first, len(block.kinds))
        if self._offsets[-1] - self.offset >= self._enough_bytes:
            self.parse()

    def _wait(self, block: LineBlock, first: int, last: int) -> None:
        """Let the lines of a block from first up to last wait."""
        if first == last:
            return
        offsets = block.offsets[first : last + 1].tolist()
        origin = int(block.offsets[0])
        data = block.data[offsets[0] - origin : offsets[-1] - origin]
        if offsets[0] == 0:
            data = data.removeprefix(BYTE_ORDER_MARK)
        invalid = np.flatnonzero(block.kinds[first:last] == INVALID_UTF_8).tolist()
        text = data.decode(errors="replace" if invalid else "strict")
        lines = list(io.StringIO(text, newline="\n")) or [""]  # a byte order mark alone
        for line in invalid:
            reject = reject_line(self.part, block, first + line)
            self._bad[offsets[line]] = reject.reason, reject.detail
        if "\0" in text:
            with_nul = (
                offset for offset, line in zip(offsets, lines, strict=False) if "\0" in line
            )
            self._bad |= dict.fromkeys(with_nul, ("nul-byte", "the row holds a NUL byte"))
        self._lines += lines
        self._offsets[-1:] = offsets

    def parse(self, if_open: _Failure = _OPEN) -> None:
        """Parse the waiting lines.

        Args:
            if_open: why to refuse a row that is open at their end; by default it keeps waiting.
        """
        start = 0
        while start < len(self._lines):
            start, failure = self._parse_rows(start)
            failure = if_open if failure == _OPEN else failure
            if failure == _OPEN:
                break
            if failure:
                # All quotes in the lines up to where a row failed come in pairs, or it would have
                # ended there. So none of these lines opens such a row again, and the work stays
                # linear.
                self._refuse_row(start, start + 1, *failure)
                start += 1
        self._add_rows()
        size, blank = self._offsets[start] - self.offset, self._blank_lines
        self.counts += ReadCounts(bytes=size, lines=blank, blank_lines=blank)
        self._blank_lines = 0
        del self._lines[:start], self._offsets[:start]
        if self._bad:
            self._bad = {offset: bad for offset, bad in self._bad.items() if offset >= self.offset}
        # Doubling keeps the work linear where a row has many lines.
        self._enough_bytes = 2 * (self._offsets[-1] - self.offset)

    def _add_rows(self) -> None:
        starts, cells = np.array(self._starts, np.int64), pa.array(self._cells, pa.large_string())
        lengths = np.array(self._ends, np.int64) - starts
        fields = [pa.array(values, pa.string()) for values in self._kept_cells]
        self.add(starts, [cells], lengths, fields)
        self._starts, self._ends, self._cells = [], [], []
        self._kept_cells = [[] for _ in self._kept_cells]

    def _parse_rows(self, start: int) -> tuple[int, _Failure | None]:
        """Take rows up to one that fails.

        Returns:
            The first line of the row that failed, and why; or the number of lines and None.
        """
        base, offsets, failure = start, self._offsets, None
        lines = map(self._lines.__getitem__, range(start, len(self._lines)))
        reader = self._dialect.read_rows(lines)
        try:
            for row in reader:
                end = base + reader.line_num
                if end - start > 1 and self._is_too_long(start, end):
                    break
                if len(row) == self._columns and not (self._bad and self._find_bad(start, end)):
                    if not self._take_text(row, start, end):
                        start = end
                        continue
                    self._starts.append(offsets[start])
                    last = self._lines[end - 1]
                    self._ends.append(offsets[end] - last.endswith("\n") - last.endswith("\r\n"))
                    for column, values in zip(self._kept, self._kept_cells, strict=False):
                        values.append(row[column] if column >= 0 else None)
                    if self.part.options.judge:
                        # An empty cell is NULL, as DuckDB reads it.
                        cells = {name: row[n] or None for name, n in self._judged.items()}
                        self._kept_cells[-1].append(to_text(cells))
                else:
                    self._take_other_row(row, start, end)
                start = end
            else:
                return start, None
        except csv.Error as error:
            end = base + reader.line_num
            failure = _OPEN if str(error) == _END_MESSAGE else ("invalid-csv", str(error))
        if self._is_too_long(start, end):
            limit = f"--max-line-bytes {self.part.options.max_line_bytes}"
            return start, ("row-too-long", f"a quoted cell continues beyond {limit}")
        return start, failure

    def _take_text(self, row: list[str], start: int, end: int) -> bool:
        """Take the text of a row; return whether it has one."""
        if self._parts is None:
            self._cells.append(row[self._column])
            return True
        try:
            record = {name: row[column] for name, column in self._parts.items()}
            others = (name for name in self._header or () if name not in record)
            self._cells.append(make_text(record, self.part.options, (*others,)))
        except UnreadableError as error:
            self._refuse_row(start, end, error.reason, error.detail)
            return False
        return True

    def _is_too_long(self, start: int, end: int) -> bool:
        """Whether a row of several lines is too long; a single line was checked before."""
        return end - start > 1 and self._length(start, end) > self.part.options.max_line_bytes

    def _length(self, start: int, end: int) -> int:
        """Return the bytes of some lines without the last newline."""
        newline = self._lines[end - 1].endswith("\n")
        return self._offsets[end] - self._offsets[start] - newline

    def _take_other_row(self, row: list[str], start: int, end: int) -> None:
        bad = self._find_bad(start, end)
        if bad and self._header is not None:  # in the header, bad bytes of a name hurt no text
            self._refuse_row(start, end, *bad)
        elif end - start == 1 and not self._lines[start].strip():
            self._blank_lines += 1
        elif self._header is None:
            self._find_header(row)
        elif self._columns < 0:
            self._refuse_row(start, end, "missing-field", self._fields)
        else:
            detail = f"{len(row)} columns, the header has {self._columns}"
            self._refuse_row(start, end, "wrong-columns", detail)

    def _find_header(self, row: list[str]) -> None:
        """Take the first row for the header; one that cannot be read names no fields."""
        if self._header is None:
            self._header = row
            # Once, as it may be long, and each row that follows is refused with it.
            self._fields = f"the fields of the header are {', '.join(row) or 'unknown'}"
            maker, field = self.part.options.text_maker, self.part.options.text_field
            if maker:
                once = [name for name in maker.fields if row.count(name) == 1]
                self._parts, field = {name: row.index(name) for name in once}, (once or [""])[0]
            if row.count(field) == 1:
                self._column = row.index(field)
                self._columns = len(row)
                names = self.part.options.keep_fields
                self._kept = [row.index(name) if name in row else -1 for name in names]
                if judge := self.part.options.judge:
                    self._judged = {name: row.index(name) for name in judge.choose(row)}

    def _find_bad(self, start: int, end: int) -> _Failure | None:
        return next(
            (self._bad[offset] for offset in self._offsets[start:end] if offset in self._bad), None
        )

    def _refuse_row(self, start: int, end: int, reason: str, detail: str) -> None:
        self._find_header([])
        self.refuse(self._offsets[start], self._length(start, end), reason, detail)
        self._rejected_bytes += self._offsets[end] - self._offsets[start]

    def take(self) -> DocumentBatch:
        rejected, size = self.num_rejects, self._rejected_bytes
        rows = self.rows + rejected
        self.counts += ReadCounts(rows=rows, rejected_rows=rejected, rejected_bytes=size)
        self._rejected_bytes = 0
        return super().take()


def _find_dialect(head: bytes, options: DocumentOptions) -> Dialect:
    text, is_whole = head.decode(errors="replace"), len(head) < HEAD_BYTES
    separator = options.csv_separator or ("\t" if options.input_format == "tsv" else None)
    return find_dialect(text, is_whole, separator, options.csv_quotes, options.text_field)[0]


def check_csv_field(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse a text field or a kept field that the header does not name, or names twice.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        options: with these fields and the format.

    Raises:
        UserError: names the existing fields. A header that cannot be read is left to the run.
    """
    data = stream.read(_PROBE_BYTES)
    whole = data if len(data) < _PROBE_BYTES else data[: data.rfind(b"\n") + 1]
    text = whole.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
    rows = _find_dialect(data[:HEAD_BYTES], options).read_rows(io.StringIO(text, newline="\n"))
    try:
        fields: Sequence[str] = next((row for row in rows if any(row)), ())
    except csv.Error:
        return
    if not fields:
        return
    check_made_field(file, fields, options)
    if not options.text_maker and options.text_field not in fields:
        raise no_such_field(file, options.text_field, fields)
    for name in options.keep_fields:
        if name not in fields:
            raise no_such_kept_field(options.mention_field(name), file, fields)
    kept = [(option("keep_fields"), name) for name in options.keep_fields]
    for flag, name in ((option("text_field"), options.text_field), *kept):
        if fields.count(name) > 1:
            cause = f"the header of {file} names it more than once ({', '.join(fields)})"
            raise UserError(f"{flag} {name}", cause, "Rename the other columns")


def read_csv(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the rows of a file; the first one that is not blank is the header.

    Args:
        stream: the file's bytes, decompressed, read forward only.
        part: the whole file, with the format ("csv" or "tsv") and text field;
            `max_line_bytes` limits a row.

    Yields:
        At least one batch. Ids hold the byte at which a row starts, and its length is without the
        line break. Rows are counted as `rows`, blank lines as `lines`, and the header is not
        counted.

    Raises:
        UserError: an offset does not fit a document id.
    """
    rows = _Rows(part, _find_dialect(peek(stream, HEAD_BYTES), part.options))
    try:
        for block in LineReader(stream, part):
            rows.add_lines(block)
            if rows.is_full:
                yield rows.take()
        rows.parse(("unclosed-quote", "a quoted cell is still open where the file ends"))
    except DamagedStreamError as damage:
        rows.parse()
        rows.refuse(rows.offset, -1, "damaged-compression", str(damage))
        rows.counts += ReadCounts(unfinished_files=1)
    yield rows.take()
