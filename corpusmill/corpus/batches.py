"""What the readers of every input format produce: batches of documents, counts and rejects.

A `Collector` gathers what a reader finds in its range until that is enough for a batch.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.text_hashes import text_facts
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.knobs import knob

BATCH_BYTES = knob("batch_bytes", 2**20, test=2000)
"""The text that is read at a time, and about what a batch of documents holds."""
BATCH_REJECTS = knob("batch_rejects", 2**14, test=125)
"""The rejects at which a batch ends early, as a file of nothing else would fill the memory."""
TOLD_REJECTS = knob("told_rejects", 100)
"""The first rejects of each file and reason have lines of their own, with details."""
# A longer detail of a reject is cut: it may quote names of any length.
MAX_DETAIL = 1000

# Fewer lines or rows do not tell that a file is not what was expected, and a smaller share neither.
_FEWEST_UNITS, _LARGEST_LOSS = 5, 0.9

TEXT_SCHEMA = pa.schema([("document", pa.uint64()), ("sentences", pa.list_(pa.string()))])
OFFSET_BITS = 40
MAX_FILES = 2**24


def document_id(file_index: int, offset: int) -> int:
    """Return the id of the document that starts at a byte of a file: file_index << 40 | offset.

    Raises:
        UserError: the index is 2**24 or more, or the offset 2**40 or more.
    """
    if not 0 <= file_index < MAX_FILES:
        cause = f"a data set is read from at most {MAX_FILES} files"
        raise UserError(f"input file number {file_index}", cause, "Join small files")
    if not 0 <= offset < 2**OFFSET_BITS:
        cause = f"an input file has at most 2**{OFFSET_BITS} bytes"
        raise UserError(f"byte {offset} of input file number {file_index}", cause, "Split the file")
    return file_index << OFFSET_BITS | offset


@dataclass(frozen=True)
class ReadCounts:
    """What was read. The counts of several batches or ranges can be added.

    Attributes:
        bytes: of the files, after decompression.
        lines: the sum of blank_lines, title_lines, sentence_lines and rejected_lines, and of
            records where each line is one. Of CSV files only blank lines are counted, and of
            archives only rejected ones.
        blank_lines: lines of white space alone.
        title_lines: lines that the document rule takes for titles.
        sentence_lines: other lines of a text.
        rejected_lines: lines that are rejects.
        rows: in tables and archives, the sum of records and rejected_rows. A row is a row of a
            table (but not the header of a CSV file) or a member of an archive.
        rejected_rows: rows that are rejects.
        records: lines or rows that hold a text; each is a document, unless it is empty or cut.
        empty_records: records with nothing but white space.
        sentences: of all documents. Where lines are split, there are more than lines with text.
        unsplit_lines: lines that could not be split and stay whole.
        documents: rows of the batches.
        cut_documents: documents that continue the one before.
        left_out_members: files of archives that are skipped, as the listing of a folder would.
        rejected_bytes: what the rejects take of `bytes`. A row of a table takes as much of its
            block as its text takes of the texts in it.
        unfinished_files: files of which an unknown part could not be read.
    """

    bytes: int = 0
    lines: int = 0
    blank_lines: int = 0
    title_lines: int = 0
    sentence_lines: int = 0
    rejected_lines: int = 0
    rows: int = 0
    rejected_rows: int = 0
    records: int = 0
    empty_records: int = 0
    sentences: int = 0
    unsplit_lines: int = 0
    documents: int = 0
    cut_documents: int = 0
    left_out_members: int = 0
    rejected_bytes: int = 0
    unfinished_files: int = 0

    @property
    def are_rejects(self) -> bool:
        """Whether nearly all lines and rows are rejects, so that they are not what was expected."""
        units = self.lines + self.rows - self.blank_lines
        rejects = self.rejected_lines + self.rejected_rows
        return units >= _FEWEST_UNITS and rejects >= _LARGEST_LOSS * units

    def __add__(self, other: "ReadCounts") -> "ReadCounts":
        # `astuple` copies deeply, which takes longer than reading a short file.
        return ReadCounts(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Reject:
    """An input record that became no example.

    Attributes:
        file: name of the input file, as the manifest lists it.
        offset: position of the record's first byte in the file, after decompression.
        length: bytes of the record; -1 if its end was never seen.
        reason: one of the reasons in the README's table, such as "invalid-utf-8".
        detail: the message of the decoder or parser that refused it.
        row: number of the record among the rows of its table; None outside of tables.
    """

    file: str
    offset: int
    length: int
    reason: str
    detail: str
    row: int | None = None

    @property
    def place(self) -> int:
        """What orders the rejects of a file: the row, or else the offset."""
        return self.offset if self.row is None else self.row


@dataclass(frozen=True, eq=False)
class RejectColumns:
    """n rejects of one file and one reason, ascending by their places, without details.

    Attributes:
        file: as in `Reject`, as are the others.
        reason: of all of them.
        offsets: int64[n].
        lengths: int64[n], none of them -1.
        rows: int64[n]; None outside of tables.
    """

    file: str
    reason: str
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64] | None = None

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """int64[n], the place of each."""
        return self.offsets if self.rows is None else self.rows

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True)
class FileRange:
    """A byte range of an input file. Formats that are not cut into ranges read the whole file.

    Attributes:
        file: name of the file for its rejects; its suffix tells the format where no option does.
        file_index: its place in the sorted list of inputs.
        options: how the file becomes documents.
        start: first byte of the range.
        end: byte after the range; None for the end of the file.
        format_is_known: whether the format of the options was given by someone, or found in this
            file; it may be that of other files otherwise.

    Raises:
        UserError: the file's index does not fit a document id.
    """

    file: str
    file_index: int
    options: DocumentOptions
    start: int = 0
    end: int | None = None
    format_is_known: bool = True

    def __post_init__(self) -> None:
        document_id(self.file_index, 0)

    @property
    def bounds(self) -> tuple[int, int]:
        """The first byte of the range and the byte after it, which may lie beyond the file."""
        return self.start, 2**62 if self.end is None else self.end

    def holds(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return bool[n], whether each of some bytes of the file lies in the range."""
        start, end = self.bounds
        return (offsets >= start) & (offsets < end)

    def ids(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return the ids, uint64[n], of documents that start at some bytes in ascending order.

        Raises:
            UserError: an offset does not fit a document id.
        """
        if len(offsets):
            document_id(self.file_index, int(offsets[-1]))
        return offsets.astype(np.uint64) + np.uint64(document_id(self.file_index, 0))

    def reject(
        self, offset: int, length: int, reason: str, detail: str, row: int | None = None
    ) -> Reject:
        """Make a reject of this file; see `Reject` for the values."""
        if len(detail) > MAX_DETAIL:
            detail = f"{detail[:MAX_DETAIL]}..."
        return Reject(self.file, offset, length, reason, detail, row)


class UnreadableError(Exception):
    """A record, a block or a file that cannot be read.

    Args:
        reason: one of the reasons in the README's table.
        detail: what is wrong with it.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason, detail)


