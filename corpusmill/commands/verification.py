"""A data set is checked against its manifest."""

from collections.abc import Sequence

from corpusmill.commands.command import Call
from corpusmill.commands.table import JOB_PACKAGE
from corpusmill.commands.verify import HERE, Verify
from corpusmill.dataset.file_checks import Problem
from corpusmill.dataset.shards import open_data_set
from corpusmill.errors import UserError, count_things, option
from corpusmill.location import Location
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.verification.check_data_set import verify as find_problems


def verify(command: Verify, call: Call) -> int:
    """Print what is wrong with a data set, and return 1 if anything is.

    Raises:
        UserError: the folder does not hold a data set, or the runner cannot be used.
    """
    if command.runner == HERE:
        folder = call.locate(command.folder)
        return report_problems(command, call, folder, find_problems(folder, command.workers))
    if call.job is None:
        cause = "a runner of Beam's needs the job, which is not installed"
        raise UserError(option("runner", command.runner), cause, f"Run `pip install {JOB_PACKAGE}`")
    with call.importing():
        run = call.job.runner(call.job.load("verify"))
    return run(command, call)


def report_problems(
    command: Verify, call: Call, folder: Location, problems: Sequence[Problem]
) -> int:
    """Print what is wrong with a data set, and return 1 if anything is."""
    console = call.console
    for problem in problems:
        console.print(f"{problem.file}: {problem.what}")
    if problems:
        console.print(f"{command.folder}: {count_things(len(problems), 'problem')}")
        return 1
    _, manifest = open_data_set(folder)
    objective = manifest.objective
    if objective.name not in OBJECTIVES:
        console.print(
            f"the options of {objective.name} are not checked, as {objective.package or 'it'} is "
            "not installed"
        )
    shards = sum(len(split.shards) for split in manifest.splits.values())
    examples = count_things(manifest.rows, "example")
    what = f"all {shards:,} shards with {examples} are as they were written"
    if shards == 1:
        what = f"its shard with {examples} is as it was written"
    console.print(f"{command.folder}: {what}")
    return 0
