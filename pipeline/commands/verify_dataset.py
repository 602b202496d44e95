"""The command that checks a data set against its manifest."""

from dataclasses import dataclass
from typing import BinaryIO

import tyro
from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from corpusmill.dataset.verify import verify as find_problems
from pipeline.commands.build_dataset import _read_manifest
from pipeline.preparation.inputs import absolute
from pipeline.preparation.output import list_folder
from transforms.storage.files import open_file


@dataclass(frozen=True)
class Verify:
    """Check every byte, row and count of a data set against its manifest."""

    folder: tyro.conf.Positional[str]
    """The data set."""


def verify(command: Verify, console: Console) -> int:
    """Print what is wrong with a data set; the exit status is 1 where anything is."""
    root = absolute(command.folder)

    def open_listed(name: str) -> BinaryIO:
        return open_file(FileSystems.join(root, *name.split("/")))

    problems = find_problems(list_folder(command.folder), open_listed, command.folder)
    for problem in problems:
        console.print(f"{problem.file}: {problem.what}", markup=False, highlight=False)
    if problems:
        console.print(f"{command.folder}: {len(problems)} problems")
        return 1
    manifest = _read_manifest(command.folder)
    shards = sum(len(split["shards"]) for split in manifest["splits"].values())
    rows = sum(split["rows"] for split in manifest["splits"].values())
    console.print(
        f"{command.folder}: all {shards} shards with {rows:,} examples are as they were written"
    )
    return 0
