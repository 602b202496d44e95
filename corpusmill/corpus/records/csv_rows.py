"""Rows of CSV and TSV files, by Python's `csv` module: the cell of one column is a document.

A quoted cell may hold newlines, so that only a reading from the start tells where rows begin: a
file is read whole. Rows are parsed strictly (a quote within a quoted cell is an error, not guessed
at). Behind a row that fails, the line after the row's first is the next row: a stray quote costs
one line, not the file.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.corpus.batches import (
    REJECTS_PER_BATCH,
    DocumentBatch,
    ReadCounts,
    Reject,
    document_id,
)
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.options import MAX_LIMIT_BYTES, DocumentOptions
from corpusmill.corpus.records.documents import documents_of, no_such_field
from corpusmill.corpus.text.line_kernels import INVALID_UTF_8, TOO_LONG
from corpusmill.corpus.text.lines import BYTE_ORDER_MARK, LineBlock, LineReader, reject_line
from corpusmill.errors import UserError

# Enough for a header; a longer one is met by the run itself.
_PROBE_BYTES = 2**20
_DIALECTS: dict[str, type[csv.Dialect]] = {"csv": csv.excel, "tsv": csv.excel_tab}
# A row whose quoted cell is not closed by the end of the lines that wait.
_OPEN = ("open", "")


class _AfterLines:
    """Notes whether a reader asked for more lines than there are, being within a quoted cell."""

    def __init__(self) -> None:
        self.reached = False

    def __iter__(self) -> "_AfterLines":
        return self

    def __next__(self) -> str:
        self.reached = True
        raise StopIteration


class _Rows:
    """Parses lines as rows, and keeps those of a row that has not ended yet.

    Attributes:
        rejects: of the rows that failed since the last `take`.
        offset: byte of the file at which the first line that waits starts.
    """

    def __init__(self, file: str, file_index: int, options: DocumentOptions) -> None:
        self._file, self._options = file, options
        self._file_index, self._first_id = file_index, np.uint64(document_id(file_index, 0))
        self._fields: list[str] | None = None
        # Where the text is in a row of so many cells; without a text column no row has -1 of them.
        self._column, self._columns = 0, -1
        # The lines that wait, where each starts and the last one ends, and what is wrong with the
        # one that starts at a byte.
        self._lines: list[str] = []
        self._offsets = [0]
        self._bad: dict[int, tuple[str, str]] = {}
        self._enough = 0  # bytes that have to wait until it is worth to parse them again
        self._clear()

    @property
    def offset(self) -> int:
        return self._offsets[0]

    def _clear(self) -> None:
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._blank_lines = self._bytes = 0
        self.rejects: list[Reject] = []

    def add(self, block: LineBlock) -> None:
        """Take lines; the row that is open at a line that is too long is too long as well."""
        first = 0
        for line in np.flatnonzero(block.kinds == TOO_LONG).tolist():
            self._gather(block, first, line)
            self.parse(("row-too-long", "a quoted cell of it goes on in a line that is too long"))
            self._refuse(reject_line(self._file, block, line, self._options.max_line_bytes))
            self._offsets = [int(block.offsets[line + 1])]
            self._bytes += int(block.offsets[line + 1] - block.offsets[line])
            first = line + 1
        self._gather(block, first, len(block.kinds))
        if self._offsets[-1] - self._offsets[0] >= self._enough:
            self.parse()

    def _gather(self, block: LineBlock, first: int, last: int) -> None:
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
            reject = reject_line(self._file, block, first + line, 0)
            self._bad[offsets[line]] = reject.reason, reject.detail
        if "\0" in text:
            with_nul = (at for at, line in zip(offsets, lines, strict=False) if "\0" in line)
            self._bad |= dict.fromkeys(with_nul, ("nul-byte", "the row holds a NUL byte"))
        self._lines += lines
        self._offsets[-1:] = offsets

    def parse(self, if_open: tuple[str, str] = _OPEN) -> None:
        """Parse the lines that wait.

        Args:
            if_open: why to refuse the row that is open at their end; by default it waits on.
        """
        # The limit is the process'; here a cell is bounded by the length of a row.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_LIMIT_BYTES))
        start = 0
        while start < len(self._lines):
            start, failure = self._parse_rows(start)
            failure = if_open if failure == _OPEN else failure
            if failure == _OPEN:
                break
            if failure:
                # All quotes in the lines up to where a row failed come in pairs, or it would have
                # ended there: none of these opens such a row again, and the work stays linear.
                self._refuse_row(start, start + 1, *failure)
                start += 1
        self._bytes += self._offsets[start] - self._offsets[0]
        del self._lines[:start], self._offsets[:start]
        if self._bad:
            self._bad = {at: of for at, of in self._bad.items() if at >= self.offset}
        # As much again keeps the work linear where a row has many lines.
        self._enough = 2 * (self._offsets[-1] - self.offset)

    def _parse_rows(self, start: int) -> tuple[int, tuple[str, str] | None]:
        """Take rows up to one that fails.

        Returns:
            The first line of the row that failed, and why; or the number of lines.
        """
        base, after_lines, offsets = start, _AfterLines(), self._offsets
        lines = map(self._lines.__getitem__, range(start, len(self._lines)))
        reader = csv.reader(chain(lines, after_lines), self._dialect(), strict=True)
        failure = None
        try:
            for row in reader:
                end = base + reader.line_num
                if end - start > 1 and self._is_too_long(start, end):
                    break
                if len(row) == self._columns and not self._bad:
                    self._texts.append(row[self._column])
                    self._starts.append(offsets[start])
                else:
                    self._take_other_row(row, start, end)
                start = end
            else:
                return start, None
        except csv.Error as error:
            end = base + reader.line_num
            failure = _OPEN if after_lines.reached else ("invalid-csv", str(error))
        if self._is_too_long(start, end):
            limit = f"--max-line-bytes {self._options.max_line_bytes}"
            return start, ("row-too-long", f"a quoted cell of it goes on beyond {limit}")
        return start, failure

    def _dialect(self) -> type[csv.Dialect]:
        return _DIALECTS[self._options.input_format]

    def _is_too_long(self, start: int, end: int) -> bool:
        """Whether a row of several lines is; single lines that are do not get here."""
        if end - start == 1:
            return False
        return self._length(start, end) > self._options.max_line_bytes

    def _length(self, start: int, end: int) -> int:
        """Bytes of some lines without the last newline."""
        newline = self._lines[end - 1].endswith("\n")
        return self._offsets[end] - self._offsets[start] - newline

    def _take_other_row(self, row: list[str], start: int, end: int) -> None:
        failure = self._failure_of_lines(start, end) if self._bad else None
        if failure:
            self._refuse_row(start, end, *failure)
        elif len(row) == self._columns:
            self._texts.append(row[self._column])
            self._starts.append(self._offsets[start])
        elif end - start == 1 and not self._lines[start].strip():
            self._blank_lines += 1
        elif self._fields is None:
            self._fields = row
            if row.count(self._options.text_field) == 1:
                self._column, self._columns = row.index(self._options.text_field), len(row)
        elif self._columns < 0:
            found = ", ".join(self._fields) or "unknown"
            self._refuse_row(start, end, "missing-field", f"the fields of the header are {found}")
        else:
            detail = f"{len(row)} columns, the header has {self._columns}"
            self._refuse_row(start, end, "wrong-columns", detail)

    def _failure_of_lines(self, start: int, end: int) -> tuple[str, str] | None:
        if self._fields is None:  # a byte that is wrong in a name of the header hurts no text
            return None
        bad = (self._bad[at] for at in self._offsets[start:end] if at in self._bad)
        return next(bad, None)

    def _refuse_row(self, start: int, end: int, reason: str, detail: str) -> None:
        place = self._offsets[start], self._length(start, end)
        self._refuse(Reject(self._file, *place, reason, detail))

    def _refuse(self, reject: Reject) -> None:
        if self._fields is None:  # a header that cannot be read names no fields
            self._fields = []
        self.rejects.append(reject)

    def is_full(self, batch_bytes: int) -> bool:
        """Whether enough was gathered."""
        return self._bytes >= batch_bytes or len(self.rejects) >= REJECTS_PER_BATCH

    def take(self) -> DocumentBatch:
        """Give what was gathered."""
        if self._starts:
            document_id(self._file_index, self._starts[-1])  # refuses what does not fit an id
        counts = ReadCounts(
            bytes=self._bytes,
            lines=self._blank_lines,
            blank_lines=self._blank_lines,
            rows=len(self._texts) + len(self.rejects),
            rejected_rows=len(self.rejects),
        )
        batch = documents_of(
            np.array(self._starts, np.uint64) + self._first_id,
            pa.array(self._texts, pa.large_string()),
            self._options,
            self.rejects,
            counts,
        )
        self._clear()
        return batch


def check_csv_field(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse a text field that the header does not name, or names twice.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        options: with the text field and the format.

    Raises:
        UserError: with the fields that exist. A header that cannot be read is left to the run.
    """
    data = stream.read(_PROBE_BYTES)
    whole = data if len(data) < _PROBE_BYTES else data[: data.rfind(b"\n") + 1]
    text = whole.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
    rows = csv.reader(io.StringIO(text, newline="\n"), _DIALECTS[options.input_format], strict=True)
    try:
        fields: Sequence[str] = next((row for row in rows if any(row)), ())
    except csv.Error:
        return
    if fields and options.text_field not in fields:
        raise no_such_field(file, options.text_field, fields)
    if fields.count(options.text_field) > 1:
        raise UserError(
            f"--text-field {options.text_field}",
            f"the header of {file} names it more than once ({', '.join(fields)})",
            "Rename the other columns",
        )


