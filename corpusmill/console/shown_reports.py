"""Reports as objects of a Python program: they print as text, and as HTML in a notebook."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

from corpusmill.console.html_report import PAGE_BEGIN, render, render_corpus_page, render_page
from corpusmill.console.terminal import Terminal
from corpusmill.console.terminal_report import Origin, print_corpus, print_inspection
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_tokenizer
from corpusmill.errors import UserError
from corpusmill.inspection.corpus_numbers import Section, report_build, report_sections
from corpusmill.inspection.decoded_examples import DrawnExample, draw_examples
from corpusmill.inspection.figures import Report, SplitReport, summarize
from corpusmill.inspection.findings import Finding
from corpusmill.location import Location, locate


@dataclass(frozen=True, repr=False)
class DataSetReport:
    """The report of a data set.

    Attributes:
        manifest: of the data set.
        examples: drawn at random from all shards, those of one split after the other.
        origin: where the data set is.
    """

    manifest: Manifest
    examples: Sequence[DrawnExample] = ()
    origin: Origin = field(default_factory=Origin)

    def __repr__(self) -> str:
        console, stream = _console()
        examples = [drawn.example for drawn in self.examples]
        print_inspection(console, self.manifest, examples, self.summary, self.origin)
        return stream.getvalue().rstrip()

    @cached_property
    def summary(self) -> Report:
        """All figures."""
        return summarize(self.manifest)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What makes the data set of little use, each with its cause and its cure."""
        return self.summary.findings

    @property
    def splits(self) -> Mapping[str, SplitReport]:
        """The figures and distributions of each split."""
        return {split.name: split for split in self.summary.splits}

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of all stages, by name."""
        return self.manifest.counts

    @property
    def rejects(self) -> Mapping[str, int]:
        """How many records of the input could not be used, by reason."""
        return self.summary.reasons

    def save_html(self, path: str | Path) -> None:
        """Write the report as one HTML page with plots, and the examples."""
        file = locate(str(path))
        file.check_file("path", PAGE_BEGIN)
        page = render_page(self.manifest, self.examples, self.summary, self.origin)
        file.write(page.encode())

    def _repr_html_(self) -> str:
        return render(
            "notebook.html.jinja",
            title=f"{self.summary.objective} examples",
            subtitle=f", seed {self.manifest.seed}, in {self.origin.place}",
            report=self.summary,
            sections=[Section("all splits", self.summary.figures)],
            examples=self.examples,
            is_built=True,
        )


def make_report(folder: Location, manifest: Manifest, place: str, examples: int) -> DataSetReport:
    """Return the report of a data set.

    Args:
        folder: with its files.
        manifest: of the data set.
        place: the folder, as it is shown.
        examples: how many examples of each split.

    Raises:
        UserError: the number is negative, or a shard or the tokenizer is damaged.
    """
    if examples < 0:
        raise UserError(f"examples={examples}", "it is negative", "Give 0 or more")
    drawn: list[DrawnExample] = []
    if examples:
        tokenizer_json = read_tokenizer(folder, manifest)
        for split in manifest.splits:
            drawn += draw_examples(folder, manifest, tokenizer_json, split, examples)
    return DataSetReport(manifest, drawn, Origin(place))


@dataclass(frozen=True, repr=False)
class CorpusReport:
    """A corpus in numbers, and what a build of it would give.

    Attributes:
        numbers: all numbers, which `corpusmill.inspection.corpus_numbers` describes.
    """

    numbers: Mapping[str, Any]

    def __repr__(self) -> str:
        console, stream = _console()
        print_corpus(console, self.numbers)
        return stream.getvalue().rstrip()

    @cached_property
    def build(self) -> Report:
        """What a build would give."""
        return report_build(self.numbers)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What would make a data set of little use, each with its cause and its cure."""
        return self.build.findings

    @property
    def sections(self) -> tuple[Section, ...]:
        """The figures of the corpus."""
        return report_sections(self.numbers)

    def save_html(self, path: str | Path) -> None:
        """Write the report as one HTML page with plots."""
        file = locate(str(path))
        file.check_file("path", PAGE_BEGIN)
        file.write(render_corpus_page(self.numbers).encode())

    def _repr_html_(self) -> str:
        return render(
            "notebook.html.jinja",
            title="A corpus",
            subtitle=f", and what {self.build.objective} would make of it",
            report=self.build,
            sections=self.sections,
            examples=(),
            is_built=False,
        )


def _console() -> tuple[Terminal, StringIO]:
    stream = StringIO()
    return Terminal(file=stream, force_jupyter=False, force_terminal=False), stream
