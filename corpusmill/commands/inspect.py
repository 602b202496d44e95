"""The command that shows a data set: its figures and decoded examples."""

from dataclasses import dataclass

import tyro

from corpusmill.commands.command import Command


@dataclass(frozen=True)
class Inspect:
    """Show decoded examples and the distributions of a data set."""

    folder: tyro.conf.Positional[str]
    """The data set."""
    examples: int = 3
    """How many examples of each split to print, drawn at random from all shards."""
    html: str | None = None
    """Also write the report as one HTML page, with plots and at least 200 examples, to this
    file."""


COMMAND = Command(Inspect, "corpusmill.commands.inspection:inspect")
