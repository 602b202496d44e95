"""Counts that are data, so that a retried or lost bundle cannot make them lie.

Beam's counters are for the progress line alone. What the manifest says, and what is balanced before
`_SUCCESS`, travels as ("stage.name", number) elements with the very work that it counts.
"""

from collections import Counter
from collections.abc import Iterator

from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from transforms.elements import in_global_window

COUNTS = "counts"
Count = tuple[str, int]
NAMESPACE = "corpusmill"


class Tally:
    """The counts of one bundle, or of one unit of work, of one stage.

    Args:
        stage: first part of the names.
        live: names that the progress line shows meanwhile.
    """

    def __init__(self, stage: str, live: tuple[str, ...] = ()) -> None:
        self._stage = stage
        self._counts: Counter[str] = Counter()
        self._live = {
            f"{stage}.{name}": Metrics.counter(NAMESPACE, f"{stage}.{name}") for name in live
        }

    def add(self, name: str, number: int) -> None:
        """Count `number` more of `name`."""
        self._counts[name] += number
        self.show((f"{self._stage}.{name}", number))

    def show(self, count: Count) -> None:
        """Let the progress line know of a count that needs no counting."""
        name, number = count
        if name in self._live:
            self._live[name].inc(number)

    def start(self) -> None:
        """Forget what an attempt that failed left behind."""
        self._counts.clear()

    def drain(self) -> Iterator[Count]:
        """The counts, sorted by name; there are none afterwards."""
        counts = sorted(self._counts.items())
        self._counts.clear()
        yield from ((f"{self._stage}.{name}", int(number)) for name, number in counts)

    def finish(self) -> Iterator[TaggedOutput]:
        """What `finish_bundle` yields: the counts under the tag COUNTS."""
        for count in in_global_window(self.drain()):
            yield TaggedOutput(COUNTS, count)
