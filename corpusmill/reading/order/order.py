"""The order in which an epoch's samples are read: a pure function of (seed, epoch, position).

Nothing is drawn in advance and nothing is remembered. So resuming costs the same at any position,
and the number of ranks and workers changes nothing. Four steps lead from a position to a sample:

    lanes     position n is number n // lanes of lane n % lanes; each lane is a consecutive stretch
              of the order below. If the number of lanes is the number of machines (or a multiple),
              and rank r reads the positions n with n % world_size == r, then each machine reads its
              own shards.
    windows   the positions in a window are permuted.
    streams   a window takes the next rows of each stream, in proportion to the streams' rows. A
              part of a data set, such as a source, is one stream; where its shards are larger than
              windows, it is several, which are read side by side.
    shards    the shards of a stream follow one another in a new order in each epoch, each from its
              own first row. From the second epoch on, the rows of shards that are larger than
              windows are read in blocks, in a new order, too.

The build has put the examples of a part into shards and rows at random, so windows need not be
large: from epoch to epoch they change which examples are read together. The first epoch has none
before it that it must differ from: it reads rows as they follow one another, so that a reader waits
for few of them.

Numbers of any range are permuted by a function that needs no memory. Source: Black and Rogaway
2002, "Ciphers with Arbitrary Finite Domains": a Feistel network over two digits, the left in Z_a
and the right in Z_b, where a * b is at least the size of the range. A result past the end of the
range is permuted again until it falls within it (cycle walking).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from corpusmill.arrays import randomness
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below
from corpusmill.reading.rows import Integers, check_minimum, check_seed


@njit
def _shape(size: int) -> tuple[int, int, int]:
    """Return how many values both digits have, and the number of rounds."""
    left_size = int(np.ceil(np.sqrt(size)))
    right_size = (size + left_size - 1) // left_size
    # Each round changes both digits. Small ranges need more rounds until any two numbers go to any
    # two places equally often, and tiny ones until all permutations occur equally often.
    rounds = 3 if size > 1024 else 4 if size > 64 else 12 if size > 1 else 0
    return left_size, right_size, rounds


@njit
def permute(index: int, size: int, key: np.uint64) -> int:
    """Return the place of one number in a permutation of the numbers below `size`.

    Args:
        index: 0 to size - 1.
        size: 1 to 2**60.
        key: selects the permutation. If a * b is the size, possibly only the even permutations
            occur.

    Returns:
        an integer in [0, size), different for each index.

    Example:
        with size 5, some key gives 3, 0, 4, 1, 2 for the indices 0 to 4.
    """
    left_size, right_size, rounds = _shape(size)
    while True:
        right = index // left_size
        left = index - right * left_size
        for turn in range(rounds):
            left += to_below(draw(key, 2 * turn * 2**32 + right), left_size)
            if left >= left_size:
                left -= left_size
            right += to_below(draw(key, (2 * turn + 1) * 2**32 + left), right_size)
            if right >= right_size:
                right -= right_size
        index = right * left_size + left
        if index < size:
            return index


@njit
def unpermute(place: int, size: int, key: np.uint64) -> int:
    """Return the number that `permute` puts at a place: its inverse, for the same size and key.

    Args:
        place: 0 to size - 1.
        size: 1 to 2**60.
        key: selects the permutation.
    """
    left_size, right_size, rounds = _shape(size)
    while True:
        right = place // left_size
        left = place - right * left_size
        for turn in range(rounds - 1, -1, -1):
            right -= to_below(draw(key, (2 * turn + 1) * 2**32 + left), right_size)
            if right < 0:
                right += right_size
            left -= to_below(draw(key, 2 * turn * 2**32 + right), left_size)
            if left < 0:
                left += left_size
        place = right * left_size + left
        if place < size:
            return place


# The largest number of samples whose shares `floor_share` finds.
LARGEST_WHOLE = 2**50


@njit
def floor_share(place: int, part: int, whole: int) -> int:
    """Return place * part / whole, rounded down.

    A float64 is close to it. The remainder shows the error; it is small, and so it is right even
    where the products have wrapped around.

    Args:
        place: 0 to `whole`.
        part: 0 to `whole`.
        whole: 1 to LARGEST_WHOLE.

    Example:
        place 7 of 10 and part 3 give 2.
    """
    floor = int(np.float64(place) * (np.float64(part) / np.float64(whole)))
    remainder = place * part - floor * whole
    while remainder < 0:
        floor -= 1
        remainder += whole
    while remainder >= whole:
        floor += 1
        remainder -= whole
    return floor


@njit
def round_share(place: int, part: int, whole: int) -> int:
    """Return place * part / whole, rounded half up, as `floor_share` does."""
    floor: int = floor_share(place, part, whole)
    remainder = place * part - floor * whole
    return floor + 1 if remainder >= whole - remainder else floor


# Samples that are shuffled together by default.
WINDOW = 2**17

# In how many blocks a window takes the rows of shards that are larger than windows.
_BLOCKS = 512


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
    """An order of the samples of a data set for each epoch; `Samples.order` makes the usual one.

    Attributes:
        shard_sizes: samples of each shard; it is best to read a whole shard at a time.
        seed: the seed of the orders, 0 to 2**64 - 1.
        shuffle: whether to shuffle; otherwise samples are read in the order they are stored in.
        window: the number of samples that are shuffled together. It does not affect memory, but the
            number of files that are read from at a time. With `len` or more, an epoch is a
            permutation of all samples.
        lanes: the number of lanes, explained above.
        parts: the part of the data set that each shard belongs to, a number from 0; empty where all
            shards are random samples of the same text. Each window has rows of all parts, in
            proportion to their rows.
        slices: from how many shards at least a window takes rows, if there are as many; it matters
            where shards are larger than windows. 1 leaves them in one stream.
    """

    shard_sizes: tuple[int, ...]
    seed: int = 0
    shuffle: bool = True
    window: int = WINDOW
    lanes: int = 1
    parts: tuple[int, ...] = ()
    slices: int = 1
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
        check_minimum("slices", self.slices, 1)
        starts = np.cumsum([0, *self.shard_sizes], dtype=np.int64)
        object.__setattr__(self, "_starts", starts)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what the receiving process computes again."""
        kept = {name: value for name, value in self.__dict__.items() if name != "_streams"}
        return {**kept, "_layouts": {}}

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
                positions[in_epoch], layout, self._starts, self.window, self.lanes
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
        places = _find_places(samples, self._lay_out(epoch), self._starts, self.window, self.lanes)
        return places

    @cached_property
    def _streams(self) -> "_Streams":
        return _divide(self)

    def _lay_out(self, epoch: int) -> "_Layout":
        layout = self._layouts.get(epoch)
        if layout is None:
            layout = self._layouts[epoch] = _lay_out(self, self._streams, epoch)
            # A reader needs one, and where an epoch ends two; another thread may do the same.
            for old in list(self._layouts)[:-2]:
                self._layouts.pop(old, None)
        return layout

    def epochs(self, numbers: Integers) -> Integers:
        """Return the epoch of each number, int64[n]."""
        return numbers // len(self)

    def describe(self, end: int | None = None) -> dict[str, Any]:  # noqa: ARG002  all the same
        """Return the parameters but for the shards, which the digest of the data set covers."""
        values = {name: getattr(self, name) for name in ("seed", "shuffle", "window", "lanes")}
        streams = int(self._streams.firsts[-1]) if self.shuffle else 1
        is_divided = streams > 1 or bool(self.shuffle and self._streams.in_blocks.any())
        # The plain order of one part has no more parameters.
        return {**values, "streams": streams, "slices": self.slices} if is_divided else values