@dataclass(frozen=True)
class DocumentBatch:
    """Some documents of a file, and what was counted and rejected since the batch before.

    Attributes:
        documents: rows of TEXT_SCHEMA in the order of the file; there may be none. Further columns
            tell more of them (`corpusmill.arrays.text_hashes`).
        rejects: lines, rows, members or blocks that were refused.
        counts: what was read since the batch before.
        more_rejects: those of a reason beyond the first ones in the range.
        dropped: how many documents, which are counted, are left out for each reason of a condition.
        dropped_sentences: of these documents.
    """

    documents: pa.RecordBatch
    rejects: tuple[Reject, ...]
    counts: ReadCounts
    more_rejects: tuple[RejectColumns, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    dropped_sentences: int = 0

    def count_rejects(self) -> Counter[str]:
        """Return how many records were refused for each reason."""
        reasons = Counter(reject.reason for reject in self.rejects)
        for columns in self.more_rejects:
            reasons[columns.reason] += len(columns)
        return reasons


def text_batch(
    ids: npt.NDArray[np.uint64],
    sentences: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    text: npt.NDArray[np.uint8],
) -> pa.RecordBatch:
    """Make rows of TEXT_SCHEMA over a text, without copying it.

    Args:
        ids: uint64[documents].
        sentences: int64[documents], the number of sentences in each.
        lengths: int64[sentences], the bytes of each.
        text: uint8[bytes], the sentences one after the other, valid UTF-8.
    """
    buffers = [None, pa.py_buffer(_offsets(lengths)), pa.py_buffer(text)]
    flat = pa.Array.from_buffers(pa.string(), len(lengths), buffers)
    lists = pa.ListArray.from_arrays(pa.array(_offsets(sentences)), flat)
    return pa.RecordBatch.from_arrays([pa.array(ids), lists], schema=TEXT_SCHEMA)


def add_facts(
    documents: pa.RecordBatch,
    lengths: npt.NDArray[np.uint64],
    fields: Sequence[pa.Array] = (),
    keep_fields: Sequence[str] = (),
) -> pa.RecordBatch:
    """Add the columns of facts to rows of TEXT_SCHEMA.

    Args:
        documents: the rows.
        lengths: uint64[documents], bytes of each document's record in its file.
        fields: for each kept field, its values as pa.string, as many as documents.
        keep_fields: the names of these fields.
    """
    schema = pa.schema([*TEXT_SCHEMA, *text_facts(keep_fields)])
    return pa.RecordBatch.from_arrays(
        [*documents.columns, pa.array(lengths), *fields], schema=schema
    )


def conform_fields(documents: pa.RecordBatch, keep_fields: Sequence[str]) -> pa.RecordBatch:
    """Return documents with the columns of these kept fields; those that they lack are null.

    Args:
        documents: rows of TEXT_SCHEMA with facts.
        keep_fields: the names of the fields.
    """
    schema = pa.schema([*TEXT_SCHEMA, *text_facts(keep_fields)])
    names, rows = documents.schema.names, documents.num_rows
    if names == schema.names:
        return documents
    columns = [
        documents.column(field.name) if field.name in names else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return Arrow's offsets of pieces with these lengths: [2, 3] gives [0, 2, 5]."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


class Collector(ABC):
    """Gathers what is read of a range until it is taken as a batch.

    Args:
        part: the range.

    Attributes:
        part: the range.
        rejects: those since the last `take` that have an entry of their own.
        counts: what was read since the last `take`.
        text_bytes: text of the documents that are complete, about.
    """

    # The share of `BATCH_BYTES` that fills a batch.
    enough = 1.0

    def __init__(self, part: FileRange) -> None:
        self.part = part
        # How many rejects of each reason have an entry of their own, with details.
        self._told = Counter[str]()
        self._start_batch()

    def _start_batch(self) -> None:
        self.rejects: list[Reject] = []
        self._untold: list[RejectColumns] = []
        # Of rejects that come alone, the offset, length and row, by reason.
        self._single: dict[str, list[tuple[int, int, int | None]]] = {}
        self._more_rejects = 0
        self.counts, self.text_bytes = ReadCounts(), 0

    @property
    def num_rejects(self) -> int:
        """Rejects since the last `take`."""
        return len(self.rejects) + self._more_rejects

    def refuse(
        self, offset: int, length: int, reason: str, detail: str, row: int | None = None
    ) -> None:
        """Add a reject; see `Reject` for the values."""
        if length < 0 or self._told[reason] < TOLD_REJECTS:
            self._told[reason] += 1
            self.rejects.append(self.part.reject(offset, length, reason, detail, row))
        else:
            self._single.setdefault(reason, []).append((offset, length, row))
            self._more_rejects += 1

    def refuse_many(
        self,
        offsets: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        reason: str,
        explain: Callable[[int], str],
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Add rejects of one reason in ascending order.

        Args:
            offsets: int64[n].
            lengths: int64[n], none of them -1.
            reason: of all of them.
            explain: returns the detail of one of them, by its index; called for the first ones.
            rows: int64[n]; None outside of tables.
        """
        few = min(len(offsets), max(0, TOLD_REJECTS - self._told[reason]))
        for index in range(few):
            row = None if rows is None else int(rows[index])
            place = int(offsets[index]), int(lengths[index])
            self.refuse(*place, reason, explain(index), row)
        if few < len(offsets):
            rest = None if rows is None else rows[few:]
            columns = RejectColumns(self.part.file, reason, offsets[few:], lengths[few:], rest)
            self._untold.append(columns)
            self._more_rejects += len(columns)

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a batch."""
        is_large = self.text_bytes >= self.enough * BATCH_BYTES
        return is_large or self.num_rejects >= BATCH_REJECTS

    @abstractmethod
    def take(self) -> DocumentBatch:
        """Return the complete documents, with the counts and rejects; keep an open one."""

    def close(self) -> None:  # noqa: B027  most collectors have nothing open
        """End the open document at the end of the file, or of what can be read of it."""

    def _to_batch(self, documents: pa.RecordBatch) -> DocumentBatch:
        for reason, places in self._single.items():
            offsets, lengths, rows = zip(*places, strict=True)
            has_rows = rows[0] is not None
            columns = (np.array(offsets, np.int64), np.array(lengths, np.int64))
            numbers = np.array(rows, np.int64) if has_rows else None
            self._untold.append(RejectColumns(self.part.file, reason, *columns, numbers))
        rejects = tuple(sorted(self.rejects, key=attrgetter("place")))
        batch = DocumentBatch(documents, rejects, self.counts, tuple(self._untold))
        self._start_batch()
        return batch
