"""The spans of rows: which tokens of which documents a row is made of.

A span is three numbers: the id of a document, the first token in it, and the number of tokens. The
spans of a row stand in the order of its text, as one flat list in the built column SPANS:

    row        [CLS]  token 4 and 5 of document 7  [SEP]  token 0 of document 9  [SEP]
    SPANS      [7, 4, 2, 9, 0, 1]

Special tokens are in no span, and masked tokens count as what they were. Kernels first list what a
row is made of, part by part, and `join_spans` then makes its spans of the parts.
"""

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.objectives.tokenized_documents import Documents

# Columns of an array of spans.
DOCUMENT, FIRST, LENGTH = range(3)

_NUMBERS = 3


def span_lists(parts: np.ndarray, offsets: np.ndarray) -> pa.ListArray:
    """Return the column SPANS of rows.

    Args:
        parts: uint64[parts, 3], in the order of the rows' text; parts may be empty.
        offsets: integers[rows + 1] into the parts.

    Example:
        parts [[7, 4, 2], [7, 6, 1], [9, 0, 1]] and offsets [0, 2, 3] give
        [[7, 4, 3], [9, 0, 1]].
    """
    spans, ends = join_spans(parts, offsets.astype(np.int64, copy=False))
    return ragged.to_arrow(spans.reshape(-1), _NUMBERS * ends)


def single_spans(spans: np.ndarray) -> pa.ListArray:
    """Return the column SPANS of rows that are one span each.

    Args:
        spans: uint64[rows, 3], none of them empty.

    Example:
        spans [[7, 4, 2], [9, 0, 1]] give the same as lists.
    """
    return ragged.to_arrow(spans.reshape(-1), _NUMBERS * np.arange(len(spans) + 1))


