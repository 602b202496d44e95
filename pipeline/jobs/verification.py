"""A data set is checked by a job, whose workers read it where it is."""

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from corpusmill.commands.command import Call
from corpusmill.commands.verification import report_problems
from corpusmill.commands.verify import Verify
from corpusmill.dataset.file_checks import Problem, list_tasks
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.errors import UserError
from corpusmill.verification.check_data_set import Listed, compare_list, conclude
from pipeline.console.progress import Work
from pipeline.console.run_log import LogOptions
from pipeline.folders.run_folder import temporary_folder
from pipeline.job_options import RunOptions
from pipeline.runners.launch import Launch, prepare_launch
from transforms.storage.file_systems import join_path

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.verify import Checking

_RESULT = "checked.json"


def verify(command: Verify, call: Call) -> int:
    """Print what is wrong with a data set, and return 1 if anything is.

    Raises:
        UserError: the folder does not hold a data set, or the engine cannot run the job.
        Exception: as of `Launch.run`.
    """
    run = RunOptions(command.runner, command.workers, temp_location=command.temp_location)
    places = [("folder", command.folder)]
    launch = prepare_launch(run, call.engine_arguments, places, call.console, LogOptions())
    folder = call.locate(command.folder)
    problems = compare_list(folder)
    if isinstance(problems, Listed):
        with temporary_folder(folder, launch.temp_location) as temp_folder:
            problems = _check_by_job(problems, launch, temp_folder)
    return report_problems(command, call, folder, problems)


def _check_by_job(listed: Listed, launch: Launch, temp_folder: str) -> list[Problem]:
    from transforms.shuffle.trees import has_collected  # noqa: PLC0415  Beam takes a second
    from transforms.verify import Checking, read_totals  # noqa: PLC0415  likewise

    digest = sha256(listed.folder.read(MANIFEST)).hexdigest()
    tasks = len(list_tasks(listed.manifest))
    path = join_path(temp_folder, _RESULT)
    checking = Checking(listed.folder, digest, tasks, listed.unread)
    size = sum(entry.bytes for entry in listed.manifest.entries.values())
    build = partial(check_files, checking=checking, path=path)
    work = Work(size, repeats=0, tasks=tasks)
    if launch.run(build, work, size, temp_folder, partial(has_collected, path)).dry:
        cause = "the job was translated, and nothing was verified"
        raise UserError("--dry_run", cause, "Leave it out")
    return conclude(listed, read_totals(path, tasks))


def check_files(pipeline: "beam.Pipeline", checking: "Checking", path: str) -> None:
    """Add the job's stages to a pipeline."""
    from transforms.shuffle.trees import CollectResult  # noqa: PLC0415
    from transforms.tally import COUNTS  # noqa: PLC0415
    from transforms.verify import PROBLEMS, CheckFiles  # noqa: PLC0415  as above

    checked = pipeline | "CheckFiles" >> CheckFiles(checking)
    _ = checked[PROBLEMS] | "CollectResult" >> CollectResult(path, checked[COUNTS])
