"""Reports as one self-contained HTML page: figures, plots and examples, legible without scripts."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import accumulate
from typing import Any

from corpusmill.console.plots import plot_corpus, plot_report
from corpusmill.console.terminal_report import Origin
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import printable
from corpusmill.inspection.corpus_numbers import report_build, report_sections
from corpusmill.inspection.decoded_examples import (
    DecodedExample,
    DrawnExample,
    Piece,
    Segment,
    name_segments,
)
from corpusmill.inspection.figures import Report, source_figures

# How every page begins, by which it is known as ours.
PAGE_BEGIN = (
    b'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta name="generator" content="corpusmill">'
)
# Of the text of all examples, and of the markup around a predicted word.
_MOST_BYTES = 1_300_000
_MARKUP_BYTES = {"plain": 1, "masked": 27, "replaced": 36, "kept": 25, "learned": 34}
_REST = Piece("... (the rest is left out)", joined=False, kind="plain", shown="")


def browse(examples: Sequence[DrawnExample]) -> dict[str, Any]:
    """What the page shows of some examples.

    Args:
        examples: of any number; the more there are, the less of a long one is shown.

    Returns:
        "filters", which count the values of each quantity by which examples differ ("split",
        "tokens" and their classes), in order; and "cards", which have the example, where it is, the
        names of its segments, and the numbers of its values in the filters.
    """
    lengths = [drawn.example.length for drawn in examples]
    ranges = group_lengths(lengths)
    # By title, the values of all examples with what they are sorted by.
    quantities: dict[str, list[tuple[Any, str]]] = {
        "split": [(drawn.split, drawn.split) for drawn in examples],
        "tokens": list(zip(lengths, ranges, strict=True)),
    }
    for title in dict.fromkeys(title for drawn in examples for title in drawn.example.classes):
        values = [drawn.example.classes.get(title, "none") for drawn in examples]
        quantities[title] = list(zip(values, values, strict=True))
    counted = {title: Counter(text for _, text in sorted(own)) for title, own in quantities.items()}
    filters = {title: counts for title, counts in counted.items() if len(counts) > 1}
    budget = _MOST_BYTES // max(1, len(examples))
    cards = [
        {
            "example": shorten(drawn.example, budget),
            "place": f"{drawn.shard}, row {drawn.row:,}",
            "names": tuple(name_segments(drawn.example)),
            "choices": [
                [*counts].index(quantities[title][number][1]) for title, counts in filters.items()
            ],
        }
        for number, drawn in enumerate(examples)
    ]
    return {"filters": filters, "cards": cards}


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
    few = manifest.corpus.files[:_MOST_SOURCES]
    sizes = accumulate(len(file.path.encode()) for file in few)
    fitting = zip(few, sizes, strict=True)
    return render(
        "report.html.jinja",
        plots=[*plot_report(report)],
        manifest=manifest,
        report=report,
        origin=origin,
        sources=[file for file, size in fitting if size <= _MOST_SOURCE_BYTES],
        named_sources=source_figures(manifest),
        **browse(examples),
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
    return render(
        "corpus.html.jinja",
        plots=[*plot_corpus(numbers), *plot_report(report)],
        numbers=numbers,
        sections=report_sections(numbers),
        report=report,
        origin=origin,
    )


def render(template: str, **values: object) -> str:
    """Render a template of this package, with all text of the corpus escaped.

    Args:
        template: its file.
        values: what it shows, by name.
    """
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
    return environment.get_template(template).render(values)
