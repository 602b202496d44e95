"""Prism, Beam's own runner in Go: one worker on this machine, a second engine for tests."""

import logging
import os
import shutil
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.runners.runner import PipelineRunner

from corpusmill.errors import UserError, option
from corpusmill.location import scheme_of
from pipeline.runners.beam_servers import StoppableRunner, serve_worker, stopping
from pipeline.runners.engine import Reach, Run, Submitted
from pipeline.runners.portable import PortableEngine

# Names the program, as --prism_location does.
LOCATION = "PRISM_LOCATION"
_PACKAGE = f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{apache_beam.__version__}"


def find_program() -> str:
    """Return the path of Prism; empty if it is not installed.

    It is named by PRISM_LOCATION, on the search path, or where Go installs programs.
    """
    if named := os.environ.get(LOCATION):
        return named
    folders = (
        *os.environ.get("PATH", "").split(os.pathsep),
        str(Path(sys.prefix, "bin")),
        os.environ.get("GOBIN", ""),
        str(Path(os.environ.get("GOPATH", "~/go")).expanduser() / "bin"),
    )
    return shutil.which("prism", path=os.pathsep.join(filter(None, folders))) or ""


class _Runner(StoppableRunner, PrismRunner):
    """Beam's runner, with a Prism of its own."""


class PrismEngine(PortableEngine):
    """A Prism process that Beam starts, or one that is already running (--job_endpoint)."""

    # Its worker is a process of this machine.
    reach = Reach.HERE
    parallelism = 1

    def defaults(self) -> dict[str, str]:
        """Return the program that is installed, unless one is running already."""
        if "job_endpoint" in self.flags:
            return {}
        program = find_program()
        return {
            **({"prism_location": program} if program else {}),
            # What it logs of a job that succeeds is of no interest.
            "prism_log_level": "error",
            # Beam would give all jobs of a process one Prism, with the options of the first.
            "experiments": "disable_prism_server_singleton",
        }

    @property
    def reason_to_wait(self) -> str:
        """Prism or its worker, where this process starts them."""
        if "job_endpoint" not in self.flags:
            return "Prism ends with this process, which starts it"
        if "environment_type" not in self.flags:
            return "the worker ends with this process, which starts it"
        return super().reason_to_wait

    def check_options(self) -> None:
        """Refuse to run without the program, which Beam would silently download.

        Raises:
            UserError: it is not installed.
        """
        location = self.flags.get("prism_location", "")
        if "job_endpoint" in self.flags or scheme_of(location) is not None:
            return
        if not Path(location).is_file():
            raise UserError(
                f"--prism_location {location}" if location else f"{option('runner')} PrismRunner",
                "there is no such file" if location else "the program `prism` is not installed",
                f"Install it with `go install {_PACKAGE}`, or name its path in {LOCATION}",
            )

    def submit(self, run: Run) -> Submitted:
        """Submit a job, with a worker process of ours unless the user names another.

        Raises:
            UserError: an option is missing.
            RuntimeError: the job failed.
        """
        # The errors that it logs, with their traces, are raised as well.
        logging.getLogger("PrismJobServer").addFilter(_is_not_raised)
        with ExitStack() as stack:
            self._runner = stack.enter_context(stopping(_Runner()))
            if "environment_type" not in self.flags:
                address = stack.enter_context(serve_worker(self.arguments))
                pool = ("--environment_type=EXTERNAL", f"--environment_config={address}")
                run = replace(run, late_arguments=pool)
            return super().submit(run)

    def submit_pipeline(self, run: Run, runner: PipelineRunner | None = None) -> Any:
        """Submit the pipeline to a Prism that ends with the job."""
        return super().submit_pipeline(run, runner or self._runner)


def _is_not_raised(record: logging.LogRecord) -> bool:
    # Beam's own filter, which parses the lines, may come before or after this one.
    parsed = record.name == "PrismRunner" and record.levelno >= logging.ERROR
    return not parsed and '"level":"ERROR' not in record.getMessage()
