"""A data set is pushed to the Hugging Face hub."""

from corpusmill.commands.command import Call
from corpusmill.commands.push import Push
from corpusmill.publishing import push as push_data_set


def push(command: Push, call: Call) -> int:
    """Push a data set, and print where it is."""
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
