"""The command that shows a data set: its figures and decoded examples."""

from dataclasses import dataclass
from itertools import islice

import tyro
from rich.console import Console

from corpusmill.dataset.manifest import Shard, Split
from corpusmill.dataset.shards import read_manifest, read_shard
from corpusmill.inspection.decoded_examples import decode_examples
from corpusmill.inspection.figures import summarize
from pipeline.console.html_report import render_page
from pipeline.console.terminal_report import print_inspection
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.output import write_text


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
    """Print decoded examples and the report of a data set."""
    folder = BeamFolder(command.folder)
    manifest = read_manifest(folder)
    report, tokenizer = summarize(manifest), manifest.tokenizer
    json, examples = folder.read(tokenizer.file).decode(), []
    for split in manifest.splits.values():
        rows = read_shard(folder, manifest, _shard_to_show(split).file, max(1, command.examples))
        for batch in islice(rows, 1):
            first = batch.slice(0, command.examples)
            examples += decode_examples(first, manifest.columns, json, tokenizer.special)
    print_inspection(console, manifest, examples, report)
    if command.html:
        write_text(command.html, render_page(manifest, examples, report))
        console.print(f"the report with plots is in {command.html}")
    return 0


def _shard_to_show(split: Split) -> Shard:
    """Return the first shard or, with length bins, the one with the most rows."""
    shards = split.shards
    return shards[0] if shards[0].bin is None else max(shards, key=lambda shard: shard.rows)
