"""Tokenized documents as the arrays that kernels take."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged


class Documents(NamedTuple):
    """Where documents and their sentences lie among the tokens.

    Attributes:
        ids: uint64[documents].
        offsets: int64[documents + 1] into the sentences.
        sentence_offsets: int64[sentences + 1] into the tokens; no sentence is empty.
    """

    ids: np.ndarray
    offsets: np.ndarray
    sentence_offsets: np.ndarray


def measure_sentences(batch: pa.RecordBatch) -> np.ndarray:
    """Return the number of tokens of each sentence of tokenized documents: int64[sentences].

    Example:
        documents [[[7, 8], [9]], [[7]]] give [2, 1, 1].
    """
    documents, _ = unpack_documents(batch)
    first, last = documents.offsets[0], documents.offsets[-1]
    return np.diff(documents.sentence_offsets[first : last + 1])


def unpack_documents(batch: pa.RecordBatch) -> tuple[Documents, np.ndarray]:
    """Return the documents of a batch, and its tokens: integers[tokens].

    Args:
        batch: tokenized documents, {document: uint64, sentences: list<list<integer>>}.
    """
    sentences, offsets = ragged.from_arrow(batch.column("sentences"))
    token_ids, sentence_offsets = ragged.from_arrow(sentences)
    ids = batch.column("document").to_numpy()
    return Documents(ids, offsets.astype(np.int64), sentence_offsets.astype(np.int64)), token_ids
