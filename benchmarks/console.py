"""The command lines of the benchmarks, and the tables that they print."""

import argparse
import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

# Redirected output is not wrapped.
CONSOLE = Console(width=None if sys.stdout.isatty() else 260, highlight=False)

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
    """Print a table; all columns but the first are numbers."""
    table = Table(title=title or None)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    CONSOLE.print(table)


def report(message: str) -> None:
    """Print a line about the progress."""
    CONSOLE.print(message, style="dim")


def verdict(*, is_met: bool) -> str:
    """Return whether a bar is met, in one word."""
    return "met" if is_met else "missed"
