"""Batches to what is counted of them, and all of it to the numbers of a corpus."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from corpusmill.dataset.accounting import Expected, count_reasons, find_imbalances
from corpusmill.formats.options import OutputOptions
from corpusmill.inspection.build_estimate import (
    build_sample,
    compare,
    estimate_build,
    spread_sample,
)
from corpusmill.inspection.corpus_measures import DISTRIBUTIONS, Measures, read_histogram
from corpusmill.inspection.corpus_numbers import collect_numbers
from corpusmill.layout.placement import Layout
from corpusmill.objectives.objective import Objective
from transforms.elements import NamedOutputs, RejectsFile, in_global_window
from transforms.pool import map_pool
from transforms.storage.files import create_file, open_file
from transforms.tally import COUNTS, Count, Tally

LARGEST = "largest"
STAGE = "measure"

# Of each reason so many rejects are shown.
_EXAMPLES_A_REASON = 3


class _MeasureBatch(beam.DoFn):
    """A batch to nothing; what was counted comes when the bundle ends."""

    def __init__(self, measure: Callable[[pa.RecordBatch], Measures]) -> None:
        self._measure = measure

    def setup(self) -> None:
        self._tally = Tally(STAGE)

    def start_bundle(self) -> None:
        self._tally.start()
        self._measures = Measures()

    def process(self, element: pa.RecordBatch) -> None:
        self._measures.add(self._measure(element))

    def finish_bundle(self) -> Iterator[TaggedOutput]:
        for name, number in self._measures.counts.items():
            self._tally.add(name, number)
        yield from self._tally.finish()
        for largest in in_global_window(sorted(self._measures.largest.items())):
            yield TaggedOutput(LARGEST, largest)


class MeasureBatches(beam.PTransform):
    """Measure batches; gives a tuple of the collections COUNTS and LARGEST.

    Args:
        measure: of a batch (`corpusmill.inspection.corpus_measures`).
    """

    def __init__(self, measure: Callable[[pa.RecordBatch], Measures]) -> None:
        super().__init__()
        self._measure = measure

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> NamedOutputs:
        """One DoFn in the stage of its input."""
        measure = beam.ParDo(_MeasureBatch(self._measure)).with_output_types(
            Count, **{COUNTS: Count, LARGEST: Count}
        )
        return batches | "MeasureBatch" >> measure.with_outputs(COUNTS, LARGEST)


class _CollectNumbers(beam.DoFn):
    """Runs once: builds the sample, and writes the numbers to a file."""

    def __init__(
        self,
        objective: Objective,
        output_options: OutputOptions,
        layout: Layout,
        expected: Expected,
        path: str,
    ) -> None:
        self._objective, self._options, self._layout = objective, output_options, layout
        self._expected, self._path = expected, path

    def process(
        self,
        _: bytes,
        sample: str,
        counts: list[Count],
        largest: list[Count],
        rejects: list[RejectsFile],
    ) -> Iterator[str]:
        sums = {**dict(counts), "write.rejects": sum(part.rejects for part in rejects)}
        check_counts(sums, self._expected)
        shown = list(first_rejects(rejects, count_reasons(sums)))
        numbers = collect_numbers(sums, dict(largest), shown)
        numbers["build"] = self._estimate(sample, sums, dict(largest))
        with create_file(self._path) as stream:
            stream.write(json.dumps(numbers).encode())
        yield self._path

    def _estimate(
        self, sample: str, counts: Mapping[str, int], largest: Mapping[str, int]
    ) -> dict[str, Any]:
        pool = map_pool(sample)
        prefix = f"{STAGE}."
        measured = {name.removeprefix(prefix): of for name, of in counts.items()}
        scale = compare(
            pool, self._layout.seed, read_histogram(DISTRIBUTIONS[0], measured, largest)
        )
        layout = self._layout
        if scale.share < 1:
            layout = spread_sample(layout, self._objective.repeats)
        built = build_sample(self._objective, pool, layout, self._options)
        return estimate_build(self._objective, scale, built, self._layout)


def check_counts(counts: Mapping[str, int], expected: Expected) -> None:
    """Make sure that nothing was lost between reading and measuring.

    Raises:
        RuntimeError: something was.
    """
    # Nothing is built but the sample.
    read = Expected(expected.ranges, expected.bytes, shards=0, repeats=0)
    problems = find_imbalances(counts, read, written_rows=0, shards=0)
    for name in ("documents", "tokens"):
        measured, given = counts.get(f"{STAGE}.{name}", 0), counts.get(f"tokenize.{name}", 0)
        if measured != given:
            problems.append(f"{measured:,} {name} measured, but {given:,} {name} tokenized")
    if problems:
        raise RuntimeError("the counts of the stages disagree: " + "; ".join(problems))


def first_rejects(
    files: Iterable[RejectsFile], reasons: Mapping[str, int], most: int = _EXAMPLES_A_REASON
) -> Iterator[dict[str, Any]]:
    """The first rejects of each reason, in the order of the corpus.

    Args:
        files: in any order.
        reasons: how many there are of each.
        most: of each reason.
    """
    wanted = {reason: min(most, number) for reason, number in reasons.items()}
    for part in sorted(files):
        if not any(wanted.values()):
            return
        with open_file(part.path) as stream:
            for line in stream:
                reject = json.loads(line)
                if wanted.get(reject["reason"]):
                    wanted[reject["reason"]] -= 1
                    yield reject


class CollectNumbers(beam.PTransform):
    """All that was counted, and a sample of the documents, to one file of numbers (its path).

    Args:
        objective: whose build is estimated.
        output_options: how shards would be written, with nothing left to the format.
        layout: how the data set would be spread.
        expected: from the plan.
        counts: of all stages.
        largest: of all measures.
        rejects: of all ranges.
        path: the file.
    """

    def __init__(
        self,
        objective: Objective,
        output_options: OutputOptions,
        layout: Layout,
        expected: Expected,
        counts: Sequence[beam.PCollection[Count]],
        largest: Sequence[beam.PCollection[Count]],
        rejects: beam.PCollection[RejectsFile],
        path: str,
    ) -> None:
        super().__init__()
        self._collect = _CollectNumbers(objective, output_options, layout, expected, path)
        self._counts, self._largest, self._rejects = counts, largest, rejects

    def expand(self, sample: beam.PCollection[str]) -> beam.PCollection[str]:
        """Add up the counts and run once, behind all of them."""
        sums = (
            self._counts | "JoinCounts" >> beam.Flatten() | "AddCounts" >> beam.CombinePerKey(_add)
        )
        largest = (
            self._largest
            | "JoinLargest" >> beam.Flatten()
            | "FindLargest" >> beam.CombinePerKey(_largest)
        )
        inputs = (beam.pvalue.AsList(of) for of in (sums, largest, self._rejects))
        once = sample.pipeline | "StartCollecting" >> beam.Impulse()
        return once | "Collect" >> beam.ParDo(
            self._collect, beam.pvalue.AsSingleton(sample), *inputs
        ).with_output_types(str)


def _add(values: Iterable[int]) -> int:
    return sum(values)


def _largest(values: Iterable[int]) -> int:
    return max(values, default=0)
