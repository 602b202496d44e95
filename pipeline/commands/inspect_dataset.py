"""The command that shows a data set: its figures and decoded examples."""

import hashlib
from dataclasses import dataclass
from itertools import islice

import tyro
from rich.console import Console

from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Manifest, Shard, Split
from corpusmill.dataset.shards import open_data_set, read_shard
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.inspection.decoded_examples import DecodedExample, decode_examples
from corpusmill.inspection.figures import summarize
from pipeline.console.html_report import render_page
from pipeline.console.origin import Origin
from pipeline.console.terminal_report import print_inspection
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.inputs import absolute
from pipeline.preparation.output import check_file, write_text


@dataclass(frozen=True)
class Inspect:
    """Show decoded examples and the distributions of a data set."""

    folder: tyro.conf.Positional[str]
    """The data set."""
    examples: int = 3
    """How many examples of each split to decode, from its first shard or, with length bins, from
    the shard with the most examples."""
    html: str | None = None
    """Also write the report as one HTML page with plots to this file."""


def inspect(command: Inspect, console: Console) -> int:
    """Print decoded examples and the report of a data set.

    Raises:
        UserError: the folder does not hold a data set, or one that is damaged.
    """
    if command.html:
        check_file("--html", command.html)
    root = BeamFolder(command.folder)
    folder, manifest = open_data_set(root)
    report, examples = summarize(manifest), list[DecodedExample]()
    tokenizer_json = _read_tokenizer(folder, manifest)
    for split in manifest.splits.values():
        examples += _decode(folder, manifest, split, tokenizer_json, command.examples)
    origin = Origin(absolute(command.folder), root.written_at(SUCCESS))
    print_inspection(console, manifest, examples, report, origin)
    if command.html:
        write_text(command.html, render_page(manifest, examples, report, origin))
        console.print(f"the report with plots is in {command.html}")
    return 0


def _read_tokenizer(folder: Folder, manifest: Manifest) -> str:
    """Read the tokenizer's file, which must be the one that made the data set."""
    name = manifest.tokenizer.file
    try:
        content = folder.read(name)
    except OSError as error:
        raise _damaged(folder, name, f"it cannot be read ({error})") from error
    if hashlib.sha256(content).hexdigest() != manifest.tokenizer.sha256:
        raise _damaged(folder, name, f"its bytes do not match {MANIFEST}")
    return content.decode(errors="replace")


def _decode(
    folder: Folder, manifest: Manifest, split: Split, tokenizer_json: str, most: int
) -> list[DecodedExample]:
    """Decode the first examples of a split."""
    shard = _shard_to_show(split).file
    special = manifest.tokenizer.special
    try:
        for batch in islice(read_shard(folder, manifest, shard, max(1, most)), 1):
            first = batch.slice(0, most)
            return decode_examples(first, manifest.columns, tokenizer_json, special)
    except Exception as error:  # rows that are not what the manifest says fail in many ways
        raise _damaged(folder, shard, f"its rows cannot be shown ({error})") from error
    return []


def _damaged(folder: Folder, name: str, cause: str) -> UserError:
    cure = "Find out with `verify` what is damaged, and copy or build the data set again"
    return UserError(f"{folder.url}/{name}", cause, cure)


def _shard_to_show(split: Split) -> Shard:
    """Return the first shard or, with length bins, the one with the most rows."""
    shards = split.shards
    return shards[0] if shards[0].bin is None else max(shards, key=lambda shard: shard.rows)
