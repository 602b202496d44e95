"""A data set is pushed to the Hugging Face hub."""

from corpusmill.commands.command import Call
from corpusmill.commands.files import absolute_path
from corpusmill.commands.push import Push
from corpusmill.dataset.storage import is_url
from corpusmill.publishing.push import push as push_data_set


def push(command: Push, call: Call) -> int:
    """Push a data set, and print where it is."""
    folder = command.folder if is_url(command.folder) else absolute_path(command.folder)
    pushed = push_data_set(
        folder,
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
