"""Documents of text to documents of token ids."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.text_hashes import column_or_default, digests_of, tokenized_facts
from corpusmill.tokenization.compiled.units import CUTS
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.text_cuts import Cuts, TextMarks


def tokenized_schema(
    token_dtype: str, keep_fields: Sequence[str] = (), facts: bool = False
) -> pa.Schema:
    """Return the columns of tokenized documents.

    Args:
        token_dtype: NumPy name of the type of a token id.
        keep_fields: names of the fields that are among the facts.
        facts: whether the facts of documents are columns, too
            (`corpusmill.arrays.text_hashes`).
    """
    token_ids = pa.list_(pa.from_numpy_dtype(token_dtype))
    columns = [pa.field("document", pa.uint64()), pa.field("sentences", pa.list_(token_ids))]
    return pa.schema([*columns, *(tokenized_facts(keep_fields) if facts else [])])


class EncodedDocuments(NamedTuple):
    """Tokenized documents, and counts.

    Attributes:
        documents: a batch with the columns of `tokenized_schema`; no sentence is empty, but pieces
            of texts that were cut may be.
        tokens: the number of their tokens.
        unknown_tokens: those that replace text which the vocabulary cannot spell.
        text_bytes: UTF-8 bytes of the sentences that were tokenized.
        letter_bytes: what letters from U+0380 to U+1FFF, such as Greek or Thai ones, take beyond a
            byte each. Those from U+3000, such as Chinese characters, say as much as several.
        control_characters: those up to U+0008, which no text has.
        empty_sentences: sentences left out because they have no tokens.
        empty_documents: documents left out because they have no sentences.
        cut_texts: texts, or words of them, that the tokenizers library got in parts
            (`corpusmill.tokenization.compiled.units`).
        special_tokens_in_text: special tokens that stand in the texts, whether they become their
            ids or ordinary tokens.
        marks: what marks in texts count (`corpusmill.tokenization.marked_texts`), by name.
    """

    documents: pa.RecordBatch
    tokens: int
    unknown_tokens: int
    text_bytes: int
    letter_bytes: int
    control_characters: int
    empty_sentences: int
    empty_documents: int
    cut_texts: int
    special_tokens_in_text: int
    marks: Mapping[str, int]


@njit
def drop_empty(
    sentence_offsets: np.ndarray, document_offsets: np.ndarray, are_pieces: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave out sentences without tokens, and then documents without sentences.

    Args:
        sentence_offsets: int64[sentences + 1] into the tokens.
        document_offsets: int64[documents + 1] into the sentences.
        are_pieces: whether they are pieces of texts, which stay beside others that have tokens.

    Returns:
        sentence_offsets: int64[remaining sentences + 1].
        document_offsets: int64[remaining documents + 1].
        is_kept: bool[documents].

    Example:
        sentence_offsets [0, 2, 2, 3], document_offsets [0, 1, 2, 3] give [0, 2, 3], [0, 1, 2] and
        [True, False, True]; of pieces [0, 2, 2, 2] and [0, 2, 3] give [0, 2, 2], [0, 2] and [True,
        False].
    """
    sentences = np.empty(len(sentence_offsets), np.int64)
    documents = np.empty(len(document_offsets), np.int64)
    is_kept = np.zeros(len(document_offsets) - 1, np.bool_)
    sentences[0] = sentence_offsets[document_offsets[0]]
    documents[0] = 0
    num_sentences = num_documents = 0
    for document in range(len(document_offsets) - 1):
        first, last = document_offsets[document], document_offsets[document + 1]
        if sentence_offsets[last] == sentence_offsets[first]:
            continue
        for sentence in range(first, last):
            if are_pieces or sentence_offsets[sentence + 1] > sentence_offsets[sentence]:
                num_sentences += 1
                sentences[num_sentences] = sentence_offsets[sentence + 1]
        is_kept[document] = True
        num_documents += 1
        documents[num_documents] = num_sentences
    return sentences[: num_sentences + 1], documents[: num_documents + 1], is_kept


