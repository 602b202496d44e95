"""`plan`: what a build of any size would take, and which bounds it would exceed, offline."""

import json

from corpusmill.commands.command import Call
from corpusmill.console.terminal import Terminal
from pipeline.console.plan_report import print_plan
from pipeline.planning.options import PlanOptions
from pipeline.planning.planned_build import plan_build
from pipeline.runners.launch import make_engine


def plan(options: PlanOptions, call: Call) -> int:
    """Plan a build, and print the plan."""
    engine = make_engine(options.run, call.engine_arguments)
    # Standard output is for the JSON alone.
    console = Terminal(stderr=True) if options.json else call.console
    numbers = plan_build(options, engine, console)
    if options.json:
        call.console.print(*json.dumps(numbers, indent=1).split("\n"), sep="\n")
    else:
        print_plan(call.console, numbers)
    return 0
