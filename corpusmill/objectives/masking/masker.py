"""The interface for masking rows anew in each epoch, when they are loaded."""

from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.ragged import check_integers, longest_row


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


def check_rows(
    input_ids: np.ndarray,
    seg_labels: np.ndarray | None,
    offsets: np.ndarray,
    keys: np.ndarray,
    largest_id: int,
) -> None:
    """Refuse rows for which a kernel would read or write beside its arrays.

    Args:
        input_ids: integers[tokens].
        seg_labels: int8[tokens]; None if the words do not matter.
        offsets: integers[rows + 1].
        keys: uint64[rows].
        largest_id: the largest id that may replace a token.

    Raises:
        TypeError: an argument is of another type.
        ValueError: the offsets do not fit the ids, or there is another number of labels or keys.
    """
    check_integers(input_ids=input_ids, offsets=offsets, keys=keys)
    if keys.dtype != np.uint64:
        raise TypeError("keys must be of type uint64")
    if largest_id > _largest(input_ids.dtype):
        raise TypeError(f"input_ids must be of a type that holds {largest_id}")
    if longest_row(offsets, len(input_ids)) < 0:
        raise ValueError("offsets must ascend, and not exceed the number of input_ids")
    if len(keys) != len(offsets) - 1:
        raise ValueError("keys must have one number for each row")
    if seg_labels is not None:
        check_integers(seg_labels=seg_labels)
        if len(seg_labels) != len(input_ids):
            raise ValueError("seg_labels must have one number for each of input_ids")


@cache
def _largest(dtype: np.dtype) -> int:
    """Return the largest number of a type; NumPy takes a microsecond for it."""
    return int(np.iinfo(dtype).max)
