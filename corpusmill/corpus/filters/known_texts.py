"""Documents whose text a data set holds already, found by the digests that it keeps."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.text_hashes import hash_lines
from corpusmill.corpus.filters.dropping import Step

# Why a document is dropped.
KNOWN = "in-data-set"

Digests = npt.NDArray[np.uint64]


def sort_digests(digests: Iterable[pa.FixedSizeBinaryArray]) -> bytes:
    """Return digests of documents, each once and in order, as `drop_known` takes them.

    Args:
        digests: columns of the table of documents, of 16 bytes each.
    """
    parts = [np.empty((0, 2), np.uint64)]
    for column in digests:
        content = column.buffers()[1]
        begin, end = column.offset, column.offset + len(column)
        parts.append(np.frombuffer(content or b"", "<u8").reshape(-1, 2)[begin:end])
    return np.unique(np.concatenate(parts), axis=0).astype("<u8").tobytes()


def drop_known(content: bytes) -> Step:
    """Make the step that drops documents with known texts.

    Args:
        content: what `sort_digests` returned.
    """
    known: Digests = np.frombuffer(content, "<u8").reshape(-1, 2).astype(np.uint64)

    def drop(documents: pa.RecordBatch, _: str) -> list[str]:
        sentences, offsets = ragged.from_arrow(documents.column("sentences"))
        text, text_offsets = ragged.from_arrow(sentences)
        hashes = hash_lines(text, offsets, text_offsets)
        return [KNOWN if is_known else "" for is_known in _are_known(known, hashes)]

    return drop


def _are_known(known: Digests, hashes: Digests) -> list[bool]:
    """Return whether each of some hashes, uint64[n, 2], is among sorted ones, uint64[m, 2]."""
    begins = np.searchsorted(known[:, 0], hashes[:, 0])
    ends = np.searchsorted(known[:, 0], hashes[:, 0], side="right")
    return [
        bool((known[begin:end, 1] == second).any())
        for begin, end, second in zip(begins, ends, hashes[:, 1], strict=True)
    ]
