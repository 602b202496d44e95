"""Prism, Beam's own runner in Go: one worker on this machine, a second engine for tests."""

import logging
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import apache_beam
from apache_beam.io.filesystems import FileSystems

from corpusmill.errors import UserError
from pipeline.runners import portable
from pipeline.runners.arguments import given_flags
from pipeline.runners.run import Run, Submitted
from pipeline.runners.setting import Reach, Setting
from pipeline.runners.worker_pool import serve_worker

# Names the program, as `--prism_location` does.
LOCATION = "PRISM_LOCATION"
_PACKAGE = f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{apache_beam.__version__}"


def defaults(arguments: Sequence[str]) -> dict[str, str]:
    """The program that is here, unless one is running already."""
    if "job_endpoint" in given_flags(arguments):
        return {}
    program = find_program()
    # What it says of a job that goes well is no news.
    return {**({"prism_location": program} if program else {}), "prism_log_level": "error"}


def find_program() -> str:
    """Where Prism is: PRISM_LOCATION, the search path, or where Go installs; empty for nowhere."""
    if given := os.environ.get(LOCATION):
        return given
    folders = (
        *os.environ.get("PATH", "").split(os.pathsep),
        str(Path(sys.prefix, "bin")),
        os.environ.get("GOBIN", ""),
        str(Path(os.environ.get("GOPATH", "~/go")).expanduser() / "bin"),
    )
    return shutil.which("prism", path=os.pathsep.join(filter(None, folders))) or ""


def check(setting: Setting) -> None:
    """Refuse to run without the program, which Beam would download without a word.

    Raises:
        UserError: there is none.
    """
    flags = given_flags(setting.arguments)
    location = flags.get("prism_location", "")
    if "job_endpoint" in flags or FileSystems.get_scheme(location) is not None:
        return
    if not Path(location).is_file():
        raise UserError(
            f"--prism_location {location}" if location else "--runner PrismRunner",
            "there is no such file" if location else "the program `prism` is not found",
            f"Install it with `go install {_PACKAGE}`, or name it in {LOCATION}",
        )


def reach(_: Sequence[str]) -> Reach:
    """The worker is a process of this machine."""
    return Reach.HERE


def tie(arguments: Sequence[str]) -> str:
    """Prism itself, unless it was there before."""
    if not given_flags(arguments).get("job_endpoint"):
        return "Prism ends with this process, which starts it"
    if "environment_type" not in given_flags(arguments):
        return "its worker ends with this process, which starts it"
    return portable.tie(arguments)


def parallelism(_: Sequence[str], __: int) -> int | None:
    """One worker."""
    return 1


def submit(job: Run) -> Submitted:
    """As of any runner of Beam's, with a worker process of ours unless the user names another.

    Raises:
        UserError: Beam does not know one of its options.
        RuntimeError: the job ended otherwise than done.
    """
    # What it logs as an error, with its trace, is raised, too.
    logging.getLogger("PrismJobServer").addFilter(_is_not_raised)
    if "environment_type" in given_flags(job.beam_arguments):
        return portable.submit(job)
    with serve_worker(job.beam_arguments) as address:
        there = ("--environment_type=EXTERNAL", f"--environment_config={address}")
        # The worker ends with this process.
        return portable.submit(
            replace(job, beam_arguments=(*job.beam_arguments, *there), wait=True)
        )


def _is_not_raised(record: logging.LogRecord) -> bool:
    # Beam's own filter, which parses the lines, may come before or after this one.
    parsed = record.name == "PrismRunner" and record.levelno >= logging.ERROR
    return not parsed and '"level":"ERROR' not in record.getMessage()
