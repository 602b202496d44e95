"""Commands whose work is shared by all processes that a launcher has started for them."""

import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from corpusmill.commands.command import Call, Run
from corpusmill.dataset.ownership import MEETING_BEGIN, delete_temporary
from corpusmill.location import Location
from pipeline.folders.run_folder import empty_again
from pipeline.launchers import Rank, find_rank
from pipeline.outcomes import run_logged, use_file_systems
from pipeline.runners.launch import is_local
from transforms.storage.file_systems import split_path
from transforms.storage.files import locate


def run_shared(run: Run, options: Any, call: Call) -> int:
    """Run a command in rank 0, or where there are no ranks; in any other rank work for rank 0.

    Args:
        run: runs the command.
        options: of the command.
        call: how it was called.

    Returns:
        The exit status.

    Raises:
        UserError: it is not clear which rank this is, or the ranks cannot meet.
    """
    rank = None
    if hasattr(options, "meeting") and is_local(options.run.runner):
        rank = find_rank(options.run.rank, options.run.ranks)
    if rank is None:
        return run_logged(run, options, call)
    options = replace(options, run=replace(options.run, rank=rank.number, ranks=rank.size))
    # Or else what is logged before the log is opened would make a handler of its own.
    logging.getLogger().addHandler(logging.NullHandler())
    use_file_systems(call)
    if rank.number == 0:
        return _drive(rank, run, options, call)
    if options.log.log_file:
        path = Path(options.log.log_file)
        own = path.with_suffix(f".rank{rank.number}{path.suffix}")
        options = replace(options, log=replace(options.log, log_file=str(own)))
    return run_logged(partial(_work_for, rank), options, call)


def _drive(rank: Rank, run: Run, options: Any, call: Call) -> int:
    """Run a command whose work the other ranks share."""
    with call.importing():
        from pipeline import graph  # noqa: F401, PLC0415  for workers, too; Beam takes a second
        from pipeline.runners.ranks.engine import gathered  # noqa: PLC0415

    folder, name = _find_meeting(options)
    with empty_again(folder):
        if path := folder.local_path():
            with suppress(OSError):  # it is refused below
                path.mkdir(parents=True, exist_ok=True)
        (folder / name).check_file("output", MEETING_BEGIN)
        with gathered(rank, options.run, folder / name) as end:
            status = run_logged(run, options, call)
            end(status)
            call.signals.release()
        delete_temporary(folder, [name])
    return status


def _work_for(rank: Rank, options: Any, call: Call) -> int:
    with call.importing():
        from pipeline import graph  # noqa: F401, PLC0415  as above
        from pipeline.runners.ranks.member import take_part  # noqa: PLC0415

    folder, name = _find_meeting(options)
    return take_part(rank, folder / name, options.run, options.log)


def _find_meeting(options: Any) -> tuple[Location, str]:
    """Return the folder and the name of the file by which the ranks of a command meet."""
    folder, name = split_path(locate(options.meeting).url)
    return locate(folder), name
