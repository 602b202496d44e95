"""Reports as one self-contained HTML page: figures, plots and examples, legible without scripts."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any

from corpusmill.console.example_browser import browse
from corpusmill.console.origin import Origin
from corpusmill.console.plots import FRAME, Plot, plot_corpus, plot_report
from corpusmill.dataset.corpus_entry import SourceFile
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import printable
from corpusmill.inspection.corpus_figures import source_figures
from corpusmill.inspection.corpus_numbers import Section, report_build, report_sections
from corpusmill.inspection.drawn_examples import DrawnExample
from corpusmill.inspection.figures import Report, SplitReport

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
