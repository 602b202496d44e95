"""What is read at a time: a range of an input file, and the rules by which it is read."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusmill.corpus.batches import Reject, document_id
from corpusmill.corpus.options import DocumentOptions

# A longer detail of a reject is cut: it may quote names of any length.
_MAX_DETAIL = 1000


@dataclass(frozen=True)
class FileRange:
    """A byte range of an input file. Formats that are not cut into ranges read the whole file.

    Attributes:
        file: name of the file for its rejects; its suffix tells the format where no option does.
        file_index: its place in the sorted list of inputs.
        options: how the file becomes documents.
        start: first byte of the range.
        end: byte after the range; None for the end of the file.
        batch_bytes: how much is read at a time, and about how much text a batch has.

    Raises:
        UserError: the file's index does not fit a document id.
    """

    file: str
    file_index: int
    options: DocumentOptions
    start: int = 0
    end: int | None = None
    batch_bytes: int = 2**20

    def __post_init__(self) -> None:
        document_id(self.file_index, 0)

    @property
    def limits(self) -> tuple[int, int]:
        """The first byte of the range and the byte after it, which may lie beyond the file."""
        return self.start, 2**62 if self.end is None else self.end

    def holds(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return bool[n], whether each of some bytes of the file lies in the range."""
        start, end = self.limits
        return (offsets >= start) & (offsets < end)

    def ids(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return the ids, uint64[n], of documents that start at some bytes in ascending order.

        Raises:
            UserError: an offset does not fit a document id.
        """
        if len(offsets):
            document_id(self.file_index, int(offsets[-1]))
        return offsets.astype(np.uint64) + np.uint64(document_id(self.file_index, 0))

    def reject(
        self, offset: int, length: int, reason: str, detail: str, row: int | None = None
    ) -> Reject:
        """Make a reject of this file; see `Reject` for the values."""
        if len(detail) > _MAX_DETAIL:
            detail = f"{detail[:_MAX_DETAIL]}..."
        return Reject(self.file, offset, length, reason, detail, row)
