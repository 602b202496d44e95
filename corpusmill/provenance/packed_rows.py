"""Rows unpacked again from what `corpusmill.provenance.packing` has packed, all or some of them.

Nothing here needs numba, as importing it takes longer than unpacking a few rows.
"""

from collections.abc import Mapping
from copy import copy
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.randomness import PLACE, derive_all, draw_all
from corpusmill.provenance.packing import DOCUMENTS
from corpusmill.provenance.spans import Ids, Integers, Rows, add_up, ranges

Flags = npt.NDArray[np.bool_]

# The columns of which the keys of rows are derived.
KEY_COLUMNS = (DOCUMENTS, "is_next", "own", "repeat", "index")

_MASK = 2**32 - 1
# Up to `_FEW` documents are looked up one by one, each in blocks of `_BLOCK`.
_FEW, _BLOCK = 16, 512
# The keys of so many runs are derived at a time, as numbers in the processor's cache take less
# time.
_BLOCK_RUNS = 2**14


class _Before(NamedTuple):
    """How many spans stand before some rows, each as many integers as there are rows.

    Attributes:
        firsts: the spans that are the first ones of their rows.
        rest: all other spans; as many as such that are not the last ones.
        owns: the spans of the rows' own documents.
        others: the spans of other documents.
    """

    firsts: Integers
    rest: Integers
    owns: Integers
    others: Integers


def _is_first(offsets: Integers) -> Flags:
    """Return bool[spans]: whether each span is the first one of its row."""
    flags = np.zeros(int(offsets[-1]), np.bool_)
    flags[offsets[:-1][offsets[1:] > offsets[:-1]]] = True
    return flags


def _is_last(offsets: Integers) -> Flags:
    """Return bool[spans]: whether each span is the last one of its row."""
    is_first = _is_first(offsets)
    return np.append(is_first[1:], np.True_)[: len(is_first)]


def add_up_ids(documents: Ids) -> Ids:
    """Return the ids of which the column `documents` has the differences, ascending."""
    return np.cumsum(documents, dtype=np.uint64)


def holds_any(documents: Ids, wanted: Ids) -> bool:
    """Return whether any of some documents is among those of the column `documents`.

    For a few documents most of the column is only added up in blocks, which takes less time.

    Args:
        documents: uint64[n], the column.
        wanted: uint64[m], the ids.
    """
    if len(wanted) > _FEW or not len(documents):
        return len(find_ids(add_up_ids(documents), wanted)) > 0
    sums = np.add.reduceat(documents, np.arange(0, len(documents), _BLOCK))
    ends = add_up_ids(sums)
    for document in wanted:
        block = int(np.searchsorted(ends, document))
        if block < len(ends):
            part = documents[block * _BLOCK :][:_BLOCK]
            if (add_up_ids(part) == document - (ends[block] - sums[block])).any():
                return True
    return False


def find_ids(known: Ids, documents: Ids) -> Integers:
    """Return the places of documents among known ones, of those that are there.

    Args:
        known: uint64[n], ascending.
        documents: uint64[m].
    """
    places = np.searchsorted(known, documents)
    is_known = known[np.minimum(places, len(known) - 1)] == documents if len(known) else False
    found: Integers = places[np.broadcast_to(is_known, places.shape)]
    return found


