"""Counts that are data, so that a retried or lost bundle cannot falsify them.

Beam's counters serve the progress line only. The counts of the manifest, which are balanced before
`_SUCCESS` is written, travel as ("stage.name", number) elements with the work that they count.
Where equal rows are counted once, in however many units of work they occur, a sketch of their
hashes (`corpusmill.arrays.distinct`) travels instead of a number, in Base64.
"""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.metrics import Metrics

from corpusmill.arrays.distinct import EMPTY, Hashes, add_hashes, estimate_distinct
from corpusmill.corpus.batches import document_id
from corpusmill.dataset.accounting import name_of_source
from corpusmill.layout.groups import drawn_ids
from corpusmill.layout.placement import Layout
from corpusmill.objectives.tokenized_documents import unpack_documents

COUNTS, SKETCHES = "counts", "sketches"
Count = tuple[str, int]
Sketch = tuple[str, str]
NAMESPACE = "corpusmill"

# A count or a sketch; the other one is 0 or empty.
_Both = tuple[str, tuple[int, str]]

# The counts that an engine shows while the work runs, for the progress line and for alerts.
_SHOWN = (
    "read.bytes", "read.rejects", "tokenize.documents", "build.passes", "build.examples",
    "write.rows",
)  # fmt: skip
_LIVE = {name: Metrics.counter(NAMESPACE, name) for name in _SHOWN}
# The same since this process began: of a job inside this process Beam reports none.
_HERE = dict.fromkeys(_SHOWN, 0)


class Tally:
    """The counts of one attempt at a unit of work."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._sketches: dict[str, Hashes] = {}

    def add(self, name: str, number: int) -> None:
        """Add `number` to the count `name` ("read.bytes")."""
        self._counts[name] += number
        show((name, number))

    def add_distinct(self, name: str, hashes: Hashes) -> None:
        """Add to the count `name` ("write.distinct_rows") what has not been added before.

        Args:
            name: of the count.
            hashes: uint64[n], equal for what is equal.
        """
        self._sketches[name] = add_hashes(self._sketches.get(name, EMPTY), hashes)

    def counts(self) -> Iterator[Count]:
        """Yield the counts sorted by name."""
        yield from ((name, int(number)) for name, number in sorted(self._counts.items()))

    def outputs(self) -> Iterator[tuple[str, Count | Sketch]]:
        """Yield the counts and the sketches, each with the name of its collection."""
        yield from ((COUNTS, count) for count in self.counts())
        for name, sketch in sorted(self._sketches.items()):
            yield SKETCHES, (name, _encode(sketch))


def name_sources(
    names: Sequence[str], layout: Layout, documents: npt.NDArray[np.uint64]
) -> list[str]:
    """Return the name of each document's source; empty ones where there is but one source.

    Args:
        names: of the sources, in the order of the layout's; none where there is but one.
        layout: tells the source of a document.
        documents: uint64[n], their ids.
    """
    return [(names or ("",))[number] for number in layout.sources_of(documents).tolist()]


class SourceTally:
    """The counts of each source, beside those of all text.

    Args:
        names: of the sources, in the order of the layout's.
        layout: tells the source of a document.
        tally: where the counts go.
    """

    def __init__(self, names: Sequence[str], layout: Layout, tally: Tally) -> None:
        self._names, self._layout, self._tally = names, layout, tally

    def add_read(self, file_index: int, counts: Mapping[str, int]) -> None:
        """Add what was read of a file, by name of the count."""
        first = np.array([document_id(file_index, 0)], np.uint64)
        [source] = self._layout.sources_of(first).tolist()
        for name, number in counts.items():
            if number:
                self._tally.add(name_of_source(self._names[source], name), number)

    def add_tokenized(self, text: pa.RecordBatch, documents: pa.RecordBatch) -> None:
        """Add documents, as text and tokenized; those without tokens are not among the latter."""
        index, _ = unpack_documents(documents)
        tokens = np.diff(index.sentence_offsets[index.offsets])
        ids = drawn_ids(documents)
        copies, sources = self._layout.count_copies(ids), self._layout.sources_of(ids)
        before = self._layout.sources_of(text.column("document").to_numpy())
        self._tally.add("tokenize.copies", int(copies.sum()))
        self._tally.add("tokenize.copied_tokens", int((copies * tokens).sum()))
        for source in np.unique(before).tolist():
            own = sources == source
            counts = {
                "documents": int(own.sum()),
                "empty_documents": int((before == source).sum() - own.sum()),
                "tokens": int(tokens[own].sum()),
                "copies": int(copies[own].sum()),
                "copied_tokens": int((copies * tokens)[own].sum()),
            }
            for name, number in counts.items():
                if number:
                    count = name_of_source(self._names[source], f"tokenize.{name}")
                    self._tally.add(count, number)


def show(count: Count) -> None:
    """Add to the progress line, also for work that was counted before."""
    name, number = count
    if name in _LIVE:
        _LIVE[name].inc(number)
        _HERE[name] += number


def shown_here() -> Counter[str]:
    """What was added to the progress line in this process, since it began."""
    return Counter(_HERE)


def add_up(
    counts: Iterable[beam.PCollection[Count]], sketches: Sequence[beam.PCollection[Sketch]] = ()
) -> beam.PCollection[Count]:
    """Add up the counts of several collections by name, and estimate those that are sketches."""
    numbers = counts | "JoinCounts" >> beam.Flatten()
    if not sketches:
        return numbers | "AddCounts" >> beam.CombinePerKey(_add)
    # Both kinds together, because each grouping costs an engine time.
    numbers |= "TakeNumbers" >> beam.Map(
        lambda count: (count[0], (count[1], ""))
    ).with_output_types(_Both)
    texts = sketches | "JoinSketches" >> beam.Flatten()
    texts |= "TakeSketches" >> beam.Map(
        lambda sketch: (sketch[0], (0, sketch[1]))
    ).with_output_types(_Both)
    return (
        (numbers, texts)
        | "JoinBoth" >> beam.Flatten()
        | "AddCounts" >> beam.CombinePerKey(_add_both)
        | "Estimate" >> beam.Map(_estimate).with_output_types(Count)
    )


def limit_distinct(counts: Mapping[str, int]) -> dict[str, int]:
    """Limit estimates of distinct rows to the number of all rows.

    Example:
        {"write.rows": 7, "write.distinct_rows": 9} gives {"write.rows": 7, "write.distinct_rows":
        7}.
    """
    return {
        name: min(number, counts.get(name.replace(".distinct_", "."), number))
        for name, number in counts.items()
    }


def _encode(sketch: Hashes) -> str:
    return b64encode(sketch.astype("<u8").tobytes()).decode()


def _decode(text: str) -> Hashes:
    return np.frombuffer(b64decode(text), "<u8").astype(np.uint64)


def _add(numbers: Iterable[int]) -> int:
    # Beam does not know the type of the bare `sum`, and would pickle every count.
    return sum(numbers)


def _add_both(values: Iterable[tuple[int, str]]) -> tuple[int, str]:
    total, sketch = 0, EMPTY
    for number, text in values:
        total += number
        sketch = add_hashes(sketch, _decode(text)) if text else sketch
    return total, _encode(sketch)


def _estimate(total: tuple[str, tuple[int, str]]) -> Count:
    name, (number, text) = total
    return name, number + estimate_distinct(_decode(text))
