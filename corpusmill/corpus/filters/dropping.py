"""Documents are dropped in steps, each of which sees what the ones before it have left."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Returns, for documents (rows of TEXT_SCHEMA) of a file with this name, the reason why each is
# dropped; an empty one if it is kept.
Step = Callable[[pa.RecordBatch, str], Sequence[str]]


class Screened(NamedTuple):
    """What steps have left of a batch.

    Attributes:
        documents: those that are kept.
        reasons: how many documents were dropped for each reason.
        sentences: how many sentences the dropped documents have.
    """

    documents: pa.RecordBatch
    reasons: Counter[str]
    sentences: int


def drop_documents(documents: pa.RecordBatch, file: str, steps: Iterable[Step]) -> Screened:
    """Drop documents.

    Args:
        documents: rows of TEXT_SCHEMA.
        file: name of their file.
        steps: asked one after the other.
    """
    reasons, before = Counter[str](), _count_sentences(documents)
    for step in steps:
        found = step(documents, file)
        reasons.update(filter(None, found))
        if any(found):
            documents = documents.filter(pa.array(np.array([not reason for reason in found])))
    return Screened(documents, reasons, before - _count_sentences(documents))


def join_sentences(documents: pa.RecordBatch) -> pa.StringArray:
    r"""Return the text of each document: its sentences, one on each line.

    Example:
        a document with the sentences "a ." and "b ." gives "a .\nb .".
    """
    import pyarrow.compute as pc  # noqa: PLC0415  a twentieth of a second, and few filters need it

    return pc.binary_join(documents.column("sentences"), "\n")


def text_arrays(
    texts: pa.StringArray,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Return the bytes of texts, uint8[bytes], and where each begins, int32[texts + 1]."""
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(content or b"", np.uint8), bounds


def _count_sentences(documents: pa.RecordBatch) -> int:
    return len(documents.column("sentences").flatten())
