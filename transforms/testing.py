r"""What tests of pipelines need: a runner that is there, contents of collections, and documents.

    with local_pipeline() as pipeline:
        documents = pipeline | beam.Create([text_batch("One .", "Two .\nThree .")])
        lengths = collect(documents | TokenizeDocuments(small_tokenizer()) | CountTokens())
    assert lengths == ...

`corpusmill.testing` has a small text and a tokenizer for it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import apache_beam as beam
import pyarrow as pa
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_pipeline import TestPipeline

from corpusmill.corpus.batches import TEXT_SCHEMA

_COLLECTED: dict[str, list[Any]] = {}


def local_pipeline() -> TestPipeline:
    """Return a pipeline that runs in this process when its `with` block ends.

    The runner is named because DirectRunner would look for another one first, on the internet.
    """
    return TestPipeline(runner=FnApiRunner())


def collect(collection: beam.PCollection) -> list[Any]:
    """Return the elements of a collection, in any order; empty until the pipeline has run."""
    name = uuid4().hex
    _COLLECTED[name] = []
    _ = collection | f"Collect {name}" >> beam.Map(_keep, name)
    return _COLLECTED[name]


def _keep(element: Any, name: str) -> None:
    _COLLECTED[name].append(element)


def sums(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Add up counts of all bundles by name.

    Example:
        [("read.lines", 1), ("read.lines", 2)] gives {"read.lines": 3}.
    """
    totals = Counter[str]()
    for name, number in counts:
        totals[name] += number
    return dict(totals)


def text_batch(*documents: str) -> pa.RecordBatch:
    r"""Return documents as `transforms.corpus.documents.ReadDocuments` does.

    Args:
        documents: each with a sentence on each line. Their ids count from 0.

    Example:
        "One .\nTwo ." is the row {"document": 0, "sentences": ["One .", "Two ."]}.
    """
    rows = [
        {"document": number, "sentences": text.split("\n")} for number, text in enumerate(documents)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=TEXT_SCHEMA)
