"""The command that pushes a data set to the Hugging Face hub."""

from dataclasses import dataclass

from corpusmill.commands.command import Call, Command
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


def push(command: Push, call: Call) -> int:
    """Push a data set, and print where it is."""
    from corpusmill.publishing import push as push_data_set  # noqa: PLC0415  help needs no hub

    pushed = push_data_set(
        command.folder,
        command.name,
        revision=command.revision,
        private=command.private or None,
        with_rejects=command.with_rejects,
        report=call.console.print,
    )
    visibility = "private" if pushed.private else "public"
    call.console.print(f"{command.folder}: pushed, {visibility}: {pushed.page}")
    call.console.print(f'Open it with corpusmill.DataSet("{pushed.url}")')
    return 0


COMMAND = Command(Push, push)