@njit
def count_characters(text: np.ndarray) -> tuple[int, int]:
    r"""Count what tells text of other alphabets, and what is no text.

    Args:
        text: uint8[bytes], valid UTF-8.

    Returns:
        What letters from U+0380 to U+1FFF take beyond a byte each, and the number of control
        characters up to U+0008.

    Example:
        "\u03b1\u03b2" (two Greek letters) gives 2 and 0, "\u0e01" (a Thai one) likewise, and
        "\u4e2d\0" 0 and 1.
    """
    letter_bytes = control_characters = 0
    for byte in text:
        # Letters of two bytes begin with CE to DF, those of three with E0 or E1; symbols follow.
        letter_bytes += (byte >= 0xCE) & (byte < 0xE2)
        letter_bytes += (byte >= 0xE0) & (byte < 0xE2)
        control_characters += byte < 0x09
    return letter_bytes, control_characters


def encode_documents(
    tokenizer: SentenceTokenizer,
    documents: pa.RecordBatch,
    cuts: Cuts | None = None,
    keep_fields: Sequence[str] = (),
    facts: bool = False,
) -> EncodedDocuments:
    """Tokenize a batch of documents.

    Args:
        tokenizer: the data set's tokenizer.
        documents: a batch with the columns of `corpusmill.corpus.batches.TEXT_SCHEMA`; it may have
            further ones, of which only facts are used.
        cuts: cuts the documents, each of which is one text, into the sentences of the result, or
            says that they have marks; None if they are not cut.
        keep_fields: names of the fields that are among the facts.
        facts: whether the facts of documents are in the result; those that the batch lacks are
            lengths of 0 and fields that are null.

    Raises:
        ValueError: a document that is to be cut has several sentences.
    """
    text, text_offsets, document_offsets = _unpack(documents)
    if cuts and (np.diff(document_offsets) != 1).any():
        raise ValueError("documents that are cut must have one sentence each")
    sentences_before, ids = len(text_offsets) - 1, documents.column("document").to_numpy()
    tokenized = text[text_offsets[0] : text_offsets[-1]]
    letter_bytes, control_characters = count_characters(tokenized)
    cuts_before = CUTS.number
    if isinstance(cuts, TextMarks):
        texts = documents.column("sentences").flatten().to_pylist()
        token_ids, token_offsets, document_offsets, marks = tokenizer.encode_marked(texts)
    else:
        marks = Counter(special_tokens_in_text=tokenizer.count_special(tokenized))
        if cuts:
            text_offsets, document_offsets = cuts(ids, text, text_offsets)
        token_ids, token_offsets = tokenizer.encode(text, text_offsets)
    sentence_offsets, row_offsets, is_kept = drop_empty(token_offsets, document_offsets, bool(cuts))
    sentences = ragged.to_arrow(ragged.to_arrow(token_ids, sentence_offsets), row_offsets)
    encoded = ragged.to_batch([ids[is_kept], sentences], tokenized_schema(token_ids.dtype.name))
    encoded = _add_facts(encoded, documents, is_kept, keep_fields) if facts else encoded
    empty_documents = int(np.count_nonzero(~is_kept))
    return EncodedDocuments(
        documents=encoded,
        tokens=len(token_ids),
        unknown_tokens=tokenizer.count_unknown(token_ids),
        text_bytes=len(tokenized),
        letter_bytes=letter_bytes,
        control_characters=control_characters,
        empty_sentences=empty_documents if cuts else sentences_before + 1 - len(sentence_offsets),
        empty_documents=empty_documents,
        cut_texts=CUTS.number - cuts_before,
        special_tokens_in_text=marks.pop("special_tokens_in_text", 0),
        marks=marks,
    )


def _unpack(documents: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the text of documents, and the offsets of their sentences and of the documents."""
    sentences, document_offsets = ragged.from_arrow(documents.column("sentences"))
    first, last = document_offsets[[0, -1]]  # the batch may be a slice of a larger one
    text, text_offsets = ragged.from_arrow(sentences)
    offsets = text_offsets[first : last + 1].astype(np.int64)
    return text, offsets, document_offsets.astype(np.int64) - first


def _add_facts(
    encoded: pa.RecordBatch, documents: pa.RecordBatch, kept: np.ndarray, keep_fields: Sequence[str]
) -> pa.RecordBatch:
    """Add facts to those documents of a batch of text that are kept, bool[documents]."""
    length, digest, *others = tokenized_facts(keep_fields)
    columns = [
        column_or_default(documents, length),
        pa.array(digests_of(documents)),
        *(column_or_default(documents, field) for field in others),
    ]
    if not kept.all():
        columns = [column.filter(pa.array(kept)) for column in columns]
    schema = pa.schema([*encoded.schema, length, digest, *others])
    return pa.RecordBatch.from_arrays([*encoded.columns, *columns], schema=schema)
