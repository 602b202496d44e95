"""The command that prints where the shards of a data set are, for programs that take a list."""

from dataclasses import dataclass

from corpusmill.commands.build_command import folder_of
from corpusmill.commands.command import Call, Command
from corpusmill.dataset.shards import open_data_set
from corpusmill.errors import UserError, option, suggest
from corpusmill.settings.options import Positional


@dataclass(frozen=True)
class Files:
    """Print the paths or URLs of the shards of a split in their order, one on each line."""

    folder: Positional
    """The data set: its folder, or its dataset.json."""
    split: str = "train"
    """The split whose shards are printed."""


def print_files(command: Files, call: Call) -> int:
    """Print the shards, as the folder is named on the command line.

    Raises:
        UserError: the folder does not hold a data set, or one without the split.
    """
    folder = call.locate(folder_of(command.folder))
    _, manifest = open_data_set(folder)
    if command.split not in manifest.splits:
        cure = f"{suggest(command.split, manifest.splits)}Give one of these"
        cause = f"{folder} has {', '.join(manifest.splits)}"
        raise UserError(option("split", command.split), cause, cure)
    for shard in manifest.splits[command.split].shards:
        call.console.print(str(folder / shard.file))
    return 0


COMMAND = Command(Files, print_files)
