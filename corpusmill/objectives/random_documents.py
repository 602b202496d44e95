"""The pool of random documents, written once and memory-mapped by every worker.

A pool is a folder of NumPy arrays, so that it can be written in one stream of bounded memory and
mapped without being read:

    documents.npy         uint64[documents]      ids; the train split's sorted, then validation's
    document_offsets.npy  int64[documents + 1]   into the sentences
    sentence_offsets.npy  int64[sentences + 1]   into the tokens
    token_ids.npy         integers[tokens]
    split_offsets.npy     int64[3]               the stretch of each split in documents
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.randomness import POOL, derive_keys
from corpusmill.objectives.documents import Documents

ARRAYS = ("documents", "document_offsets", "sentence_offsets", "token_ids", "split_offsets")

# What `measure_documents` gives for one document.
BYTES_OF_SIZES = 3 * 8

# English has more bytes a token than this, so a pool is rather chosen from too many candidates.
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Pool:
    """The arrays of the module's docstring, as mapped from disk."""

    documents: np.ndarray
    document_offsets: np.ndarray
    sentence_offsets: np.ndarray
    token_ids: np.ndarray
    split_offsets: np.ndarray

    @property
    def index(self) -> Documents:
        """The documents as kernels take them."""
        return Documents(self.documents, self.document_offsets, self.sentence_offsets)

    def candidates(self, splits: np.ndarray) -> np.ndarray:
        """The stretch of the pool that each document may draw from: its own split's.

        Args:
            splits: uint8[documents], 0 for train and 1 for validation.

        Returns:
            int64[documents, 2]: first and one behind the last.
        """
        return np.stack(
            [self.split_offsets[splits], self.split_offsets[splits.astype(np.intp) + 1]], axis=1
        )


def open_pool(folder: str | Path) -> Pool:
    """Map a pool from a local folder."""
    arrays = {}
    for name in ARRAYS:
        path = Path(folder) / f"{name}.npy"
        # An empty array cannot be mapped.
        mapped = np.load(path, mmap_mode="r") if path.stat().st_size > 128 else np.load(path)
        # A memmap's own type would make numba compile every kernel a second time.
        arrays[name] = np.asarray(mapped).view(np.ndarray)
    return Pool(**arrays)


def priorities(seed: int, documents: np.ndarray) -> np.ndarray:
    """uint64[documents]: the order in which documents enter the pool, uniform by their ids."""
    keys: np.ndarray = derive_keys(np.uint64(seed), documents, 0, POOL)
    return keys


def candidate_limit(pool_tokens: int, corpus_bytes: int) -> int:
    """The largest priority with which a document can enter the pool, from 0 to 2**64 - 1.

    Only documents up to it are kept for the pool: twice as many as are expected to fit, so that
    `choose` can fill the budget exactly, and all of them where the corpus is small.
    """
    share = 2 * pool_tokens * _BYTES_PER_TOKEN / max(corpus_bytes, 1)
    return 2**64 - 1 if share >= 1 else int(share * 2**64)


def keep_candidates(seed: int, documents: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    """The documents of a batch that may enter the pool.

    Args:
        seed: the data set's seed.
        documents: tokenized.
        limit: largest priority (`candidate_limit`).
    """
    kept = priorities(seed, documents.column("document").to_numpy()) <= np.uint64(limit)
    return documents if kept.all() else ragged.take_rows(documents, np.flatnonzero(kept))


def measure_documents(documents: pa.RecordBatch) -> np.ndarray:
    """uint64[documents, 3]: the id, the sentences and the tokens of each tokenized document."""
    sentences, document_offsets = ragged.from_arrow(documents.column("sentences"))
    _, sentence_offsets = ragged.from_arrow(sentences)
    tokens = np.diff(sentence_offsets[document_offsets])
    ids = documents.column("document").to_numpy()
    return np.stack([ids, np.diff(document_offsets).astype(np.uint64), tokens.astype(np.uint64)], 1)


def choose(
    document_priorities: np.ndarray, documents: np.ndarray, num_tokens: np.ndarray, pool_tokens: int
) -> int:
    """The largest priority that still fits the budget.

    Args:
        document_priorities: uint64[candidates].
        documents: uint64[candidates], ids; they break ties.
        num_tokens: int64[candidates].
        pool_tokens: the budget.

    Returns:
        A priority; documents up to it make the pool. -1 where none fits.
    """
    order = np.lexsort((documents, document_priorities))
    fitting = int(np.searchsorted(np.cumsum(num_tokens[order]), pool_tokens, side="right"))
    return int(document_priorities[order[fitting - 1]]) if fitting else -1


class _ArrayFile:
    """A one-dimensional .npy file of known length, written piece by piece."""

    def __init__(self, stream: BinaryIO, dtype: np.dtype, length: int) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (length,),
        }
        np.lib.format.write_array_header_1_0(stream, header)
        self._stream, self._dtype = stream, dtype

    def append(self, values: np.ndarray) -> None:
        self._stream.write(np.ascontiguousarray(values, self._dtype).data)


@dataclass(frozen=True)
class PoolShape:
    """The sizes that must be known before the first byte of a pool is written."""

    documents: int
    sentences: int
    tokens: int
    train_documents: int
    token_dtype: np.dtype


def write_pool(
    batches: Iterable[pa.RecordBatch], shape: PoolShape, streams: Sequence[BinaryIO]
) -> None:
    """Write a pool in one pass.

    Args:
        batches: tokenized documents: the train split's in the order of their ids, then
            validation's.
        shape: their sizes.
        streams: one writable binary file for each of ARRAYS, in that order. They are closed.
    """
    lengths = (shape.documents, shape.documents + 1, shape.sentences + 1, shape.tokens, 3)
    dtypes = (
        np.dtype(np.uint64),
        np.dtype(np.int64),
        np.dtype(np.int64),
        shape.token_dtype,
        np.dtype(np.int64),
    )
    with ExitStack() as stack:
        for stream in streams:
            stack.enter_context(stream)
        documents, document_offsets, sentence_offsets, token_ids, split_offsets = (
            _ArrayFile(stream, dtype, length)
            for stream, dtype, length in zip(streams, dtypes, lengths, strict=True)
        )
        sentences_before = tokens_before = 0
        document_offsets.append(np.zeros(1, np.int64))
        sentence_offsets.append(np.zeros(1, np.int64))
        for batch in batches:
            sentences, of_documents = ragged.from_arrow(batch.column("sentences"))
            tokens, of_sentences = ragged.from_arrow(sentences)
            first, last = of_documents[0], of_documents[-1]
            documents.append(batch.column("document").to_numpy())
            document_offsets.append(of_documents[1:].astype(np.int64) - first + sentences_before)
            begin, end = of_sentences[first], of_sentences[last]
            sentence_offsets.append(
                of_sentences[first + 1 : last + 1].astype(np.int64) - begin + tokens_before
            )
            token_ids.append(tokens[begin:end])
            sentences_before += int(last - first)
            tokens_before += int(end - begin)
        split_offsets.append(np.array([0, shape.train_documents, shape.documents]))
