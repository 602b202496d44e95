"""What engines have in common with Beam's pipelines: how they are built, and what they report."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
from apache_beam import pipeline as beam_pipeline
from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import metrics_pb2

from transforms.tally import NAMESPACE


def new_pipeline(**arguments: Any) -> beam.Pipeline:
    """Make a pipeline without a temporary folder, which only transforms of Java's need.

    Beam makes one for each pipeline, and removes it after it has run: not if its process was
    killed, or the pipeline was only translated.

    Args:
        arguments: those of `beam.Pipeline`.
    """
    pipeline = beam.Pipeline(**arguments)
    shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)
    return pipeline


@contextmanager
def plain_pipelines() -> Iterator[None]:
    """Build and run pipelines in a notebook as in a program, while the block runs.

    In a notebook Beam puts the number of the cell before the names of steps, for which it imports
    its data frames (they fail with pandas 3), and leaves a temporary folder for each pipeline.
    """
    names = ("alter_label_if_ipython", "is_in_ipython")
    previous = {name: getattr(beam_pipeline, name) for name in names}
    beam_pipeline.alter_label_if_ipython = lambda *_: None
    beam_pipeline.is_in_ipython = lambda: False
    try:
        yield
    finally:
        for name, function in previous.items():
            setattr(beam_pipeline, name, function)


def read_counters(infos: Iterable[metrics_pb2.MonitoringInfo]) -> Counter[str]:
    """Sum each of the job's own counters over all stages, among all that Beam reports."""
    values: Counter[str] = Counter()
    for info in infos:
        namespace, name = monitoring_infos.parse_namespace_and_name(info)
        if namespace == NAMESPACE and monitoring_infos.is_counter(info):
            values[name] += monitoring_infos.extract_counter_value(info)
    return values
