"""Plots of distributions as shares of bins and classes, which templates draw as bars in CSS."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.inspection.figures import Distribution, Report, describe_distribution

# Lengths up to 128, 512 and 1024 get 65 bins of 2, 8 and 16 values, the last for the full length.
_MOST_BINS = 65
# The most labels below the bins of a plot, beside that of the largest values.
_MOST_TICKS = 5


def cut_bins(distributions: Sequence[Distribution]) -> tuple[range, ...]:
    """Cut the values of a quantity into bins of equal widths, for one or several splits.

    A width is a power of two, so that even values, too, spread evenly over the bins, and so that
    the bins of `corpusmill.inspection.corpus_measures` are parts of these. Where the largest
    hundredth of the values is far from the others, one more bin holds it.

    Args:
        distributions: of the splits, not empty.

    Returns:
        The values of each bin, ascending from 0; at most 65 bins, or 66 with the last one.

    Example:
        values from 0 to 127 and one of 1,000 give the bins range(0, 2), range(2, 4), ...,
        range(126, 128) and range(128, 1001).
    """
    largest = max(distribution.largest for distribution in distributions)
    usual = max(distribution.percentile(99) for distribution in distributions)
    end = largest if largest <= 2 * usual else usual
    width = 1 << (-(-(end + 1) // _MOST_BINS) - 1).bit_length()
    bins = [range(first, first + width) for first in range(0, end + 1, width)]
    if bins[-1].stop <= largest:
        bins.append(range(bins[-1].stop, largest + 1))
    return tuple(bins)


def bin_shares(distribution: Distribution, bins: Sequence[range]) -> npt.NDArray[np.float64]:
    """The share of a distribution's values in each bin.

    Args:
        distribution: with the counts.
        bins: as `cut_bins` returns them.

    Returns:
        float64[bins]; zeros if the distribution is empty.

    Example:
        counts {1: 1, 2: 3} and the bins range(0, 2) and range(2, 4) give [0.25, 0.75].
    """
    edges = [part.start for part in bins] + [bins[-1].stop]
    values, numbers = list(distribution.counts), list(distribution.counts.values())
    counts, _ = np.histogram(values, edges, weights=numbers)
    shares: npt.NDArray[np.float64] = counts / max(1, distribution.total)
    return shares


class Bar(NamedTuple):
    """The shares of a bin or of a class.

    Attributes:
        name: of the class, or the values of the bin ("0 to 7").
        tick: what stands below the bin; empty for most bins.
        shares: of each split, from 0 to 1.
    """

    name: str
    tick: str
    shares: tuple[float, ...]


class Plot(NamedTuple):
    """A plot of one quantity.

    Attributes:
        title: the quantity.
        unit: what the shares are shares of ("examples").
        text: the plot in words.
        splits: their names.
        bars: of all bins or classes.
        top: the largest share; 1 where all are 0.
        has_classes: whether the values have names.
        has_rest: whether the last bin holds all values that are far from the others.
    """

    title: str
    unit: str
    text: str
    splits: tuple[str, ...]
    bars: tuple[Bar, ...]
    top: float
    has_classes: bool
    has_rest: bool


def plot_report(report: Report) -> Iterator[Plot]:
    """Plot each distribution of a data set, with the shares of all its splits."""
    names = dict.fromkeys(
        distribution.name for split in report.splits for distribution in split.distributions
    )
    for name in names:
        by_split = {
            split.name: distribution
            for split in report.splits
            for distribution in split.distributions
            if distribution.name == name
        }
        yield _plot(by_split, "examples")


def plot_corpus(numbers: Mapping[str, Any]) -> Iterator[Plot]:
    """Plot the lengths of a corpus.

    Args:
        numbers: the numbers that `corpusmill.inspection.corpus_numbers` describes.
    """
    for name, entry in numbers["distributions"].items():
        counts = {first: number for first, _, number, _ in entry["bins"]}
        counts.setdefault(entry["max"], 0)
        yield _plot({"corpus": Distribution(name, counts)}, f"{name.rsplit('_', 1)[-1]}s")


def _plot(by_split: Mapping[str, Distribution], unit: str) -> Plot:
    distributions = [*by_split.values()]
    classes = distributions[0].value_names
    bins = () if classes else cut_bins(distributions)
    has_rest = len(bins) > 1 and len(bins[-1]) != len(bins[0])
    names, ticks = (classes, [""] * len(classes)) if classes else _name_bins(bins, has_rest)
    shares = [
        [distribution.share(value) for value in range(len(classes))]
        if classes
        else bin_shares(distribution, bins).tolist()
        for distribution in distributions
    ]
    bars = tuple(map(Bar, names, ticks, zip(*shares, strict=True)))
    figures = ((name, describe_distribution(own)) for name, own in by_split.items())
    text = ". ".join(f"{name}: {figure.text} {figure.meaning}" for name, figure in figures)
    top = max(map(max, shares)) or 1.0
    title = distributions[0].name.replace("_", " ")
    return Plot(title, unit, text, (*by_split,), bars, top, bool(classes), has_rest)


def _name_bins(bins: Sequence[range], has_rest: bool) -> tuple[list[str], list[str]]:
    """Name all bins, and those below which a label stands, whose distances are powers of two."""
    names = [f"{part[0]:,}" if len(part) == 1 else f"{part[0]:,} to {part[-1]:,}" for part in bins]
    step = 1 << max(0, (len(bins) - 1) // _MOST_TICKS).bit_length()
    ticks = [f"{part[0]:,}" if number % step == 0 else "" for number, part in enumerate(bins)]
    if has_rest:
        nearby = max(1, len(bins) - 1 - step // 2)
        ticks[nearby:] = [""] * (len(bins) - nearby)
        ticks[-1] = f"{bins[-1][0]:,}+"
    return names, ticks
