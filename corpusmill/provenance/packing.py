"""Rows as the numbers that are stored of them: what their neighbors tell is left out.

The columns of a group of rows are arrays of unequal length:

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

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.provenance.spans import Ids, Integers

DOCUMENTS = "documents"
_ROWS_AHEAD = 16
# 2**64 divided by the golden ratio spreads multiples of a number over all slots.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
# The types of columns; those that are smaller than those of `pack` hold numbers modulo their size.
TYPES: Mapping[str, np.dtype] = {
    DOCUMENTS: np.dtype(np.uint64),
    "is_next": np.dtype(np.bool_),
    "own": np.dtype(np.uint32),
    "repeat": np.dtype(np.uint16),
    "index": np.dtype(np.uint32),
    "spans": np.dtype(np.uint32),
    "tokens": np.dtype(np.uint32),
    "is_own": np.dtype(np.bool_),
    "span_tokens": np.dtype(np.uint32),
    "gap": np.dtype(np.int32),
    "other": np.dtype(np.uint32),
    "other_first": np.dtype(np.uint32),
}


def pack(
    identity: Sequence[np.ndarray], spans: np.ndarray, offsets: np.ndarray, order: Integers
) -> dict[str, np.ndarray]:
    """Return the columns of rows.

    Args:
        identity: uint64[rows], integers[rows] and integers[rows]: the document, repeat and index of
            each row.
        spans: uint64[3 * spans]: the document, the first token and the number of tokens of each.
        offsets: integers[rows + 1], where those of each row begin in `spans`.
        order: int64[rows], in which order the rows are stored.
    """
    documents, repeats, indices = (column[order] for column in identity)
    is_next = np.zeros(len(order), np.bool_)
    is_next[1:] = (
        (documents[1:] == documents[:-1])
        & (repeats[1:] == repeats[:-1])
        & (indices[1:] == indices[:-1] + 1)
    )
    begins = np.flatnonzero(~is_next)
    counts = (np.diff(offsets) // 3)[order]
    packed = _pack_spans(documents, is_next, spans, offsets[order], counts)
    others, tokens, is_own, span_tokens, gaps, other_firsts = packed
    named, run_numbers, other_numbers = _number(documents[begins], others)
    own = np.diff(run_numbers, prepend=np.int32(0))
    own[own < 0] += len(named)
    return {
        DOCUMENTS: np.diff(named, prepend=np.uint64(0)),
        "is_next": is_next,
        "own": own,
        "repeat": repeats[begins],
        "index": indices[begins],
        "spans": counts,
        "tokens": tokens,
        "is_own": is_own,
        "span_tokens": span_tokens,
        "gap": gaps,
        "other": other_numbers,
        "other_first": other_firsts,
    }


def _number(owns: Ids, others: Ids) -> tuple[Ids, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Number documents in the order of their ids.

    Args:
        owns: uint64[runs]; ascending in most groups, and those of neighbors are often the same.
        others: uint64[n].

    Returns:
        uint64[documents], each id once, ascending; and int32[runs] and int32[n], their places among
        them.
    """
    # Numbers of 32 bits, as memory that is new takes most of the time.
    changes = np.append(True, owns[1:] != owns[:-1])[: len(owns)]
    known, run_numbers = owns[changes], np.cumsum(changes, dtype=np.int32)
    run_numbers -= 1
    if not (known[1:] > known[:-1]).all():
        known, unordered = np.unique(known, return_inverse=True)
        run_numbers = unordered.astype(np.int32)[run_numbers]
    new, other_numbers = _look_up(known, others)
    order = np.argsort(new)
    in_order = new[order]
    places = np.empty(len(known) + len(new), np.int32)
    places[: len(known)] = np.arange(len(known)) + np.searchsorted(in_order, known)
    new_places = np.arange(len(new)) + np.searchsorted(known, in_order)
    places[len(known) :][order] = new_places
    named = np.empty(len(places), np.uint64)
    named[places] = np.concatenate([known, new])
    return named, places[run_numbers], places[other_numbers]


@njit
def _look_up(known: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Look documents up by a hash table, whose slots follow one another where they are taken.

    Sorting the documents takes several times as long.

    Args:
        known: uint64[n], distinct ids, which are numbered from 0.
        wanted: uint64[m], ids; those that are not known are numbered on as they come.

    Returns:
        The ids that are not known, uint64[k], and the number of each wanted one, int32[m].
    """
    total = len(known) + len(wanted)
    bits = 1
    while 1 << bits < total + total // 2 + 1:
        bits += 1
    shift, last = np.uint64(64 - bits), (1 << bits) - 1
    slots = np.full(last + 1, -1, np.int32)
    ids, count = np.empty(total, np.uint64), 0
    numbers = np.empty(len(wanted), np.int32)
    for place in range(total):
        document = known[place] if place < len(known) else wanted[place - len(known)]
        slot = np.int64((document * _SPREAD) >> shift)
        while slots[slot] >= 0 and ids[slots[slot]] != document:
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot], ids[count] = count, document
            count += 1
        if place >= len(known):
            numbers[place - len(known)] = slots[slot]
    return ids[len(known) : count], numbers


@njit
def _pack_spans(
    documents: np.ndarray,
    is_next: np.ndarray,
    spans: np.ndarray,
    begins: np.ndarray,
    counts: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Return the columns of spans.

    Args:
        documents: uint64[rows], in the order in which they are stored.
        is_next: bool[rows], likewise.
        spans: as in `pack`.
        begins: integers[rows], where those of each row begin in `spans`.
        counts: integers[rows], the number of its spans.

    Returns:
        The documents of the column `other`; and the columns `tokens`, `is_own`, `span_tokens`,
        `gap` and `other_first`.
    """
    total, rest = int(counts.sum()), np.count_nonzero(counts)
    sums, is_own = np.zeros(len(counts), np.uint32), np.empty(total, np.bool_)
    tokens, gaps = np.empty(total - rest, np.uint32), np.empty(total, np.int32)
    others, other_firsts = np.empty(total, np.uint64), np.empty(total, np.uint32)
    first, inner, own, other = 0, 0, 0, 0
    end, heads = np.uint64(0), np.empty(_ROWS_AHEAD, np.uint64)
    for row in range(len(counts)):
        if row % _ROWS_AHEAD == 0:
            # Rows lie far from one another: so the processor waits for several of them at once.
            for ahead in range(row, min(row + _ROWS_AHEAD, len(counts))):
                if counts[ahead]:
                    heads[ahead - row] = spans[begins[ahead]]
        if not is_next[row]:
            end = np.uint64(0)
        for span in range(counts[row]):
            place = begins[row] + 3 * span
            document, begin, number = spans[place], spans[place + 1], spans[place + 2]
            sums[row] += np.uint32(number)
            if span < counts[row] - 1:
                tokens[inner] = number
                inner += 1
            is_same = document == documents[row]
            if span == 0:
                is_own[first] = is_same
                first += 1
            else:
                is_own[rest] = is_same
                rest += 1
            if is_same:
                gaps[own] = np.int32(begin - end)
                end = begin + number
                own += 1
            else:
                others[other], other_firsts[other] = document, begin
                other += 1
    return others[:other], sums, is_own, tokens, gaps[:own], other_firsts[:other]
