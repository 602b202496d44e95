"""Several data sets read as one, in given proportions, which may change during training.

A mixture has stages, in each of which every source has an exact number of samples, its quota. The
last stage is repeated without end: a mixture in constant proportions has a single stage, which is
its epoch. A source's own order continues from one stage to the next; after its last sample the
source's own next epoch begins, with its own order and masks. Which source a place of the endless
sequence belongs to, and which number of that source, is a function without memory: the samples of
each source are spread evenly over the stage, then places are permuted within short stretches. So
sources alternate at random, and yet from the beginning of a stage to the end of any stretch each
source has its share, to within one sample if there are two sources, and two samples if there are
more.

Sources take turns in this way, from a number to a source and to a number of its own. The samples of
a stage are divided as by a tree: of the places of a node, its first child gets those at which its
share of them rounds up to the next whole number (Bresenham's line), and its second child the
others. The leaves are the sources. It is Huffman's tree: nodes grow at least like Fibonacci's
numbers from a leaf to the root, and the errors of rounding add up to less than two samples,
whatever the number of sources and their quotas. The places of the sources with most samples are
found in the fewest steps.

Source of the tree: Huffman 1952, "A Method for the Construction of Minimum-Redundancy Codes".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.columns import Role, column_of
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import MIXTURE, derive_key, draw
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError
from corpusmill.objectives.masking.masked_lm import MaskShares
from corpusmill.reading.cache.shard_cache import Stored, unpack_together
from corpusmill.reading.data_set import DataSet, Samples, digest_of
from corpusmill.reading.order.order import WINDOW, Order, permute, round_share
from corpusmill.reading.order.stages import (
    EpochSize,
    Quotas,
    Stage,
    Weights,
    check_quotas,
    plan_stages,
    read_epoch_size,
    read_weights,
    share,
    tell_apart,
)
from corpusmill.reading.recorded_options import change_masker, check_suits, masker_of
from corpusmill.reading.rows import (
    Integers,
    Lists,
    Part,
    Shares,
    Values,
    gather,
    group,
)


class Turns(NamedTuple):
    """The stages of a mixture as arrays.

    The nodes of a stage's tree are numbered: first the sources, then their common nodes.

    Attributes:
        starts: int64[stages], the number at which each stage begins.
        bases: int64[stages, sources], the samples of each source in all stages before.
        sizes: int64[stages, nodes], the samples of each node in the stage.
        children: int64[stages, nodes - sources, 2], both children of each common node.
        roots: int64[stages], the node of all samples.
    """

    starts: Integers
    bases: Integers
    sizes: Integers
    children: Integers
    roots: Integers

    @classmethod
    def from_quotas(cls, stages: Sequence[Sequence[int]]) -> "Turns":
        """Return the turns of stages, each given by the samples of every source, 0 or more."""
        quotas = np.array(stages, np.int64)
        sources = quotas.shape[1]
        sizes = np.zeros((len(quotas), 2 * sources - 1), np.int64)
        children = np.zeros((len(quotas), sources - 1, 2), np.int64)
        roots = [_grow(stage, sizes[place], children[place]) for place, stage in enumerate(quotas)]
        bases = np.cumsum(quotas, axis=0) - quotas
        return cls(bases.sum(axis=1), bases, sizes, children, np.array(roots, np.int64))


def _grow(quotas: Integers, sizes: npt.NDArray[np.int64], children: npt.NDArray[np.int64]) -> int:
    """Make the tree of a stage, and return its root.

    Args:
        quotas: int64[sources], of which one or more are not 0.
        sizes: int64[nodes], filled.
        children: int64[nodes - sources, 2], filled.
    """
    sizes[: len(quotas)] = quotas
    waiting = [(quota, source) for source, quota in enumerate(quotas.tolist()) if quota]
    heapify(waiting)
    node = len(quotas)
    while len(waiting) > 1:
        pair = sorted([heappop(waiting), heappop(waiting)], key=lambda item: item[1])
        children[node - len(quotas)] = [child for _, child in pair]
        sizes[node] = sum(size for size, _ in pair)
        heappush(waiting, (int(sizes[node]), node))
        node += 1
    return waiting[0][1]


@njit
def _assign(
    numbers: np.ndarray, turns: Turns, stretch: int, seed: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    sources, source_numbers = np.empty_like(numbers), np.empty_like(numbers)
    starts, bases, sizes, children, roots = turns
    count, stage = bases.shape[1], 0
    for i in range(len(numbers)):
        is_later = stage + 1 < len(starts) and numbers[i] >= starts[stage + 1]
        if is_later or numbers[i] < starts[stage]:
            stage = np.searchsorted(starts, numbers[i], side="right") - 1
        node = roots[stage]
        total = sizes[stage, node]
        place = numbers[i] - starts[stage]
        turn = place // total  # above 0 in the last stage only
        place -= turn * total
        number = place // stretch
        begin = number * stretch
        if stretch > 1:
            key = draw(np.uint64(derive_key(seed, number, stage + turn, MIXTURE)), 0)
            place = begin + permute(place - begin, min(stretch, total - begin), key)
        while node >= count:
            whole, first = sizes[stage, node], children[stage, node - count, 0]
            before = round_share(place, sizes[stage, first], whole)
            if round_share(place + 1, sizes[stage, first], whole) > before:
                node, place = first, before
            else:
                node, place = children[stage, node - count, 1], place - before
        sources[i] = node
        source_numbers[i] = bases[stage, node] + turn * sizes[stage, node] + place
    return sources, source_numbers


class JoinedSamples(Samples):
    """The samples of several data sets, one data set after another, numbered as one.

    The rows are numbered as here, so that no two sources share masks.

    Args:
        sources: data sets with the same columns and the same tokenizer.

    Attributes:
        shard_sizes: the shard sizes of all sources.
        digest: the digest of the sources' digests.
        longest: tokens of the longest sample of all sources.
        manifest: the manifest of the first source with the most columns.

    Raises:
        UserError: there are no sources, or they cannot be read as one.
    """

    def __init__(self, sources: Sequence[Samples]) -> None:
        _check_alike(sources)
        self.sources = tuple(sources)
        self.shard_sizes = tuple(size for source in sources for size in source.shard_sizes)
        self.digest = digest_of([source.digest for source in sources])
        self.longest = max(source.longest for source in sources)
        # Of data sets that are learned whole and in part, one with the mask tells the columns.
        fullest = max(sources, key=lambda source: len(source.manifest.columns))
        self.manifest = fullest.manifest
        self._learned = column_of(self.manifest.columns, Role.LEARNED)
        self._starts = np.cumsum([0, *map(len, sources)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def parts(self) -> tuple[int, ...]:
        """The part of its source that each shard belongs to, numbered from 0 over all sources."""
        parts: list[int] = []
        for source in self.sources:
            first = max(parts, default=-1) + 1
            parts += (first + part for part in source.parts or (0,) * len(source.shard_sizes))
        return tuple(parts)

    def lengths(self, samples: Integers) -> Integers:
        """Return the tokens of each sample, int64[n], without reading it."""
        lengths = np.empty(len(samples), np.int64)
        for source, numbers, places in group(self._check_numbers(samples), self._starts):
            lengths[places] = self.sources[source].lengths(numbers)
        return lengths

    def stored_in(self, samples: Integers) -> list[Stored]:
        """Return the shards of all sources that hold some samples, int64[n]."""
        return self._find_stored(group(samples, self._starts))

    def _find_stored(self, groups: Sequence[tuple[int, Integers, Integers]]) -> list[Stored]:
        return [
            stored
            for source, numbers, _ in groups
            for stored in self.sources[source].stored_in(numbers)
        ]

    def _read(self, samples: Integers, epochs: Integers) -> dict[str, Values]:
        groups = group(samples, self._starts)
        unpack_together(self._find_stored(groups))
        pieces = [
            (self._complete(self.sources[source].take(numbers, epochs[places]).columns), places)
            for source, numbers, places in groups
        ]
        columns: dict[str, Values] = {}
        for name in pieces[0][0] if pieces else {}:
            parts = [Part(rows[name], np.arange(len(places)), places) for rows, places in pieces]
            columns[name] = gather(parts, len(samples))
        return columns

    def _complete(self, columns: dict[str, Values]) -> dict[str, Values]:
        """Add the mask of rows that are learned whole, if others have one."""
        if self._learned is None or self._learned.name in columns:
            return columns
        values, offsets = columns[self.manifest.columns[0].name]
        # Ones, or the tokens themselves, as labels have them.
        learned = values if self._learned.largest != 1 else np.ones_like(values)
        lists = Lists(learned.astype(self._learned.dtype), offsets)
        return {**columns, self._learned.name: lists}


@dataclass(frozen=True)
class MixtureOrder:
    """The order of a mixture; see Ordering, and `mix`, which makes one.

    Attributes:
        orders: the order of each source.
        stages: samples of each source in each stage, one stage after another; the last is repeated.
        masks: the shares of masks in each stage; empty if no stage gives any.
        seed: the seed by which the sources alternate.
        shuffle: whether they alternate at random.
        epoch_size: samples in an epoch of the mixture; None for those of all stages.
        stretch: the number of consecutive places that are permuted together.
    """

    orders: tuple[Order, ...]
    stages: tuple[Quotas, ...]
    seed: int = 0
    shuffle: bool = True
    epoch_size: int | None = None
    stretch: int = 1024
    masks: tuple[MaskShares, ...] = ()
    _turns: Turns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare the stages."""
        object.__setattr__(self, "_turns", Turns.from_quotas(self.stages))

    def __len__(self) -> int:
        return self.epoch_size or sum(map(sum, self.stages))

    def locate(self, numbers: Integers) -> Integers:
        """Return the samples, int64[n], by their number in JoinedSamples of the same sources."""
        starts = np.cumsum([0, *map(len, self.orders)])
        return self._look_up(
            numbers, lambda source, places: starts[source] + self.orders[source].locate(places)
        )

    def epochs(self, numbers: Integers) -> Integers:
        """Return the epochs, int64[n], of the sources, not of the mixture."""
        return self._look_up(numbers, lambda source, places: self.orders[source].epochs(places))

    def mask_shares(self, numbers: Integers) -> Shares | None:
        """Return the shares of masks at the given places, as `Rows.mask_shares` has them."""
        if not self.masks:
            return None
        table = [[-1 if share is None else share for share in shares] for shares in self.masks]
        stages = np.searchsorted(self._turns.starts, numbers, side="right") - 1
        shares: Shares = np.array(table, np.float64)[stages]
        return shares

    def describe(self, end: int | None = None) -> dict[str, Any]:
        """Return the parameters of the sequence before a number as JSON types.

        Stages that begin later are not among them, so that these may still be changed.

        Args:
            end: the number; None for the end of all stages.

        Example:
            "stages" is [[0, [9, 1]], [1000, [5, 5]]] where the quotas of the sources are 9 and 1
            again and again, and 5 and 5 from number 1000 on. "masks" is [[0, [0.3, None, None]]]
            where 0.3 of the tokens are predicted from number 0 on.
        """
        starts = self._turns.starts
        end = int(starts[-1]) + 1 if end is None else max(end, 1)
        begun = self.stages[: int(np.searchsorted(starts, end))]
        masks = self.masks[: len(begun)]
        are_given = any(shares.given for shares in masks)
        return {
            "orders": [order.describe() for order in self.orders],
            "stages": self._list_changes(begun),
            **({"masks": self._list_changes(masks)} if are_given else {}),
            "seed": self.seed,
            "shuffle": self.shuffle,
            "stretch": self.stretch,
        }

    def _list_changes(self, values: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        """Return the values of stages, each with the number from which on it holds."""
        return [
            [int(self._turns.starts[place]), list(value)]
            for place, value in enumerate(values)
            if not place or value != values[place - 1]
        ]

    def assign(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Return the source of each number, and its number in that source's endless sequence.

        Args:
            numbers: int64[n], places of the mixture's sequence, in which the last stage is repeated
                without end.

        Returns:
            int64[n], int64[n].

        Example:
            with quotas 2 and 1 in the only stage, and without shuffling, the numbers 0 to 5 belong
            to the sources [0, 1, 0, 0, 1, 0], where they are the numbers [0, 0, 1, 2, 1, 3].
        """
        stretch = self.stretch if self.shuffle else 1
        numbers = np.asarray(numbers, np.int64)
        assigned: tuple[Integers, Integers] = _assign(
            numbers, self._turns, stretch, np.uint64(self.seed)
        )
        return assigned

    def _look_up(self, numbers: Integers, look_up: Callable[[int, Integers], Integers]) -> Integers:
        sources, source_numbers = self.assign(numbers)
        results = np.empty(len(sources), np.int64)
        for source, _, places in group(sources, np.arange(len(self.orders) + 1)):
            results[places] = look_up(source, source_numbers[places])
        return results


def mix(
    sources: Samples | Mapping[str, Samples] | Sequence[Samples],
    proportions: Weights | Sequence[Stage],
    *,
    seed: int = 0,
    shuffle: bool = True,
    window: int = WINDOW,
    epoch_size: EpochSize | None = None,
) -> tuple[JoinedSamples, MixtureOrder]:
    """Return the samples of several data sets, and an order that reads them in proportion.

    Args:
        sources: data sets with the same columns and the same tokenizer, in a list or by name; or
            one data set that was built of sources with names.
        proportions: the proportion of each source among the samples, in a list or by name; they
            need not sum to 1, and 0 leaves a source out. Or the stages of a training, with
            proportions of their own; after the last one its proportions at the end stay.
        seed: the seed of all orders.
        shuffle: whether to shuffle. If not, sources alternate evenly and each is read in the order
            in which it is stored.
        window: the window of each source's own order.
        epoch_size: samples in an epoch of the mixture. "first_exhausted", the default, ends it when
            one source has been read exactly once; "all_exhausted" when each has been read at least
            once. With stages it is a number, by default that of the samples of all stages.

    Raises:
        UserError: the sources cannot be read as one, a source with a proportion would not be read
            at all, or their masks cannot have the shares of a stage.

    Example:
        sources of 100 and 1000 samples and proportions (1, 2) give epochs of 100 + 200 samples, or
        of 500 + 1000 with "all_exhausted".
    """
    names, parts = _name_sources(sources)
    joined = JoinedSamples(parts)
    sizes = [len(part) for part in parts]
    epoch_size = read_epoch_size(epoch_size)
    orders = tuple(part.order(seed, shuffle, window) for part in parts)
    stages, weights = tell_apart(proportions)
    if stages:
        if isinstance(epoch_size, str):
            cause = "with stages, an epoch has a number of samples"
            raise UserError(f"epoch_size={epoch_size}", cause, "Give a number, or omit it")
        quotas, masks, samples = plan_stages(stages, sizes, names)
        _check_masks(stages, parts)
        given = masks if any(shares.given for shares in masks) else ()
        size = epoch_size or samples
        return joined, MixtureOrder(orders, quotas, seed, shuffle, size, masks=given)
    shares = read_weights(weights, names, len(parts))
    epoch = share(sizes, shares, epoch_size or "first_exhausted")
    check_quotas(f"proportions={proportions}", epoch, shares, names)
    return joined, MixtureOrder(orders, (epoch,), seed, shuffle)


def _check_masks(stages: Sequence[Stage], sources: Sequence[Samples]) -> None:
    """Refuse shares of masks that a stage gives, and with which a source cannot be masked."""
    for stage, source in product(stages, sources):
        if given := stage.mask_shares.given:
            masker = masker_of(source)
            for name, value in given.items():
                check_suits(name, value, masker is not None, "no masks are drawn")
            if masker:
                change_masker(masker, given)


def _name_sources(
    sources: Samples | Mapping[str, Samples] | Sequence[Samples],
) -> tuple[tuple[str, ...] | None, tuple[Samples, ...]]:
    """Return the sources and their names, if they have any."""
    if isinstance(sources, DataSet):
        sources = sources.by_source()
    if isinstance(sources, Samples):
        cause = "only a data set knows the names of its sources"
        raise UserError(repr(sources), cause, "Give the samples of each source, by its name")
    if isinstance(sources, Mapping):
        return tuple(sources), tuple(sources.values())
    return None, tuple(sources)


def _list_columns(manifest: Manifest) -> str:
    """List the columns but for a mask of what is learned, without which all tokens are."""
    return ", ".join(each.name for each in manifest.columns if each.role is not Role.LEARNED)


def _check_alike(sources: Sequence[Samples]) -> None:
    if not sources:
        raise UserError("sources=()", "there is nothing to mix", "Give one data set or more")
    first = sources[0].manifest
    names = _list_columns(first)
    for number, source in enumerate(sources):
        value, manifest = f"sources[{number}]", source.manifest
        if not len(source):
            raise UserError(value, "it has no samples", "Leave it out")
        if manifest.tokenizer.sha256 != first.tokenizer.sha256:
            cause = "its tokenizer is not that of the first source"
            raise UserError(value, cause, "Mix data sets that were built with one tokenizer")
        own_names = _list_columns(manifest)
        if own_names != names:
            cause = f"it has the columns {own_names}; the first source has {names}"
            raise UserError(value, cause, "Mix data sets that were built with the same options")
        if manifest.columns[0].role is Role.WINDOW and source.longest != sources[0].longest:
            cause = f"its windows have {source.longest} tokens, not {sources[0].longest}"
            raise UserError(value, cause, "Mix windows of one context_len")
