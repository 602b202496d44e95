"""What all readers share: the documents, counts and rejects of a range, gathered for a batch."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.corpus.batches import (
    TOLD_REJECTS,
    DocumentBatch,
    FileRange,
    ReadCounts,
    Reject,
    RejectColumns,
)

# A batch ends early at this many rejects, so that a file of nothing else needs little memory.
REJECTS_PER_BATCH = 2**14


class Collector(ABC):
    """Gathers what is read of a range until it is taken as a batch.

    Args:
        part: the range.

    Attributes:
        part: the range.
        rejects: those since the last `take` that have an entry of their own.
        counts: what was read since the last `take`.
        text_bytes: text of the documents that are complete, about.
    """

    # The share of `part.batch_bytes` that fills a batch.
    enough = 1.0
    # How many rejects of each reason have an entry of their own, with details.
    told_rejects = TOLD_REJECTS

    def __init__(self, part: FileRange) -> None:
        self.part = part
        self._told = Counter[str]()
        self._start_batch()

    def _start_batch(self) -> None:
        self.rejects: list[Reject] = []
        self._untold: list[RejectColumns] = []
        # Of rejects that come alone, the offset, length and row, by reason.
        self._single: dict[str, list[tuple[int, int, int | None]]] = {}
        self._more_rejects = 0
        self.counts, self.text_bytes = ReadCounts(), 0

    @property
    def num_rejects(self) -> int:
        """Rejects since the last `take`."""
        return len(self.rejects) + self._more_rejects

    def refuse(
        self, offset: int, length: int, reason: str, detail: str, row: int | None = None
    ) -> None:
        """Add a reject; see `Reject` for the values."""
        if length < 0 or self._told[reason] < self.told_rejects:
            self._told[reason] += 1
            self.rejects.append(self.part.reject(offset, length, reason, detail, row))
        else:
            self._single.setdefault(reason, []).append((offset, length, row))
            self._more_rejects += 1

    def refuse_many(
        self,
        offsets: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        reason: str,
        explain: Callable[[int], str],
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Add rejects of one reason in ascending order.

        Args:
            offsets: int64[n].
            lengths: int64[n], none of them -1.
            reason: of all of them.
            explain: returns the detail of one of them, by its index; called for the first ones.
            rows: int64[n]; None outside of tables.
        """
        few = min(len(offsets), max(0, self.told_rejects - self._told[reason]))
        for index in range(few):
            row = None if rows is None else int(rows[index])
            place = int(offsets[index]), int(lengths[index])
            self.refuse(*place, reason, explain(index), row)
        if few < len(offsets):
            rest = None if rows is None else rows[few:]
            columns = RejectColumns(self.part.file, reason, offsets[few:], lengths[few:], rest)
            self._untold.append(columns)
            self._more_rejects += len(columns)

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a batch."""
        is_large = self.text_bytes >= self.enough * self.part.batch_bytes
        return is_large or self.num_rejects >= REJECTS_PER_BATCH

    @abstractmethod
    def take(self) -> DocumentBatch:
        """Return the complete documents, with the counts and rejects; keep an open one."""

    def close(self) -> None:  # noqa: B027  most collectors have nothing open
        """End the open document at the end of the file, or of what can be read of it."""

    def _to_batch(self, documents: pa.RecordBatch) -> DocumentBatch:
        for reason, places in self._single.items():
            offsets, lengths, rows = zip(*places, strict=True)
            has_rows = rows[0] is not None
            columns = (np.array(offsets, np.int64), np.array(lengths, np.int64))
            numbers = np.array(rows, np.int64) if has_rows else None
            self._untold.append(RejectColumns(self.part.file, reason, *columns, numbers))
        rejects = tuple(sorted(self.rejects, key=attrgetter("place")))
        batch = DocumentBatch(documents, rejects, self.counts, tuple(self._untold))
        self._start_batch()
        return batch
