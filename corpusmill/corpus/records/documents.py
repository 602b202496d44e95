"""Documents that come one a record: the text of a record is a document, its lines are sentences.

Or, by the rule "document", the text is one sentence as it stands.

Each format of records (JSON lines, one document a line, ...) gives texts and ids; what makes
documents of them is here.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.corpus.batches import DocumentBatch, ReadCounts, Reject, text_batch
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.line_kernels import find_newline, join_text, strip_line
from corpusmill.errors import UserError


def no_such_field(file: str, text_field: str, fields: Sequence[str]) -> UserError:
    """The error for records that lack the text field.

    Args:
        file: path of the file.
        text_field: as the user gave it.
        fields: names of those that the first record has.
    """
    found = ", ".join(fields) or "none"
    return UserError(
        f"--text-field {text_field}",
        f"the first record of {file} has no such field; its fields are {found}",
        "Name the field that holds the text",
    )


@njit
def split_texts(
    text: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    max_document_bytes: int,
    max_pieces: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    r"""Cut texts at newlines into sentences, and group these into documents.

    Args:
        text: uint8 [bytes], the texts one behind the other.
        offsets: int64 [texts + 1] into text.
        max_document_bytes: a document's text is cut before the sentence that goes beyond.
        max_pieces: documents that a text is cut into at most; the last one has all that is left.

    Returns:
        begins: int64 [sentences], where the stripped text of each begins; blank lines are none.
        ends: int64 [sentences].
        documents: int64 [documents, 3], the text each is of, which piece of it, and its sentences.

    Example:
        "a\n\n b" and "" with offsets [0, 5, 5] give begins [0, 4], ends [1, 5] and
        documents [[0, 0, 2]].
    """
    most = len(offsets) - 1
    for byte in text[offsets[0] : offsets[-1]]:
        most += byte == 10
    begins, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    documents = np.empty((most, 3), np.int64)
    sentence = document = 0
    for of in range(len(offsets) - 1):
        piece = sentences = held = 0
        start = offsets[of]
        while start < offsets[of + 1]:
            end = find_newline(text, start, offsets[of + 1])
            begin, stop = strip_line(text, start, end)
            start = end + 1
            if begin == stop:
                continue
            is_full = held + stop - begin > max_document_bytes and piece + 1 < max_pieces
            if sentences and is_full:
                documents[document] = of, piece, sentences
                document += 1
                piece, sentences, held = piece + 1, 0, 0
            begins[sentence], ends[sentence] = begin, stop
            sentence += 1
            sentences += 1
            held += stop - begin
        if sentences:
            documents[document] = of, piece, sentences
            document += 1
    return begins[:sentence], ends[:sentence], documents[:document]


@njit
def cut_texts(
    text: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    max_document_bytes: int,
    max_pieces: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    r"""Cut texts that are too long behind newlines; the others stay as they are.

    Args:
        text: uint8 [bytes], the texts one behind the other.
        offsets: int64 [texts + 1] into text.
        max_document_bytes: a text is cut before the line that goes beyond.
        max_pieces: pieces that a text is cut into at most; the last one has all that is left.

    Returns:
        begins: int64 [pieces], where each begins in the text; those of white space alone are none.
        ends: int64 [pieces].
        documents: int64 [pieces, 2], the text each is of, and which piece of it.

    Example:
        " a\nb\n" and " " with offsets [0, 5, 6] give begins [0], ends [5], documents [[0, 0]]; for
        at most 3 bytes, begins [0, 3], ends [3, 5] and documents [[0, 0], [0, 1]].
    """
    most = len(offsets) - 1 + 2 * (offsets[-1] - offsets[0]) // max_document_bytes
    begins, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    documents = np.empty((most, 2), np.int64)
    count = 0
    for of in range(len(offsets) - 1):
        piece, begin = 0, offsets[of]
        while begin < offsets[of + 1]:
            end = offsets[of + 1]
            if end - begin > max_document_bytes and piece + 1 < max_pieces:
                end = _end_of_lines(text, begin, end, max_document_bytes)
            start, stop = strip_line(text, begin, end)
            if start < stop:
                begins[count], ends[count] = begin, end
                documents[count] = of, piece
                count, piece = count + 1, piece + 1
            begin = end
    return begins[:count], ends[:count], documents[:count]


@njit
def _end_of_lines(text: npt.NDArray[np.uint8], begin: int, end: int, most: int) -> int:
    """Where the last line ends that ends within so many bytes, or else the first line."""
    for at in range(begin + most, begin, -1):
        if text[at - 1] == 10:
            return at
    newline: int = find_newline(text, begin + most, end)
    return min(newline + 1, end)


def documents_of(
    ids: npt.NDArray[np.uint64],
    texts: pa.Array,
    options: DocumentOptions,
    rejects: Sequence[Reject],
    counts: ReadCounts,
    max_pieces: int = 2**62,
) -> DocumentBatch:
    """The documents of some records.

    Args:
        ids: uint64 [records], as `corpusmill.corpus.batches.document_id` makes them. The pieces
            of a text that is cut have the ids that follow, so that a record must own as many as
            its text has bytes, or `max_pieces`.
        texts: pa.large_string [records], without nulls.
        options: sentence rule; documents above the limit are cut between lines.
        rejects: records that were refused since the batch before.
        counts: what else was counted since then.
        max_pieces: documents that a text is cut into at most.
    """
    text, offsets = ragged.from_arrow(texts)
    if options.keeps_text:
        begins, ends, pieces = cut_texts(text, offsets, options.max_document_bytes, max_pieces)
        of, piece = pieces.T
        sentences = np.ones(len(pieces), np.int64)
    else:
        begins, ends, pieces = split_texts(text, offsets, options.max_document_bytes, max_pieces)
        of, piece, sentences = pieces.T
    with_text = int((piece == 0).sum())
    documents = text_batch(
        ids[of] + piece.astype(np.uint64),
        sentences,
        ends - begins,
        join_text(text, begins, ends),
    )
    own = ReadCounts(
        records=len(ids),
        empty_records=len(ids) - with_text,
        sentences=len(begins),
        documents=len(pieces),
        cut_documents=len(pieces) - with_text,
    )
    return DocumentBatch(documents, tuple(rejects), counts + own)
