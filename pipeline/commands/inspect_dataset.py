"""The command that shows a data set: its figures and decoded examples."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import tyro
from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from corpusmill.arrays.columns import arrow_schema
from corpusmill.dataset.manifest import TOKENIZER, columns_of, output_options_of, special_tokens_of
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.inspection.decoded_examples import decode_examples
from corpusmill.inspection.figures import summarize
from pipeline.commands.build_dataset import _read_manifest
from pipeline.console.html_report import render_page
from pipeline.console.terminal_report import print_inspection
from pipeline.preparation.inputs import absolute, read_bytes
from pipeline.preparation.output import write_text
from transforms.storage.files import open_file


@dataclass(frozen=True)
class Inspect:
    """Show decoded examples and the distributions of a data set."""

    folder: tyro.conf.Positional[str]
    """The data set."""
    examples: int = 3
    """How many examples to decode, from the first shard of each split; where lengths are parted, of
    its fullest one."""
    html: str | None = None
    """Also write the report as one HTML page with plots to this file."""


def inspect(command: Inspect, console: Console) -> int:
    """Print decoded examples and the report of a data set."""
    manifest = _read_manifest(command.folder)
    tokenizer_json = (read_bytes(FileSystems.join(command.folder, TOKENIZER)) or b"").decode()
    report = summarize(manifest)
    examples = []
    for split in manifest["splits"].values():
        shard = _shard_to_show(split["shards"])
        rows = _first_rows(command.folder, shard, manifest, command.examples)
        examples += decode_examples(rows, tokenizer_json, special_tokens_of(manifest))
    print_inspection(console, manifest, examples, report)
    if command.html:
        write_text(command.html, render_page(manifest, examples, report))
        console.print(f"the report with plots is in {command.html}")
    return 0


def _shard_to_show(shards: list[dict[str, Any]]) -> str:
    """The first shard; of shards that are parted by length one that has most rows."""
    parted = shards[0].get("bin") is not None
    return str((max(shards, key=lambda shard: shard["rows"]) if parted else shards[0])["file"])


def _first_rows(folder: str, shard: str, manifest: dict[str, Any], count: int) -> pa.RecordBatch:
    """At most `count` rows of a shard."""
    options, columns = output_options_of(manifest), columns_of(manifest)
    of = FORMATS[options.output_format]
    with ExitStack() as files:
        paths = [
            FileSystems.join(absolute(folder), name)
            for name in part_names(shard, of.suffixes(options))
        ]
        streams = [files.enter_context(open_file(path)) for path in paths]
        nothing = pa.RecordBatch.from_pylist([], arrow_schema(columns, options.is_padded))
        return next(of.read(streams, columns, options, max(1, count)), nothing)
