"""Texts that an objective cuts before they are tokenized, so that no token crosses a cut."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class TextCuts(Protocol):
    """Where texts are cut; frozen, small and hashable, as it travels to the workers.

    The cuts of a text depend on its document's id and the seed alone.
    """

    def __call__(
        self,
        documents: npt.NDArray[np.uint64],
        text: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Cut the texts of documents into pieces, of which some may be empty.

        Args:
            documents: uint64[documents], their ids.
            text: uint8[bytes], valid UTF-8.
            offsets: int64[documents + 1] into text.

        Returns:
            pieces: int64[pieces + 1] into text.
            document_offsets: int64[documents + 1] into the pieces; each document has at least one.
        """

    def __hash__(self) -> int:
        """Two that cut in the same way have the same hash."""