class _Streams(NamedTuple):
    """How the parts of a data set are divided into streams.

    Attributes:
        parts: int64[shards], the part of each shard.
        firsts: int64[parts + 1], the number of each part's first stream, and that of all streams.
        in_blocks: bool[parts], whether rows are read in blocks after the first epoch, as its
            shards are larger than windows.
    """

    parts: Integers
    firsts: Integers
    in_blocks: npt.NDArray[np.bool_]


class _Layout(NamedTuple):
    """The shards of an epoch, stream after stream.

    Attributes:
        key: of the permutations of windows.
        sequence: int64[shards], the shards in the order in which they are read.
        begins: int64[shards + 1], where each begins in the sequence of all samples.
        streams: int64[streams + 1], where each stream begins there.
        rotations: int64[shards], the row that is read first of each shard.
        keys: uint64[shards], of the order of a shard's blocks.
        in_blocks: bool[shards], whether the rows of a shard are read in blocks in this epoch.
    """

    key: np.uint64
    sequence: Integers
    begins: Integers
    streams: Integers
    rotations: Integers
    keys: npt.NDArray[np.uint64]
    in_blocks: npt.NDArray[np.bool_]


def _divide(order: Order) -> _Streams:
    sizes = np.array(order.shard_sizes, np.int64)
    parts = np.array(order.parts, np.int64) if order.parts else np.zeros(len(sizes), np.int64)
    count = int(parts.max()) + 1 if len(parts) else 1
    rows = np.bincount(parts, sizes, count)
    shards = np.bincount(parts, sizes > 0, count)
    # A part with fewer shards than there are windows has larger ones than its share of a window.
    in_blocks = (order.slices > 1) & (shards * order.window < len(order))
    shares = np.rint(order.slices * rows / max(1, len(order)))
    streams = np.where(in_blocks, np.clip(shares, 1, np.maximum(shards, 1)), 1)
    return _Streams(parts, np.cumsum([0, *streams], dtype=np.int64), in_blocks)


