"""Several data sets read as one, by proportion.

An epoch of a mixture reads a fixed number of samples of each source, its quota, and a source's own
order goes on from one epoch of the mixture to the next; where it is used up, its own next epoch
begins, in an order and with masks of its own. Which source a place of the endless row belongs to,
and which number of that source it is, is a function without memory: each source's samples are
spread evenly over the epoch, and then places are permuted within short stretches, so that sources
alternate at random and yet each stretch has its share of them, to one sample a source.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from corpusmill.arrays.columns import Role
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import MIXTURE, derive_key, draw
from corpusmill.errors import UserError
from corpusmill.reading.data_set import Samples
from corpusmill.reading.order.order import Order
from corpusmill.reading.order.permutation import permute
from corpusmill.reading.rows import Integers, Rows, join_values


class JoinedSamples:
    """The samples of several data sets behind each other, numbered as one; see Samples.

    Args:
        sources: with the same columns and of the same tokenizer.

    Attributes:
        shard_sizes: those of all sources.
        digest: of the sources' digests.
        longest: of all sources.
        manifest: of the first source.

    Raises:
        UserError: there is no source, or they do not go together.
    """

    def __init__(self, sources: Sequence[Samples]) -> None:
        _check_alike(sources)
        self.sources = tuple(sources)
        self.shard_sizes = tuple(size for source in sources for size in source.shard_sizes)
        digests = json.dumps([source.digest for source in sources])
        self.digest = hashlib.sha256(digests.encode()).hexdigest()
        self.longest = max(source.longest for source in sources)
        self.manifest = sources[0].manifest
        self._starts = np.cumsum([0, *map(len, sources)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, sample: int) -> dict[str, Any]:
        """One example, as numbers and arrays of the column's types."""
        return self.take(np.array([range(len(self))[sample]]))[0]

    def take(self, samples: Integers, epochs: Integers | None = None) -> Rows:
        """See Samples. Rows are numbered as here, so that no two sources share masks."""
        samples = np.asarray(samples, np.int64)
        if epochs is None:
            epochs = np.zeros(len(samples), np.int64)
        parts = [
            (places, source.take(own, epochs[places]).columns)
            for source, own, places in self._split(samples)
        ]
        names = parts[0][1] if parts else {}
        columns = {
            name: join_values([(places, of[name]) for places, of in parts], len(samples))
            for name in names
        }
        return Rows(columns, samples, epochs)

    def lengths(self, samples: Integers) -> Integers:
        """See Samples."""
        lengths = np.empty(len(samples), np.int64)
        for source, own, places in self._split(np.asarray(samples, np.int64)):
            lengths[places] = source.lengths(own)
        return lengths

    def _split(self, samples: Integers) -> Iterator[tuple[Samples, Integers, Integers]]:
        """Each source that has some of the samples, its own numbers of them, and their places."""
        of_source = np.searchsorted(self._starts, samples, side="right") - 1
        for number in np.unique(of_source).tolist():
            places = np.flatnonzero(of_source == number)
            yield self.sources[number], samples[places] - self._starts[number], places


