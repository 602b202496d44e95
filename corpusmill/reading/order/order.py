"""The order in which an epoch's samples are read: a pure function of (seed, epoch, position).

Nothing is drawn in advance and nothing is remembered, so that going on at any position costs the
same, and how many ranks and workers read changes nothing. From a position to a sample in three
steps:

    lanes     position n is number n // lanes of lane n % lanes, and each lane is a stretch of the
              order behind it. With as many lanes as machines (or a multiple), where rank r reads
              the positions that leave r when divided by the world size, each machine reads shards
              of its own.
    windows   positions in a window of so many are permuted among each other.
    shards    shards follow each other in an order of their own in each epoch, each begun at a row
              of its own.

The build has put examples into shards and rows at random, so that windows need not be large: what
they change from epoch to epoch is which examples come together.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import (
    MAX_SEED,
    ROTATION,
    SHARD_ORDER,
    WINDOW,
    derive_key,
    derive_keys,
    draw,
    to_below,
)
from corpusmill.errors import UserError
from corpusmill.reading.order.permutation import permute

Integers = npt.NDArray[np.int64]


class Ordering(Protocol):
    """From the endless row of numbers to samples: an order of one data set, or of a mixture."""

    @property
    def seed(self) -> int:
        """Of all that is drawn, also by those who arrange batches in this order."""

    def __len__(self) -> int:
        """Samples of an epoch."""

    def locate(self, numbers: Integers) -> Integers:
        """int64[n]: the samples that are read at the given places of the row, int64[n]."""

    def epochs(self, numbers: Integers) -> Integers:
        """int64[n]: how often each of these samples was read before; masks are drawn by it."""

    def describe(self) -> dict[str, Any]:
        """Its parameters in JSON's own types; orders are the same where these are."""


@dataclass(frozen=True)
class Order:
    """An order of the samples of a data set for each epoch.

    Attributes:
        shard_sizes: samples of each shard; a shard is what is better read as a whole.
        seed: of the orders, 0 to 2**64 - 1.
        shuffle: whether there is any; without, samples follow each other as they are stored.
        window: how many samples are shuffled among each other. Memory does not grow with it, but
            the files that are read from at the same time do; what `len` gives, or more, is a
            permutation of all.
        lanes: see the module.
    """

    shard_sizes: tuple[int, ...]
    seed: int = 0
    shuffle: bool = True
    window: int = 2**17
    lanes: int = 1
    _starts: Integers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no order can be made with.
        """
        _check("seed", self.seed, 0 <= self.seed <= MAX_SEED, f"0 to {MAX_SEED}")
        _check("window", self.window, self.window >= 1, "1 and more")
        _check("lanes", self.lanes, self.lanes >= 1, "1 and more")
        starts = np.concatenate([[0], np.cumsum(self.shard_sizes, dtype=np.int64)])
        object.__setattr__(self, "_starts", starts.astype(np.int64))

    def __len__(self) -> int:
        """Samples of an epoch."""
        return int(self._starts[-1])

    def locate(self, numbers: Integers) -> Integers:
        """Which samples are read at places of the endless row of epochs.

        Args:
            numbers: int64[n], each epoch * len + position.

        Returns:
            int64[n], samples by their number in the data set, 0 to len - 1.

        Example:
            of 6 samples in 2 shards, the numbers 0 to 5 give all of them in the order of epoch 0,
            such as [4, 3, 5, 1, 2, 0], and 6 to 11 all of them in that of epoch 1.
        """
        numbers = np.asarray(numbers, np.int64)
        epochs, positions = np.divmod(numbers, len(self))
        if not self.shuffle:
            return positions
        samples = np.empty(len(numbers), np.int64)
        for epoch in np.unique(epochs).tolist():
            of_epoch = epochs == epoch
            layout = _lay_out(self, epoch)
            samples[of_epoch] = _locate(
                positions[of_epoch], *layout, self._starts, self.window, self.lanes
            )
        return samples

    def epochs(self, numbers: Integers) -> Integers:
        """See Ordering."""
        return numbers // len(self)

    def describe(self) -> dict[str, Any]:
        """See Ordering. Without the shards, which the digest of the data set tells."""
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "window": self.window,
            "lanes": self.lanes,
        }


@lru_cache(maxsize=8)
def _lay_out(order: Order, epoch: int) -> tuple[np.uint64, Integers, Integers, Integers]:
    """An epoch's key, its shards in their order, where they begin in it, and their first rows."""
    shards = np.arange(len(order.shard_sizes), dtype=np.uint64)
    sizes = np.array(order.shard_sizes, np.int64)
    seed = np.uint64(order.seed)  # seeds above 2**63 fit no int64, which Numba would take it for
    by = derive_keys(seed, shards, epoch, SHARD_ORDER)
    sequence = np.argsort(by, kind="stable").astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(sizes[sequence])]).astype(np.int64)
    rotations = _rotate(derive_keys(seed, shards, epoch, ROTATION), sizes)
    key = np.uint64(derive_key(seed, 0, epoch, WINDOW))
    return key, sequence, begins, rotations


@njit
def _rotate(keys: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    rotations = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        rotations[i] = to_below(draw(keys[i], 0), sizes[i]) if sizes[i] else 0
    return rotations


@njit
def _locate(
    positions: np.ndarray,
    key: np.uint64,
    sequence: np.ndarray,
    begins: np.ndarray,
    rotations: np.ndarray,
    starts: np.ndarray,
    window: int,
    lanes: int,
) -> np.ndarray:
    samples = np.empty(len(positions), np.int64)
    total = begins[-1]
    for i in range(len(positions)):
        lane = positions[i] % lanes
        # The first lanes have one sample more where the lanes do not divide them evenly.
        place = lane * (total // lanes) + min(lane, total % lanes) + positions[i] // lanes
        number = place // window
        begin = number * window
        size = min(window, total - begin)
        place = begin + permute(place - begin, size, draw(key, number))
        found = np.searchsorted(begins, place, side="right") - 1
        shard = sequence[found]
        row = place - begins[found] + rotations[shard]
        length = starts[shard + 1] - starts[shard]
        samples[i] = starts[shard] + (row - length if row >= length else row)
    return samples


def _check(name: str, value: object, fine: bool, allowed: str) -> None:
    if not fine:
        raise UserError(f"{name}={value}", "the value is out of range", f"Give {allowed}")