def _lay_out(order: Order, divided: _Streams, epoch: int) -> _Layout:
    shards = np.arange(len(order.shard_sizes), dtype=np.uint64)
    sizes = np.array(order.shard_sizes, np.int64)
    seed = np.uint64(order.seed)  # seeds from 2**63 do not fit in int64, Numba's default
    ranking = randomness.derive_keys(seed, shards, epoch, randomness.SHARD_ORDER)
    streams = _deal(np.argsort(ranking, kind="stable").astype(np.int64), divided)
    sequence = np.lexsort((ranking, streams)).astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(sizes[sequence])]).astype(np.int64)
    bounds = np.searchsorted(streams[sequence], np.arange(divided.firsts[-1] + 1))
    rotations = randomness.derive_keys(seed, shards, epoch, randomness.ROTATION)
    return _Layout(
        np.uint64(randomness.derive_key(seed, 0, epoch, randomness.WINDOW)),
        sequence,
        begins,
        begins[bounds],
        _rotate(rotations, sizes),
        randomness.derive_keys(seed, shards, epoch, randomness.BLOCK_ORDER),
        divided.in_blocks[divided.parts] & (epoch > 0),
    )


def _deal(ranked: Integers, divided: _Streams) -> Integers:
    """Return the stream of each shard, int64[shards]: those of its part take turns.

    Args:
        ranked: int64[shards], the shards in the order in which they are dealt.
        divided: the parts and their streams.
    """
    by_part = ranked[np.argsort(divided.parts[ranked], kind="stable")]
    parts = divided.parts[by_part]
    first = np.searchsorted(parts, np.arange(len(divided.in_blocks)))
    turns = np.arange(len(by_part)) - first[parts]
    streams = np.empty(len(ranked), np.int64)
    streams[by_part] = divided.firsts[parts] + turns % np.diff(divided.firsts)[parts]
    return streams


