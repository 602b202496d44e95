"""Small corpora, as the arrays and batches that kernels take."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.layout.placement import assign_splits
from corpusmill.objectives.documents import Documents
from corpusmill.objectives.random_documents import ARRAYS, Pool, PoolShape, open_pool, write_pool
from corpusmill.tokenization.special_tokens import SpecialTokens

SPECIAL = SpecialTokens(cls_id=2, sep_id=3, mask_id=4, pad_id=0, unk_id=1, all_ids=(0, 1, 2, 3, 4))
FIRST_TEXT_ID = 10

# Document ids to sentences of token ids.
Corpus = Mapping[int, Sequence[Sequence[int]]]


def offsets_of(lengths: Iterable[int]) -> np.ndarray:
    """Turn the lengths of rows into offsets, int64[rows + 1]."""
    return np.cumsum([0, *lengths], dtype=np.int64)


def flatten(corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, document_offsets, sentence_offsets and token_ids of a corpus, in its order."""
    sentences = [sentence for document in corpus.values() for sentence in document]
    return (
        np.array(list(corpus), np.uint64),
        offsets_of(len(document) for document in corpus.values()),
        offsets_of(len(sentence) for sentence in sentences),
        np.array([token for sentence in sentences for token in sentence], np.int16),
    )


def index_of(corpus: Corpus) -> Documents:
    """The documents of a corpus as kernels take them, in its own order."""
    return Documents(*flatten(corpus)[:3])


def batch_of(corpus: Corpus) -> pa.RecordBatch:
    """Return the tokenized documents as a batch {document, sentences}."""
    documents, document_offsets, sentence_offsets, token_ids = flatten(corpus)
    sentences = ragged.to_arrow(ragged.to_arrow(token_ids, sentence_offsets), document_offsets)
    return pa.RecordBatch.from_arrays(
        [pa.array(documents), sentences], names=["document", "sentences"]
    )


def from_rows(rows: Iterable[Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows, which are tuples, as a batch."""
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(named, schema=schema)


def pool_of(train: Corpus, validation: Corpus | None = None) -> Pool:
    """Return a pool in memory, with each split's documents in the order of their ids."""
    both = dict(sorted(train.items())) | dict(sorted((validation or {}).items()))
    documents, document_offsets, sentence_offsets, token_ids = flatten(both)
    split_offsets = np.array([0, len(train), len(both)], np.int64)
    return Pool(documents, document_offsets, sentence_offsets, token_ids, split_offsets)


def split_corpus(corpus: Corpus, seed: int, validation_share: float) -> list[Corpus]:
    """Return the documents of train, and those of validation."""
    splits = assign_splits(seed, np.array(list(corpus), np.uint64), validation_share)
    documents = list(zip(corpus.items(), splits, strict=True))
    return [dict(item for item, split in documents if split == own) for own in (0, 1)]


def write_and_open(
    batches: Iterable[pa.RecordBatch], train: Corpus, validation: Corpus, folder: Path
) -> Pool:
    """Write the pool of two corpora from `batches` of them, and open it as a worker does."""
    documents = [*train.values(), *validation.values()]
    sentences = [sentence for document in documents for sentence in document]
    shape = PoolShape(
        len(documents), len(sentences), sum(map(len, sentences)), len(train), np.dtype(np.int16)
    )
    write_pool(batches, shape, [(folder / f"{name}.npy").open("wb") for name in ARRAYS])
    return open_pool(folder)


def numbered_corpus(
    sentence_lengths: Sequence[Sequence[int]], first_document: int = 0
) -> dict[int, list[list[int]]]:
    """Return a corpus whose token ids are all different, so that each shows where it comes from.

    Example:
        [[2, 1], [1]] gives {0: [[10, 11], [12]], 1: [[13]]}.
    """
    corpus: dict[int, list[list[int]]] = {}
    token = FIRST_TEXT_ID
    for document, lengths in enumerate(sentence_lengths, first_document):
        corpus[document] = []
        for length in lengths:
            corpus[document].append(list(range(token, token + length)))
            token += length
    return corpus


# Up to six documents, of up to ten sentences, of up to twelve tokens.
corpora = st.lists(
    st.lists(st.integers(1, 12), min_size=1, max_size=10), min_size=1, max_size=6
).map(numbered_corpus)
