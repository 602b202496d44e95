"""Masks that are drawn when rows are loaded, anew in each epoch.

The masks of an example depend on its own tokens and on (seed, epoch, number of the sample), and on
nothing else: not on the batch, the worker, the rank, or what was read before. The kernels are those
that a build masks with.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import LOADED_MASK, MAX_SEED, derive_key
from corpusmill.errors import UserError
from corpusmill.objectives.columns import prediction_columns
from corpusmill.objectives.masking.masker import Masker
from corpusmill.reading.rows import Integers, Lists, Rows, Values, join_values, take_lists


@njit
def derive_mask_keys(seed: int, samples: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """The keys by which samples are masked in their epochs.

    Args:
        seed: of the masks, 0 to 2**64 - 1.
        samples: int64[rows], numbers of the samples in what is read.
        epochs: int64[rows], the epoch in which each is read.

    Returns:
        uint64[rows].
    """
    keys = np.empty(len(samples), np.uint64)
    for i in range(len(samples)):
        keys[i] = derive_key(seed, samples[i], epochs[i], LOADED_MASK)
    return keys


@dataclass(frozen=True)
class DynamicMasking:
    """The masking of the rows of one or several data sets, as they are loaded.

    Attributes:
        maskers: how each data set is masked.
        columns: of the rows before they are masked.
        seed: of the masks.
        starts: number of the first sample of each data set.
    """

    maskers: tuple[Masker, ...]
    columns: tuple[Column, ...]
    seed: int = 0
    starts: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        """Check the seed.

        Raises:
            UserError: it is out of range.
        """
        if not 0 <= self.seed <= MAX_SEED:
            cure = f"Give 0 to {MAX_SEED}"
            raise UserError(f"seed={self.seed}", "the value is out of range", cure)

    @property
    def masked_columns(self) -> tuple[Column, ...]:
        """The columns of masked rows: with predictions, and without words."""
        tokens = self.columns[0]
        kept = tuple(column for column in self.columns if column.role is not Role.WORDS)
        return kept + prediction_columns(tokens.dtype, tokens.width, tokens.width)

    def __call__(self, rows: Rows) -> Rows:
        """Mask rows; those that are given stay as they are."""
        parts = [(places, self._mask(masker, rows, places)) for masker, places in self._split(rows)]
        names = (self.columns[0].name, *(column.name for column in self.masked_columns[-2:]))
        columns: dict[str, Values] = dict(rows.columns)
        for place, name in enumerate(names):
            lists = [(places, masked[place]) for places, masked in parts]
            columns[name] = lists[0][1] if len(lists) == 1 else join_values(lists, len(rows))
        if words := column_of(self.columns, Role.WORDS):
            del columns[words.name]
        return Rows(columns, rows.samples, rows.epochs)

    def _split(self, rows: Rows) -> Iterator[tuple[Masker, Integers]]:
        """The maskers that differ, each with the places of the rows that it masks."""
        source = np.searchsorted(np.array(self.starts), rows.samples, side="right") - 1
        numbers = np.array([self.maskers.index(masker) for masker in self.maskers])
        for number in np.unique(numbers).tolist():
            yield self.maskers[number], np.flatnonzero(numbers[source] == number)

    def _mask(self, masker: Masker, rows: Rows, places: Integers) -> tuple[Lists, Lists, Lists]:
        """The masked tokens of some rows, the positions of predictions, and the original ids."""
        ids = take_lists(rows.lists(self.columns[0].name), places)
        words = column_of(self.columns, Role.WORDS) if masker.whole_words else None
        seg_labels = np.empty(0, np.int8)
        if words:
            seg_labels = take_lists(rows.lists(words.name), places).values
        keys = derive_mask_keys(np.uint64(self.seed), rows.samples[places], rows.epochs[places])
        positions, labels, ends = masker.mask(ids.values, seg_labels, ids.offsets, keys)
        return ids, Lists(positions, ends), Lists(labels, ends)