@njit
def _rotate(keys: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    rotations = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        rotations[i] = randomness.to_below(randomness.draw(keys[i], 0), sizes[i]) if sizes[i] else 0
    return rotations


@njit
def _take(number: int, window: int, streams: np.ndarray, taken: np.ndarray) -> int:
    """Count what all windows before one take of each stream.

    Args:
        number: of the window.
        window: samples of a window.
        streams: int64[streams + 1], where the streams begin.
        taken: int64[streams], filled.

    Returns:
        the sum.
    """
    total = streams[-1]
    end, samples = min(number * window, total), 0
    for stream in range(len(taken)):
        taken[stream] = floor_share(end, streams[stream + 1] - streams[stream], total)
        samples += taken[stream]
    return samples


@njit
def _locate(
    positions: np.ndarray, layout: _Layout, starts: np.ndarray, window: int, lanes: int
) -> np.ndarray:
    samples, places = np.empty(len(positions), np.int64), np.empty(len(positions), np.int64)
    total, streams = layout.begins[-1], len(layout.streams) - 1
    for i in range(len(positions)):
        lane = positions[i] % lanes
        # If the lanes do not divide the samples evenly, the first ones have one more.
        places[i] = lane * (total // lanes) + min(lane, total % lanes) + positions[i] // lanes
    # What a window takes of the streams is counted once for all places in it.
    turns = np.argsort(places) if lanes > 1 and streams > 1 else np.arange(len(places))
    before, after = np.zeros(streams, np.int64), np.zeros(streams, np.int64)
    ends = np.zeros(streams, np.int64)  # in the window, of each stream
    number, begin, end = 0, 0, 0
    for i in turns:
        if not begin <= places[i] < end:
            number = places[i] // window
            begin = _take(number, window, layout.streams, before)
            end = _take(number + 1, window, layout.streams, after)
            # Shares are rounded down, so that a later window may begin before its number says.
            while places[i] >= end:
                number += 1
                before[:] = after
                begin, end = end, _take(number + 1, window, layout.streams, after)
            ends[0] = after[0] - before[0]
            for stream in range(1, streams):
                ends[stream] = ends[stream - 1] + after[stream] - before[stream]
        place = permute(places[i] - begin, end - begin, randomness.draw(layout.key, number))
        stream = np.searchsorted(ends, place, side="right")
        place += layout.streams[stream] + after[stream] - ends[stream]
        turn = np.searchsorted(layout.begins, place, side="right") - 1
        shard = layout.sequence[turn]
        length = starts[shard + 1] - starts[shard]
        row = place - layout.begins[turn]
        if layout.in_blocks[shard]:
            row = _move_block(row, length, window, layout.keys[shard], False)
        row += layout.rotations[shard]
        samples[i] = starts[shard] + (row - length if row >= length else row)
    return samples


@njit
def _find_places(
    samples: np.ndarray, layout: _Layout, starts: np.ndarray, window: int, lanes: int
) -> np.ndarray:
    """Return the places that `_locate` leads from to samples."""
    turns = np.empty(len(layout.sequence), np.int64)
    for turn in range(len(layout.sequence)):
        turns[layout.sequence[turn]] = turn
    places = np.empty(len(samples), np.int64)
    total, streams = layout.begins[-1], len(layout.streams) - 1
    before, after = np.zeros(streams, np.int64), np.zeros(streams, np.int64)
    for i in range(len(samples)):
        shard = np.searchsorted(starts, samples[i], side="right") - 1
        length = starts[shard + 1] - starts[shard]
        row = samples[i] - starts[shard] - layout.rotations[shard]
        row += length if row < 0 else 0
        if layout.in_blocks[shard]:
            row = _move_block(row, length, window, layout.keys[shard], True)
        place = layout.begins[turns[shard]] + row
        stream = np.searchsorted(layout.streams, place, side="right") - 1
        place -= layout.streams[stream]
        size = layout.streams[stream + 1] - layout.streams[stream]
        # A window too early, as the quotient is rounded.
        number = max(0, int(place / size * total / window) - 1)
        while floor_share(min((number + 1) * window, total), size, total) <= place:
            number += 1
        begin = _take(number, window, layout.streams, before)
        end = _take(number + 1, window, layout.streams, after)
        place += (after - before)[:stream].sum() - before[stream]
        place = begin + unpermute(place, end - begin, randomness.draw(layout.key, number))
        # The first lanes may have one sample more than the others.
        whole, longer = total // lanes, total % lanes
        lane = place // (whole + 1)
        if lane >= longer:
            lane = longer + (place - longer * (whole + 1)) // max(1, whole)
        within = place - (lane * whole + min(lane, longer))
        places[i] = within * lanes + lane
    return places


@njit
def _move_block(row: int, rows: int, window: int, key: np.uint64, is_back: bool) -> int:
    """Return the row that is read at a place of a large shard, before it is rotated.

    Or the place at which a row is read, the way back. What is left over after the last whole block
    stays where it is.
    """
    block = max(1, window // _BLOCKS)
    number, blocks = row // block, rows // block
    if number >= blocks:
        return row
    moved: int = unpermute(number, blocks, key) if is_back else permute(number, blocks, key)
    return moved * block + row % block
