"""Where a document and an example go: split, shard, and place in the shard.

All of it is a function of the seed and of stable ids; see DESIGN of the shuffle in the README.
"""

from dataclasses import dataclass

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PLACE, SHARD, SPLIT, derive_key, derive_keys, draw

TRAIN, VALIDATION = 0, 1
SPLIT_NAMES = ("train", "validation")


def assign_splits(seed: int, documents: np.ndarray, validation_share: float) -> np.ndarray:
    """The split of each document, decided before it is repeated.

    Args:
        seed: the data set's seed.
        documents: uint64[documents], ids.
        validation_share: expected share of documents in the validation split.

    Returns:
        uint8[documents], TRAIN or VALIDATION.
    """
    limit = np.uint64(min(int(validation_share * 2**64), 2**64 - 1))
    keys: np.ndarray = derive_keys(np.uint64(seed), documents, 0, SPLIT)
    return (keys < limit).astype(np.uint8)


def count_validation_shards(num_shards: int, validation_share: float) -> int:
    """Shards of the validation split: in proportion, at least one where there is a split."""
    return max(1, round(num_shards * validation_share)) if validation_share else 0


@dataclass(frozen=True)
class Layout:
    """How a data set is spread over shards; the same for every runner and number of workers.

    The repeats of a document go to shards next to each other, so that no shard shows a trainer the
    same text twice in a short time: its *home* is the shard of repeat 0, and repeat r goes to the
    r-th shard behind it, round and round within its split.

    Attributes:
        seed: the data set's seed.
        train_shards: number of the train split's shards.
        validation_shards: number of the validation split's shards, which follow.
    """

    seed: int
    train_shards: int
    validation_shards: int

    @property
    def shards(self) -> int:
        """All shards."""
        return self.train_shards + self.validation_shards

    def homes(self, documents: np.ndarray, splits: np.ndarray) -> np.ndarray:
        """The home of each document.

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
        """TRAIN or VALIDATION."""
        return VALIDATION if shard >= self.train_shards else TRAIN

    def shards_of(self, home: int, repeats: int) -> list[int]:
        """The shards that build documents of a home, in the order of the repeats.

        Example:
            of five train shards, home 3 and three repeats are the shards [3, 4, 0].
        """
        first, count = self._stretch(home)
        return [first + (home - first + repeat) % count for repeat in range(min(repeats, count))]

    def repeats_of(self, shard: int, home: int, repeats: int) -> range:
        """The repeats with which a shard builds the documents of a home.

        Example:
            of five train shards, shard 0 builds home 3 with the repeats 2, 7, 12, ...
        """
        _, count = self._stretch(home)
        return range((shard - home) % count, repeats, count)

    def _stretch(self, shard: int) -> tuple[int, int]:
        """The first shard of the split that a shard is of, and the split's number of shards."""
        if self.split_of(shard) == VALIDATION:
            return self.train_shards, self.validation_shards
        return 0, self.train_shards


@njit
def draw_keys(
    documents: np.ndarray, repeats: np.ndarray, indices: np.ndarray, seed: int
) -> np.ndarray:
    """The keys by which the rows of a shard are sorted.

    Args:
        documents: uint64[examples].
        repeats: integers[examples].
        indices: integers[examples], place in the document's pass.
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
    """The order of a shard's rows: by (key, document, repeat, index), which is total.

    Args:
        keys: uint64[rows].
        documents: uint64[rows].
        repeats: integers[rows].
        indices: integers[rows].

    Returns:
        int64[rows], as `np.argsort` gives it.
    """
    order = np.argsort(keys)
    ordered = keys[order]
    if len(keys) and (ordered[1:] == ordered[:-1]).any():
        return np.lexsort((indices, repeats, documents, keys))
    return order
