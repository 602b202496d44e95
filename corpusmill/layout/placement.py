"""Where documents and examples go: their split, their shard, and their place in the shard.

All of it is a function of the seed and of stable ids.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from corpusmill.arrays.randomness import PLACE, SHARD, SPLIT, derive_keys, draw_rows, purpose_of

TRAIN, VALIDATION = 0, 1
SPLIT_NAMES = ("train", "validation")
# The draws of how often a document is taken from its source.
_COPIES = purpose_of("corpusmill.copies")

# Of a source's documents, and of shards, whose names have five digits: what a manifest may say.
MAX_REPEAT = 1000
Repeat = Annotated[float, Meta(gt=0, le=MAX_REPEAT)]
_TrainShards = Annotated[int, Meta(ge=1, le=99_999)]
_ValidationShards = Annotated[int, Meta(ge=0, le=99_999)]


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


def apportion(total: int, sizes: Sequence[float]) -> list[int]:
    """Divide shards among sources in proportion to their sizes, at least one for each.

    Args:
        total: number of shards; the number of sources if that is larger.
        sizes: of the sources.

    Example:
        10 shards for the sizes [80, 15, 0] are [8, 1, 1].
    """
    sums = list(accumulate(map(Fraction, sizes), initial=Fraction(0)))
    whole = sums[-1]
    ends = [round((total - len(sizes)) * part / whole) if whole else 0 for part in sums]
    return [1 + max(0, end - begin) for begin, end in pairwise(ends)]


def divide_files(sizes: Sequence[int], shards: int) -> list[tuple[int, int]]:
    """Divide files that follow one another into parts of equal size, one for each shard.

    Args:
        sizes: of the files.
        shards: number of parts.

    Returns:
        The number of the file in which each part begins, and the byte of it.

    Example:
        files of 30 and 70 bytes for two shards give [(0, 0), (1, 20)].
    """
    ends = list(accumulate(sizes))
    begins = [(ends[-1] if ends else 0) * shard // shards for shard in range(shards)]
    files = [min(bisect_right(ends, begin), max(0, len(ends) - 1)) for begin in begins]
    return [
        (file, begin - (ends[file - 1] if file else 0))
        for file, begin in zip(files, begins, strict=True)
    ]


@dataclass(frozen=True)
class SourceLayout:
    """How the documents of a source are spread, and how often each is taken.

    Attributes:
        first_document: an id that no document of it is below; those of the next source are above.
        repeat: how often each document is taken; the part after the decimal point is the
            probability of once more.
        train_shards: number of its shards of the train split.
        validation_shards: number of its shards of the validation split.
    """

    first_document: int
    repeat: Repeat
    train_shards: _TrainShards
    validation_shards: _ValidationShards


@dataclass(frozen=True)
class Layout:
    """How a data set is spread over shards; the same for every runner and number of workers.

    The repeats of a document go to consecutive shards, so that a trainer does not see the same text
    twice in a short time. A document's *home* is the shard of repeat 0; repeat r goes to the r-th
    shard after it, in a circle of its split's shards. With several sources, the shards of each are
    its own, and the circle is that of its split's and source's shards.

    Where documents keep the order of the corpus, nothing is drawn but the split: a document's home
    is the last of its split's and source's shards that begins at the document or before it.

    Attributes:
        seed: the data set's seed.
        train_shards: number of the train split's shards, which come first.
        validation_shards: number of the validation split's shards.
        sources: the sources in the order of their ids; empty where there is but one.
        firsts: where documents keep the order of the corpus, an id for each shard that none of its
            documents is below (`divide_files`); empty where their homes are drawn.
    """

    seed: int
    train_shards: _TrainShards
    validation_shards: _ValidationShards
    sources: tuple[SourceLayout, ...] = ()
    firsts: tuple[int, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tables, which the receiving process computes again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

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
        if self.firsts:
            return self._homes_in_order(documents, splits)
        keys: np.ndarray = derive_keys(np.uint64(self.seed), documents, 0, SHARD)
        firsts, counts = self._ranges[self._range_of(documents, splits)].T.astype(np.uint64)
        homes: np.ndarray = (firsts + (keys >> np.uint64(1)) % counts).astype(np.uint32)
        return homes

    def _homes_in_order(self, documents: np.ndarray, splits: np.ndarray) -> np.ndarray:
        homes = np.empty(len(documents), np.uint32)
        numbers = self._range_of(documents, splits)
        for number in np.unique(numbers).tolist():
            first, count = self._ranges[number].tolist()
            firsts = np.array(self.firsts[first : first + count], np.uint64)
            own = numbers == number
            begun = np.searchsorted(firsts, documents[own], side="right")
            homes[own] = first + np.maximum(begun, 1) - 1
        return homes

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first shard and the number of shards of each split and source, in order."""
        return [(first, count) for first, count in self._ranges.tolist()]

    @cached_property
    def _ranges(self) -> np.ndarray:
        """The first shard and the number of shards of each split and source, int64[ranges, 2]."""
        sources = self.sources or (self,)
        counts = [source.train_shards for source in sources]
        counts += [source.validation_shards for source in sources]
        ends = np.cumsum(counts, dtype=np.int64)
        return np.stack([ends - counts, np.array(counts, np.int64)], axis=1)

    @cached_property
    def _taken(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each source an id that none of its documents is below, and how often it is taken."""
        firsts = [source.first_document for source in self.sources]
        repeats = [source.repeat for source in self.sources]
        return np.array(firsts, np.uint64), np.array(repeats)

    def _range_of(self, documents: np.ndarray, splits: np.ndarray) -> np.ndarray:
        """Return which of the ranges each document belongs to, int64[documents]."""
        size = max(1, len(self.sources))
        numbers: np.ndarray = splits.astype(np.int64) * size + self.sources_of(documents)
        return numbers

    def sources_of(self, documents: np.ndarray) -> np.ndarray:
        """Return the number of each document's source, int64[documents].

        Args:
            documents: uint64[documents], ids.
        """
        if not self.sources:
            return np.zeros(len(documents), np.int64)
        begun = np.searchsorted(self._taken[0], documents, side="right")
        return begun.astype(np.int64) - 1

    def count_copies(self, documents: np.ndarray) -> np.ndarray:
        """Return how often each document is taken, int64[documents]; 0 leaves it out.

        Args:
            documents: uint64[documents], ids.
        """
        if not self.sources:
            return np.ones(len(documents), np.int64)
        repeats = self._taken[1][self.sources_of(documents)]
        keys: np.ndarray = derive_keys(np.uint64(self.seed), documents, 0, _COPIES)
        copies = np.floor(repeats)
        drawn = (keys >> np.uint64(11)) * 2.0**-53 < repeats - copies
        counts: np.ndarray = (copies + drawn).astype(np.int64)
        return counts

    def source_of(self, shard: int) -> int | None:
        """Return the number of a shard's source; None where there is but one."""
        return self._number_of(shard) % len(self.sources) if self.sources else None

    def _number_of(self, shard: int) -> int:
        """Return which of the ranges a shard belongs to."""
        # Of ranges that begin at the same shard all but the last one are empty.
        return int(np.searchsorted(self._ranges[:, 0], shard, side="right")) - 1

    def _most_repeats(self, shard: int, repeats: int) -> int:
        """Return how many times at most a document of a shard is built."""
        source = self.source_of(shard)
        return repeats if source is None else repeats * ceil(self.sources[source].repeat)

    def split_of(self, shard: int) -> int:
        """Return the split of a shard, TRAIN or VALIDATION."""
        return VALIDATION if shard >= self.train_shards else TRAIN

    def shards_of(self, home: int, repeats: int) -> list[int]:
        """Return the shards that build the documents of a home, in the order of the repeats.

        Example:
            with five train shards, home 3 and three repeats give [3, 4, 0].
        """
        first, count = self.range_around(home)
        most = min(self._most_repeats(home, repeats), count)
        return [first + (home - first + repeat) % count for repeat in range(most)]

    def repeats_of(self, shard: int, home: int, repeats: int) -> range:
        """Return the repeats in which a shard builds the documents of a home.

        Example:
            with five train shards, shard 0 builds home 3 in the repeats 2, 7, 12, ...
        """
        _, count = self.range_around(home)
        return range((shard - home) % count, self._most_repeats(home, repeats), count)

    def range_around(self, shard: int) -> tuple[int, int]:
        """Return the first shard of a shard's split and source, and the number of these shards."""
        first, count = self._ranges[self._number_of(shard)].tolist()
        return first, count


def draw_keys(
    documents: np.ndarray, repeats: np.ndarray, indices: np.ndarray, *, seed: int
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
    return draw_rows(seed, documents, repeats, indices, PLACE)


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
