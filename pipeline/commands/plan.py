"""The command that plans a build of any size."""

from corpusmill.commands.command import Command
from pipeline.commands.builds import FORMAT_NAMES, apply_preset, make_commands
from pipeline.planning.options import PlanOptions


def _expand(words: list[str]) -> list[str]:
    """Add the options of a preset; the first word is "plan bert" or the like."""
    name, *rest = words
    return [name, *apply_preset([name.split()[-1], *rest])[1:]]


COMMAND = Command(
    PlanOptions,
    "pipeline.planning.planned_build:plan",
    _expand,
    FORMAT_NAMES,
    make_commands(PlanOptions),
)
