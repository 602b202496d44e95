"""Small corpora, as the arrays and batches that kernels take."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.dataset.manifest_entries import recount
from corpusmill.layout.placement import assign_splits
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.random_documents import ARRAYS, Pool, PoolShape, open_pool, write_pool
from corpusmill.objectives.tokenized_documents import Documents
from corpusmill.tokenization.tokenizer_file import SpecialTokens, mark

SPECIAL = SpecialTokens(cls_id=2, sep_id=3, mask_id=4, pad_id=0, unk_id=1, all_ids=(0, 1, 2, 3, 4))
FIRST_TEXT_ID = 10

# Document ids to sentences of token ids.
Corpus = Mapping[int, Sequence[Sequence[int]]]


def offsets_of(lengths: Iterable[int]) -> np.ndarray:
    """Turn the lengths of rows into offsets, int64[rows + 1]."""
    return np.cumsum([0, *lengths], dtype=np.int64)


def flatten(corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, document_offsets, sentence_offsets and token_ids of a corpus, in its order.

    Like those of Arrow's batches, ids of documents and tokens cannot be written to: kernels are
    compiled anew for arrays that can.
    """
    sentences = [sentence for document in corpus.values() for sentence in document]
    ids = np.array(list(corpus), np.uint64)
    token_ids = np.array([token for sentence in sentences for token in sentence], np.int16)
    ids.flags.writeable = token_ids.flags.writeable = False
    return (
        ids,
        offsets_of(len(document) for document in corpus.values()),
        offsets_of(len(sentence) for sentence in sentences),
        token_ids,
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


def build_pass(
    objective: Objective, corpus: Corpus, number: int = 0, seed: int = 1, pool: Pool | None = None
) -> pa.RecordBatch:
    """Build one pass over a corpus of the train split, which is its own pool by default."""
    splits = np.zeros(len(corpus), np.uint8)
    draws = Repeat(number, pool or pool_of(corpus), splits, seed)
    return objective.build(batch_of(corpus), draws)


def assert_measured(
    objective: Objective, built: pa.RecordBatch, finished: pa.RecordBatch
) -> dict[str, np.ndarray]:
    """Check that written rows, when they are counted, give what was measured; return that."""
    measured, counted = objective.measure(built), recount(finished, objective.columns)
    assert {name: counts.tolist() for name, counts in measured.items()} == {
        name: counts.tolist() for name, counts in counted.items()
    }
    return measured


def mark_corpus(
    corpus: Corpus, continues: Callable[[int, int], bool]
) -> dict[int, list[list[int]]]:
    """Mark the ids of a corpus, as for an objective with a word rule.

    Args:
        corpus: the corpus.
        continues: whether the token at a place of a sentence continues a word.
    """
    return {
        document: [
            mark(np.array(ids), np.array([continues(*item) for item in enumerate(ids)])).tolist()
            for ids in sentences
        ]
        for document, sentences in corpus.items()
    }


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


def alike_corpus(sentence_lengths: list[int], documents: int) -> Corpus:
    """Return many documents that differ only in their ids, and so have independent draws."""
    sentences = [[10] * length for length in sentence_lengths]
    return dict.fromkeys(range(1000, 1000 + documents), sentences)


# Twelve documents of 1 to 12 sentences of 1 to 17 tokens, some of 40.
VARIED = numbered_corpus(
    [
        [
            40 if (document + place) % 9 == 8 else 1 + (3 * document + 5 * place) % 17
            for place in range(1 + document * 5 % 12)
        ]
        for document in range(12)
    ]
)

seeds = st.integers(0, MAX_SEED)

# Up to six documents, of up to ten sentences, of up to twelve tokens.
corpora = st.lists(
    st.lists(st.integers(1, 12), min_size=1, max_size=10), min_size=1, max_size=6
).map(numbered_corpus)
