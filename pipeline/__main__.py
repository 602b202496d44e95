"""`python -m pipeline COMMAND`: the same as `corpusmill COMMAND`, with the job of this folder."""

from typing import TYPE_CHECKING

from corpusmill.__main__ import start

if TYPE_CHECKING:
    from corpusmill.commands.command import Job


def _load_job() -> "Job":
    from pipeline.command_line import JOB  # noqa: PLC0415  signals are answered first

    return JOB


if __name__ == "__main__":
    start("corpusmill-job", _load_job)
