"""Reports in the terminal, of a data set or a corpus, in colour if the terminal has any.

A report begins with its origin: where the data set is, when it was written, and by which commands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import shorten
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from corpusmill.audit.report import AuditReport
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import count_things, printable
from corpusmill.inspection.corpus_numbers import Section, report_build, report_sections
from corpusmill.inspection.decoded_examples import (
    DecodedExample,
    Piece,
    Segment,
    name_segments,
    write_plainly,
)
from corpusmill.inspection.figures import Figure, Report, SplitReport, source_figures
from corpusmill.inspection.findings import Finding


@dataclass(frozen=True)
class Origin:
    """What a manifest does not hold, because it belongs to a place and a run.

    Attributes:
        path: the folder of a data set; empty for a corpus.
        seconds: when it was written, or the report was made, in seconds since 1970; None where
            that is not known.
        commands: those that build the data set, one for each part that was built at a time, or
            the one that made the report; empty where they are not known.
    """

    path: str = ""
    seconds: float | None = None
    commands: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The path and the time, as far as they are known."""
        parts = [self.path] if self.path else []
        if self.seconds is not None:
            parts.append(datetime.fromtimestamp(self.seconds, UTC).strftime("%Y-%m-%d %H:%M UTC"))
        return ", ".join(parts)


# How a prediction looks: the original in its kind's colour, after the token that replaced it.
_STYLES = {
    "masked": "bold cyan",
    "replaced": "bold yellow",
    "kept": "bold green",
    "learned": "green",
}
# Of a row of a token file.
_ROW_LETTERS = 300
_REPLACEMENT_STYLE = "red strike"


def print_inspection(
    console: Console,
    manifest: Manifest,
    examples: Sequence[DecodedExample],
    report: Report,
    origin: Origin | None = None,
) -> None:
    """Print the report of a data set, and then examples.

    Without colours, a masked word reads `[MASK->lighthouse]`, a replaced one `[tree->lighthouse]`,
    one that is predicted but unchanged `[=lighthouse]`, and what alone is learned stands in braces.

    Args:
        console: the terminal; its colours decide the form.
        manifest: the data set's manifest.
        examples: decoded rows.
        report: the result of `corpusmill.inspection.figures.summarize`.
        origin: where the data set is, and when it was written; None where that was said before.
    """
    _print_head(console, manifest, report, origin)
    print_figures(console, report.figures)
    for split in report.splits:
        _print_split(console, split)
    if any(example.predictions is not None for example in examples):
        _print_legend(console)
    if any(example.learned is not None for example in examples):
        piece = (Piece("learned", False, "learned", "learned"),)
        form = _colour(piece) if _has_colours(console) else write_plainly(piece)
        console.print()
        print_line(console, "only this is learned: ", form)
    for number, example in enumerate(examples, 1):
        _print_example(console, number, example)


def print_line(console: Console, *parts: Text | str) -> None:
    """Print a line of a report.

    Args:
        console: the terminal.
        parts: of the line; those that are no `Text` may come from a file.
    """
    # A file or a pipe gets each line whole; a terminal wraps at words.
    texts = (printable(part) if isinstance(part, str) else part for part in parts)
    console.print(Text.assemble(*texts), soft_wrap=not console.is_terminal)


