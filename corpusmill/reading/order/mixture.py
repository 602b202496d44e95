"""Several data sets read as one, in given proportions.

An epoch of a mixture reads a fixed number of samples of each source, its quota. A source's own
order continues from one epoch of the mixture to the next; after its last sample the source's own
next epoch begins, with its own order and masks. Which source a place of the endless sequence of
epochs belongs to, and which number of that source, is a function without memory: the samples of
each source are spread evenly over the epoch, then places are permuted within short stretches. So
sources alternate at random, and yet each stretch has its share of every source, to within one
sample.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from corpusmill.arrays.columns import Role
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import MIXTURE, derive_key, draw
from corpusmill.errors import UserError
from corpusmill.reading.cache.shard_cache import Stored
from corpusmill.reading.data_set import Samples, digest_of
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.permutation import permute
from corpusmill.reading.rows import Integers, Part, Values, gather, group

EpochSize = int | Literal["first_exhausted", "all_exhausted"]


class JoinedSamples(Samples):
    """The samples of several data sets, one data set after another, numbered as one.

    The rows are numbered as here, so that no two sources share masks.

    Args:
        sources: data sets with the same columns and the same tokenizer.

    Attributes:
        shard_sizes: the shard sizes of all sources.
        digest: the digest of the sources' digests.
        longest: tokens of the longest sample of all sources.
        manifest: the manifest of the first source.

    Raises:
        UserError: there are no sources, or they cannot be read as one.
    """

    def __init__(self, sources: Sequence[Samples]) -> None:
        _check_alike(sources)
        self.sources = tuple(sources)
        self.shard_sizes = tuple(size for source in sources for size in source.shard_sizes)
        self.digest = digest_of([source.digest for source in sources])
        self.longest = max(source.longest for source in sources)
        self.manifest = sources[0].manifest
        self._starts = np.cumsum([0, *map(len, sources)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def lengths(self, samples: Integers) -> Integers:
        """Return the tokens of each sample, int64[n], without reading it."""
        lengths = np.empty(len(samples), np.int64)
        for source, numbers, places in group(self._check_numbers(samples), self._starts):
            lengths[places] = self.sources[source].lengths(numbers)
        return lengths

    def stored_in(self, samples: Integers) -> list[Stored]:
        """Return the shards of all sources that hold some samples, int64[n]."""
        groups = group(samples, self._starts)
        return [
            stored
            for source, numbers, _ in groups
            for stored in self.sources[source].stored_in(numbers)
        ]

    def _read(self, samples: Integers, epochs: Integers) -> dict[str, Values]:
        pieces = [
            (self.sources[source].take(numbers, epochs[places]).columns, places)
            for source, numbers, places in group(samples, self._starts)
        ]
        columns: dict[str, Values] = {}
        for name in pieces[0][0] if pieces else {}:
            parts = [Part(rows[name], np.arange(len(places)), places) for rows, places in pieces]
            columns[name] = gather(parts, len(samples))
        return columns


@dataclass(frozen=True)
class MixtureOrder:
    """The order of a mixture; see Ordering, and `mix`, which makes one.

    Attributes:
        orders: the order of each source.
        quotas: samples of each source in an epoch of the mixture.
        seed: the seed by which the sources alternate.
        shuffle: whether they alternate at random.
        stretch: the number of consecutive places that are permuted together.
    """

    orders: tuple[Order, ...]
    quotas: tuple[int, ...]
    seed: int = 0
    shuffle: bool = True
    stretch: int = 1024

    def __len__(self) -> int:
        return sum(self.quotas)

    def locate(self, numbers: Integers) -> Integers:
        """Return the samples, int64[n], by their number in JoinedSamples of the same sources."""
        starts = np.cumsum([0, *map(len, self.orders)])
        return self._look_up(
            numbers, lambda source, own: starts[source] + self.orders[source].locate(own)
        )

    def epochs(self, numbers: Integers) -> Integers:
        """Return the epochs, int64[n], of the sources, not of the mixture."""
        return self._look_up(numbers, lambda source, own: self.orders[source].epochs(own))

    def describe(self) -> dict[str, Any]:
        """Return the parameters as JSON types."""
        return {
            "orders": [order.describe() for order in self.orders],
            "quotas": list(self.quotas),
            "seed": self.seed,
            "shuffle": self.shuffle,
            "stretch": self.stretch,
        }

    def assign(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Return the source of each number, and its number in that source's endless sequence.

        Args:
            numbers: int64[n], places in the mixture's endless sequence of epochs.

        Returns:
            int64[n], int64[n].

        Example:
            with quotas 2 and 1 and without shuffling the numbers 0 to 5 belong to the sources
            [1, 0, 0, 1, 0, 0], where they are the numbers [0, 0, 1, 1, 2, 3].
        """
        quotas = np.array(self.quotas, np.int64)
        stretch = self.stretch if self.shuffle else 1
        sources, own = _assign(np.asarray(numbers, np.int64), quotas, stretch, np.uint64(self.seed))
        return sources, own

    def _look_up(self, numbers: Integers, look_up: Callable[[int, Integers], Integers]) -> Integers:
        sources, own = self.assign(numbers)
        results = np.empty(len(sources), np.int64)
        for source in range(len(self.quotas)):
            places = np.flatnonzero(sources == source)
            if len(places):
                results[places] = look_up(source, own[places])
        return results


