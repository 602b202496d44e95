"""The interface for corrupting rows of encoder-decoders anew in each epoch, and its own one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.ragged import check_integers
from corpusmill.objectives.denoising.denoisers import Denoiser, DenoiserTable, measure_spans
from corpusmill.objectives.denoising.spans import CorruptedRows, corrupt_rows


class Corrupter(Protocol):
    """Makes inputs and targets of rows with the kernels of a build; equal ones corrupt alike."""

    @property
    def longest_input(self) -> int:
        """The most tokens of an input."""

    @property
    def longest_target(self) -> int:
        """The most tokens of targets."""

    def corrupt(
        self,
        token_ids: np.ndarray,
        bounds: npt.NDArray[np.int64],
        kinds: npt.NDArray[np.int64],
        keys: npt.NDArray[np.uint64],
    ) -> CorruptedRows:
        """Make the inputs and targets of rows.

        Args:
            token_ids: integers[tokens], not changed.
            bounds: int64[rows, 2], where each row begins and ends.
            kinds: int64[rows], the class of each row if rows are of classes that are corrupted in
                different ways, otherwise 0.
            keys: uint64[rows], one for each row's draws.
        """


@dataclass(frozen=True)
class SpanCorrupter:
    """Corrupts spans of rows.

    Attributes:
        denoisers: how rows are corrupted; the class of a row is the number of its denoiser.
        tokens: the most tokens of a row of each denoiser.
        sentinel_ids: the ids of sentinels in their order, as many as a row has spans at most.
        end_id: the id of the token that ends inputs and targets.
        mode_ids: for each denoiser the id of the token that begins inputs; empty for none.
    """

    denoisers: tuple[Denoiser, ...]
    tokens: tuple[int, ...]
    sentinel_ids: tuple[int, ...]
    end_id: int
    mode_ids: tuple[int, ...] = ()

    @property
    def longest_input(self) -> int:
        """The most tokens of an input, with sentinels, mode and its end token."""
        return max(inputs for inputs, _ in self._lengths) + (1 if self.mode_ids else 0)

    @property
    def longest_target(self) -> int:
        """The most tokens of targets, with sentinels and their end token."""
        return max(targets for _, targets in self._lengths)

    def corrupt(
        self, token_ids: np.ndarray, bounds: np.ndarray, kinds: np.ndarray, keys: np.ndarray
    ) -> CorruptedRows:
        """Make the inputs and targets of rows.

        Raises:
            TypeError: an argument is of another type.
            ValueError: the arrays do not fit one another, a class has no denoiser, or a row needs
                more sentinels than there are.
        """
        check_integers(token_ids=token_ids, bounds=bounds.ravel(), kinds=kinds, keys=keys)
        if keys.dtype != np.uint64:
            raise TypeError("keys must be of type uint64")
        corrupted: CorruptedRows = corrupt_rows(
            token_ids, bounds, kinds, keys, self._table, self._sentinels, self.end_id
        )
        return corrupted

    @cached_property
    def _lengths(self) -> list[tuple[int, int]]:
        return [
            measure_spans(tokens, *denoiser)
            for tokens, denoiser in zip(self.tokens, self.denoisers, strict=True)
        ]

    @cached_property
    def _table(self) -> DenoiserTable:
        densities, span_lengths = np.array(self.denoisers, np.float64).T.copy()
        modes = np.array(self.mode_ids or [-1] * len(self.denoisers), np.int64)
        return DenoiserTable(densities, span_lengths, modes)

    @cached_property
    def _sentinels(self) -> np.ndarray:
        return np.array(self.sentinel_ids, np.int64)
