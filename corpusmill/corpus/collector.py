"""What all readers share: the documents, counts and rejects of a range, gathered for a batch."""

from abc import ABC, abstractmethod

import pyarrow as pa

from corpusmill.corpus.batches import DocumentBatch, ReadCounts, Reject
from corpusmill.corpus.file_range import FileRange

# A batch ends early at this many rejects, so that a file of nothing else needs little memory.
REJECTS_PER_BATCH = 1000


class Collector(ABC):
    """Gathers what is read of a range until it is taken as a batch.

    Args:
        part: the range.

    Attributes:
        part: the range.
        rejects: those since the last `take`.
        counts: what was read since the last `take`.
        text_bytes: text of the documents that are complete, about.
    """

    # The share of `part.batch_bytes` that fills a batch.
    enough = 1.0

    def __init__(self, part: FileRange) -> None:
        self.part = part
        self._start_batch()

    def _start_batch(self) -> None:
        self.rejects: list[Reject] = []
        self.counts, self.text_bytes = ReadCounts(), 0

    def refuse(self, offset: int, length: int, reason: str, detail: str) -> None:
        """Add a reject; see `Reject` for the values."""
        self.rejects.append(self.part.reject(offset, length, reason, detail))

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a batch."""
        is_large = self.text_bytes >= self.enough * self.part.batch_bytes
        return is_large or len(self.rejects) >= REJECTS_PER_BATCH

    @abstractmethod
    def take(self) -> DocumentBatch:
        """Return the complete documents, with the counts and rejects; keep an open one."""

    def close(self) -> None:  # noqa: B027  most collectors have nothing open
        """End the open document at the end of the file, or of what can be read of it."""

    def _to_batch(self, documents: pa.RecordBatch) -> DocumentBatch:
        batch = DocumentBatch(documents, tuple(self.rejects), self.counts)
        self._start_batch()
        return batch
