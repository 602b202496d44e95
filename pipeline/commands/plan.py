"""The command that plans a build of any size."""

from corpusmill.commands.command import Command
from pipeline.commands.builds import FORMAT_NAMES, make_commands
from pipeline.planning.plan_options import PlanOptions

COMMAND = Command(
    PlanOptions,
    "pipeline.planning.planned_build:plan",
    FORMAT_NAMES,
    make_commands(PlanOptions),
)