def read_csv(
    stream: BinaryIO,
    file: str,
    file_index: int,
    _start: int,
    _end: int | None,
    options: DocumentOptions,
    batch_bytes: int = 2**20,
) -> Iterator[DocumentBatch]:
    """Read the rows of a file; the first one that is not blank is the header.

    Args:
        stream: the file's bytes, decompressed, read forward only.
        file: path for the rejects.
        file_index: index of the file in the sorted list of inputs, for the documents' ids, which
            hold the byte at which a row starts.
        _start: 0, as a file is read whole.
        _end: None.
        options: format ("csv" or "tsv"), text field and limits; `max_line_bytes` is a row's.
        batch_bytes: how much is read at a time, and about how much text a batch has.

    Yields:
        At least one batch. Rows are counted as `rows`, blank lines as `lines`, and the header not
        at all.

    Raises:
        UserError: for a file index or an offset that does not fit a document id.
    """
    rows = _Rows(file, file_index, options)
    lines = LineReader(stream, 0, False, batch_bytes, options.max_line_bytes, False)
    try:
        for block in lines:
            rows.add(block)
            if rows.is_full(batch_bytes):
                yield rows.take()
        rows.parse(("unclosed-quote", "a quoted cell of it is still open where the file ends"))
    except DamagedStreamError as damage:
        rows.parse()
        rows.rejects.append(Reject(file, rows.offset, -1, "damaged-compression", str(damage)))
    yield rows.take()
