"""The command that checks a data set against its manifest."""

import os
from dataclasses import dataclass

from corpusmill.commands.command import Command
from corpusmill.errors import check_option
from corpusmill.settings.options import Positional

HERE = "local"


@dataclass(frozen=True)
class Verify:
    """Check every byte, row and count of a data set against its manifest."""

    folder: Positional
    """The data set."""
    workers: int = os.cpu_count() or 1
    """How many shards are checked at a time, each by a thread; by default one per processor. With
    another runner, the largest number of worker processes on this machine."""
    runner: str = HERE
    """local (this process), or any runner of Beam's, as for a build, whose workers read a data set
    where it is; its own options follow after --. This needs corpusmill-job."""
    temp_location: str | None = None
    """Folder for temporary files that all workers of another runner can reach; by default in the
    data set's folder."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is not valid.
        """
        check_option("workers", self.workers, self.workers >= 1, "1 or more")


COMMAND = Command(Verify, "corpusmill.commands.verification:verify")
