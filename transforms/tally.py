"""Counts that are data, so that a retried or lost bundle cannot falsify them.

Beam's counters serve the progress line only. The counts of the manifest, which are balanced before
`_SUCCESS` is written, travel as ("stage.name", number) elements with the work that they count.
"""

from collections import Counter
from collections.abc import Iterator

from apache_beam.metrics import Metrics

COUNTS = "counts"
Count = tuple[str, int]
NAMESPACE = "corpusmill"


class Tally:
    """The counts of one stage for one unit of work.

    Args:
        stage: first part of the names.
        live: names that the progress line shows while the work runs.
    """

    def __init__(self, stage: str, live: tuple[str, ...] = ()) -> None:
        self._stage = stage
        self._counts: Counter[str] = Counter()
        self._live = {
            f"{stage}.{name}": Metrics.counter(NAMESPACE, f"{stage}.{name}") for name in live
        }

    def add(self, name: str, number: int) -> None:
        """Add `number` to the count `name`."""
        self._counts[name] += number
        self.show((f"{self._stage}.{name}", number))

    def show(self, count: Count) -> None:
        """Add to the progress line only, for work that was counted before."""
        name, number = count
        if name in self._live:
            self._live[name].inc(number)

    def start(self) -> None:
        """Drop the counts of an attempt that failed."""
        self._counts.clear()

    def drain(self) -> Iterator[Count]:
        """Yield the counts sorted by name, and reset them."""
        counts = sorted(self._counts.items())
        self._counts.clear()
        yield from ((f"{self._stage}.{name}", int(number)) for name, number in counts)
