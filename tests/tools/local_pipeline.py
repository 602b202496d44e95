"""Pipelines on Beam's in-process runner whose collections can be looked at once they have run."""

from typing import Any
from uuid import uuid4

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_pipeline import TestPipeline

_COLLECTED: dict[str, list[Any]] = {}


def local_pipeline() -> TestPipeline:
    """A pipeline that runs when its `with` block ends.

    The runner is named, because DirectRunner would look for another one first.
    """
    return TestPipeline(runner=FnApiRunner())


def _keep(element: Any, name: str) -> None:
    _COLLECTED[name].append(element)


def collect(collection: beam.PCollection) -> list[Any]:
    """The elements of a collection, in no order; empty until the pipeline has run."""
    name = uuid4().hex
    _COLLECTED[name] = []
    _ = collection | f"Collect {name}" >> beam.Map(_keep, name)
    return _COLLECTED[name]


def sums(counts: list[tuple[str, int]]) -> dict[str, int]:
    """The counts of all bundles together."""
    together: dict[str, int] = {}
    for name, number in counts:
        together[name] = together.get(name, 0) + number
    return together
