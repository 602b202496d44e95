"""Counts that are data, so that a retried or lost bundle cannot falsify them.

Beam's counters serve the progress line only. The counts of the manifest, which are balanced before
`_SUCCESS` is written, travel as ("stage.name", number) elements with the work that they count.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import apache_beam as beam
from apache_beam.metrics import Metrics

COUNTS = "counts"
Count = tuple[str, int]
NAMESPACE = "corpusmill"

# The counts that the progress line shows while the work runs.
_SHOWN = ("read.bytes", "tokenize.documents", "build.passes", "build.examples", "write.rows")
_LIVE = {name: Metrics.counter(NAMESPACE, name) for name in _SHOWN}
# The same since this process began: of a job inside this process Beam reports none.
_HERE = dict.fromkeys(_SHOWN, 0)


class Tally:
    """The counts of one attempt at a unit of work."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, number: int) -> None:
        """Add `number` to the count `name` ("read.bytes")."""
        self._counts[name] += number
        show((name, number))

    def counts(self) -> Iterator[Count]:
        """Yield the counts sorted by name."""
        yield from ((name, int(number)) for name, number in sorted(self._counts.items()))


def show(count: Count) -> None:
    """Add to the progress line, also for work that was counted before."""
    name, number = count
    if name in _LIVE:
        _LIVE[name].inc(number)
        _HERE[name] += number


def shown_here() -> Counter[str]:
    """What was added to the progress line in this process, since it began."""
    return Counter(_HERE)


def add_up(counts: Iterable[beam.PCollection[Count]]) -> beam.PCollection[Count]:
    """Add up the counts of several collections by name."""
    return counts | "JoinCounts" >> beam.Flatten() | "AddCounts" >> beam.CombinePerKey(_add)


def _add(numbers: Iterable[int]) -> int:
    # Beam does not know the type of the bare `sum`, and would pickle every count.
    return sum(numbers)
