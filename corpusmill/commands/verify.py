"""The command that checks a data set against its manifest."""

from dataclasses import dataclass

import tyro

from corpusmill.commands.command import Command


@dataclass(frozen=True)
class Verify:
    """Check every byte, row and count of a data set against its manifest."""

    folder: tyro.conf.Positional[str]
    """The data set."""


COMMAND = Command(Verify, "corpusmill.commands.verification:verify")