def locate_stretches(
    documents: Documents, owners: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Return stretches of a batch's tokens as parts of its documents.

    Args:
        documents: the batch.
        owners: int64[stretches], the place of each stretch's document in the batch.
        starts: int64[stretches], where each begins among the batch's tokens.
        lengths: int64[stretches].

    Returns:
        uint64[stretches, 3].

    Example:
        the start 6 and the length 2, in a document 7 that begins with token 5, give [[7, 1, 2]].
    """
    parts = np.empty((len(owners), _NUMBERS), np.uint64)
    parts[:, DOCUMENT] = documents.ids[owners]
    parts[:, FIRST] = starts - documents.sentence_offsets[documents.offsets[owners]]
    parts[:, LENGTH] = lengths
    return parts


def spans_of(lists: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the spans of a column SPANS, which may be a slice.

    Returns:
        spans: uint64[spans, 3].
        offsets: int64[rows + 1] into spans, from 0.

    Example:
        [[7, 4, 2, 9, 0, 1], []] gives [[7, 4, 2], [9, 0, 1]] and [0, 2, 2].
    """
    values, ends = ragged.from_arrow(lists)
    spans = values[ends[0] : ends[-1]].reshape(-1, _NUMBERS)
    return spans, (ends - ends[0]).astype(np.int64) // _NUMBERS


def join_lists(lists: pa.ListArray, rows: np.ndarray, offsets: np.ndarray) -> pa.ListArray:
    """Return the column SPANS of rows that are several others, one after another.

    Args:
        lists: the column SPANS of the others.
        rows: int64[joined rows], the others, row after row.
        offsets: int64[rows + 1] into `rows`.

    Example:
        [[7, 4, 2], [9, 0, 1], []] with the rows [1, 0, 2] and the offsets [0, 2, 3] give
        [[9, 0, 1, 7, 4, 2], []].
    """
    values, ends = ragged.take(*ragged.from_arrow(lists), rows)
    return span_lists(values.reshape(-1, _NUMBERS), ends[offsets] // _NUMBERS)


def cut_lists(
    lists: pa.ListArray, begins: np.ndarray, cuts: np.ndarray, offsets: np.ndarray
) -> pa.ListArray:
    """Return the column SPANS of rows that are made of stretches of others.

    Args:
        lists: the column SPANS of the others.
        begins: integers[others], where the text of each begins among all tokens; in the text there
            are no special tokens.
        cuts: int64[stretches, 2], where each begins and ends among all tokens, row after row.
        offsets: int64[rows + 1] into the stretches.

    Example:
        [[7, 4, 2], [9, 0, 1]], begins [0, 2], cuts [[1, 2], [2, 3], [0, 1]] and offsets [0, 2, 3]
        give [[7, 5, 1, 9, 0, 1], [7, 4, 1]].
    """
    spans, ends = spans_of(lists)
    sums = np.zeros(len(spans) + 1, np.int64)
    np.cumsum(spans[:, LENGTH], out=sums[1:], dtype=np.int64)
    places = sums[:-1] + np.repeat(begins - sums[ends[:-1]], np.diff(ends))
    parts, part_ends = cut_spans(spans, places, cuts)
    return span_lists(parts, part_ends[offsets])


@njit
def join_spans(parts: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join parts that continue one another within a row, and leave out empty ones.

    Args:
        parts: uint64[parts, 3], in the order of the rows' text.
        offsets: int64[rows + 1] into the parts.

    Returns:
        spans: uint64[spans, 3].
        offsets: int64[rows + 1] into the spans.

    Example:
        parts [[7, 4, 2], [7, 6, 1], [9, 0, 0]] and offsets [0, 3] give [[7, 4, 3]] and [0, 1].
    """
    spans = np.empty((offsets[-1] - offsets[0], 3), np.uint64)
    ends = np.zeros(len(offsets), np.int64)
    written = 0
    for row in range(len(offsets) - 1):
        for part in range(offsets[row], offsets[row + 1]):
            document, first = parts[part, DOCUMENT], parts[part, FIRST]
            length = parts[part, LENGTH]
            if not length:
                continue
            last = written - 1
            is_continued = (
                last >= ends[row]
                and spans[last, DOCUMENT] == document
                and spans[last, FIRST] + spans[last, LENGTH] == first
            )
            if is_continued:
                spans[last, LENGTH] += length
            else:
                spans[written, DOCUMENT], spans[written, FIRST] = document, first
                spans[written, LENGTH] = length
                written += 1
        ends[row + 1] = written
    return spans[:written], ends


@njit
def cut_spans(
    spans: np.ndarray, places: np.ndarray, cuts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of spans that stretches of their tokens hold.

    Args:
        spans: uint64[spans, 3].
        places: int64[spans], where each begins among the tokens, ascending. Tokens between two
            spans, such as special tokens, belong to neither.
        cuts: int64[stretches, 2], where each begins and ends among the tokens, in any order.

    Returns:
        parts: uint64[parts, 3].
        offsets: int64[stretches + 1] into the parts.

    Example:
        the spans [[7, 4, 2], [9, 0, 3]] at the places [1, 4] and the cuts [[0, 2], [2, 6]] give
        [[7, 4, 1], [7, 5, 1], [9, 0, 2]] and [0, 1, 3].
    """
    offsets, firsts = np.zeros(len(cuts) + 1, np.int64), np.empty(len(cuts), np.int64)
    for i in range(len(cuts)):
        begin, end = cuts[i, 0], cuts[i, 1]
        span = max(0, np.searchsorted(places, begin, side="right") - 1)
        firsts[i] = span
        while span < len(spans) and places[span] < end:
            span += 1
        offsets[i + 1] = offsets[i] + span - firsts[i]
    parts = np.empty((offsets[-1], 3), np.uint64)
    for i in range(len(cuts)):
        for part in range(offsets[i], offsets[i + 1]):
            span = firsts[i] + part - offsets[i]
            begin = max(cuts[i, 0], places[span])
            end = min(cuts[i, 1], places[span] + np.int64(spans[span, LENGTH]))
            parts[part, DOCUMENT] = spans[span, DOCUMENT]
            parts[part, FIRST] = spans[span, FIRST] + np.uint64(begin - places[span])
            parts[part, LENGTH] = np.uint64(max(0, end - begin))
    return parts, offsets
