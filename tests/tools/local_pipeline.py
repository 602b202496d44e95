"""Pipelines on Beam's in-process runner, and the contents of their collections after the run."""

from typing import Any
from uuid import uuid4

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_pipeline import TestPipeline

_COLLECTED: dict[str, list[Any]] = {}


def local_pipeline() -> TestPipeline:
    """Return a pipeline that runs when its `with` block ends.

    The runner is named because DirectRunner would look for another one first.
    """
    return TestPipeline(runner=FnApiRunner())


def _keep(element: Any, name: str) -> None:
    _COLLECTED[name].append(element)


def collect(collection: beam.PCollection) -> list[Any]:
    """Return the elements of a collection, in any order; empty until the pipeline has run."""
    name = uuid4().hex
    _COLLECTED[name] = []
    _ = collection | f"Collect {name}" >> beam.Map(_keep, name)
    return _COLLECTED[name]


def sums(counts: list[tuple[str, int]]) -> dict[str, int]:
    """Add up the counts of all bundles by name."""
    totals: dict[str, int] = {}
    for name, number in counts:
        totals[name] = totals.get(name, 0) + number
    return totals
