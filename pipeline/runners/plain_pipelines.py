"""Pipelines that are the same in a notebook as anywhere else."""

from collections.abc import Iterator
from contextlib import contextmanager

from apache_beam import pipeline as beam_pipeline


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