class PackedRows:
    """Rows that `pack` has packed.

    Args:
        columns: theirs; for their keys alone those of `KEY_COLUMNS` are enough.
    """

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        self._columns = columns
        self._begins = np.flatnonzero(~columns["is_next"])
        # The number of rows of each run, int64[runs].
        self._lengths = np.diff(self._begins, append=len(self))
        self._documents = add_up_ids(columns[DOCUMENTS])
        total = max(1, len(self._documents))
        self._own = np.cumsum(columns["own"], dtype=np.int64) % total

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._columns["is_next"])

    def _indices(self) -> Integers:
        firsts: Integers = np.repeat(self._begins - self._columns["index"], self._lengths)
        return np.arange(len(self)) - firsts

    def keys(self, seed: int) -> Ids:
        """Return the keys by which rows are sorted in their shard, uint64[rows].

        They are those of `corpusmill.layout.placement.draw_keys`.

        Args:
            seed: the data set's seed.
        """
        keys = np.empty(len(self), np.uint64)
        for begin in range(0, len(self._begins), _BLOCK_RUNS):
            runs = slice(begin, begin + _BLOCK_RUNS)
            lengths, first = self._lengths[runs], self._begins[begin]
            documents, repeats = self._documents[self._own[runs]], self._columns["repeat"][runs]
            of_runs = derive_all(seed, documents, repeats.astype(np.uint64), PLACE)
            indices = self._columns["index"][runs].astype(np.int64)
            numbers = ranges(indices, indices + lengths).view(np.uint64)
            drawn = draw_all(np.repeat(of_runs, lengths), numbers)
            keys[first : first + len(drawn)] = drawn
        return keys

    def find(self, documents: Ids) -> Integers:
        """Return the rows that were built from some documents, or hold their tokens, ascending.

        Args:
            documents: uint64[n], their ids.
        """
        wanted = find_ids(self._documents, documents)
        found = np.zeros(len(self), np.bool_)
        found[np.repeat(np.isin(self._own, wanted), self._lengths)] = True
        others = np.flatnonzero(np.isin(self._columns["other"], wanted))
        if len(others):
            before = self._count_before(np.arange(len(self) + 1)).others
            found[np.searchsorted(before, others, side="right") - 1] = True
        return np.flatnonzero(found)

    def _count_before(self, rows: Integers) -> _Before:
        """Return what stands before some rows, or the end.

        Args:
            rows: int64[...], the number of all rows for the end.
        """
        spans, flags = self._columns["spans"], self._columns["is_own"]
        number = np.count_nonzero(spans)
        firsts, all_spans = add_up(spans > 0)[rows], add_up(spans)[rows]
        rest = all_spans - firsts
        others = add_up(~flags[number:])[rest]
        if not flags[:number].all():
            others += add_up(~flags[:number])[firsts]
        return _Before(firsts, rest, all_spans - others, others)

    def take(self, numbers: Integers) -> Rows:
        """Return some rows, without unpacking runs in which there are none of them.

        Args:
            numbers: int64[n], which ones.
        """
        runs = np.searchsorted(self._begins, numbers, side="right") - 1
        chosen, places = np.unique(runs, return_inverse=True)
        part = self._cut(chosen) if len(chosen) < len(self._begins) else self
        first_rows = add_up(self._lengths[chosen])[places]
        return part.unpack().take(first_rows + numbers - self._begins[runs])

    def _cut(self, runs: Integers) -> Self:
        """Return the rows of some runs, int64[n], which ascend."""
        columns, begins = self._columns, self._begins[runs]
        ends = begins + self._lengths[runs]
        rows = ranges(begins, ends)
        before = self._count_before(np.stack([begins, ends]))
        firsts, rest, owns, others = (ranges(*bounds) for bounds in before)
        is_own, number = columns["is_own"], np.count_nonzero(columns["spans"])
        part = copy(self)
        part._begins, part._lengths = add_up(ends - begins)[:-1], self._lengths[runs]
        part._own = self._own[runs]
        part._columns = {
            "is_next": columns["is_next"][rows],
            "repeat": columns["repeat"][runs],
            "index": columns["index"][runs],
            "spans": columns["spans"][rows],
            "tokens": columns["tokens"][rows],
            "is_own": np.concatenate([is_own[:number][firsts], is_own[number:][rest]]),
            "span_tokens": columns["span_tokens"][rest],
            "gap": columns["gap"][owns],
            "other": columns["other"][others],
            "other_first": columns["other_first"][others],
        }
        return part

    def unpack(self) -> Rows:
        """Return all rows."""
        columns, offsets = self._columns, add_up(self._columns["spans"])
        is_first = _is_first(offsets)
        is_own = np.empty(len(is_first), np.bool_)
        number = np.count_nonzero(is_first)
        is_own[is_first], is_own[~is_first] = columns["is_own"][:number], columns["is_own"][number:]
        own, other = np.flatnonzero(is_own), np.flatnonzero(~is_own)
        documents = np.repeat(self._documents[self._own], self._lengths)
        named = np.repeat(documents, columns["spans"])
        named[other] = self._documents[columns["other"]]
        tokens, is_last = np.zeros(len(is_own), np.int64), _is_last(offsets)
        tokens[~is_last] = columns["span_tokens"]
        rest = (columns["tokens"] - np.diff(add_up(tokens)[offsets])) & _MASK
        tokens[is_last] = rest[columns["spans"] > 0]
        firsts = np.empty(len(is_own), np.int64)
        firsts[other] = columns["other_first"]
        ends = add_up(columns["gap"] + tokens[own])
        runs = np.searchsorted(own, offsets[np.append(self._begins, len(self))])
        firsts[own] = (ends[1:] - tokens[own] - np.repeat(ends[runs[:-1]], np.diff(runs))) & _MASK
        repeats = np.repeat(columns["repeat"].astype(np.int64), self._lengths)
        return Rows(documents, repeats, self._indices(), offsets, named, firsts, tokens)
