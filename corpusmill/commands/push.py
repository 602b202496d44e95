"""The command that pushes a data set to the Hugging Face hub."""

from dataclasses import dataclass

from corpusmill.commands.command import Command
from corpusmill.settings.options import Positional


@dataclass(frozen=True)
class Push:
    """Push a data set to the Hugging Face hub, or go on with such a push."""

    folder: Positional
    """The data set, on this machine."""

    name: Positional
    """Where to push it: organization/name."""

    revision: str | None = None
    """The branch, which is made if needed; the main one by default."""

    private: bool = False
    """Make the repository private. One that exists keeps its visibility, and must be private."""

    with_rejects: bool = False
    """Push rejects/, too, which holds text of the corpus."""


COMMAND = Command(Push, "corpusmill.commands.pushing:push")
