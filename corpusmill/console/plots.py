"""Plots of distributions: where their marks are, for the templates that draw them as SVG.

Splits share a plot. They differ by shape as well as by colour: the first is drawn as filled bars,
the others as outlines.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.errors import count_things
from corpusmill.inspection.figures import Distribution, Report, describe_distribution

# Lengths up to 128, 512 and 1024 get 65 bins of 2, 8 and 16 values, the last for the full length.
_MOST_BINS = 65


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


class Frame(NamedTuple):
    """The size of a plot and the edges of the area between its axes.

    The units are those of the drawing, of which a narrow telephone shows one as a pixel.
    """

    width: int = 360
    height: int = 200
    left: int = 46
    top: int = 16
    right: int = 344
    bottom: int = 174


FRAME = Frame()
_TICK_WIDTH, _GAP, _WIDEST_BAR, _LETTER = 62, 8, 46, 6.5


class Tick(NamedTuple):
    """A label of an axis, and its place on it."""

    place: float
    text: str


class Bar(NamedTuple):
    """A share as a rectangle.

    Attributes:
        split: number of its split in the plot, which decides how it looks.
        x: its left edge.
        y: its upper edge.
        width: of the rectangle.
        height: of the rectangle.
        text: what stands above it; empty where there is no room.
    """

    split: int
    x: float
    y: float
    width: float
    height: float
    text: str = ""


class Column(NamedTuple):
    """The place of a bin, from the axis to the top, and what it says when it is pointed at."""

    x: float
    width: float
    text: str


@dataclass(frozen=True)
class Plot:
    """A plot of one quantity.

    Attributes:
        title: the quantity.
        unit: what the shares are shares of ("examples").
        text: the plot in words.
        splits: their names.
        bars: those of all splits if the values are classes, or else of the first split.
        outlines: of the other splits, as paths of SVG, with their numbers.
        columns: of all bins.
        x_ticks: values.
        y_ticks: shares.
    """

    title: str
    unit: str
    text: str
    splits: tuple[str, ...]
    bars: tuple[Bar, ...]
    outlines: tuple[tuple[int, str], ...]
    columns: tuple[Column, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


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
    first = next(iter(by_split.values()))
    draw = _plot_classes if first.value_names else _plot_bins
    return draw(by_split, first.name.replace("_", " "), unit)


def _plot_bins(by_split: Mapping[str, Distribution], title: str, unit: str) -> Plot:
    bins = cut_bins([*by_split.values()])
    shares = [bin_shares(distribution, bins).tolist() for distribution in by_split.values()]
    top, y_ticks = _scale(max(map(max, shares)))
    edges = _place_bins(bins)
    bars = tuple(
        Bar(
            0,
            left,
            _height(share, top),
            max(0.5, right - left - 0.6),
            FRAME.bottom - _height(share, top),
        )
        for (left, right), share in zip(edges, shares[0], strict=True)
        if share
    )
    outlines = tuple(
        (number, _outline(edges, [_height(share, top) for share in of_split]))
        for number, of_split in enumerate(shares[1:], 1)
    )
    columns = tuple(
        Column(left, right - left, f"{_name_bin(values)}: {_list_shares(by_split, part)}")
        for values, (left, right), *part in zip(bins, edges, *shares, strict=True)
    )
    means = [f"{name}: {_in_words(one)}" for name, one in by_split.items()]
    width = len(bins[0])
    text = f"Share of {unit} in bins of {count_things(width, 'value')}. {'. '.join(means)}."
    return Plot(
        title, unit, text, (*by_split,), bars, outlines, columns, _value_ticks(bins, edges), y_ticks
    )


def _plot_classes(by_split: Mapping[str, Distribution], title: str, unit: str) -> Plot:
    names = next(iter(by_split.values())).value_names
    shares = [
        [distribution.share(value) for value in range(len(names))]
        for distribution in by_split.values()
    ]
    top, y_ticks = _scale(max(map(max, shares)))
    room = (FRAME.right - FRAME.left) / len(names)
    width = min(_WIDEST_BAR, 0.8 * room / len(shares))
    bars, columns, ticks = [], [], []
    for value, name in enumerate(names):
        middle = FRAME.left + (value + 0.5) * room
        ticks.append(Tick(middle, _shorten(name, room)))
        part = [of_split[value] for of_split in shares]
        columns.append(Column(middle - room / 2, room, f"{name}: {_list_shares(by_split, part)}"))
        for number, share in enumerate(part):
            x, y = middle + (number - len(shares) / 2) * width, _height(share, top)
            label = percent(share) if width >= 30 else ""
            bars.append(Bar(number, x + 1, y, width - 2, FRAME.bottom - y, label))
    text = f"Share of {unit}. {'. '.join(column.text for column in columns)}."
    return Plot(
        title, unit, text, (*by_split,), tuple(bars), (), tuple(columns), tuple(ticks), y_ticks
    )


def percent(share: float) -> str:
    """A share in percent, with three digits."""
    return f"{100 * share:.3g} %"


def _list_shares(by_split: Mapping[str, Distribution], shares: Sequence[float]) -> str:
    if len(shares) == 1:
        return percent(shares[0])
    pairs = zip(by_split, shares, strict=True)
    return ", ".join(f"{name} {percent(share)}" for name, share in pairs)


def _in_words(distribution: Distribution) -> str:
    figure = describe_distribution(distribution)
    return f"{figure.text} {figure.meaning}"


def _shorten(name: str, room: float) -> str:
    most = max(2, int(room / _LETTER))
    return name if len(name) <= most else f"{name[: most - 1]}\u2026"


def _name_bin(values: range) -> str:
    first, last = values[0], values[-1]
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _height(share: float, top: float) -> float:
    return FRAME.bottom - share / top * (FRAME.bottom - FRAME.top)


def _scale(largest: float) -> tuple[float, tuple[Tick, ...]]:
    """The share at the top of the plot, and some round shares up to it."""
    largest = largest or 1.0
    step = _round_up(largest / 4.5)
    top = max(largest, step)
    ticks = [step * number for number in range(floor(top / step + 1e-9) + 1)]
    return top, tuple(Tick(_height(share, top), percent(share)) for share in ticks)


def _round_up(value: float) -> float:
    """The next number that is 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(value))
    return next(part * power for part in (1, 2, 2.5, 5, 10) if part * power >= value * (1 - 1e-9))


