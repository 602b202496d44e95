"""The places of rows in a shard, which are sorted there by keys that are derived from them.

The keys of a large shard are not all in memory: a first pass over them counts how many begin with
each number of some bits, and a second one takes those that begin as the ones that are asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from corpusmill.provenance.spans import Ids, Integers, add_up, ranges

# As many keys as fit are taken in a pass: more takes more passes, and no more memory.
MOST_KEYS = 2**22
_MOST_BITS = 20

# Returns the keys of a group of rows, uint64[rows], by the number of the group.
ReadKeys = Callable[[int], Ids]
# Returns the document, repeat and index of some rows, each integers[n], by their numbers.
ReadIdentity = Callable[[Integers], Sequence[np.ndarray]]


class KeyRanks:
    """Where rows stand that are sorted by their keys, and by document, repeat and index in these.

    Rows are stored in groups, and numbered in the order in which they are stored.

    Args:
        starts: int64[groups + 1], the number of each group's first row, and the number of all rows.
        read_keys: returns the keys of a group.
        read_identity: returns what decides between rows of different groups with the same key; None
            if the stored order does.
        most_keys: how many keys are in memory beside those of a group.
    """

    def __init__(
        self,
        starts: Integers,
        read_keys: ReadKeys,
        read_identity: ReadIdentity | None = None,
        most_keys: int = MOST_KEYS,
    ) -> None:
        self._starts, self._read_keys, self._read_identity = starts, read_keys, read_identity
        bits = min(_MOST_BITS, max(1, int(starts[-1]).bit_length()))
        self._buckets, self._shift = 1 << bits, np.uint64(64 - bits)
        self._most_keys = most_keys

    def numbers_at(self, places: Integers) -> Integers:
        """Return the numbers of the rows that stand at some places, int64[n].

        Args:
            places: int64[n].
        """
        numbers = np.empty(len(places), np.int64)
        buckets = np.searchsorted(self._before, places, side="right") - 1
        for known, known_places in self._sorted(buckets):
            found = np.searchsorted(known_places, places)
            is_found = known_places[np.minimum(found, len(known) - 1)] == places
            numbers[is_found] = known[found[is_found]]
        return numbers

    def places_of(self, numbers: Integers) -> Integers:
        """Return the places where some rows stand, int64[n].

        Args:
            numbers: int64[n], those of the rows.
        """
        places = np.empty(len(numbers), np.int64)
        for known, known_places in self._sorted(self._buckets_of(numbers)):
            order = np.argsort(known)
            ordered = known[order]
            found = np.searchsorted(ordered, numbers)
            is_found = ordered[np.minimum(found, len(known) - 1)] == numbers
            places[is_found] = known_places[order[found[is_found]]]
        return places

    @cached_property
    def _before(self) -> Integers:
        """The number of keys before each bucket, and of all, int64[buckets + 1]."""
        counts = np.zeros(self._buckets, np.int64)
        for group in range(len(self._starts) - 1):
            counts += np.bincount(self._bucket(self._read_keys(group)), minlength=self._buckets)
        return add_up(counts)

    def _bucket(self, keys: Ids) -> Integers:
        """Return the first bits of keys, int64[n]."""
        return (keys >> self._shift).view(np.int64)

    def _buckets_of(self, numbers: Integers) -> Integers:
        groups = np.searchsorted(self._starts, numbers, side="right") - 1
        buckets = np.empty(len(numbers), np.int64)
        for group in np.unique(groups).tolist():
            own = groups == group
            keys = self._read_keys(group)[numbers[own] - self._starts[group]]
            buckets[own] = self._bucket(keys)
        return buckets

    def _sorted(self, buckets: Integers) -> Iterator[tuple[Integers, Integers]]:
        """Yield all rows in some buckets, some at a time: their numbers, and their places.

        Both are int64[n]; the places ascend.
        """
        wanted = np.unique(buckets)
        counts = self._before[wanted + 1] - self._before[wanted]
        cuts = np.flatnonzero(np.diff((add_up(counts)[1:] - 1) // self._most_keys)) + 1
        for part in np.split(wanted, cuts):
            if len(part):
                places = ranges(self._before[part], self._before[part + 1])
                yield self._sort(part), places

    def _sort(self, buckets: Integers) -> Integers:
        """Return the numbers of all rows in some buckets in the order in which they stand."""
        is_wanted = np.zeros(self._buckets, np.bool_)
        is_wanted[buckets] = True
        found_keys, found = list[Ids](), list[Integers]()
        for group in range(len(self._starts) - 1):
            keys = self._read_keys(group)
            chosen = np.flatnonzero(is_wanted[self._bucket(keys)])
            found_keys.append(keys[chosen])
            found.append(chosen + self._starts[group])
        keys, numbers = np.concatenate(found_keys), np.concatenate(found)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        is_same = ordered[1:] == ordered[:-1]
        if self._read_identity and is_same.any():
            tied = np.flatnonzero(np.append(False, is_same) | np.append(is_same, False))
            identity = self._read_identity(numbers[order[tied]])
            order[tied] = order[tied][np.lexsort((*reversed(identity), ordered[tied]))]
        return numbers[order]
