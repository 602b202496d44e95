"""Measure the documents of a corpus, and collect all counts as the numbers of a corpus."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from corpusmill.dataset.accounting import Expected, count_reasons, find_imbalances
from corpusmill.formats.output_options import OutputOptions
from corpusmill.inspection.build_estimate import compare, estimate_build
from corpusmill.inspection.corpus_measures import (
    DISTRIBUTIONS,
    Measures,
    measure_text,
    read_bins,
)
from corpusmill.inspection.corpus_numbers import collect_numbers
from corpusmill.layout.placement import Layout
from corpusmill.objectives.objective import Objective
from transforms.coders import NamedOutputs
from transforms.corpus.plan import read_task
from transforms.corpus.pool import CANDIDATES, map_pool
from transforms.corpus.prepare import Preparation, TaskDoFn
from transforms.corpus.read import REJECTS
from transforms.elements import LinesFile, Segment, Task
from transforms.storage.checksums import seal
from transforms.storage.files import open_file, write_file
from transforms.tally import COUNTS, SKETCHES, Count, Sketch, add_up, limit_distinct, name_sources

LARGEST = "largest"
STAGE = "measure"

# How many rejects of each reason are shown.
_EXAMPLES_PER_REASON = 3


class _MeasureTask(TaskDoFn):
    """Measure the documents of a task."""

    def __init__(
        self, preparation: Preparation, measure_tokens: Callable[[pa.RecordBatch], Measures]
    ) -> None:
        super().__init__(preparation)
        self._measure_tokens = measure_tokens

    def process(self, element: Task) -> Iterator[Count | TaggedOutput]:
        measures = Measures()
        names, layout = self._preparation.sources, self._preparation.routes.layout
        for text, documents in self.prepare(element, read_task(element)):
            sources = name_sources(names, layout, text.column("document").to_numpy())
            measures.add(measure_text(text, documents, sources))
            if documents.num_rows:
                measures.add(self._measure_tokens(documents))
        for tag, value in self.finish(element):
            yield value if tag == COUNTS else TaggedOutput(tag, value)
        yield from ((f"{STAGE}.{name}", number) for name, number in measures.counts.items())
        yield from (TaggedOutput(LARGEST, largest) for largest in measures.largest.items())


class MeasureDocuments(beam.PTransform):
    """Read, tokenize and measure the documents of tasks.

    Returns the collections COUNTS, SKETCHES, LARGEST, CANDIDATES and REJECTS.

    Args:
        preparation: how tasks are prepared.
        measure_tokens: measures a batch of tokenized documents
            (`corpusmill.inspection.corpus_measures`).
    """

    def __init__(
        self, preparation: Preparation, measure_tokens: Callable[[pa.RecordBatch], Measures]
    ) -> None:
        super().__init__()
        self._measure = _MeasureTask(preparation, measure_tokens)

    def expand(self, tasks: beam.PCollection[Task]) -> NamedOutputs:
        """Apply one DoFn."""
        tags: dict[str, object] = {
            SKETCHES: Sketch, LARGEST: Count, CANDIDATES: Segment, REJECTS: LinesFile,
        }  # fmt: skip
        measure = beam.ParDo(self._measure).with_output_types(Count, **tags)
        return tasks | "MeasureTask" >> measure.with_outputs(*tags, main=COUNTS)


@dataclass(frozen=True)
class CollectOptions:
    """How the numbers of a corpus are collected.

    Attributes:
        objective: the objective whose build is estimated.
        output_options: how shards would be written, with nothing left to the format.
        layout: how the data set would be spread over shards.
        expected: what the counts must add up to.
        path: file of the numbers.
    """

    objective: Objective
    output_options: OutputOptions
    layout: Layout
    expected: Expected
    path: str


class _CollectNumbers(beam.DoFn):
    """Build the sample, and write the numbers to a file; runs once."""

    def __init__(self, options: CollectOptions) -> None:
        self._options = options

    def process(
        self,
        _: bytes,
        sample: str,
        counts: list[Count],
        largest: list[Count],
        rejects: list[LinesFile],
    ) -> Iterator[str]:
        sums = limit_distinct(dict(counts))
        sums["write.rejects"] = sum(file.lines for file in rejects)
        check_counts(sums, self._options.expected)
        shown = list(first_rejects(rejects, count_reasons(sums)))
        numbers = collect_numbers(sums, dict(largest), shown)
        numbers["build"] = self._estimate(sample, sums)
        write_file(self._options.path, seal(json.dumps(numbers).encode()))
        yield self._options.path

    def _estimate(self, sample: str, counts: Mapping[str, int]) -> dict[str, Any]:
        pool, objective, layout = map_pool(sample), self._options.objective, self._options.layout
        measured = {name.removeprefix(f"{STAGE}."): number for name, number in counts.items()}
        scale = compare(pool, layout.seed, read_bins(DISTRIBUTIONS[0], measured))
        return estimate_build(objective, pool, scale, layout, self._options.output_options)


def check_counts(counts: Mapping[str, int], expected: Expected) -> None:
    """Check that nothing was lost between reading and measuring.

    Args:
        counts: the counts of all stages.
        expected: what they must add up to.

    Raises:
        RuntimeError: something was lost.
    """
    # Nothing is built but the sample.
    read = Expected(expected.ranges, expected.bytes, shards=0, repeats=0)
    problems = find_imbalances(counts, read, written_rows=0, shards=0)
    for name in ("documents", "tokens"):
        measured, tokenized = counts.get(f"{STAGE}.{name}", 0), counts.get(f"tokenize.{name}", 0)
        if measured != tokenized:
            problems.append(f"{measured:,} {name} measured, but {tokenized:,} {name} tokenized")
    if problems:
        raise RuntimeError("the counts of the stages disagree: " + "; ".join(problems))


def first_rejects(
    files: Iterable[LinesFile], reasons: Mapping[str, int], most: int = _EXAMPLES_PER_REASON
) -> Iterator[dict[str, Any]]:
    """Yield the first rejects of each reason, in the order of the corpus.

    Args:
        files: files of rejects, in any order.
        reasons: number of rejects of each reason.
        most: largest number of rejects of a reason that are yielded.
    """
    wanted = {reason: min(most, number) for reason, number in reasons.items()}
    for file in sorted(files):
        if not any(wanted.values()):
            return
        with open_file(file.path) as stream:
            for line in stream:
                reject = json.loads(line)
                if "number" not in reject and wanted.get(reject["reason"]):
                    wanted[reject["reason"]] -= 1
                    yield reject


class CollectNumbers(beam.PTransform):
    """Write all counts and the estimate of a build to one file; return its path.

    The input is the path of the sample of documents that is built.

    Args:
        options: how the numbers are collected.
        counts: the counts of all stages.
        largest: the largest value of each measured distribution.
        rejects: the rejects of all tasks.
        sketches: those of all stages.
    """

    def __init__(
        self,
        options: CollectOptions,
        counts: Sequence[beam.PCollection[Count]],
        largest: beam.PCollection[Count],
        rejects: beam.PCollection[LinesFile],
        sketches: Sequence[beam.PCollection[Sketch]] = (),
    ) -> None:
        super().__init__()
        self._options, self._sketches = options, sketches
        self._counts, self._largest, self._rejects = counts, largest, rejects

    def expand(self, sample: beam.PCollection[str]) -> beam.PCollection[str]:
        """Add up the counts, and run once after all of them."""
        largest = self._largest | "FindLargest" >> beam.CombinePerKey(_largest)
        inputs = map(
            beam.pvalue.AsList, (add_up(self._counts, self._sketches), largest, self._rejects)
        )
        once = sample.pipeline | "StartCollecting" >> beam.Impulse()
        return once | "Collect" >> beam.ParDo(
            _CollectNumbers(self._options), beam.pvalue.AsSingleton(sample), *inputs
        ).with_output_types(str)


def _largest(values: Iterable[int]) -> int:
    return max(values, default=0)
