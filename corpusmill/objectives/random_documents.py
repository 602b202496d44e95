"""The pool of random documents, written once and memory-mapped by every worker.

A pool is a folder of NumPy arrays, so that it can be written in one pass with bounded memory and
mapped without being read:

    documents.npy         uint64[documents]      ids; sorted in each split, train before validation
    document_offsets.npy  int64[documents + 1]   into the sentences
    sentence_offsets.npy  int64[sentences + 1]   into the tokens
    token_ids.npy         integers[tokens]
    split_offsets.npy     int64[3]               the stretch of each split in documents
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.randomness import POOL, derive_keys
from corpusmill.objectives.tokenized_documents import Documents, unpack_documents

ARRAYS = ("documents", "document_offsets", "sentence_offsets", "token_ids", "split_offsets")

# English has more bytes per token, so that there are too many candidates rather than too few.
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Pool:
    """The arrays that the module's docstring lists, mapped from disk."""

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
        """Return the stretch of the pool that each document may draw from: its own split's.

        Args:
            splits: uint8[documents], 0 for train and 1 for validation.

        Returns:
            int64[documents, 2]: the first document, and the one after the last.
        """
        stretches: np.ndarray = self.split_offsets[splits[:, None] + np.arange(2)]
        return stretches


def open_pool(folder: str | Path) -> Pool:
    """Map a pool from a local folder."""
    arrays = {}
    for name in ARRAYS:
        path = Path(folder) / f"{name}.npy"
        # An empty array cannot be mapped.
        mapped = np.load(path, mmap_mode="r") if path.stat().st_size > 128 else np.load(path)
        # For NumPy's own memmap type, numba would compile every kernel a second time.
        arrays[name] = np.asarray(mapped).view(np.ndarray)
    return Pool(**arrays)


def priorities(seed: int, documents: np.ndarray) -> np.ndarray:
    """Return the order in which documents enter the pool, a uniform draw by each id.

    Returns:
        uint64[documents].
    """
    keys: np.ndarray = derive_keys(np.uint64(seed), documents, 0, POOL)
    return keys


def candidate_limit(pool_tokens: int, corpus_bytes: int) -> int:
    """Return the largest priority with which a document can enter the pool, 0 to 2**64 - 1.

    Only documents up to this priority are kept as candidates: twice as many as are expected to fit,
    so that `choose` can fill the budget, and all documents of a small corpus.
    """
    share = 2 * pool_tokens * _BYTES_PER_TOKEN / max(corpus_bytes, 1)
    return 2**64 - 1 if share >= 1 else int(share * 2**64)


def keep_candidates(seed: int, documents: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    """Return the documents of a batch that may enter the pool.

    Args:
        seed: the data set's seed.
        documents: tokenized documents.
        limit: the largest priority (`candidate_limit`).
    """
    kept = priorities(seed, documents.column("document").to_numpy()) <= np.uint64(limit)
    return documents if kept.all() else ragged.take_rows(documents, np.flatnonzero(kept))


def measure_documents(documents: pa.RecordBatch) -> np.ndarray:
    """Return the id, the number of sentences and the number of tokens of each document.

    Returns:
        uint64[documents, 3].
    """
    index, _ = unpack_documents(documents)
    tokens = np.diff(index.sentence_offsets[index.offsets])
    columns = (index.ids, np.diff(index.offsets), tokens)
    return np.stack(columns, axis=1, dtype=np.uint64, casting="unsafe")


def choose(
    document_priorities: np.ndarray, documents: np.ndarray, num_tokens: np.ndarray, pool_tokens: int
) -> int:
    """Return the largest priority whose documents fit the budget.

    Args:
        document_priorities: uint64[candidates].
        documents: uint64[candidates], ids; they break ties.
        num_tokens: int64[candidates].
        pool_tokens: the budget.

    Returns:
        A priority; the documents up to it form the pool. -1 if no document fits.
    """
    order = np.lexsort((documents, document_priorities))
    fitting = int(np.searchsorted(np.cumsum(num_tokens[order]), pool_tokens, side="right"))
    return int(document_priorities[order[fitting - 1]]) if fitting else -1


def _begin_array(stream: BinaryIO, dtype: np.dtype, length: int) -> Callable[[np.ndarray], object]:
    """Begin a one-dimensional .npy file of known length; return what appends values to it."""
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(stream, header)
    return lambda values: stream.write(np.ascontiguousarray(values, dtype).data)


@dataclass(frozen=True)
class PoolShape:
    """The sizes that must be known before the first byte of a pool is written.

    Attributes:
        documents: the number of documents.
        sentences: the number of their sentences.
        tokens: the number of their tokens.
        train_documents: the number of the train split's documents.
        token_dtype: the type of a token id.
    """

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
        batches: tokenized documents, in the order of their ids: train, then validation.
        shape: the pool's sizes.
        streams: one writable binary file for each of ARRAYS, in that order; all are closed.
    """
    arrays: tuple[tuple[npt.DTypeLike, int], ...] = (
        ("uint64", shape.documents),
        ("int64", shape.documents + 1),
        ("int64", shape.sentences + 1),
        (shape.token_dtype, shape.tokens),
        ("int64", 3),
    )
    with ExitStack() as stack:
        for stream in streams:
            stack.enter_context(stream)
        put_documents, put_document_offsets, put_sentence_offsets, put_token_ids, put_splits = (
            _begin_array(stream, np.dtype(dtype), length)
            for stream, (dtype, length) in zip(streams, arrays, strict=True)
        )
        sentences_before = tokens_before = 0
        put_document_offsets(np.zeros(1, np.int64))
        put_sentence_offsets(np.zeros(1, np.int64))
        for batch in batches:
            index, tokens = unpack_documents(batch)
            first, last = index.offsets[0], index.offsets[-1]
            ends = index.sentence_offsets[first : last + 1]
            begin, end = ends[0], ends[-1]
            put_documents(index.ids)
            put_document_offsets(index.offsets[1:] - first + sentences_before)
            put_sentence_offsets(ends[1:] - begin + tokens_before)
            put_token_ids(tokens[begin:end])
            sentences_before += int(last - first)
            tokens_before += int(end - begin)
        put_splits(np.array([0, shape.train_documents, shape.documents]))
