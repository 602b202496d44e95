"""The folder of a run that writes one file, which `--resume` finds again if the run is stopped."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager

from corpusmill.errors import UserError
from pipeline.preparation.inputs import absolute
from pipeline.preparation.run_folder import describe_finished
from pipeline.preparation.temporary_folder import (
    is_folder_of_run,
    make_temporary_folder,
    remove_empty_folders,
)
from transforms.recovery.journal import count_finished
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import TEMPORARY, remove_folder


@contextmanager
def resumable_folder(
    output: str, temp_location: str | None, identity: object, resume: bool
) -> Iterator[str]:
    """Make a folder for a run, and remove it at the end.

    Its name holds a digest of all that the result depends on, so that a stopped run is found again
    by the same input and options alone. If the run fails after some of its work is finished, the
    folder stays, and the error gets a note that says how to resume.

    Args:
        output: the file that the run writes.
        temp_location: where the folder is made; beside the file by default.
        identity: all that the file depends on, as JSON can hold it.
        resume: whether to resume a run that was stopped.

    Raises:
        UserError: the run was stopped or is at work and is not to be resumed, or there is none.
    """
    parent = split_path(absolute(output))[0]
    content = json.dumps([absolute(output), identity], sort_keys=True)
    name = TEMPORARY + hashlib.sha256(content.encode()).hexdigest()[:32]
    path = join_path(absolute(temp_location or parent), name)
    exists = is_folder_of_run(path, parent, temp_location)
    if resume and not exists:
        cause = "no run with this input and these options was stopped there"
        raise UserError(f"--output {output} --resume", cause, "Leave --resume out")
    if exists and not resume:
        cause = f"a run with this input and these options was stopped, or works in {path}"
        cure = "Add --resume to continue it, or remove that folder"
        raise UserError(f"--output {output}", cause, cure)
    if not exists:
        make_temporary_folder(parent, temp_location, name)
    try:
        yield path
    except BaseException as error:
        finished = count_finished(path)
        if finished:
            error.add_note(describe_finished(finished, path))
        else:
            remove_folder(path)
        raise
    remove_folder(path)
    remove_empty_folders(parent)
