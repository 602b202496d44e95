"""Where documents and examples go: their split, their shard, and their place in the shard.

All of it is a function of the seed and of stable ids.
"""

from dataclasses import dataclass

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PLACE, SHARD, SPLIT, derive_key, derive_keys, draw

TRAIN, VALIDATION = 0, 1
SPLIT_NAMES = ("train", "validation")


def assign_splits(seed: int, documents: np.ndarray, validation_share: float) -> np.ndarray:
    """Return the split of each document, which is decided before the document is repeated.

    Args:
        seed: the data set's seed.
        documents: uint64[documents], ids.
        validation_share: expected share of the documents in the validation split, 0 to 1.

    Returns:
        uint8[documents], TRAIN or VALIDATION.
    """
    limit = np.uint64(min(int(validation_share * 2**64), 2**64 - 1))
    keys: np.ndarray = derive_keys(np.uint64(seed), documents, 0, SPLIT)
    return (keys < limit).astype(np.uint8)


def count_validation_shards(num_shards: int, validation_share: float) -> int:
    """Return the number of validation shards: in proportion, at least one if there is a share."""
    return max(1, round(num_shards * validation_share)) if validation_share else 0


@dataclass(frozen=True)
class Layout:
    """How a data set is spread over shards; the same for every runner and number of workers.

    The repeats of a document go to consecutive shards, so that a trainer does not see the same text
    twice in a short time. A document's *home* is the shard of repeat 0; repeat r goes to the r-th
    shard after it, in a circle of its split's shards.

    Attributes:
        seed: the data set's seed.
        train_shards: number of the train split's shards, which come first.
        validation_shards: number of the validation split's shards.
    """

    seed: int
    train_shards: int
    validation_shards: int

    @property
    def shards(self) -> int:
        """Number of all shards."""
        return self.train_shards + self.validation_shards

    def homes(self, documents: np.ndarray, splits: np.ndarray) -> np.ndarray:
        """Return the home of each document.

        Args:
            documents: uint64[documents], ids.
            splits: uint8[documents].

        Returns:
            uint32[documents], in [0, shards).
        """
        keys: np.ndarray = derive_keys(np.uint64(self.seed), documents, 0, SHARD)
        counts = np.array([self.train_shards, self.validation_shards], np.uint64)[splits]
        firsts = np.array([0, self.train_shards], np.uint64)[splits]
        homes: np.ndarray = (firsts + (keys >> np.uint64(1)) % counts).astype(np.uint32)
        return homes

    def split_of(self, shard: int) -> int:
        """Return the split of a shard, TRAIN or VALIDATION."""
        return VALIDATION if shard >= self.train_shards else TRAIN

    def shards_of(self, home: int, repeats: int) -> list[int]:
        """Return the shards that build the documents of a home, in the order of the repeats.

        Example:
            with five train shards, home 3 and three repeats give [3, 4, 0].
        """
        first, count = self.split_range(home)
        return [first + (home - first + repeat) % count for repeat in range(min(repeats, count))]

    def repeats_of(self, shard: int, home: int, repeats: int) -> range:
        """Return the repeats in which a shard builds the documents of a home.

        Example:
            with five train shards, shard 0 builds home 3 in the repeats 2, 7, 12, ...
        """
        _, count = self.split_range(home)
        return range((shard - home) % count, repeats, count)

    def split_range(self, shard: int) -> tuple[int, int]:
        """Return the first shard of a shard's split, and the split's number of shards."""
        if self.split_of(shard) == VALIDATION:
            return self.train_shards, self.validation_shards
        return 0, self.train_shards


@njit
def draw_keys(
    documents: np.ndarray, repeats: np.ndarray, indices: np.ndarray, seed: int
) -> np.ndarray:
    """Draw the keys by which the rows of a shard are sorted.

    Args:
        documents: uint64[examples].
        repeats: integers[examples].
        indices: integers[examples], of the example in this repeat of its document.
        seed: the data set's seed.

    Returns:
        uint64[examples].
    """
    keys = np.empty(len(documents), np.uint64)
    for i in range(len(documents)):
        keys[i] = draw(derive_key(seed, documents[i], repeats[i], PLACE), indices[i])
    return keys


def sort_order(
    keys: np.ndarray, documents: np.ndarray, repeats: np.ndarray, indices: np.ndarray
) -> np.ndarray:
    """Sort a shard's rows by (key, document, repeat, index), which is a total order.

    Args:
        keys: uint64[rows].
        documents: uint64[rows].
        repeats: integers[rows].
        indices: integers[rows].

    Returns:
        int64[rows], the number of the row for each place, as from `np.argsort`.
    """
    order = np.argsort(keys)
    ordered = keys[order]
    if len(keys) and (ordered[1:] == ordered[:-1]).any():
        return np.lexsort((indices, repeats, documents, keys))
    return order
