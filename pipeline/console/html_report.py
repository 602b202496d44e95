"""Reports as one self-contained HTML page: figures, plots and examples."""

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusmill.dataset.manifest import Manifest
from corpusmill.inspection.corpus_numbers import report_build, report_sections
from corpusmill.inspection.decoded_examples import DecodedExample, name_segments
from corpusmill.inspection.figures import Distribution, Report
from pipeline.console.origin import Origin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Plot = Callable[[Axes], None]

_COLOURS = {"train": "#2b6cb0", "validation": "#dd6b20"}
_OTHER_COLOUR = "#4a5568"
_MOST_BARS = 64
_PLOTS_A_LINE = 2


def render_page(
    manifest: Manifest,
    examples: Sequence[DecodedExample],
    report: Report,
    origin: Origin = Origin(),  # noqa: B008  it is frozen
) -> str:
    """Render the report of a data set.

    Args:
        manifest: the data set's manifest.
        examples: decoded rows.
        report: the result of `corpusmill.inspection.figures.summarize`.
        origin: where the data set is, and when it was written.

    Returns:
        HTML that refers to no other file, with all text of the corpus escaped.
    """
    return _render(
        "report.html.jinja",
        manifest=manifest,
        examples=examples,
        report=report,
        origin=origin,
        plots=draw_plots(report),
        name_segments=name_segments,
    )


def render_corpus_page(
    numbers: Mapping[str, Any],
    origin: Origin = Origin(),  # noqa: B008
) -> str:
    """Render the report of a corpus in numbers.

    Args:
        numbers: the numbers that `corpusmill.inspection.corpus_numbers` describes.
        origin: the command that measured the corpus, and when.

    Returns:
        HTML, as `render_page` returns it.
    """
    report = report_build(numbers)
    lengths = [partial(_draw_lengths, *entry) for entry in numbers["distributions"].items()]
    return _render(
        "corpus.html.jinja",
        numbers=numbers,
        sections=report_sections(numbers),
        report=report,
        origin=origin,
        # One picture, because the ids in it must be unique on the page.
        plots=_draw_grid([*lengths, *_list_plots(report)]),
    )


def _render(template: str, plots: str, **values: object) -> str:
    # Imported here because they take longer to load than most commands take to run.
    import jinja2  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pipeline.console", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The picture is matplotlib's own markup, with every label escaped.
    return environment.get_template(template).render(plots=Markup(plots), **values)  # noqa: S704


def draw_plots(report: Report) -> str:
    """Draw the distributions of all splits as one SVG element; "" if there are none.

    The splits share a plot. It shows shares of their examples, so that they can be compared.
    """
    return _draw_grid(_list_plots(report))


def _list_plots(report: Report) -> list["Plot"]:
    names = dict.fromkeys(
        distribution.name for split in report.splits for distribution in split.distributions
    )
    return [partial(_draw, name, report) for name in names]


def _draw_grid(plots: Sequence["Plot"]) -> str:
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    if not plots:
        return ""
    lines = -(-len(plots) // _PLOTS_A_LINE)
    # With a salt the ids, and so the page, are the same each time.
    with rc_context(
        {
            "svg.hashsalt": "corpusmill",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        figure = Figure(figsize=(5.2 * _PLOTS_A_LINE, 2.6 * lines), layout="constrained")
        for place, plot in enumerate(plots, 1):
            plot(figure.add_subplot(lines, _PLOTS_A_LINE, place))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    # What comes before the element is for a separate file.
    return svg[svg.index("<svg") :]


def _draw_lengths(name: str, distribution: Mapping[str, Any], axes: "Axes") -> None:
    shares, edges = bin_lengths(distribution["bins"])
    axes.stairs(shares, edges, fill=True, color=_COLOURS["train"], alpha=0.55)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    _label(axes, name, f"share of {name.rsplit('_', maxsplit=1)[-1]}s")


def bin_lengths(bins: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Group a distribution of lengths into wider and wider bins, four for each doubling.

    Args:
        bins: first, last, number and sum of each bin, ascending
            (`corpusmill.inspection.corpus_measures.Bin`).

    Returns:
        shares: float64[bins], shares of all values.
        edges: int64[bins + 1]; bin i has the values from edges[i] to edges[i + 1] - 1. 1, 2, 3 and
            4 have a bin each.
    """
    firsts, lasts, numbers, _ = np.array(bins, np.int64).reshape(-1, 4).T
    doublings = np.ceil(4 * np.log2(lasts.max(initial=1) + 1)) + 1
    edges = np.unique(np.ceil(2 ** (np.arange(doublings) / 4)).astype(np.int64))
    counts, _ = np.histogram(firsts, edges, weights=numbers)
    return counts / max(1, numbers.sum()), edges


def _draw(name: str, report: Report, axes: "Axes") -> None:
    by_split = {
        split.name: distribution
        for split in report.splits
        for distribution in split.distributions
        if distribution.name == name
    }
    largest = max(distribution.largest for distribution in by_split.values())
    for number, (split, distribution) in enumerate(by_split.items()):
        colour = _COLOURS.get(split, _OTHER_COLOUR)
        if names := distribution.value_names:
            places = np.arange(len(names))
            shares = [distribution.share(value) for value in places.tolist()]
            shift = (number - (len(by_split) - 1) / 2) * 0.35
            axes.bar(places + shift, shares, 0.33, color=colour, label=split)
            axes.set_xticks(places, names)
        else:
            heights, edges = bin_shares(distribution, largest)
            axes.stairs(heights, edges - 0.5, fill=True, color=colour, alpha=0.55, label=split)
            axes.set_ylim(bottom=0)
    _label(axes, name, "share of examples")
    if len(by_split) > 1:
        axes.legend(frameon=False)


def _label(axes: "Axes", name: str, shares: str) -> None:
    axes.set_title(name.replace("_", " "), loc="left", fontweight="bold")
    axes.set_ylabel(shares)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")


def bin_shares(distribution: Distribution, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Group a distribution into at most 64 bins of equal width.

    Args:
        distribution: with the counts.
        largest: the last value that the bins must cover.

    Returns:
        shares: float64[bins], shares of all examples.
        edges: int64[bins + 1]; bin i has the values from edges[i] to edges[i + 1] - 1.

    Example:
        counts {1: 1, 2: 3} and largest 2 give [0, 0.25, 0.75] and [0, 1, 2, 3].
    """
    width = -(-(largest + 1) // _MOST_BARS)
    edges = np.arange(-(-(largest + 1) // width) + 1) * width
    values, numbers = list(distribution.counts), list(distribution.counts.values())
    counts, _ = np.histogram(values, edges, weights=numbers)
    return counts / max(1, distribution.total), edges