def _print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print what makes the data of little use, each with its cause and its cure."""
    for finding in findings:
        print_line(console, Text("finding   ", style="bold red"), str(finding))


def _list_options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _print_head(
    console: Console, manifest: Manifest, report: Report, origin: Origin | None
) -> None:
    tokenizer, corpus = manifest.tokenizer, manifest.corpus
    files = count_things(len(corpus.files), "file")
    print_line(
        console, Text(f"{report.objective} examples", style="bold"), f", seed {manifest.seed}"
    )
    if origin:
        print_line(console, f"in        {origin.place}")
        for number, command in enumerate(origin.commands):
            print_line(console, f"{'then by ' if number else 'built by'}  {command}")
    for removal in manifest.removals:
        print_line(console, f"removed   {removal}")
    _print_findings(console, report.findings)
    size, lines = count_things(corpus.bytes, "byte"), count_things(report.lines, "line")
    print_line(console, f"from      {files}, {size}, {lines}")
    documents = report.counts.get("read.documents", 0)
    tokens = report.counts.get("tokenize.tokens", 0)
    print_line(
        console,
        f"          {count_things(documents, 'document')}, {count_things(tokens, 'token')}",
    )
    _print_rejects(console, report, manifest.first_reject)
    for source in source_figures(manifest):
        print_line(console, f"source    {source}")
    print_line(console, f"tokenizer {tokenizer.name}, {tokenizer.vocab_size:,} ids")
    if manifest.bounds_in_words:
        print_line(console, f"          {manifest.bounds_in_words}")
    print_line(console, f"rules     {_list_options(report.rules)}")
    print_line(console, f"options   {_list_options(report.options)}")


def _print_rejects(console: Console, report: Report, first: str | None) -> None:
    loss = report.loss
    share = f" ({loss.share:.2%} of the {loss.unit})" if loss.part else ""
    style = "bold red" if report.rejects else ""
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in report.reasons.items())
    print_line(
        console,
        "rejects   ",
        Text(f"{report.rejects:,}{share}", style=style),
        f": {reasons}" if reasons else "",
    )
    if first:
        print_line(console, f"          {first}")


def _print_split(console: Console, split: SplitReport) -> None:
    console.print()
    print_line(
        console,
        Text(split.name, style="bold"),
        f": {count_things(split.rows, 'example')}, {count_things(split.tokens, 'token')}, "
        f"{count_things(split.shards, 'shard')}, {count_things(split.bytes, 'byte')}",
    )
    print_figures(console, split.figures)


def print_figures(console: Console, figures: Sequence[Figure]) -> None:
    """Print some figures, a line each."""
    if not console.is_terminal:
        width = max((len(figure.name) for figure in figures), default=0)
        right = max((len(figure.text) for figure in figures), default=0)
        for figure in figures:
            line = f"  {figure.name:<{width}}  {figure.text:>{max(8, right)}}  {figure.meaning}"
            print_line(console, line.rstrip())
        return
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="cyan")
    table.add_column()
    for figure in figures:
        table.add_row(
            *(Text(printable(cell)) for cell in (figure.name, figure.text, figure.meaning))
        )
    console.print(table, soft_wrap=False)


def print_corpus(console: Console, numbers: Mapping[str, Any]) -> None:
    """Print the numbers of a corpus, and what a build of it would give.

    Args:
        console: the terminal.
        numbers: the numbers that `corpusmill.inspection.corpus_numbers` describes.
    """
    tokenizer, report = numbers["tokenizer"], report_build(numbers)
    _print_findings(console, report.findings)
    print_line(console, f"tokenizer {tokenizer['name']}, {tokenizer['vocab_size']:,} ids")
    print_line(console, f"rules     {_list_options(report.rules)}")
    print_line(console, f"objective {report.objective}, {_list_options(report.options)}")
    *sections, build, work = report_sections(numbers)
    build = Section(build.name, (*build.figures, *report.figures))
    splits = (
        Section(f"examples of {split.name}", split.figures)
        for split in report.splits
        if split.distributions
    )
    for section in (*sections, build, *splits, work):
        console.print()
        print_line(console, Text(section.name, style="bold"))
        print_figures(console, section.figures)


def print_audit(console: Console, report: AuditReport) -> None:
    """Print what is wrong with token files, their figures, and some of their rows."""
    files = report.audit.files
    title = f"{files[0].format} of {count_things(len(files), 'file')}, ids of {report.audit.dtype}"
    print_line(
        console,
        Text(title, style="bold"),
        f", tokenizer {report.tokenizer}" * bool(report.tokenizer),
    )
    _print_findings(console, report.findings)
    print_figures(console, report.figures)
    for row in report.rows:
        console.print()
        print_line(
            console,
            Text(f"{row.why} row", style="bold"),
            f": {row.place}, {count_things(row.length, 'id')}",
        )
        print_line(console, f"  {shorten(printable(row.text), _ROW_LETTERS, placeholder=' ...')}")
    if not report.findings:
        print_line(console, "no findings")


def _has_colours(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def _print_legend(console: Console) -> None:
    console.print()
    if _has_colours(console):
        pieces = (
            Piece("masked", False, "masked", "[MASK]"),
            Piece("replaced", False, "replaced", "other"),
            Piece("kept", False, "kept", "kept"),
        )
        print_line(console, "predicted: ", _colour(pieces))
    else:
        print_line(console, "predicted: [MASK->masked], [other->replaced], [=kept]")


def _print_example(console: Console, number: int, example: DecodedExample) -> None:
    classes = "".join(f", {title}: {name}" for title, name in example.classes.items())
    count = example.predictions
    predictions = "" if count is None else f", {count:,} predictions"
    predictions += "" if example.learned is None else f", {example.learned:,} of them learned"
    console.print()
    print_line(
        console,
        Text(f"example {number}", style="bold"),
        f": {count_things(example.length, 'token')}{predictions}{classes}",
    )
    for name, segment in zip(name_segments(example), example.segments, strict=True):
        text = _colour(segment) if _has_colours(console) else Text(write_plainly(segment))
        print_line(console, Text(f"  {name}  ", style="bold"), text if segment else "(empty)")


def _colour(segment: Segment) -> Text:
    text = Text()
    for piece in segment:
        if text and not piece.joined:
            text.append(" ")
        if piece.kind == "replaced":
            text.append(piece.shown, _REPLACEMENT_STYLE)
            text.append("\u2192", "dim")
        text.append(piece.text, _STYLES.get(piece.kind, ""))
    return text
