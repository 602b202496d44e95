"""The data sets that samples are read from, and which rows of a batch are of which."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from corpusmill.objectives.options import ObjectiveOptions
from corpusmill.objectives.registry import read_options
from corpusmill.reading.data_set import Samples
from corpusmill.reading.order.mixture import JoinedSamples
from corpusmill.reading.rows import Integers

Maker = TypeVar("Maker")


def sources_of(samples: Samples) -> tuple[Samples, ...]:
    """Return the data sets of a mixture; of other samples, themselves."""
    return samples.sources if isinstance(samples, JoinedSamples) else (samples,)


def starts_of(sources: Sequence[Samples]) -> tuple[int, ...]:
    """Return the number of each data set's first sample."""
    starts: list[int] = np.cumsum([0, *map(len, sources)])[:-1].tolist()
    return tuple(starts)


def options_of(samples: Samples) -> ObjectiveOptions:
    """Return the options of the objective that a data set was built with.

    Raises:
        UserError: the package of the objective is not installed.
    """
    entry = samples.manifest.objective
    return read_options(entry.name, entry.package, entry.options)


def split_by_maker(
    makers: Sequence[Maker], starts: Sequence[int], samples: Integers
) -> Iterator[tuple[Maker, Integers]]:
    """Yield the distinct makers, each with the places of the samples that it works on.

    Args:
        makers: what works on the samples of each data set; equal ones work alike.
        starts: the number of each data set's first sample.
        samples: int64[rows], the numbers of the samples.
    """
    sources = np.searchsorted(np.array(starts), samples, side="right") - 1
    numbers = np.array([makers.index(maker) for maker in makers])
    for number in np.unique(numbers).tolist():
        yield makers[number], np.flatnonzero(numbers[sources] == number)