@dataclass(frozen=True)
class MixtureOrder:
    """The order of a mixture; see Ordering, and `mix` which makes one.

    Attributes:
        orders: of each source.
        quotas: samples of each source in an epoch of the mixture.
        seed: of how the sources alternate.
        shuffle: whether they do at random.
        stretch: consecutive numbers that are permuted among each other.
    """

    orders: tuple[Order, ...]
    quotas: tuple[int, ...]
    seed: int = 0
    shuffle: bool = True
    stretch: int = 1024

    def __len__(self) -> int:
        return sum(self.quotas)

    def locate(self, numbers: Integers) -> Integers:
        """See Ordering: samples by their number in JoinedSamples of the same sources."""
        starts = np.cumsum([0, *map(len, self.orders)])
        return self._of_sources(
            numbers, lambda source, own: starts[source] + self.orders[source].locate(own)
        )

    def epochs(self, numbers: Integers) -> Integers:
        """See Ordering: the epochs of the sources, not of the mixture."""
        return self._of_sources(numbers, lambda source, own: self.orders[source].epochs(own))

    def describe(self) -> dict[str, Any]:
        """See Ordering."""
        return {
            "orders": [order.describe() for order in self.orders],
            "quotas": list(self.quotas),
            "seed": self.seed,
            "shuffle": self.shuffle,
            "stretch": self.stretch,
        }

    def assign(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Which source each number is of, and which number of that source's own endless row.

        Args:
            numbers: int64[n], of the mixture's endless row.

        Returns:
            int64[n], int64[n].

        Example:
            with quotas 2 and 1 and without shuffling the numbers 0 to 5 are of the sources
            [1, 0, 0, 1, 0, 0], of which they are the numbers [0, 0, 1, 1, 2, 3].
        """
        quotas = np.array(self.quotas, np.int64)
        stretch = self.stretch if self.shuffle else 1
        sources, own = _assign(np.asarray(numbers, np.int64), quotas, stretch, np.uint64(self.seed))
        return sources, own

    def _of_sources(
        self, numbers: Integers, look_up: Callable[[int, Integers], Integers]
    ) -> Integers:
        sources, own = self.assign(numbers)
        found = np.empty(len(sources), np.int64)
        for source in range(len(self.quotas)):
            places = np.flatnonzero(sources == source)
            if len(places):
                found[places] = look_up(source, own[places])
        return found


def mix(
    sources: Sequence[Samples],
    proportions: Sequence[float],
    *,
    seed: int = 0,
    shuffle: bool = True,
    window: int = 2**17,
    epoch_size: int | Literal["first_exhausted", "all_exhausted"] = "first_exhausted",
) -> tuple[JoinedSamples, MixtureOrder]:
    """Samples of several data sets, and an order that reads them by proportion.

    Args:
        sources: with the same columns and of the same tokenizer.
        proportions: of each source among the samples that are read; they need not sum to 1.
        seed: of all orders.
        shuffle: whether there is any; without, sources alternate evenly and each is read as it is
            stored.
        window: of each source's own order.
        epoch_size: samples of an epoch of the mixture. "first_exhausted": as many as read the
            source that ends first exactly once; "all_exhausted": the source that ends last, with
            the others read again meanwhile.

    Raises:
        UserError: the sources do not go together, or a proportion leaves one out.

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
    sizes: Sequence[int],
    proportions: Sequence[float],
    epoch_size: int | Literal["first_exhausted", "all_exhausted"],
) -> tuple[int, ...]:
    """Samples of each source in an epoch of a mixture.

    Args:
        sizes: samples of each source, 1 and more.
        proportions: as in `mix`.
        epoch_size: as in `mix`.

    Raises:
        UserError: see `mix`.

    Example:
        sizes (100, 1000), proportions (1, 2) and 10 samples an epoch give (3, 7).
    """
    if len(sizes) != len(proportions) or not all(0 < of < np.inf for of in proportions):
        cause = f"each of the {len(sizes)} sources needs one number above 0"
        raise UserError(f"proportions={tuple(proportions)}", cause, "Give as many as sources")
    parts = [Fraction(of) for of in proportions]
    if isinstance(epoch_size, int):
        total = sum(parts)
        bounds = [round(epoch_size * sum(parts[:place]) / total) for place in range(len(parts))]
        quotas = np.diff([*bounds, epoch_size]).tolist()
    else:
        passes = [size / part for size, part in zip(sizes, parts, strict=True)]
        scale = min(passes) if epoch_size == "first_exhausted" else max(passes)
        quotas = [round(scale * part) for part in parts]
    if min(quotas) < 1:
        cause = f"source {quotas.index(min(quotas))} has no sample in an epoch of {sum(quotas)}"
        raise UserError(
            f"proportions={tuple(proportions)}", cause, "Give it more, or a larger epoch_size"
        )
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
        # Of the places that no source before took, a source takes those at which its share of
        # them grows to the next whole number (Bresenham's line).
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
    """The floor of place * part / whole, whose product may exceed 64 bits.

    A float64 is near it for numbers below 2**50; what it lacks is seen in the remainder, which is
    small, so that it is right also where the products have wrapped around.
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
    names = [column.name for column in first.columns]
    for number, source in enumerate(sources):
        value, manifest = f"sources[{number}]", source.manifest
        if manifest.tokenizer.sha256 != first.tokenizer.sha256:
            cause = "its tokenizer is not that of the first source"
            raise UserError(value, cause, "Mix data sets that were built with one tokenizer")
        own_names = [column.name for column in manifest.columns]
        if own_names != names:
            cause = f"it has the columns {', '.join(own_names)}; the first source has "
            cause += ", ".join(names)
            raise UserError(value, cause, "Mix data sets that were built with the same options")
        if manifest.columns[0].role is Role.WINDOW and source.longest != sources[0].longest:
            cause = f"its windows have {source.longest} tokens, not {sources[0].longest}"
            raise UserError(value, cause, "Mix windows of one context_len")
