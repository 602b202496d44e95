"""Masks that are drawn when rows are loaded, anew in each epoch.

The masks of an example depend only on its own tokens and on (seed, epoch, number of the sample):
not on the batch, the worker, the rank, or what was read before. The kernels are those of builds.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import longest_row
from corpusmill.arrays.randomness import LOADED_MASK, derive_key
from corpusmill.objectives.columns import prediction_columns
from corpusmill.objectives.masking.masker import Masker
from corpusmill.reading.collate.sources import split_by_maker
from corpusmill.reading.keywords import check_seed
from corpusmill.reading.rows import Integers, Lists, Part, Rows, Values, gather_lists


@njit
def derive_mask_keys(seed: int, samples: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """Return the keys by which samples are masked in their epochs.

    Args:
        seed: the seed of the masks, 0 to 2**64 - 1.
        samples: int64[rows], the numbers of the samples.
        epochs: int64[rows], the epoch in which each is read.

    Returns:
        uint64[rows].
    """
    if len(epochs) != len(samples):
        raise ValueError("epochs must be as many as samples")
    keys = np.empty(len(samples), np.uint64)
    for i in range(len(samples)):
        keys[i] = derive_key(seed, samples[i], epochs[i], LOADED_MASK)
    return keys


@dataclass(frozen=True)
class DynamicMasking:
    """Masks the rows of one or several data sets as they are loaded.

    Attributes:
        maskers: the masker of each data set.
        columns: the columns of the rows before they are masked.
        seed: the seed of the masks.
        starts: the number of each data set's first sample.
    """

    maskers: tuple[Masker, ...]
    columns: tuple[Column, ...]
    seed: int = 0
    starts: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        """Check the seed.

        Raises:
            UserError: the seed is out of range.
        """
        check_seed(self.seed)

    @cached_property
    def masked_columns(self) -> tuple[Column, ...]:
        """The columns of masked rows, with predictions and without words."""
        tokens = self.columns[0]
        kept = tuple(column for column in self.columns if column.role is not Role.WORDS)
        return kept + prediction_columns(tokens.dtype, tokens.width, tokens.width)

    def __call__(self, rows: Rows) -> Rows:
        """Return masked rows; the given ones are not changed.

        Raises:
            ValueError: columns differ in their number of rows, or offsets do not fit their values.
        """
        for column in rows.columns.values():
            if isinstance(column, Lists) and len(column.offsets) != len(rows) + 1:
                raise ValueError("columns must have a row for each sample")
        split = split_by_maker(self.maskers, self.starts, rows.samples)
        parts = [(places, self._mask(masker, rows, places)) for masker, places in split]
        names = (self.columns[0].name, *(column.name for column in self.masked_columns[-2:]))
        columns: dict[str, Values] = dict(rows.columns)
        for i, name in enumerate(names):
            lists = [Part(masked[i], np.arange(len(places)), places) for places, masked in parts]
            columns[name] = lists[0].values if len(lists) == 1 else gather_lists(lists, len(rows))
        if words := column_of(self.columns, Role.WORDS):
            del columns[words.name]
        return Rows(columns, rows.samples, rows.epochs)

    def _mask(self, masker: Masker, rows: Rows, places: Integers) -> tuple[Lists, Lists, Lists]:
        """Return the masked tokens of some rows, the predicted positions, and the original ids."""
        ids = _take_lists(rows.lists(self.columns[0].name), places)
        words = column_of(self.columns, Role.WORDS) if masker.whole_words else None
        seg_labels = np.empty(0, np.int8)
        if words:
            seg_labels = _take_lists(rows.lists(words.name), places).values
        keys = derive_mask_keys(np.uint64(self.seed), rows.samples[places], rows.epochs[places])
        positions, labels, ends = masker.mask(ids.values, seg_labels, ids.offsets, keys)
        return ids, Lists(positions, ends), Lists(labels, ends)


def _take_lists(lists: Lists, rows: Integers) -> Lists:
    """Return a copy of some lists, with offsets from 0."""
    if longest_row(lists.offsets, len(lists.values)) < 0:
        raise ValueError("offsets must ascend, and not exceed the number of values")
    return gather_lists([Part(lists, rows, np.arange(len(rows)))], len(rows))
