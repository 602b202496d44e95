"""Data sets are joined to one."""

from typing import TYPE_CHECKING

import numpy as np

from corpusmill.commands.command import Call
from corpusmill.dataset.shards import read_manifest
from pipeline.commands.dataset_editing import check_new, open_sources, run_edit
from pipeline.commands.merge import Merge
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.merging import check_mergeable, find_known, refuse_known

if TYPE_CHECKING:
    from pipeline.preparation.edit_files import Edit


def merge(command: Merge, call: Call) -> int:
    """Join data sets, and say what the result holds."""
    run_merge(command, call)
    return 0


def run_merge(command: Merge, call: Call) -> bool:
    """Join data sets, and say what the result holds.

    Returns:
        Whether it is there; False if the job was only submitted or translated.

    Raises:
        UserError: the data sets cannot be joined, or the folder cannot be written to.
    """
    launch, opened = open_sources(command, call, command.data_sets)
    check_mergeable(opened)
    target = check_new(command, opened[0][2], f"merge {' '.join(command.data_sets)}")
    known = [np.zeros(0, np.uint64)] * len(opened)
    if command.existing != "allow":
        known = find_known(opened)
    if command.existing == "refuse":
        refuse_known(opened, known)

    def plan(run_folder: str) -> "Edit":
        from pipeline.preparation import edit_files  # noqa: PLC0415  imports Beam

        parts = [
            edit_files.Part(folder, manifest, left_out)
            for (_, folder, manifest), left_out in zip(opened, known, strict=True)
        ]
        return edit_files.plan_merge(parts, run_folder, target.stale)

    is_there = run_edit(launch, call, target, plan)
    if is_there:
        manifest = read_manifest(BeamFolder(target.output))
        skipped = sum(map(len, known))
        left_out = f"; {skipped:,} documents were left out" if skipped else ""
        call.console.print(f"the data set is in {target.output}: {manifest.rows:,} rows{left_out}")
    return is_there
