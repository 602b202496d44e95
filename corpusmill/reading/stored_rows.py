"""Which stored rows the samples of any reader are made of."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from corpusmill.provenance.records import RowOrigin, Span
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.order.mixture import JoinedSamples
from corpusmill.reading.rows import Integers, group
from corpusmill.reading.token_windows import TokenWindows


class StoredRow(NamedTuple):
    """A row of a split, or some tokens of it.

    Attributes:
        data_set: the data set.
        row: number of the row in its split.
        first: place of the first token in the row.
        tokens: their number; None for the whole row.
    """

    data_set: DataSet
    row: int
    first: int = 0
    tokens: int | None = None

    def cut(self, origin: RowOrigin) -> RowOrigin:
        """Return the origin of a row of a stream with the spans that a window holds of it.

        Where special tokens stand within rows, as with middles that were moved, it is not known
        where; then the whole row is returned.
        """
        options = self.data_set.manifest.objective.options
        if self.tokens is None or options.get("fim_rate"):
            return origin
        spans, place, end = [], 0, self.first + self.tokens
        for span in origin.spans:
            first, stop = max(self.first, place), min(end, place + span.tokens)
            if first < stop:
                spans.append(Span(span.document, span.first_token + first - place, stop - first))
            place += span.tokens
        return replace(origin, spans=tuple(spans))


def stored_rows(samples: Samples, numbers: Integers) -> list[list[StoredRow]]:
    """Return the rows of which samples are made, in their order.

    Each shard is looked at once for all samples.

    Args:
        samples: a data set, windows of one, or several data sets read as one.
        numbers: int64[n], those of the samples.
    """
    if isinstance(samples, JoinedSamples):
        return _rows_of_joined(samples, numbers)
    if isinstance(samples, TokenWindows):
        return _rows_of_windows(samples, numbers)
    if isinstance(samples, DataSet):
        return [[StoredRow(samples, row)] for row in samples.rows_in_split(numbers).tolist()]
    raise TypeError(f"the rows of {type(samples).__name__} are not known")


def _rows_of_joined(samples: JoinedSamples, numbers: Integers) -> list[list[StoredRow]]:
    starts = np.cumsum([0, *map(len, samples.sources)])
    found: dict[int, list[StoredRow]] = {}
    for source, own, places in group(numbers, starts):
        found |= zip(places.tolist(), stored_rows(samples.sources[source], own), strict=True)
    return [found[place] for place in range(len(numbers))]


def _rows_of_windows(samples: TokenWindows, numbers: Integers) -> list[list[StoredRow]]:
    data_set = samples.data_set
    starts = np.cumsum([0, *(shard.tokens for shard in data_set.shards)], dtype=np.int64)
    firsts = np.cumsum([0, *data_set.shard_sizes], dtype=np.int64)
    begins = samples.find_begins(numbers)
    stops = begins + samples.context_len + 1
    found: list[list[StoredRow]] = [[] for _ in numbers]
    for shard in _list_shards(starts, begins, stops):
        rows = np.arange(firsts[shard], firsts[shard + 1])
        ends = starts[shard] + np.cumsum([0, *data_set.lengths(rows)], dtype=np.int64)
        first_row = int(data_set.rows_in_split(rows[:1])[0])
        for window in np.flatnonzero((begins < ends[-1]) & (stops > ends[0])).tolist():
            begin, stop = max(begins[window], ends[0]), min(stops[window], ends[-1])
            for row, first, tokens in _cut(ends, int(begin), int(stop)):
                found[window].append(StoredRow(data_set, first_row + row, first, tokens))
    return found


def _list_shards(starts: Integers, begins: Integers, stops: Integers) -> list[int]:
    """Return the shards that hold tokens of some windows, in order."""
    holds = [np.searchsorted(starts, places, side="right") - 1 for places in (begins, stops - 1)]
    shards = (range(first, last + 1) for first, last in np.transpose(holds).tolist())
    return sorted(set(chain.from_iterable(shards)))


def _cut(ends: Integers, begin: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the rows of a stretch of tokens: the row, its first token there, and their number.

    Args:
        ends: int64[rows + 1], where the rows begin, and the last one ends.
        begin: where the stretch begins.
        stop: where it ends.
    """
    while begin < stop:
        row = int(np.searchsorted(ends, begin, side="right")) - 1
        first, end = int(ends[row]), min(stop, int(ends[row + 1]))
        yield row, begin - first, end - begin
        begin = end
