"""The ends of documents joined to full examples, in bounded memory: RoBERTa's FULL-SENTENCES.

Source: RoBERTa (Liu et al. 2019, section 4.2): an example that reaches the end of a document goes
on with sentences of another one, behind an extra [SEP]. Rows are pieces of documents
(`corpusmill.objectives.examples.full_sentences`) in their final order. Full pieces are examples as
they come; the last pieces of documents are joined in that order, and one that does not fit goes on
in the next example, at the start of a sentence.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.objectives.examples.full_sentences import NUM_SPECIAL

# Columns of the spans that `plan_joins` gives.
ROW, SPAN_START, SPAN_LENGTH = range(3)


@dataclass(frozen=True)
class JoinedRows:
    """Examples made of rows.

    Attributes:
        first_rows: the row that each example begins with; no two examples begin with the same.
        input_ids: integers[tokens].
        offsets: int64[examples + 1].
        documents: int64[examples], how many pieces of documents are in an example; each has a [SEP]
            behind it.
        pieces: int64[examples], rows of which the example holds the last sentence, at least one.
    """

    first_rows: pa.RecordBatch
    input_ids: np.ndarray
    offsets: np.ndarray
    documents: np.ndarray
    pieces: np.ndarray


def join_rows(
    batches: Iterable[pa.RecordBatch], max_seq_length: int, cls_id: int, sep_id: int
) -> Iterator[JoinedRows]:
    """The examples of rows that come in batches; the cuts between batches do not show.

    Args:
        batches: rows in their final order, with the columns `input_ids` (a piece between [CLS] and
            [SEP]) and `sentence_lengths` (empty for full pieces), and any others. Only the rows of
            one open example are kept from batch to batch.
        max_seq_length: longest example, special tokens included.
        cls_id: id of [CLS].
        sep_id: id of [SEP].
    """
    held: list[pa.RecordBatch] = []
    skipped = 0
    for batch in batches:
        rows = pa.concat_batches([*held, batch])
        joined, held_rows, skipped = _join(rows, max_seq_length, skipped, False, cls_id, sep_id)
        held = [ragged.take_rows(rows, held_rows)]
        if len(joined.pieces):
            yield joined
    if held and held[0].num_rows:
        yield _join(held[0], max_seq_length, skipped, True, cls_id, sep_id)[0]


def _join(
    rows: pa.RecordBatch, max_seq_length: int, skipped: int, is_last: bool, cls_id: int, sep_id: int
) -> tuple[JoinedRows, np.ndarray, int]:
    row_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    sentence_lengths, sentence_ends = ragged.from_arrow(rows.column("sentence_lengths"))
    spans, span_offsets, pieces, held_skip = plan_joins(
        offsets, sentence_lengths, sentence_ends, max_seq_length, skipped
    )
    held = spans[span_offsets[-2] :, ROW]
    if not is_last:
        span_offsets, pieces = span_offsets[:-1], pieces[:-1]
    input_ids, joined_offsets = assemble_joins(spans, span_offsets, row_ids, cls_id, sep_id)
    first_rows = ragged.take_rows(rows, spans[span_offsets[:-1], ROW])
    documents = np.diff(span_offsets)
    return JoinedRows(first_rows, input_ids, joined_offsets, documents, pieces), held, held_skip


@njit
def take_sentences(
    sentence_lengths: np.ndarray, sentence: int, end: int, room: int
) -> tuple[int, int]:
    """How many tokens of whole sentences fit, and the sentence that is next."""
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
    """Which spans of which rows make each example.

    Full rows are examples as they come. The others are gathered in one open example, which is given
    when a sentence does not fit into it any more.

    Args:
        offsets: integers[rows + 1] into the rows' ids, [CLS] and [SEP] included.
        sentence_lengths: uint16[sentences]; each sentence fits an example.
        sentence_ends: integers[rows + 1] into them; full rows have none.
        max_seq_length: longest example, special tokens included.
        skipped: sentences of row 0 that an earlier example has taken.

    Returns:
        spans: int64[spans, 3]: ROW, SPAN_START and SPAN_LENGTH in the rows' ids, without special
            tokens.
        span_offsets: int64[examples + 1] into the spans. The last example is the open one, which
            may have no span: its rows belong in front of the next batch, where there is one.
        pieces: int64[examples], rows of which the example holds the last sentence.
        skipped: sentences of the open example's first row that an earlier example has taken.

    Example:
        two rows of one sentence of 2 tokens each and max_seq_length 7 give the spans
        [[0, 1, 2], [1, 5, 2]], which are one example [CLS] a a [SEP] b b [SEP]; its pieces are 2.
    """
    rows = len(offsets) - 1
    spans = np.empty((2 * rows, 3), np.int64)
    span_offsets = np.zeros(rows + 2, np.int64)
    pieces = np.zeros(rows + 1, np.int64)
    open_spans = np.empty((max_seq_length, 3), np.int64)
    examples = given = waiting = used = ended = 0
    for row in range(rows):
        sentence, end = sentence_ends[row], sentence_ends[row + 1]
        start = offsets[row] + 1
        if sentence == end:
            spans[given, ROW], spans[given, SPAN_START] = row, start
            spans[given, SPAN_LENGTH] = offsets[row + 1] - offsets[row] - NUM_SPECIAL
            given += 1
            pieces[examples] = 1
            examples += 1
            span_offsets[examples] = given
            continue
        passed = skipped if row == 0 else 0
        start += int(sentence_lengths[sentence : sentence + passed].sum())
        sentence += passed
        while sentence < end:
            room = max_seq_length - NUM_SPECIAL - used - (1 if waiting else 0)
            length, behind = take_sentences(sentence_lengths, sentence, end, room)
            if length:
                if waiting == 0:
                    skipped = sentence - sentence_ends[row]
                used += length + (1 if waiting else 0)
                open_spans[waiting, ROW], open_spans[waiting, SPAN_START] = row, start
                open_spans[waiting, SPAN_LENGTH] = length
                waiting += 1
                start += length
                sentence = behind
            if sentence < end:
                spans[given : given + waiting] = open_spans[:waiting]
                given += waiting
                pieces[examples] = ended
                examples += 1
                span_offsets[examples] = given
                waiting = used = ended = 0
        ended += 1
    spans[given : given + waiting] = open_spans[:waiting]
    pieces[examples] = ended
    span_offsets[examples + 1] = given + waiting
    return (
        spans[: given + waiting],
        span_offsets[: examples + 2],
        pieces[: examples + 1],
        skipped if waiting else 0,
    )


@njit
def assemble_joins(
    spans: np.ndarray, span_offsets: np.ndarray, row_ids: np.ndarray, cls_id: int, sep_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Each example as a row: [CLS] sentences [SEP] sentences of another document [SEP] ...

    Args:
        spans: int64[spans, 3], from `plan_joins`.
        span_offsets: int64[examples + 1] into the spans.
        row_ids: integers[tokens], of the rows that the spans are of.
        cls_id: id of [CLS].
        sep_id: id of [SEP].

    Returns:
        input_ids: the type of row_ids[total].
        offsets: int64[examples + 1].
    """
    examples = len(span_offsets) - 1
    offsets = np.zeros(examples + 1, np.int64)
    for i in range(examples):
        length = 1
        for span in range(span_offsets[i], span_offsets[i + 1]):
            length += spans[span, SPAN_LENGTH] + 1
        offsets[i + 1] = offsets[i] + length
    input_ids = np.empty(offsets[-1], row_ids.dtype)
    for i in range(examples):
        place = offsets[i]
        input_ids[place] = cls_id
        place += 1
        for span in range(span_offsets[i], span_offsets[i + 1]):
            start, length = spans[span, SPAN_START], spans[span, SPAN_LENGTH]
            input_ids[place : place + length] = row_ids[start : start + length]
            input_ids[place + length] = sep_id
            place += length + 1
    return input_ids, offsets
