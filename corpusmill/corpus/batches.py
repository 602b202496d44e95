"""What readers of every input format give: batches of documents, counts and rejects."""

from dataclasses import dataclass
from operator import add

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.errors import UserError

TEXT_SCHEMA = pa.schema([("document", pa.uint64()), ("sentences", pa.list_(pa.string()))])
OFFSET_BITS = 40
MAX_FILES = 2**24
# So many rejects end a batch early, so that a file of nothing else costs no memory.
REJECTS_PER_BATCH = 1000


def document_id(file_index: int, offset: int) -> int:
    """The id of the document that starts at a byte of a file: file_index << 40 | offset.

    Raises:
        UserError: for more than 2**24 files, or a file beyond 2**40 bytes.
    """
    if not 0 <= file_index < MAX_FILES:
        cause = f"a data set is read from at most {MAX_FILES} files"
        raise UserError(f"input file number {file_index}", cause, "Join small files")
    if not 0 <= offset < 2**OFFSET_BITS:
        cause = f"an input file has at most 2**{OFFSET_BITS} bytes"
        raise UserError(f"byte {offset} of input file number {file_index}", cause, "Split the file")
    return file_index << OFFSET_BITS | offset


def document_location(document: int) -> tuple[int, int]:
    """The index of the file and the byte offset that a document id stands for."""
    return document >> OFFSET_BITS, document & (2**OFFSET_BITS - 1)


@dataclass(frozen=True)
class ReadCounts:
    """What was read; counts of several batches or ranges add up.

    `lines` is the sum of blank_lines, title_lines, sentence_lines, rejected_lines and, where a line
    is a record, records; in tables, `rows` is the sum of records and rejected_rows (the header of
    a CSV file is no row, a blank line is counted as such; a member of an archive is one, and of
    its lines only rejected ones are counted). `documents`
    are the rows given, among them `cut_documents` that continue
    the row before; a record is a document, or one of the `empty_records`. `left_out_members` are
    files of archives that a folder's listing would have left out, too.
    `sentences` are those of the documents: as many as lines with text, or more where lines are
    split, of which `unsplit_lines` could not be and stay whole.
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

    def __add__(self, other: "ReadCounts") -> "ReadCounts":
        # `astuple` copies deeply, which takes longer than to read a short file.
        return ReadCounts(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Reject:
    """One input record that became no example.

    Attributes:
        file: name of the input file, as the manifest lists it.
        offset: byte of the record's first byte in the file (after decompression).
        length: bytes of the record; -1 where its end was never seen.
        reason: one of the reasons that the README's table lists, such as "invalid-utf-8".
        detail: the words of the decoder or parser that refused it.
    """

    file: str
    offset: int
    length: int
    reason: str
    detail: str


@dataclass(frozen=True)
class DocumentBatch:
    """Some documents of a file, and what was counted and refused since the batch before.

    Attributes:
        documents: rows of TEXT_SCHEMA, in the order of the file; may have none.
        rejects: lines that became no sentence.
        counts: increments since the batch before.
    """

    documents: pa.RecordBatch
    rejects: tuple[Reject, ...]
    counts: ReadCounts


def text_batch(
    ids: npt.NDArray[np.uint64],
    sentences: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    text: npt.NDArray[np.uint8],
) -> pa.RecordBatch:
    """Rows of TEXT_SCHEMA over the given text, which is not copied.

    Args:
        ids: uint64 [documents].
        sentences: int64 [documents], how many each has.
        lengths: int64 [sentences], bytes of each.
        text: uint8 [bytes], the sentences one behind the other, valid UTF-8.
    """
    buffers = [None, pa.py_buffer(_offsets(lengths)), pa.py_buffer(text)]
    flat = pa.Array.from_buffers(pa.string(), len(lengths), buffers)
    lists = pa.ListArray.from_arrays(pa.array(_offsets(sentences)), flat)
    return pa.RecordBatch.from_arrays([pa.array(ids), lists], schema=TEXT_SCHEMA)


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Arrow's offsets of pieces with the given lengths: [2, 3] gives [0, 2, 5]."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
