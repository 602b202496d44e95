"""The command that builds a data set again, from its manifest."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from corpusmill.commands.flags import list_flags
from corpusmill.corpus.filters.options import FilterOptions
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.tokenizer_file import TokenizerOptions


def folder_of(data_set: str) -> str:
    """The folder of a data set that is named by it or by its manifest."""
    path = PurePosixPath(data_set)
    return data_set[: -len(MANIFEST)].rstrip("/") or "." if path.name == MANIFEST else data_set


def command_of(manifest: Manifest) -> str:
    """Return the command that builds a data set again, with every option that is not the default.

    The manifest does not tell where the input was; input and output are left as INPUT and OUTPUT.
    The command of an objective that this version does not have is empty.

    Example:
        "corpusmill bert --input INPUT --tokenizer vocab.txt --output OUTPUT --seed 1"
    """
    objective, tokenizer, output = manifest.objective, manifest.tokenizer, manifest.output
    try:
        options = OBJECTIVES[objective.name]
    except UserError:
        return ""
    filtering = manifest.corpus.filtering
    name = f"{tokenizer.name}@{tokenizer.revision}" if tokenizer.revision else tokenizer.name
    words = ["corpusmill", objective.name]
    words += _name_sources(manifest) or ["--input", "INPUT"]
    words += ["--tokenizer", name, "--output", "OUTPUT"]
    words += ["--preset", objective.preset] if objective.preset else []
    words += _spread_flags(manifest)
    groups: tuple[tuple[type[Any], Mapping[str, Any]], ...] = (
        (options, objective.options),
        (DocumentOptions, manifest.corpus.options),
        (FilterOptions, filtering.options if filtering else {}),
        (TokenizerOptions, tokenizer.options),
        (OutputOptions, asdict(output.options)),
    )
    for group, values in groups:
        words += list_flags(group, values)
    return shlex.join(words)


def _name_sources(manifest: Manifest) -> list[str]:
    """The flag of sources, each with the word for its place (WIKI); empty without sources."""
    sources = [
        f"{source.name}={source.name.upper()}@{source.repeat:g}"
        for source in manifest.corpus.sources
    ]
    return ["--source", *sources] if sources else []


def _spread_flags(manifest: Manifest) -> Iterator[str]:
    """Yield the options of how examples were spread over files."""
    shards = manifest.splits["train"].shards if "train" in manifest.splits else ()
    if shards and not manifest.output.shard_format.joined:
        yield from ("--num-shards", str(len(shards) // len({shard.bin for shard in shards})))
    if manifest.output.order:
        yield from ("--order", manifest.output.order)
    if manifest.seed:
        yield from ("--seed", str(manifest.seed))
    if manifest.output.validation_share:
        yield from ("--validation-share", str(manifest.output.validation_share))


def list_options(manifest: Manifest) -> dict[str, Any]:
    """Return every option that a manifest records, by name, as the command of its objective has it.

    Input, output and tokenizer are not among them.
    """
    output, filtering = manifest.output, manifest.corpus.filtering
    shards = {} if output.num_shards is None else {"num_shards": output.num_shards}
    return {
        **shards,
        "order": output.order or "shuffled",
        "seed": manifest.seed,
        "validation_share": output.validation_share,
        "preset": manifest.objective.preset,
        **manifest.objective.options,
        **manifest.corpus.options,
        **(filtering.options if filtering else {}),
        **manifest.tokenizer.options,
        **asdict(output.options),
    }
