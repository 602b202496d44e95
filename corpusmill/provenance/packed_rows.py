"""Rows as the numbers that are stored of them: what their neighbors tell is left out.

The columns of a group of rows are lists of unequal length:

    documents     the ids of all documents that its rows name, ascending, each less the one before
    is_next       of each row: whether its document and repeat are those of the row before, and its
                  index is the next one; rows that follow one another so are a run
    own           of each run: the number of its document among `documents`, less that of the run
                  before, modulo the number of documents
    repeat        of each run
    index         of each run, that of its first row
    spans         of each row: the number of its spans
    tokens        of each row: the number of tokens of all its spans
    is_own        of each span: whether it has tokens of the row's own document; at first of the
                  first spans of rows, and then of all others
    span_tokens   of each span but the last one of a row: the number of tokens
    gap           of each span of the row's own document: its first token, less the end of the one
                  before in the run; the first one of a run begins at its gap
    other         of each span of another document: the number of that among `documents`
    other_first   of each of these: the first token

    the rows      document 7, repeat 0, index 0, spans (7, 0, 60), (9, 5, 40)
                  document 7, repeat 0, index 1, spans (7, 64, 50), (7, 120, 50)
    are           documents [7, 2], is_next [false, true], own [0], repeat [0], index [0],
                  spans [2, 2], tokens [100, 100], is_own [true, true, false, true],
                  span_tokens [60, 50], gap [0, 4, 6], other [1], other_first [5]

Tokens are counted, and gaps taken, modulo 2**32.
"""

from collections.abc import Mapping
from copy import copy
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.randomness import PLACE, derive_all, draw_all
from corpusmill.provenance.spans import Ids, Integers, Rows, add_up, join

Flags = npt.NDArray[np.bool_]

DOCUMENTS = "documents"
TYPES: Mapping[str, pa.DataType] = {
    DOCUMENTS: pa.uint64(),
    "is_next": pa.bool_(),
    "own": pa.uint32(),
    "repeat": pa.uint16(),
    "index": pa.uint32(),
    "spans": pa.uint32(),
    "tokens": pa.uint32(),
    "is_own": pa.bool_(),
    "span_tokens": pa.uint32(),
    "gap": pa.int32(),
    "other": pa.uint32(),
    "other_first": pa.uint32(),
}
_MASK = 2**32 - 1
# Of so many runs each is unpacked by itself; of more all are.
_FEW_RUNS = 16


def _is_first(offsets: Integers) -> Flags:
    """Return bool[spans]: whether each span is the first one of its row."""
    flags = np.zeros(int(offsets[-1]), np.bool_)
    flags[offsets[:-1][offsets[1:] > offsets[:-1]]] = True
    return flags


def _is_last(offsets: Integers) -> Flags:
    """Return bool[spans]: whether each span is the last one of its row."""
    is_first = _is_first(offsets)
    return np.append(is_first[1:], np.True_)[: len(is_first)]


def pack(rows: Rows) -> dict[str, np.ndarray]:
    """Return the columns of rows."""
    is_next = np.zeros(len(rows.documents), np.bool_)
    is_next[1:] = (
        (rows.documents[1:] == rows.documents[:-1])
        & (rows.repeats[1:] == rows.repeats[:-1])
        & (rows.indices[1:] == rows.indices[:-1] + 1)
    )
    begins, offsets = np.flatnonzero(~is_next), rows.span_offsets
    is_own = rows.span_documents == np.repeat(rows.documents, np.diff(offsets))
    own, other = np.flatnonzero(is_own), np.flatnonzero(~is_own)
    named = np.concatenate([rows.documents[begins], rows.span_documents[other]])
    documents, numbers = np.unique(named, return_inverse=True)
    is_first = _is_first(offsets)
    return {
        DOCUMENTS: np.diff(documents, prepend=np.uint64(0)),
        "is_next": is_next,
        "own": np.diff(numbers[: len(begins)], prepend=0) % max(1, len(documents)),
        "repeat": rows.repeats[begins],
        "index": rows.indices[begins],
        "spans": np.diff(offsets),
        "tokens": np.diff(add_up(rows.tokens)[offsets]) & _MASK,
        "is_own": np.concatenate([is_own[is_first], is_own[~is_first]]),
        "span_tokens": rows.tokens[~_is_last(offsets)],
        "gap": _gaps(
            rows.first_tokens[own], rows.tokens[own], np.searchsorted(own, offsets[begins])
        ),
        "other": numbers[len(begins) :],
        "other_first": rows.first_tokens[other],
    }


def _gaps(firsts: Integers, tokens: Integers, begins: Integers) -> npt.NDArray[np.int32]:
    """Return the gap before each span of the rows' own documents.

    Args:
        firsts: int64[spans], their first tokens.
        tokens: int64[spans], their numbers of tokens.
        begins: int64[runs], the first span of each run, or that of a run after it.
    """
    ends = np.zeros(len(firsts) + 1, np.int64)
    ends[1:] = firsts + tokens
    ends[begins] = 0
    return (firsts - ends[:-1]).astype(np.int32)


