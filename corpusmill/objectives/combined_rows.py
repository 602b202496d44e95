"""Rows of several documents, which `pack` combines and masks: full sentences, packed rows.

Examples of whole sentences without pairs, as RoBERTa is trained. Source: Liu et al. 2019, section
4.2, and the break modes of fairseq's TokenBlockDataset. DOC-SENTENCES (`complete_doc`): whole
sentences of one document, as many as fit. FULL-SENTENCES (`complete`): the rest at the end of a
document is continued with another document after an extra [SEP].

First, a document is cut into *pieces*: whole sentences up to the room of an example, with a
sentence longer than the room cut into several. All pieces of a document except its last are full,
so that they are complete examples, which can be sorted into any order. The last pieces are joined
in that order, in bounded memory; one that does not fit continues in the next example, at the start
of a sentence. The paper goes through all documents in a row, and so begins most of them in the
middle of an example; here only the ends of documents share examples.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.objectives.columns import SPANS
from corpusmill.objectives.examples.row_spans import cut_lists
from corpusmill.objectives.examples.windows import Chunks
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.objectives.tokenized_documents import Documents

# The special tokens of a piece, [CLS] and [SEP]; each further document of an example adds a [SEP].
NUM_SPECIAL = 2

# Columns of the pieces that `cut_documents` returns.
DOCUMENT, INDEX, START, LENGTH = range(4)


@njit
def cut_documents(documents: Documents, room: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut documents into pieces of whole sentences.

    Args:
        documents: the batch; no document is empty.
        room: the most tokens of a piece.

    Returns:
        pieces: int64[pieces, 4]: DOCUMENT (place in the batch), INDEX (within the document), START
            and LENGTH in the batch's tokens.
        sentence_lengths: uint16[sentences of the documents' last pieces]. The rest of a sentence
            that was cut counts as a sentence.
        sentence_ends: int64[pieces + 1] into them; full pieces have none.

    Example:
        a document with sentences of 3, 4, 2 and 1 tokens and room 7 give the pieces
        [[0, 0, 0, 7], [0, 1, 7, 3]], the sentence_lengths [2, 1] and the sentence_ends [0, 0, 2].
    """
    sentence_offsets, document_offsets = documents.sentence_offsets, documents.offsets
    sentences, tokens = len(sentence_offsets) - 1, sentence_offsets[-1] - sentence_offsets[0]
    most = sentences + tokens // room
    pieces = np.empty((most, 4), np.int64)
    sentence_ends = np.zeros(most + 1, np.int64)
    sentence_lengths = np.empty(sentences, np.uint16)
    written = kept = 0
    for document in range(len(document_offsets) - 1):
        index = length = 0
        start = sentence_offsets[document_offsets[document]]
        open_sentences = 0
        for sentence in range(document_offsets[document], document_offsets[document + 1]):
            rest = sentence_offsets[sentence + 1] - sentence_offsets[sentence]
            while length + rest > room:
                # Cut before a sentence that does not fit, or within one longer than a piece.
                length = length if length else room
                pieces[written, DOCUMENT], pieces[written, INDEX] = document, index
                pieces[written, START], pieces[written, LENGTH] = start, length
                written += 1
                index += 1
                sentence_ends[written] = kept
                start += length
                rest = sentence_offsets[sentence + 1] - start
                length = open_sentences = 0
            length += rest
            sentence_lengths[kept + open_sentences] = rest
            open_sentences += 1
        if length:
            pieces[written, DOCUMENT], pieces[written, INDEX] = document, index
            pieces[written, START], pieces[written, LENGTH] = start, length
            written += 1
            kept += open_sentences
            sentence_ends[written] = kept
    return pieces[:written], sentence_lengths[:kept], sentence_ends[: written + 1]


