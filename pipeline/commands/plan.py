"""`plan`: what a build of any size would take and cost, and what would break, without a network."""

import json
from collections.abc import Callable

from corpusmill.commands.command import Call, Command
from corpusmill.console.terminal import Terminal
from pipeline.commands.builds import FORMAT_NAMES, apply_preset, make_commands
from pipeline.console.plan_report import print_plan
from pipeline.planning.numbers import list_numbers
from pipeline.planning.options import PlanOptions
from pipeline.planning.planned_build import plan_build
from pipeline.runners.launch import make_engine

PLANS: dict[str, Callable[..., PlanOptions]] = make_commands("Plan", PlanOptions)


def plan(options: PlanOptions, call: Call) -> int:
    """Plan a build, and print the plan."""
    engine = make_engine(options.run, call.engine_arguments)
    # Standard output is for the JSON alone.
    console = Terminal(stderr=True) if options.json else call.console
    numbers = list_numbers(plan_build(options, engine, console))
    if options.json:
        call.console.print(*json.dumps(numbers, indent=1).split("\n"), sep="\n")
    else:
        print_plan(call.console, numbers)
    return 0


def _expand(words: list[str]) -> list[str]:
    """Add the options of a preset; the first word is "plan bert" or the like."""
    name, *rest = words
    return [name, *apply_preset([name.split()[-1], *rest])[1:]]


COMMAND = Command(PlanOptions, plan, _expand, FORMAT_NAMES, PLANS)
