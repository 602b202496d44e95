"""The commands that build a data set again, from its manifest."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_entries import Generation
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.settings.words import write_own_options
from corpusmill.tokenization.tokenizer_file import TokenizerOptions


def folder_of(data_set: str) -> str:
    """The folder of a data set that is named by it or by its manifest."""
    path = PurePosixPath(data_set)
    return data_set[: -len(MANIFEST)].rstrip("/") or "." if path.name == MANIFEST else data_set


def commands_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the commands that build a data set again, with every option that is not the default.

    Each part that was built at a time has one. The manifest does not tell where the input was;
    input and output are left as INPUT and OUTPUT. For an objective that this version does not have
    there is none.

    Example:
        "corpusmill bert --input INPUT --tokenizer vocab.txt --output OUTPUT --seed 1", and of text
        that was added "corpusmill bert --append --input INPUT --tokenizer vocab.txt ..."
    """
    objective, values = manifest.objective, list_options(manifest)
    try:
        options = OBJECTIVES[objective.name]
    except UserError:
        return ()
    groups = (options, DocumentOptions, FilterOptions, TokenizerOptions, OutputOptions)
    shared = [flag for group in groups for flag in list_flags(group, values)]
    preset = ["--preset", objective.preset] if objective.preset else []
    parts = manifest.provenance.generations if manifest.provenance else (None,)
    commands = []
    for number, part in enumerate(parts):
        words = ["corpusmill", objective.name, *(["--append"] if number else [])]
        sources = name_sources(manifest, part)
        words += ["--source", *sources] if sources else ["--input", "INPUT"]
        words += ["--tokenizer", name_tokenizer(manifest), "--output", "OUTPUT", *preset]
        words += [*_spread_flags(manifest, part), *shared]
        commands.append(shlex.join(words))
    return tuple(commands)


def name_tokenizer(manifest: Manifest) -> str:
    """Return the tokenizer as `--tokenizer` names it, at its revision if it has one."""
    tokenizer = manifest.tokenizer
    return f"{tokenizer.name}@{tokenizer.revision}" if tokenizer.revision else tokenizer.name


def name_sources(manifest: Manifest, part: Generation | None) -> list[str]:
    """Return the sources of a part of a data set as `--source` names them; none without sources.

    Args:
        manifest: of the data set.
        part: the part; None where the data set has but one.

    Example:
        ["wiki=WIKI@1", "books=BOOKS@2.5;text-field=body"]
    """
    corpus = manifest.corpus
    repeats = {source.name: source.repeat for source in corpus.sources}
    if part:
        repeats = {
            str(corpus.source_of(part.first_file_of(number))): source.repeat
            for number, source in enumerate(part.layout.sources)
        }
    options = {source.name: source.options or {} for source in corpus.sources}
    # All digits, and no exponent.
    factors = {name: f"{Decimal(repr(repeat)).normalize():f}" for name, repeat in repeats.items()}
    return [
        write_own_options(f"{name}={name.upper()}@{factor}", options[name])
        for name, factor in factors.items()
    ]


def _spread_flags(manifest: Manifest, part: Generation | None) -> Iterator[str]:
    """Yield the options of how the examples of a part were spread over files."""
    output = manifest.output
    yield from ("--num-shards", str(part.layout.train_shards if part else output.num_shards))
    others = {"order": output.order, "seed": manifest.seed}
    for name, value in (others | {"validation-share": output.validation_share}).items():
        if value:
            yield from (f"--{name}", str(value))


def list_options(manifest: Manifest) -> dict[str, Any]:
    """Return every option that a manifest records, by name, as the command of its objective has it.

    Input, output and tokenizer are not among them.
    """
    output, filtering = manifest.output, manifest.corpus.filtering
    return {
        "num_shards": output.num_shards,
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


def list_flags(options: type[Any], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that differ from their defaults, as on the command line.

    Args:
        options: the dataclass of the options.
        values: by name; what is missing has its default.
    """
    for declared in fields(options):
        value = values.get(declared.name, declared.default)
        flag = declared.name.replace("_", "-")
        if value == declared.default or (isinstance(value, list | tuple) and not value):
            continue
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif isinstance(value, list | tuple):
            yield from (f"--{flag}", *map(str, value))
        else:
            yield from (f"--{flag}", str(value))