@njit
def assemble_rows(
    spans: np.ndarray, span_offsets: np.ndarray, token_ids: np.ndarray, cls_id: int, sep_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Assemble rows of whole sentences: [CLS] sentences [SEP] sentences of another document [SEP].

    Args:
        spans: int64[spans, 2], start and length of each document's sentences in the tokens.
        span_offsets: int64[rows + 1] into the spans.
        token_ids: integers[tokens].
        cls_id: the id of [CLS].
        sep_id: the id of [SEP].

    Returns:
        input_ids: the type of token_ids[total].
        offsets: int64[rows + 1].

    Example:
        a row of one span [10, 11] gives [2, 10, 11, 3] and [0, 4], where cls_id is 2 and sep_id is
        3; one of the spans [10, 11] and [12] gives [2, 10, 11, 3, 12, 3] and [0, 6].
    """
    rows = len(span_offsets) - 1
    offsets = np.zeros(rows + 1, np.int64)
    for i in range(rows):
        length = 1
        for span in range(span_offsets[i], span_offsets[i + 1]):
            length += spans[span, 1] + 1
        offsets[i + 1] = offsets[i] + length
    input_ids = np.empty(offsets[-1], token_ids.dtype)
    for i in range(rows):
        place = offsets[i]
        input_ids[place] = cls_id
        place += 1
        for span in range(span_offsets[i], span_offsets[i + 1]):
            start, length = spans[span, 0], spans[span, 1]
            input_ids[place : place + length] = token_ids[start : start + length]
            input_ids[place + length] = sep_id
            place += length + 1
    return input_ids, offsets


# Columns of the spans that `plan_joins` returns.
ROW, SPAN_START, SPAN_LENGTH = range(3)


@njit
def take_sentences(
    sentence_lengths: np.ndarray, sentence: int, end: int, room: int
) -> tuple[int, int]:
    """Return how many tokens of whole sentences fit, and the next sentence."""
    length = 0
    while sentence < end and length + sentence_lengths[sentence] <= room:
        length += sentence_lengths[sentence]
        sentence += 1
    return length, sentence


@njit
def plan_joins(
    offsets: np.ndarray,
    sentence_lengths: np.ndarray,
    sentence_ends: np.ndarray,
    max_seq_length: int,
    skipped: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Plan which spans of which rows make up each example.

    Full rows are complete examples. The others are collected in one open example, which ends when a
    sentence no longer fits.

    Args:
        offsets: integers[rows + 1] into the rows' ids, with [CLS] and [SEP].
        sentence_lengths: uint16[sentences]; each sentence fits into an example.
        sentence_ends: integers[rows + 1] into them; full rows have none.
        max_seq_length: the longest example, with special tokens.
        skipped: the sentences of row 0 that an earlier example contains.

    Returns:
        spans: int64[spans, 3]: ROW, SPAN_START and SPAN_LENGTH in the rows' ids, without special
            tokens.
        span_offsets: int64[examples + 1] into the spans. The last example is the open one, which
            can be empty: its rows are put before the next batch, if there is one.
        pieces: int64[examples], the rows whose last sentence is in the example.
        skipped: the sentences of the open example's first row that an earlier example contains.

    Example:
        two rows of one sentence of 2 tokens each and max_seq_length 7 give the spans
        [[0, 1, 2], [1, 5, 2]], which are one example [CLS] a a [SEP] b b [SEP]; its pieces are 2.
    """
    rows = len(offsets) - 1
    spans = np.empty((2 * rows, 3), np.int64)
    span_offsets = np.zeros(rows + 2, np.int64)
    pieces = np.zeros(rows + 1, np.int64)
    open_spans = np.empty((max_seq_length, 3), np.int64)
    examples = written = waiting = used = ended = 0
    for row in range(rows):
        sentence, end = sentence_ends[row], sentence_ends[row + 1]
        start = offsets[row] + 1
        if sentence == end:
            spans[written, ROW], spans[written, SPAN_START] = row, start
            spans[written, SPAN_LENGTH] = offsets[row + 1] - offsets[row] - NUM_SPECIAL
            written += 1
            pieces[examples] = 1
            examples += 1
            span_offsets[examples] = written
            continue
        earlier = skipped if row == 0 else 0
        start += int(sentence_lengths[sentence : sentence + earlier].sum())
        sentence += earlier
        while sentence < end:
            room = max_seq_length - NUM_SPECIAL - used - (1 if waiting else 0)
            length, following = take_sentences(sentence_lengths, sentence, end, room)
            if length:
                if waiting == 0:
                    skipped = sentence - sentence_ends[row]
                used += length + (1 if waiting else 0)
                open_spans[waiting, ROW], open_spans[waiting, SPAN_START] = row, start
                open_spans[waiting, SPAN_LENGTH] = length
                waiting += 1
                start += length
                sentence = following
            if sentence < end:
                spans[written : written + waiting] = open_spans[:waiting]
                written += waiting
                pieces[examples] = ended
                examples += 1
                span_offsets[examples] = written
                waiting = used = ended = 0
        ended += 1
    spans[written : written + waiting] = open_spans[:waiting]
    pieces[examples] = ended
    span_offsets[examples + 1] = written + waiting
    return (
        spans[: written + waiting],
        span_offsets[: examples + 2],
        pieces[: examples + 1],
        skipped if waiting else 0,
    )


def join_documents(
    rows: Iterable[pa.RecordBatch], max_seq_length: int, border_ids: tuple[int, int]
) -> Iterator[pa.RecordBatch]:
    """Join the ends of documents into full rows, which do not depend on how they are batched.

    Args:
        rows: in their final order, with the columns `input_ids` (a piece between [CLS] and [SEP]),
            `sentence_lengths` (empty for full pieces), JOINED_COUNTS, and any others, such as
            SPANS. Only those of one incomplete row are kept from batch to batch.
        max_seq_length: the longest row, with special tokens.
        border_ids: the ids of [CLS] and [SEP].
    """
    waiting: pa.RecordBatch | None = None
    skipped = 0
    for batch in rows:
        pieces = batch if waiting is None else pa.concat_batches([waiting, batch])
        joined, rest, skipped = _join(pieces, max_seq_length, skipped, False, border_ids)
        waiting = ragged.take_rows(pieces, rest)
        if joined.num_rows:
            yield joined
    if waiting is not None and waiting.num_rows:
        yield _join(waiting, max_seq_length, skipped, True, border_ids)[0]


def _join(
    rows: pa.RecordBatch,
    max_seq_length: int,
    skipped: int,
    is_last: bool,
    border_ids: tuple[int, int],
) -> tuple[pa.RecordBatch, np.ndarray, int]:
    """Join rows; return also those that wait, and the sentences of the first that are used."""
    row_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    sentence_lengths, sentence_ends = ragged.from_arrow(rows.column("sentence_lengths"))
    spans, span_offsets, pieces, skipped = plan_joins(
        offsets, sentence_lengths, sentence_ends, max_seq_length, skipped
    )
    waiting = spans[span_offsets[-2] :, ROW]
    if not is_last:
        span_offsets, pieces = span_offsets[:-1], pieces[:-1]
    input_ids, joined_offsets = assemble_rows(spans[:, 1:], span_offsets, row_ids, *border_ids)
    columns = {
        "input_ids": ragged.to_arrow(input_ids, joined_offsets),
        "sentence_lengths": empty_lists("uint16", len(pieces)),
        "documents": np.diff(span_offsets).astype(np.uint16),
        "pieces": pieces.astype(np.uint16),
    }
    if SPANS.name in rows.schema.names:
        begins = spans[:, SPAN_START]
        cuts = np.stack([begins, begins + spans[:, SPAN_LENGTH]], axis=1)
        origins = cut_lists(rows.column(SPANS.name), offsets[:-1] + 1, cuts, span_offsets)
        columns[SPANS.name] = origins
    first_rows = ragged.take_rows(rows, spans[span_offsets[:-1], ROW])
    return _replace_columns(first_rows, columns), waiting, skipped


def mask_combined(
    rows: pa.RecordBatch,
    masked_lm: MaskedLm,
    split_marks: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> pa.RecordBatch:
    """Mask combined rows.

    A row's key is unique and comes from the seed, so that a combined row is masked by the key of
    the piece that it begins with.

    Args:
        rows: the rows, with keys.
        masked_lm: how they are masked.
        split_marks: returns ids without marks, and whether each continues a word.
    """
    owners, indices = (rows.column(name).to_numpy() for name in ("key", "index"))
    token_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    input_ids, continues = split_marks(token_ids)
    input_ids = np.require(input_ids, requirements="W")  # Arrow's values are not writable
    keys = row_keys(np.uint64(0), owners, 0, indices)
    masked = masked_lm.build(input_ids, continues, offsets, keys)
    columns = {
        column.name: values for column, values in zip(masked_lm.columns, masked, strict=True)
    }
    return _replace_columns(rows, {"input_ids": ragged.to_arrow(input_ids, offsets), **columns})


def rows_of_chunks(
    pieces: pa.RecordBatch,
    offsets: np.ndarray,
    chunks: Chunks,
    order: np.ndarray,
    columns: Mapping[str, np.ndarray | pa.Array],
) -> pa.RecordBatch:
    """Return the rows that are chunks of joined pieces.

    Args:
        pieces: rows with a key, JOINED_COUNTS and SPANS.
        offsets: integers[pieces + 1] into their tokens, without special tokens.
        chunks: from `cut_joined`.
        order: int64[rows], the chunk of each row.
        columns: the values of the lists, and of any others that a row does not have from the piece
            in which it begins.
    """
    cuts = chunks.bounds[order]
    spans = cut_lists(pieces.column(SPANS.name), offsets[:-1], cuts, np.arange(len(cuts) + 1))
    values = {
        name: pieces.column(name).to_numpy()[chunks.rows[order]]
        for name in pieces.schema.names
        if not pa.types.is_list(pieces.schema.field(name).type)
    } | {
        "key": chunks.keys[order],
        "documents": chunks.overlapped[order],
        "pieces": chunks.ended[order],
        SPANS.name: spans,
        **columns,
    }
    return ragged.to_batch([values[name] for name in pieces.schema.names], pieces.schema)


def empty_lists(dtype: str, rows: int) -> pa.ListArray:
    """Return a column of empty lists, which is filled when rows are combined."""
    return ragged.to_arrow(np.empty(0, dtype), np.zeros(rows + 1, np.int32))


def _replace_columns(
    rows: pa.RecordBatch, columns: Mapping[str, np.ndarray | pa.Array]
) -> pa.RecordBatch:
    values = [columns.get(name, rows.column(name)) for name in rows.schema.names]
    return ragged.to_batch(values, rows.schema)
