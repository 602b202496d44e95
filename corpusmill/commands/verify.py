"""The command that checks a data set against its manifest."""

from dataclasses import dataclass
from typing import Annotated

from corpusmill.commands.command import Command
from corpusmill.processors import count_processors
from corpusmill.settings.constraints import CheckedOptions, Range
from corpusmill.settings.options import Positional

HERE = "local"


@dataclass(frozen=True)
class Verify(CheckedOptions):
    """Check every byte, row and count of a data set against its manifest."""

    folder: Positional
    """The data set."""
    workers: Annotated[int, Range(1)] = count_processors()
    """How many shards are checked at a time, each by a thread; by default one per processor. With
    another runner, the largest number of worker processes on this machine."""
    runner: str = HERE
    """local (this process), or any runner of Beam's, as for a build, whose workers read a data set
    where it is; its own options follow after --. This needs corpusmill-job."""
    temp_location: str | None = None
    """Folder for temporary files that all workers of another runner can reach; by default in the
    data set's folder."""


COMMAND = Command(Verify, "corpusmill.commands.verification:verify")
