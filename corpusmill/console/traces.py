"""Traces in the terminal: rows with their documents, and documents with their rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from rich.console import Console

from corpusmill.console.terminal import Terminal
from corpusmill.errors import count_things
from corpusmill.provenance.records import RowOrigin
from corpusmill.provenance.tracer import TracedDocument, TracedRow, TracedSpan

Item = TypeVar("Item")


def follow(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Yield items, and show on a terminal how many there were; afterwards the line is gone.

    Args:
        items: the items.
        total: their number.
        what: what is done with them, in a word or two.
    """
    console = Terminal(stderr=True, force_jupyter=False)
    if not console.is_terminal:
        yield from items
        return
    from rich.progress import MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  slow

    columns = (TextColumn("{task.description}"), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(items, total, description=what)


# Characters of a text that are shown; JSON has all of it.
_SHOWN = 300


class Reading(Protocol):
    """When a run reads a row."""

    @property
    def epoch(self) -> int:
        """The epoch."""

    @property
    def step(self) -> int:
        """The number of the step in the epoch."""

    @property
    def rank(self) -> int:
        """The rank."""


def print_rows(console: Console, rows: Iterable[TracedRow]) -> None:
    """Print rows, each with its documents and the text of its tokens."""
    for row in rows:
        read = "".join(f", {name} {number}" for name, number in row.read.items())
        origin = row.origin
        passes = f", repeat {origin.repeat}" if origin.repeat else ""
        console.print(
            f"{origin.split} row {origin.row:,}{read}: {origin.shard}, row {origin.shard_row:,}"
            f"{passes}"
        )
        for document in row.documents:
            console.print(f"  {_describe_document(document)}")
        for span in row.spans:
            console.print(f"    {_describe_span(span)}")
        if row.missing:
            console.print(f"    no text: {row.missing}")


def _describe_document(document: TracedDocument) -> str:
    record = document.record
    length = f" + {record.length:,}" if record.length else ""
    source = f" ({document.source})" if document.source else ""
    fields = "".join(f", {name}={value}" for name, value in record.fields.items())
    return (
        f"document {record.document}: {document.file}{source} at {document.place:,}{length}{fields}"
    )


def _describe_span(traced: TracedSpan) -> str:
    span = traced.span
    last = span.first_token + span.tokens - 1
    place = f"document {span.document}, tokens {span.first_token:,} to {last:,}"
    if traced.text is None:
        return place
    text = " ".join(traced.text.split())
    if len(text) > _SHOWN:
        text = f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"
    return f"{place}: {text}"


def print_documents(
    console: Console,
    documents: Sequence[TracedDocument],
    rows: Sequence[RowOrigin],
    total: int,
    readings: Mapping[RowOrigin, Sequence[Reading]],
    limit: int,
) -> None:
    """Print documents, and the rows that hold them.

    Args:
        console: the terminal.
        documents: the documents.
        rows: the rows that hold text of one of them, as far as they are printed.
        total: the number of all such rows.
        readings: when a run reads the rows; empty where that is not asked.
        limit: the most documents that are printed; 0 prints all.
    """
    limit = limit or len(documents)
    for document in documents[:limit]:
        console.print(_describe_document(document))
    if len(documents) > limit:
        console.print(f"... and {count_things(len(documents) - limit, 'more document')}")
    text = f"text of {count_things(len(documents), 'document')}"
    console.print(f"{count_things(total, 'row holds', 'rows hold')} {text}:")
    for row in rows:
        read = "".join(
            f"; epoch {one.epoch}, step {one.step:,}, rank {one.rank}"
            for one in readings.get(row, ())
        )
        console.print(f"  {row.split} row {row.row:,}: {row.shard}, row {row.shard_row:,}{read}")
    if total > len(rows):
        console.print(
            f"... and {count_things(total - len(rows), 'more row')} (--limit 0 prints all)"
        )
