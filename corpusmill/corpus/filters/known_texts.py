"""Documents whose text a data set holds already, found by the digests that it keeps."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.document_facts import digests_of
from corpusmill.corpus.filters.dropping import Step

# Why a document is dropped.
KNOWN = "in-data-set"
# What a run without any new document says; its command recognizes it by this text.
NOTHING_LEFT = "The data set holds all documents of the input already; nothing is left to add"


def sort_digests(digests: Iterable[pa.UInt64Array]) -> bytes:
    """Return digests of documents, each once and in order, as `drop_known` takes them.

    Args:
        digests: columns of the table of documents.
    """
    parts = [np.empty(0, np.uint64), *(column.to_numpy() for column in digests)]
    return np.unique(np.concatenate(parts)).astype("<u8").tobytes()


def drop_known(content: bytes) -> Step:
    """Make the step that drops documents with known texts.

    Args:
        content: what `sort_digests` returned.
    """
    # Every process holds them, so that they are not copied.
    known: npt.NDArray[np.uint64] = np.frombuffer(content, "<u8").astype(np.uint64, copy=False)

    def drop(documents: pa.RecordBatch, _: str) -> list[str]:
        digests = digests_of(documents)
        places = np.searchsorted(known, digests)
        are_known = places < np.searchsorted(known, digests, side="right")
        return [KNOWN if is_known else "" for is_known in are_known.tolist()]

    return drop