def add_up_ids(documents: Ids) -> Ids:
    """Return the ids of which the column `documents` has the differences, ascending."""
    return np.cumsum(documents, dtype=np.uint64)


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
        columns: theirs; those that are not asked for may be missing.
    """

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        self._columns = columns
        self._begins = np.flatnonzero(~columns["is_next"])
        self._documents = add_up_ids(columns[DOCUMENTS])
        total = max(1, len(self._documents))
        self._own = np.cumsum(columns["own"], dtype=np.int64) % total

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._columns["is_next"])

    def _lengths(self) -> Integers:
        """Return the number of rows of each run, int64[runs]."""
        return np.diff(self._begins, append=len(self))

    def _indices(self) -> Integers:
        befores: Integers = np.repeat(self._begins - self._columns["index"], self._lengths())
        return np.arange(len(self)) - befores

    def keys(self, seed: int) -> Ids:
        """Return the keys by which rows are sorted in their shard, uint64[rows].

        They are those of `corpusmill.layout.placement.draw_keys`.

        Args:
            seed: the data set's seed.
        """
        repeats = self._columns["repeat"].astype(np.uint64)
        keys = derive_all(seed, self._documents[self._own], repeats, PLACE)
        keys = np.repeat(keys, self._lengths())
        drawn: Ids = draw_all(keys, self._indices().astype(np.uint64))
        return drawn

    def find(self, documents: Ids) -> Integers:
        """Return the rows that were built from some documents, or hold their tokens, ascending.

        Args:
            documents: uint64[n], their ids.
        """
        wanted = find_ids(self._documents, documents)
        found = np.zeros(len(self), np.bool_)
        found[np.repeat(np.isin(self._own, wanted), self._lengths())] = True
        others = np.flatnonzero(np.isin(self._columns["other"], wanted))
        if len(others):
            offsets = add_up(self._columns["spans"])
            before = add_up(~self._flags_of_spans(offsets))[offsets]
            found[np.searchsorted(before, others, side="right") - 1] = True
        return np.flatnonzero(found)

    def _flags_of_spans(self, offsets: Integers) -> Flags:
        """Return `is_own` in the order of the spans."""
        stored, is_first = self._columns["is_own"], _is_first(offsets)
        flags, number = np.empty(len(stored), np.bool_), np.count_nonzero(is_first)
        flags[is_first], flags[~is_first] = stored[:number], stored[number:]
        return flags

    def take(self, numbers: Integers) -> Rows:
        """Return some rows.

        Args:
            numbers: int64[n], which ones.
        """
        runs = np.searchsorted(self._begins, numbers, side="right") - 1
        chosen, places = np.unique(runs, return_inverse=True)
        if not 0 < len(chosen) <= _FEW_RUNS:
            return self.unpack().take(numbers)
        offsets = add_up(self._columns["spans"])
        parts = [self._cut(run, offsets).unpack() for run in chosen.tolist()]
        first_rows = add_up(self._lengths()[chosen])[places]
        return join(parts).take(first_rows + numbers - self._begins[runs])

    def _cut(self, run: int, offsets: Integers) -> Self:
        """Return the rows of a run.

        Args:
            run: its number.
            offsets: int64[rows + 1] into the spans.
        """
        columns, flags = self._columns, self._columns["is_own"]
        begin = int(self._begins[run])
        end = begin + int(self._lengths()[run])
        rows, runs = slice(begin, end), slice(run, run + 1)
        # Each row with spans has a first one and a last one: in `is_own` the first ones of all rows
        # stand before the others, and in `span_tokens` there are no last ones.
        first, firsts = (
            np.count_nonzero(columns["spans"][:begin]),
            np.count_nonzero(columns["spans"][rows]),
        )
        all_firsts = np.count_nonzero(columns["spans"])
        later = offsets[begin] - first
        laters = offsets[end] - offsets[begin] - firsts
        is_own = np.concatenate([flags[first:][:firsts], flags[all_firsts + later :][:laters]])
        own = np.count_nonzero(flags[:first]) + np.count_nonzero(flags[all_firsts:][:later])
        others = slice(offsets[begin] - own, offsets[begin] - own + np.count_nonzero(~is_own))
        part = copy(self)
        part._begins, part._own = np.zeros(1, np.int64), self._own[runs]
        part._columns = {
            "is_next": columns["is_next"][rows],
            "repeat": columns["repeat"][runs],
            "index": columns["index"][runs],
            "spans": columns["spans"][rows],
            "tokens": columns["tokens"][rows],
            "is_own": is_own,
            "span_tokens": columns["span_tokens"][later:][:laters],
            "gap": columns["gap"][own:][: np.count_nonzero(is_own)],
            "other": columns["other"][others],
            "other_first": columns["other_first"][others],
        }
        return part

    def unpack(self) -> Rows:
        """Return all rows."""
        columns, offsets = self._columns, add_up(self._columns["spans"])
        is_own = self._flags_of_spans(offsets)
        own, other = np.flatnonzero(is_own), np.flatnonzero(~is_own)
        documents = np.repeat(self._documents[self._own], self._lengths())
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
        repeats = np.repeat(columns["repeat"].astype(np.int64), self._lengths())
        return Rows(documents, repeats, self._indices(), offsets, named, firsts, tokens)