def _place_bins(bins: Sequence[range]) -> list[tuple[float, float]]:
    """The left and right edge of each bin; that of the largest values stands apart."""
    is_apart = len(bins) > 1 and len(bins[-1]) != len(bins[0])
    equal = len(bins) - is_apart
    end = FRAME.right - 2 * _GAP - 2 if is_apart else FRAME.right
    width = min((end - FRAME.left) / equal, _WIDEST_BAR)
    edges = [
        (FRAME.left + number * width, FRAME.left + (number + 1) * width) for number in range(equal)
    ]
    return [*edges, (FRAME.right - _GAP - 2, float(FRAME.right))] if is_apart else edges


def _value_ticks(bins: Sequence[range], edges: Sequence[tuple[float, float]]) -> tuple[Tick, ...]:
    """Round values in the middle of their bins, and the beginning of the last bin if it is wide."""
    is_apart = len(bins) > 1 and len(bins[-1]) != len(bins[0])
    equal, width = len(bins) - is_apart, len(bins[0])
    room = edges[equal - 1][1] - FRAME.left
    most = max(1, min(6, floor(room / _TICK_WIDTH)))
    # Bins of several values begin at multiples of a power of two.
    step = ceil(_round_up(max(1, equal / most))) if width == 1 else 1
    while width > 1 and (equal - 1) // step > most:
        step *= 2
    places = range(0, equal, step)
    ticks = [Tick(sum(edges[place]) / 2, f"{bins[place].start:,}") for place in places]
    if is_apart:
        last = Tick(sum(edges[-1]) / 2, f"{bins[-1].start:,}+")
        ticks = [tick for tick in ticks if last.place - tick.place >= 0.75 * _TICK_WIDTH] + [last]
    return tuple(ticks)


def _outline(edges: Sequence[tuple[float, float]], heights: Sequence[float]) -> str:
    """The path of a histogram's outline; it is interrupted before a bin that stands apart."""
    path, before = "", None
    for (left, right), height in zip(edges, heights, strict=True):
        if before is None or left - before > 0.01:
            path += f"V{FRAME.bottom}" * (before is not None) + f"M{left:.1f} {FRAME.bottom}"
        path += f"V{height:.1f}H{right:.1f}"
        before = right
    return f"{path}V{FRAME.bottom}"
