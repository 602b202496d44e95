"""`inspect` as one HTML page that needs nothing beside itself: figures, plots and examples."""

import io
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusmill.inspection import DecodedExample
from corpusmill.report import Distribution, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {"train": "#2b6cb0", "validation": "#dd6b20"}
_OTHER_COLOUR = "#4a5568"
_MOST_BARS = 64
_PLOTS_A_LINE = 2

# Distributions of a few values that have names.
_VALUE_NAMES = {"next_sentence_label": ("next", "random")}


def render_page(
    manifest: Mapping[str, Any], examples: Sequence[DecodedExample], report: Report
) -> str:
    """The page.

    Args:
        manifest: of the data set.
        examples: decoded rows.
        report: `corpusmill.report.summarize` of the manifest.

    Returns:
        HTML without any reference to another file; all text of the corpus is escaped.
    """
    # Imported here, because they take longer to load than most commands to run.
    import jinja2  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415

    source = files("corpusmill").joinpath("report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # The picture is matplotlib's own markup, in which it has escaped every label.
    plots = Markup(draw_plots(report))  # noqa: S704
    return environment.from_string(source).render(
        manifest=manifest,
        examples=examples,
        report=report,
        plots=plots,
        labels=_VALUE_NAMES["next_sentence_label"],
    )


def draw_plots(report: Report) -> str:
    """The distributions of all splits as one SVG element; "" where there are none.

    The splits share a plot, as shares of their examples, so that they can be compared.
    """
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    names = list(dict.fromkeys(of.name for split in report.splits for of in split.distributions))
    if not names:
        return ""
    lines = -(-len(names) // _PLOTS_A_LINE)
    # The salt makes ids, and with them the page, the same each time.
    with rc_context(
        {
            "svg.hashsalt": "corpusmill",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        figure = Figure(figsize=(5.2 * _PLOTS_A_LINE, 2.6 * lines), layout="constrained")
        for place, name in enumerate(names, 1):
            _draw(figure.add_subplot(lines, _PLOTS_A_LINE, place), name, report)
        return _to_svg(figure)


def _draw(axes: "Axes", name: str, report: Report) -> None:
    found = [
        (split.name, of) for split in report.splits for of in split.distributions if of.name == name
    ]
    for number, (split, distribution) in enumerate(found):
        colour = _COLOURS.get(split, _OTHER_COLOUR)
        if name in _VALUE_NAMES:
            _draw_named(axes, distribution, split, colour, (number - (len(found) - 1) / 2) * 0.35)
        else:
            _draw_histogram(axes, distribution, split, colour, max(of.largest for _, of in found))
    axes.set_title(name.replace("_", " "), loc="left", fontweight="bold")
    axes.set_ylabel("share of examples")
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    if len(found) > 1:
        axes.legend(frameon=False)


def _draw_named(
    axes: "Axes", distribution: Distribution, label: str, colour: str, shift: float
) -> None:
    names = _VALUE_NAMES[distribution.name]
    places = np.arange(len(names))
    axes.bar(
        places + shift,
        [distribution.share(value) for value in places.tolist()],
        0.33,
        color=colour,
        label=label,
    )
    axes.set_xticks(places, names)


def _draw_histogram(
    axes: "Axes", distribution: Distribution, label: str, colour: str, largest: int
) -> None:
    shares, edges = bin_shares(distribution, largest)
    axes.stairs(shares, edges - 0.5, fill=True, color=colour, alpha=0.55, label=label)
    axes.set_ylim(bottom=0)


def bin_shares(distribution: Distribution, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """A distribution in at most 64 bins of equal width.

    Args:
        distribution: counts by value.
        largest: the last value that the bins must cover.

    Returns:
        shares: float64[bins], of all examples.
        edges: int64[bins + 1]; bin i holds the values from edges[i] up to edges[i + 1] - 1.

    Example:
        counts (0, 1, 3) and largest 2 give [0, 0.25, 0.75] and [0, 1, 2, 3].
    """
    width = -(-(largest + 1) // _MOST_BARS)
    edges = np.arange(0, largest + 1 + width, width)
    edges = edges[: -(-(largest + 1) // width) + 1]
    counts = np.zeros(edges[-1], np.int64)
    stated = np.array(distribution.counts[: edges[-1]], np.int64)
    counts[: len(stated)] = stated
    return counts.reshape(-1, width).sum(axis=1) / max(1, distribution.total), edges


def _to_svg(figure: "Figure") -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    # What stands before the element belongs to a file of its own.
    return svg[svg.index("<svg") :]
