"""Data sets are joined to one."""

import numpy as np

from corpusmill.commands.command import Call
from corpusmill.dataset.shards import open_data_set, read_manifest
from corpusmill.errors import UserError
from pipeline.commands.dataset_editing import describe_submission, open_run, run_edit
from pipeline.commands.merge import Merge
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.editing import record_of
from pipeline.preparation.inputs import absolute
from pipeline.preparation.merging import check_mergeable, find_known, refuse_known
from pipeline.preparation.output import check_output
from pipeline.runners.launch import prepare_launch


def merge(command: Merge, call: Call) -> int:
    """Join data sets, and say what the result holds.

    Raises:
        UserError: the data sets cannot be joined, or the folder cannot be written to.
    """
    output, run = command.output, command.run
    if absolute(output).rstrip("/") in {absolute(one).rstrip("/") for one in command.data_sets}:
        cause = "it is one of the data sets that are joined"
        raise UserError(f"--output {output}", cause, "Give another folder")
    places = [*(("merge", one) for one in command.data_sets), ("--output", output)]
    launch = prepare_launch(run, call.engine_arguments, places, call.console, command.log)
    opened = [(one, *open_data_set(call.files.open_folder(one))) for one in command.data_sets]
    check_mergeable(opened)
    pattern = opened[0][2].output.options.shard_name
    stale = check_output(output, command.replace, pattern, False, run.temp_location, False)
    found = [np.zeros(0, np.uint64)] * len(opened)
    if command.existing != "allow":
        found = find_known(opened)
    if command.existing == "refuse":
        refuse_known(opened, found)
    with open_run(launch, call, output, run) as folder:
        from pipeline.preparation import edit_files  # noqa: PLC0415  imports Beam

        parts = [
            edit_files.Part(place, manifest, left_out)
            for (_, place, manifest), left_out in zip(opened, found, strict=True)
        ]
        folder.claim(record_of(f"merge {' '.join(command.data_sets)}"), stale)
        edit = edit_files.plan_merge(parts, folder.path, stale)
        done = run_edit(launch, folder, edit)
    if not done:
        call.console.print(describe_submission(output))
        return 0
    manifest = read_manifest(BeamFolder(output))
    skipped = sum(map(len, found))
    left_out = f"; {skipped:,} documents were left out" if skipped else ""
    call.console.print(f"the data set is in {output}: {manifest.rows:,} rows{left_out}")
    return 0
