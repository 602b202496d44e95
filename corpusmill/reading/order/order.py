"""The order in which an epoch's samples are read: a pure function of (seed, epoch, position).

Nothing is drawn in advance and nothing is remembered. So resuming costs the same at any position,
and the number of ranks and workers changes nothing. Three steps lead from a position to a sample:

    lanes     position n is number n // lanes of lane n % lanes; each lane is a consecutive stretch
              of the order below. If the number of lanes is the number of machines (or a multiple),
              and rank r reads the positions n with n % world_size == r, then each machine reads its
              own shards.
    windows   the positions in a window are permuted.
    shards    the shards follow one another in a new order in each epoch, each from its own first
              row.

The build has put examples into shards and rows at random, so windows need not be large: from epoch
to epoch they change which examples are read together.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from corpusmill.arrays import randomness
from corpusmill.arrays.kernel_cache import njit
from corpusmill.reading.keywords import check_minimum, check_seed
from corpusmill.reading.order.permutation import permute, unpermute
from corpusmill.reading.rows import Integers


class Ordering(Protocol):
    """An order of one data set or of a mixture: from numbers in the endless sequence to samples."""

    @property
    def seed(self) -> int:
        """The seed of the order, and of batches that are arranged in it."""

    def __len__(self) -> int:
        """Return the samples of an epoch."""

    def locate(self, numbers: Integers) -> Integers:
        """Return the samples, int64[n], at the given places of the endless sequence, int64[n]."""

    def epochs(self, numbers: Integers) -> Integers:
        """Return how often each of these samples was read before, int64[n]; masks depend on it."""

    def describe(self, end: int | None = None) -> dict[str, Any]:
        """Return the parameters as JSON types; equal ones give equal orders.

        Args:
            end: what only affects this number and later ones is left out; None for nothing.
        """


@dataclass(frozen=True)
class Order:
    """An order of the samples of a data set for each epoch.

    Attributes:
        shard_sizes: samples of each shard; it is best to read a whole shard at a time.
        seed: the seed of the orders, 0 to 2**64 - 1.
        shuffle: whether to shuffle; otherwise samples are read in the order they are stored in.
        window: the number of samples that are shuffled together. It does not affect memory, but the
            number of files that are read from at a time. With `len` or more, an epoch is a
            permutation of all samples.
        lanes: the number of lanes, explained above.
    """

    shard_sizes: tuple[int, ...]
    seed: int = 0
    shuffle: bool = True
    window: int = 2**17
    lanes: int = 1
    _starts: Integers = field(init=False, repr=False, compare=False)
    _layouts: dict[int, "_Layout"] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is out of range.
        """
        check_seed(self.seed)
        check_minimum("window", self.window, 1)
        check_minimum("lanes", self.lanes, 1)
        starts = np.cumsum([0, *self.shard_sizes], dtype=np.int64)
        object.__setattr__(self, "_starts", starts)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what the receiving process computes again."""
        return {**self.__dict__, "_layouts": {}}

    def __len__(self) -> int:
        """Return the samples of an epoch."""
        return int(self._starts[-1])

    def locate(self, numbers: Integers) -> Integers:
        """Return the samples at places of the endless sequence of epochs.

        Args:
            numbers: int64[n], each epoch * len + position.

        Returns:
            int64[n], samples by their number in the data set, 0 to len - 1.

        Example:
            for 6 samples in 2 shards, the numbers 0 to 5 give all of them in the order of epoch 0,
            such as [4, 3, 5, 1, 2, 0], and 6 to 11 all of them in that of epoch 1.
        """
        numbers = np.asarray(numbers, np.int64)
        epochs, positions = np.divmod(numbers, len(self))
        if not self.shuffle:
            return positions
        samples = np.empty(len(numbers), np.int64)
        for epoch in np.unique(epochs).tolist():
            in_epoch = epochs == epoch
            layout = self._lay_out(epoch)
            samples[in_epoch] = _locate(
                positions[in_epoch], *layout, self._starts, self.window, self.lanes
            )
        return samples

    def find(self, samples: Integers, epoch: int) -> Integers:
        """Return the places in an epoch at which samples are read, int64[n].

        Args:
            samples: int64[n], 0 to len - 1.
            epoch: 0 or more.

        Example:
            if the numbers 0 to 5 give [4, 3, 5, 1, 2, 0], the samples [0, 4] are found at [5, 0] in
            epoch 0.
        """
        samples = np.asarray(samples, np.int64)
        if not self.shuffle:
            return samples
        places: Integers
        places = _find(samples, *self._lay_out(epoch), self._starts, self.window, self.lanes)
        return places

    def _lay_out(self, epoch: int) -> "_Layout":
        layout = self._layouts.get(epoch)
        if layout is None:
            layout = self._layouts[epoch] = _lay_out(self, epoch)
            # A reader needs one, and where an epoch ends two; another thread may do the same.
            for old in list(self._layouts)[:-2]:
                self._layouts.pop(old, None)
        return layout

    def epochs(self, numbers: Integers) -> Integers:
        """Return the epoch of each number, int64[n]."""
        return numbers // len(self)

    def describe(self, end: int | None = None) -> dict[str, Any]:  # noqa: ARG002  all the same
        """Return the parameters but for the shards, which the digest of the data set covers."""
        return {name: getattr(self, name) for name in ("seed", "shuffle", "window", "lanes")}


# An epoch's key, its shards in order, where each begins, and their first rows.
_Layout = tuple[np.uint64, Integers, Integers, Integers]


def _lay_out(order: Order, epoch: int) -> _Layout:
    shards = np.arange(len(order.shard_sizes), dtype=np.uint64)
    sizes = np.array(order.shard_sizes, np.int64)
    seed = np.uint64(order.seed)  # seeds from 2**63 do not fit in int64, Numba's default
    ranking = randomness.derive_keys(seed, shards, epoch, randomness.SHARD_ORDER)
    sequence = np.argsort(ranking, kind="stable").astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(sizes[sequence])]).astype(np.int64)
    rotations = _rotate(randomness.derive_keys(seed, shards, epoch, randomness.ROTATION), sizes)
    key = np.uint64(randomness.derive_key(seed, 0, epoch, randomness.WINDOW))
    return key, sequence, begins, rotations


@njit
def _rotate(keys: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    rotations = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        rotations[i] = randomness.to_below(randomness.draw(keys[i], 0), sizes[i]) if sizes[i] else 0
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
        # If the lanes do not divide the samples evenly, the first ones have one more.
        place = lane * (total // lanes) + min(lane, total % lanes) + positions[i] // lanes
        number = place // window
        begin = number * window
        size = min(window, total - begin)
        place = begin + permute(place - begin, size, randomness.draw(key, number))
        turn = np.searchsorted(begins, place, side="right") - 1
        shard = sequence[turn]
        row = place - begins[turn] + rotations[shard]
        length = starts[shard + 1] - starts[shard]
        samples[i] = starts[shard] + (row - length if row >= length else row)
    return samples


@njit
def _find(
    samples: np.ndarray,
    key: np.uint64,
    sequence: np.ndarray,
    begins: np.ndarray,
    rotations: np.ndarray,
    starts: np.ndarray,
    window: int,
    lanes: int,
) -> np.ndarray:
    """Return the places that `_locate` leads from to samples."""
    turns = np.empty(len(sequence), np.int64)
    for turn in range(len(sequence)):
        turns[sequence[turn]] = turn
    places = np.empty(len(samples), np.int64)
    total = begins[-1]
    for i in range(len(samples)):
        shard = np.searchsorted(starts, samples[i], side="right") - 1
        row = samples[i] - starts[shard] - rotations[shard]
        row += starts[shard + 1] - starts[shard] if row < 0 else 0
        place = begins[turns[shard]] + row
        number = place // window
        begin = number * window
        size = min(window, total - begin)
        place = begin + unpermute(place - begin, size, randomness.draw(key, number))
        # The first lanes may have one sample more than the others.
        whole, longer = total // lanes, total % lanes
        lane = place // (whole + 1)
        if lane >= longer:
            lane = longer + (place - longer * (whole + 1)) // max(1, whole)
        within = place - (lane * whole + min(lane, longer))
        places[i] = within * lanes + lane
    return places
