"""A data set is checked against its manifest."""

from corpusmill.commands.command import Call
from corpusmill.commands.verify import Verify
from corpusmill.dataset.shards import open_data_set
from corpusmill.dataset.verify import verify as find_problems
from corpusmill.objectives.registry import OBJECTIVES


def verify(command: Verify, call: Call) -> int:
    """Print what is wrong with a data set, and return 1 if anything is."""
    console, folder = call.console, call.files.open_folder(command.folder)
    problems = find_problems(folder)
    for problem in problems:
        console.print(f"{problem.file}: {problem.what}")
    if problems:
        console.print(f"{command.folder}: {len(problems)} problems")
        return 1
    _, manifest = open_data_set(folder)
    objective = manifest.objective
    if objective.name not in OBJECTIVES:
        console.print(
            f"the options of {objective.name} are not checked, as {objective.package or 'it'} is "
            "not installed"
        )
    shards = sum(len(split.shards) for split in manifest.splits.values())
    console.print(
        f"{command.folder}: all {shards} shards with {manifest.rows:,} examples are as they were "
        "written"
    )
    return 0
