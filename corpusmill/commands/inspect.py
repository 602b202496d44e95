"""The command that shows a data set: its figures and decoded examples."""

from dataclasses import dataclass

from corpusmill.commands.command import Command
from corpusmill.settings.options import Positional


@dataclass(frozen=True)
class Inspect:
    """Show decoded examples and the distributions of a data set."""

    folder: Positional
    """The data set."""
    examples: int = 3
    """How many examples of each split to print, drawn at random from all shards."""
    html: str | None = None
    """Also write the report as one HTML page, with plots and at least 200 examples, to this
    file."""


COMMAND = Command(Inspect, "corpusmill.commands.inspection:inspect")
