"""Rows are removed from a data set, or copied to another one, by the documents that they hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from corpusmill.commands.command import Call
from corpusmill.dataset.manifest import SUCCESS
from corpusmill.dataset.shards import open_data_set, read_manifest
from corpusmill.errors import UserError
from pipeline.commands.drop import Drop
from pipeline.commands.subset import Subset
from pipeline.console.progress import Work
from pipeline.options import RunOptions
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.editing import (
    check_editable,
    choose_documents,
    describe_choice,
    finish_stopped,
    record_of,
)
from pipeline.preparation.inputs import absolute
from pipeline.preparation.output import check_output
from pipeline.preparation.run_folder import RunFolder, run_folder
from pipeline.runners.launch import Launch, prepare_launch
from transforms.storage.file_systems import join_path

if TYPE_CHECKING:
    import apache_beam as beam

    from pipeline.preparation.edit_files import Edit
    from transforms.edit_decision import EditDecision


def drop(command: Drop, call: Call) -> int:
    """Remove documents from a data set, and say what was removed.

    Raises:
        UserError: the data set cannot be changed, or has no such document.
    """
    output, run = command.data_set, command.run
    describe_choice(command.where, command.document)
    launch = prepare_launch(
        run, call.engine_arguments, [("drop", output)], call.console, command.log
    )
    if finish_stopped(output, run.temp_location):
        call.console.print(f"finished what a command that was stopped had begun in {output}")
    folder, manifest = open_data_set(BeamFolder(output))
    check_editable(manifest, output)
    choice = choose_documents(folder, manifest, command.where, command.document)
    if not choice.table.num_rows:
        call.console.print(f"no document matches, and {output} stays as it is")
        return 0
    with open_run(launch, call, output, run) as opened:
        from pipeline.preparation import edit_files  # noqa: PLC0415  imports Beam

        source = edit_files.Source(folder, manifest, choice, f"drop {output}")
        opened.claim(record_of(source.value), (), manifest)
        edit = edit_files.plan_removal(source, opened.path)
        done = run_edit(launch, opened, edit)
    if not done:
        call.console.print(describe_submission(output))
        return 0
    removal = read_manifest(BeamFolder(output)).removals[-1]
    call.console.print(
        f"{output}: removed {removal.documents:,} documents, and the {removal.rows:,} rows with "
        f"{removal.tokens:,} tokens that held any of their text"
    )
    return 0


def subset(command: Subset, call: Call) -> int:
    """Make a data set of some documents of another one, and say what is in it.

    Raises:
        UserError: the data set has no such document, or the folder cannot be written to.
    """
    output, run = command.output, command.run
    describe_choice(command.where, command.document)
    if absolute(command.data_set).rstrip("/") == absolute(output).rstrip("/"):
        cause, cure = "it is the data set itself", "Give another folder, or use `corpusmill drop`"
        raise UserError(f"--output {output}", cause, cure)
    places = [("subset", command.data_set), ("--output", output)]
    launch = prepare_launch(run, call.engine_arguments, places, call.console, command.log)
    folder, manifest = open_data_set(call.files.open_folder(command.data_set))
    check_editable(manifest, command.data_set)
    stale = check_output(
        output, command.replace, manifest.output.options.shard_name, False, run.temp_location, False
    )
    choice = choose_documents(folder, manifest, command.where, command.document)
    if not choice.table.num_rows:
        raise UserError(choice.reason, "no document matches", "Try it with `corpusmill trace`")
    with open_run(launch, call, output, run) as opened:
        from pipeline.preparation import edit_files  # noqa: PLC0415  imports Beam

        source = edit_files.Source(folder, manifest, choice, f"subset {command.data_set}")
        opened.claim(record_of(source.value), stale)
        edit = edit_files.plan_subset(source, opened.path, stale)
        done = run_edit(launch, opened, edit)
    if not done:
        call.console.print(describe_submission(output))
        return 0
    made = read_manifest(BeamFolder(output))
    call.console.print(
        f"the data set is in {output}: {made.rows:,} of {manifest.rows:,} rows, which hold text of "
        f"the {choice.table.num_rows:,} chosen documents alone"
    )
    return 0


def describe_submission(output: str) -> str:
    """Say how one will know that a job which nobody waits for has ended."""
    return f"submitted; the data set is complete once {join_path(output, SUCCESS)} changes"


@contextmanager
def open_run(launch: Launch, call: Call, output: str, options: RunOptions) -> Iterator[RunFolder]:
    """Open the folder of a run, and import what the job needs."""
    outlives = not launch.engine.reason_to_wait
    with run_folder(output, options.temp_location, False, outlives, resumable=False) as folder:
        with call.importing(launch.engine.unused_packages):
            import pipeline.preparation.edit_files  # noqa: F401, PLC0415

            launch.engine.load()
        yield folder


def run_edit(launch: Launch, run: RunFolder, edit: "Edit") -> bool:
    """Run the job, and return whether its result is there; False if it was only submitted."""
    build = partial(_add_stages, edit=edit, decision=edit.decide(run, launch.engine.options.wait))
    work = Work(edit.bytes, repeats=0, tasks=edit.units)
    submitted = launch.run(build, work, edit.bytes, run.path)
    run.handed_over = not (submitted.done or submitted.dry)
    if submitted.done:
        run.check_committed()
    return submitted.done and not submitted.dry


def _add_stages(pipeline: "beam.Pipeline", edit: "Edit", decision: "EditDecision") -> None:
    """Add the job's stages to a pipeline."""
    import apache_beam as beam  # noqa: PLC0415  Beam takes a second

    from transforms.commit import CommitDataset  # noqa: PLC0415
    from transforms.edit import FILES, EditShards  # noqa: PLC0415
    from transforms.elements import LinesFile, ReadRange  # noqa: PLC0415
    from transforms.tally import COUNTS  # noqa: PLC0415

    edited = pipeline | "EditShards" >> EditShards(edit.sources, decision.work.place)
    rejects = pipeline | "NoRejects" >> beam.Create([]).with_output_types(LinesFile)
    ranges = pipeline | "NoRanges" >> beam.Create([]).with_output_types(ReadRange)
    _ = edited[FILES] | "CommitDataset" >> CommitDataset(
        decision, [edited[COUNTS]], rejects, ranges
    )
