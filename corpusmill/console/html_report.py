"""Reports as one self-contained HTML page: figures, plots and examples, legible without scripts."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

from corpusmill.console.plots import FRAME, Plot, plot_corpus, plot_report
from corpusmill.console.terminal_report import Origin
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.errors import printable
from corpusmill.inspection.corpus_numbers import Section, report_build, report_sections
from corpusmill.inspection.decoded_examples import (
    DecodedExample,
    DrawnExample,
    Piece,
    Segment,
    name_segments,
)
from corpusmill.inspection.figures import Report, SplitReport, source_figures

# How every page begins, by which it is known as ours.
PAGE_BEGIN = (
    b'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta name="generator" content="corpusmill">'
)
# Of the text of all examples, and of the markup around a predicted word.
_MOST_BYTES = 1_300_000
_MARKUP_BYTES = {"plain": 1, "masked": 27, "replaced": 36, "kept": 25, "learned": 34}
_REST = Piece("... (the rest is left out)", joined=False, kind="plain", shown="")


@dataclass(frozen=True)
class Choice:
    """A value that examples may have.

    Attributes:
        name: an identifier, unique on the page.
        text: what a reader chooses.
        number: how many examples have it.
    """

    name: str
    text: str
    number: int


@dataclass(frozen=True)
class Filter:
    """A quantity by which examples are chosen.

    Attributes:
        name: an identifier, unique on the page.
        title: the quantity.
        choices: its values; two or more.
    """

    name: str
    title: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Card:
    """An example as it is shown.

    Attributes:
        example: with as many tokens as fit.
        place: where it is in the data set.
        names: of its segments.
        choices: names of the choices that apply to it.
    """

    example: DecodedExample
    place: str
    names: tuple[str, ...]
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Browser:
    """Examples and filters.

    Attributes:
        cards: the examples.
        filters: by split, by length and by each class, as far as examples differ.
        has_predictions: whether there are tokens to predict.
        has_learned: whether only some tokens are learned.
    """

    cards: tuple[Card, ...]
    filters: tuple[Filter, ...]
    has_predictions: bool
    has_learned: bool


def browse(examples: Sequence[DrawnExample]) -> Browser:
    """The browser of some examples.

    Args:
        examples: of any number; the more there are, the less of a long one is shown.
    """
    lengths = [drawn.example.length for drawn in examples]
    splits = [drawn.split for drawn in examples]
    quantities = [
        _Quantity("split", splits, splits),
        _Quantity("tokens", group_lengths(lengths), lengths),
    ]
    for title in dict.fromkeys(title for drawn in examples for title in drawn.example.classes):
        values = [drawn.example.classes.get(title, "none") for drawn in examples]
        quantities.append(_Quantity(title, values, values))
    quantities = [quantity for quantity in quantities if len(set(quantity.values)) > 1]
    filters = [quantity.to_filter(f"f{number}") for number, quantity in enumerate(quantities)]
    budget = _MOST_BYTES // max(1, len(examples))
    cards = []
    for place, drawn in enumerate(examples):
        names = [
            choice.name
            for quantity, one in zip(quantities, filters, strict=True)
            for choice in one.choices
            if choice.text == quantity.values[place]
        ]
        row = f"{drawn.shard}, row {drawn.row:,}"
        titles = tuple(name_segments(drawn.example))
        cards.append(Card(shorten(drawn.example, budget), row, titles, tuple(names)))
    has_predictions = any(drawn.example.predictions is not None for drawn in examples)
    has_learned = any(drawn.example.learned is not None for drawn in examples)
    return Browser(tuple(cards), tuple(filters), has_predictions, has_learned)


class _Quantity(NamedTuple):
    """A quantity of all examples: its title, the values as text, and what they are sorted by."""

    title: str
    values: Sequence[str]
    order: Sequence[Any]

    def to_filter(self, name: str) -> Filter:
        """The filter with all values."""
        counts = Counter(self.values)
        pairs = sorted(zip(self.order, self.values, strict=True))
        texts = dict.fromkeys(text for _, text in pairs)
        choices = (Choice(f"{name}-{i}", text, counts[text]) for i, text in enumerate(texts))
        return Filter(name, self.title, tuple(choices))


def group_lengths(lengths: Sequence[int]) -> list[str]:
    """The range that each length belongs to, of at most four with similar numbers of examples.

    Example:
        [3, 9, 9, 9] gives ["3 to 8", "9", "9", "9"].
    """
    ordered = sorted(lengths)
    firsts = sorted({ordered[len(ordered) * part // 4] for part in range(4) if ordered})
    lasts = [*(first - 1 for first in firsts[1:]), *ordered[-1:]]
    names = [
        f"{first:,}" if first == last else f"{first:,} to {last:,}"
        for first, last in zip(firsts, lasts, strict=True)
    ]
    return [names[bisect_right(firsts, length) - 1] for length in lengths]


def shorten(example: DecodedExample, most: int) -> DecodedExample:
    """The first tokens of an example.

    Args:
        example: of any length.
        most: bytes that its text and markup may take.
    """
    segments: list[Segment] = []
    for segment in example.segments:
        kept = 0
        for piece in segment:
            most -= _MARKUP_BYTES[piece.kind] + _size(piece.text)
            most -= _size(piece.shown) if piece.kind == "replaced" else 0
            if most < 0:
                break
            kept += 1
        segments.append(segment if kept == len(segment) else (*segment[:kept], _REST))
    return replace(example, segments=tuple(segments))


def _size(text: str) -> int:
    return len(escape(text).encode())


# A list of more files is in the manifest; the page stays below 2 MB.
_MOST_SOURCES, _MOST_SOURCE_BYTES = 1000, 150_000


def render_page(
    manifest: Manifest,
    examples: Sequence[DrawnExample],
    report: Report,
    origin: Origin = Origin(),  # noqa: B008  it is frozen
) -> str:
    """Render the report of a data set.

    Args:
        manifest: the data set's manifest.
        examples: drawn from all of its shards.
        report: the result of `corpusmill.inspection.figures.summarize`.
        origin: where the data set is, and when it was written.

    Returns:
        HTML that refers to no other file, with all text of the corpus escaped.
    """
    return _render(
        "report.html.jinja",
        plot_report(report),
        manifest=manifest,
        browser=browse(examples),
        report=report,
        origin=origin,
        sources=_first_sources(manifest.corpus.files),
        named_sources=source_figures(manifest),
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
    return _render(
        "corpus.html.jinja",
        (*plot_corpus(numbers), *plot_report(report)),
        numbers=numbers,
        sections=report_sections(numbers),
        report=report,
        origin=origin,
    )


def summarize_data_set(
    manifest: Manifest, examples: Sequence[DrawnExample], report: Report, origin: Origin
) -> str:
    """Render the figures of a data set and some examples for a notebook, as of `render_page`."""
    return _render(
        "notebook.html.jinja",
        (),
        title=f"{report.objective} examples",
        subtitle=f", seed {manifest.seed}, in {origin.place}",
        findings=report.findings,
        splits=report.splits,
        sections=[Section("all splits", report.figures), *map(_section, report.splits)],
        rejects=report.reasons,
        examples=examples,
    )


def summarize_corpus(numbers: Mapping[str, Any]) -> str:
    """Render the figures of a corpus for a notebook, as of `render_corpus_page`."""
    report = report_build(numbers)
    return _render(
        "notebook.html.jinja",
        (),
        title="A corpus",
        subtitle=f", and what {report.objective} would make of it",
        findings=report.findings,
        splits=(),
        sections=[*report_sections(numbers), *map(_section, report.splits)],
        rejects={},
        examples=(),
    )


def _section(split: SplitReport) -> Section:
    return Section(f"examples of {split.name}", split.figures)


def _render(template: str, plots: Iterator[Plot] | Sequence[Plot], **values: object) -> str:
    # Imported here because it takes longer to load than most commands take to run.
    import jinja2  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("corpusmill.console", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: (
            printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    values |= {"plots": list(plots), "frame": FRAME}
    return environment.get_template(template).render(values)


def _first_sources(files: Sequence[SourceFile]) -> list[SourceFile]:
    few = files[:_MOST_SOURCES]
    sizes = accumulate(len(file.path.encode()) for file in few)
    return [file for file, size in zip(few, takewhile(_fits, sizes), strict=False)]


def _fits(size: int) -> bool:
    return size <= _MOST_SOURCE_BYTES
