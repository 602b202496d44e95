"""Examples of whole sentences without pairs, as RoBERTa is trained.

Source: RoBERTa (Liu et al. 2019, section 4.2) and the break modes of fairseq's TokenBlockDataset.
DOC-SENTENCES (`complete_doc`): whole sentences of one document, as many as fit. FULL-SENTENCES
(`complete`): the rest at the end of a document is continued with another document after an extra
[SEP].

First, a document is cut into *pieces*: whole sentences up to the room of an example, with a
sentence longer than the room cut into several. All pieces of a document except its last are full,
so that they are complete examples, which can be sorted into any order; the last pieces are joined
by `corpusmill.objectives.combined_rows`. The paper goes through all documents in a row,
and so begins most of them in the middle of an example; here only the ends of documents share
examples.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.objectives.documents import Documents

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
