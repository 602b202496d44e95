"""Where a document and an example go: split, shard, and place in the shard.

All of it is a function of the seed and of stable ids; see DESIGN of the shuffle in the README.
"""

import numpy as np
from numba import njit

from corpusmill.randomness import PLACE, SHARD, SPLIT, derive_key, derive_keys, draw

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


@njit(cache=True, nogil=True)
def place_examples(
    documents: np.ndarray,
    repeats: np.ndarray,
    indices: np.ndarray,
    splits: np.ndarray,
    shards_of_splits: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The shard of each example and its key there.

    The repeats of a document go to shards next to each other, so that no shard shows a trainer the
    same text twice in a short time.

    Args:
        documents: uint64[examples].
        repeats: integers[examples].
        indices: integers[examples], place in the document's pass.
        splits: uint8[examples].
        shards_of_splits: int64[2], number of shards of the train and of the validation split.
        seed: the data set's seed.

    Returns:
        shards: uint32[examples]; validation's follow train's.
        keys: uint64[examples], by which the rows of a shard are sorted.
    """
    shards = np.empty(len(documents), np.uint32)
    keys = np.empty(len(documents), np.uint64)
    for i in range(len(documents)):
        first = derive_key(seed, documents[i], 0, SHARD) >> np.uint64(1)
        count = shards_of_splits[splits[i]]
        shard = np.int64((np.int64(first % np.uint64(count)) + repeats[i]) % count)
        shards[i] = shard + (shards_of_splits[0] if splits[i] else 0)
        keys[i] = draw(derive_key(seed, documents[i], repeats[i], PLACE), indices[i])
    return shards, keys


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
