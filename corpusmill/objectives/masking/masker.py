"""The interface for masking rows anew in each epoch, when they are loaded."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Masker(Protocol):
    """Masks an objective's rows with the kernels that a build uses; equal maskers mask alike."""

    @property
    def whole_words(self) -> bool:
        """Whether the words of the rows must be known."""

    def mask(
        self,
        input_ids: np.ndarray,
        seg_labels: np.ndarray,
        offsets: npt.NDArray[np.int64],
        keys: npt.NDArray[np.uint64],
    ) -> tuple[np.ndarray, np.ndarray, npt.NDArray[np.int64]]:
        """Mask rows in place.

        Args:
            input_ids: integers[tokens], changed.
            seg_labels: int8[tokens], the words; empty if `whole_words` is false.
            offsets: int64[rows + 1].
            keys: uint64[rows], one for each row's draws.

        Returns:
            positions: integers[predictions], ascending in each row.
            labels: integers[predictions], the original ids.
            prediction_offsets: int64[rows + 1].
        """