def mix(
    sources: Sequence[Samples],
    proportions: Sequence[float],
    *,
    seed: int = 0,
    shuffle: bool = True,
    window: int = 2**17,
    epoch_size: EpochSize = "first_exhausted",
) -> tuple[JoinedSamples, MixtureOrder]:
    """Return the samples of several data sets, and an order that reads them in proportion.

    Args:
        sources: data sets with the same columns and the same tokenizer.
        proportions: the proportion of each source among the samples; they need not sum to 1.
        seed: the seed of all orders.
        shuffle: whether to shuffle. If not, sources alternate evenly and each is read in the order
            in which it is stored.
        window: the window of each source's own order.
        epoch_size: samples in an epoch of the mixture. "first_exhausted" ends it when one source
            has been read exactly once; "all_exhausted" when each has been read at least once.

    Raises:
        UserError: the sources cannot be read as one, or a source would not be read at all.

    Example:
        sources of 100 and 1000 samples and proportions (1, 2) give epochs of 100 + 200 samples, or
        of 500 + 1000 with "all_exhausted".
    """
    joined = JoinedSamples(sources)
    sizes = [len(source) for source in sources]
    quotas = share(sizes, proportions, epoch_size)
    orders = tuple(Order(source.shard_sizes, seed, shuffle, window) for source in sources)
    return joined, MixtureOrder(orders, quotas, seed, shuffle)


def share(
    sizes: Sequence[int], proportions: Sequence[float], epoch_size: EpochSize
) -> tuple[int, ...]:
    """Return the samples of each source in an epoch of a mixture.

    Args:
        sizes: samples of each source, 1 or more.
        proportions: as in `mix`.
        epoch_size: as in `mix`.

    Raises:
        UserError: the proportions are not valid, or a source would not be read at all.

    Example:
        sizes (100, 1000), proportions (1, 2) and 10 samples per epoch give (3, 7).
    """
    value = f"proportions={tuple(proportions)}"
    if len(sizes) != len(proportions) or not all(0 < part < np.inf for part in proportions):
        cause = f"each of the {len(sizes)} sources needs one number above 0"
        raise UserError(value, cause, "Give as many numbers as sources")
    parts = [Fraction(part) for part in proportions]
    if isinstance(epoch_size, int):
        total = sum(parts)
        bounds = [round(epoch_size * sum(parts[:place]) / total) for place in range(len(parts))]
        quotas = np.diff([*bounds, epoch_size]).tolist()
    else:
        passes = [size / part for size, part in zip(sizes, parts, strict=True)]
        scale = min(passes) if epoch_size == "first_exhausted" else max(passes)
        quotas = [round(scale * part) for part in parts]
    if min(quotas) < 1:
        source, total_quota = quotas.index(min(quotas)), sum(quotas)
        cause = f"source {source} has no sample in an epoch of {total_quota}"
        raise UserError(value, cause, "Give it a larger share, or a larger epoch_size")
    return tuple(quotas)


@njit
def _assign(
    numbers: np.ndarray, quotas: np.ndarray, stretch: int, seed: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    sources, own = np.empty_like(numbers), np.empty_like(numbers)
    total = quotas.sum()
    for i in range(len(numbers)):
        epoch = numbers[i] // total
        place = numbers[i] - epoch * total
        number = place // stretch
        begin = number * stretch
        if stretch > 1:
            key = draw(np.uint64(derive_key(seed, number, epoch, MIXTURE)), 0)
            place = begin + permute(place - begin, min(stretch, total - begin), key)
        # Of the places that no earlier source has, a source gets those at which its share of them
        # grows to the next whole number (Bresenham's line).
        left = total
        source = 0
        while source < len(quotas) - 1:
            before = _floor_share(place, quotas[source], left)
            if _floor_share(place + 1, quotas[source], left) > before:
                place = before
                break
            place -= before
            left -= quotas[source]
            source += 1
        sources[i] = source
        own[i] = epoch * quotas[source] + place
    return sources, own


@njit
def _floor_share(place: int, part: int, whole: int) -> int:
    """Return the floor of place * part / whole, even if the product exceeds 64 bits.

    A float64 is close to it for numbers below 2**50. The remainder shows the error; it is small,
    and so it is right even where the products have wrapped around.
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


def _check_alike(sources: Sequence[Samples]) -> None:
    if not sources:
        raise UserError("sources=()", "there is nothing to mix", "Give one data set or more")
    first = sources[0].manifest
    names = ", ".join(column.name for column in first.columns)
    for number, source in enumerate(sources):
        value, manifest = f"sources[{number}]", source.manifest
        if manifest.tokenizer.sha256 != first.tokenizer.sha256:
            cause = "its tokenizer is not that of the first source"
            raise UserError(value, cause, "Mix data sets that were built with one tokenizer")
        own_names = ", ".join(column.name for column in manifest.columns)
        if own_names != names:
            cause = f"it has the columns {own_names}; the first source has {names}"
            raise UserError(value, cause, "Mix data sets that were built with the same options")
        if manifest.columns[0].role is Role.WINDOW and source.longest != sources[0].longest:
            cause = f"its windows have {source.longest} tokens, not {sources[0].longest}"
            raise UserError(value, cause, "Mix windows of one context_len")
