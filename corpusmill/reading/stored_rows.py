"""Which stored rows the samples of any reader are made of."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from corpusmill.provenance.records import RowOrigin, Span
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.order.mixture import JoinedSamples
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


def stored_rows(samples: Samples, number: int) -> Iterator[StoredRow]:
    """Yield the rows of which a sample is made, in their order.

    Args:
        samples: a data set, windows of one, or several data sets read as one.
        number: of the sample.
    """
    if isinstance(samples, JoinedSamples):
        starts = np.cumsum([0, *map(len, samples.sources)])
        source = int(np.searchsorted(starts, number, side="right")) - 1
        yield from stored_rows(samples.sources[source], number - int(starts[source]))
    elif isinstance(samples, TokenWindows):
        yield from _rows_of_window(samples, number)
    elif isinstance(samples, DataSet):
        yield StoredRow(samples, _row_of(samples, number))
    else:
        raise TypeError(f"the rows of {type(samples).__name__} are not known")


def _row_of(data_set: DataSet, sample: int) -> int:
    return int(data_set.rows_in_split(np.array([sample]))[0])


def _rows_of_window(samples: TokenWindows, number: int) -> Iterator[StoredRow]:
    data_set = samples.data_set
    starts = np.cumsum([0, *(shard.tokens for shard in data_set.shards)])
    firsts = np.cumsum([0, *data_set.shard_sizes])
    begin = int(samples.find_begins(np.array([number]))[0])
    stop = begin + samples.context_len + 1
    while begin < stop:
        shard = int(np.searchsorted(starts, begin, side="right")) - 1
        rows = np.arange(firsts[shard], firsts[shard + 1])
        ends = int(starts[shard]) + np.cumsum([0, *data_set.lengths(rows)])
        row = int(np.searchsorted(ends, begin, side="right")) - 1
        end = min(stop, int(ends[row + 1]))
        sample = int(firsts[shard]) + row
        yield StoredRow(data_set, _row_of(data_set, sample), begin - int(ends[row]), end - begin)
        begin = end
