"""Rows, and the spans of documents' tokens that they are made of."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint64]


class Rows(NamedTuple):
    """Rows, and what they are made of.

    Attributes:
        documents: uint64[rows], the ids of the documents from which they were built.
        repeats: int64[rows], in which pass.
        indices: int64[rows], the numbers of the rows in their passes.
        span_offsets: int64[rows + 1] into the spans, from 0.
        span_documents: uint64[spans], whose tokens they are.
        first_tokens: int64[spans], the place of their first token in its document.
        tokens: int64[spans], their numbers of tokens.
    """

    documents: Ids
    repeats: Integers
    indices: Integers
    span_offsets: Integers
    span_documents: Ids
    first_tokens: Integers
    tokens: Integers

    def take(self, numbers: Integers) -> "Rows":
        """Return some rows.

        Args:
            numbers: int64[n], which ones.
        """
        counts = np.diff(self.span_offsets)[numbers]
        offsets = add_up(counts)
        spans = ranges(self.span_offsets[:-1][numbers], self.span_offsets[1:][numbers])
        return Rows(
            self.documents[numbers],
            self.repeats[numbers],
            self.indices[numbers],
            offsets,
            self.span_documents[spans],
            self.first_tokens[spans],
            self.tokens[spans],
        )


_NO_NUMBERS, _NO_IDS = np.zeros(0, np.int64), np.zeros(0, np.uint64)
_NOTHING = Rows(
    _NO_IDS, _NO_NUMBERS, _NO_NUMBERS, np.zeros(1, np.int64), _NO_IDS, _NO_NUMBERS, _NO_NUMBERS
)


def add_up(values: np.ndarray) -> Integers:
    """Return int64[n + 1]: the sums of the values before each, and of all."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def ranges(begins: Integers, ends: Integers) -> Integers:
    """Return the numbers of several ranges, one range after another, int64[numbers].

    Args:
        begins: int64[ranges].
        ends: int64[ranges].

    Example:
        the begins [7, 0] and the ends [9, 1] give [7, 8, 0].
    """
    offsets = add_up(ends - begins)
    numbers: Integers = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], ends - begins)
    return numbers


def join(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts."""
    parts = [_NOTHING, *parts]
    firsts = add_up(np.array([len(part.tokens) for part in parts]))
    offsets = [part.span_offsets[:-1] + first for part, first in zip(parts, firsts, strict=False)]
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Rows._fields
        if name != "span_offsets"
    }
    return Rows(span_offsets=np.concatenate([*offsets, firsts[-1:]]), **columns)
