"""The command lines of the benchmarks, and the tables that they print."""

import argparse
from collections.abc import Iterable

from rich.console import Console

CONSOLE = Console(highlight=False, soft_wrap=True)

_HELP = {
    "bytes": "size of the synthetic corpus",
    "folder": "for corpora, tokenizers and outputs; what exists is used again",
    "only": "run the rows whose names contain this",
    "rounds": "number of times that each row is measured",
    "workers": "worker processes",
}


def make_parser(doc: str | None, **defaults: object) -> argparse.ArgumentParser:
    """Return a parser with one flag for each default, of the default's type.

    Args:
        doc: the docstring of the module.
        defaults: of the flags, by name.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default,
            help=f"{_HELP.get(name, '')} (default: {default or 'all'})",
        )  # fmt: skip
    return parser


def print_table(headings: Iterable[str], rows: Iterable[Iterable[str]], title: str = "") -> None:
    """Print a table in Markdown, which stands on the page of figures as it is.

    Args:
        headings: of the columns; all columns but the first are numbers.
        rows: the cells of each row. A row may be shorter than the headings.
        title: the heading of the first column, if that has none of its own.
    """
    first, *others = headings
    lines = [[first or title, *others], *map(list, rows)]
    for line in lines:
        line.extend([""] * (len(lines[0]) - len(line)))
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    print()  # ends a table before this one
    for line in lines:
        name, *cells = line
        padded = [f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)]
        print(f"| {' | '.join([f'{name:<{widths[0]}}', *padded])} |", flush=True)


def report(message: str) -> None:
    """Print a line about the progress."""
    CONSOLE.print(message, style="dim")
