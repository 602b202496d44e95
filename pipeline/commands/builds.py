"""The commands that build a data set, one for each objective in the registry."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, field, fields, make_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any

from tyro.conf import subcommand

from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.manifest import Manifest
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.objectives.objective import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES, options_class
from corpusmill.tokenization.tokenizer_file import TokenizerOptions
from pipeline.options import CorpusOptions
from pipeline.preparation.recipe import Build

_OPTIONS: dict[str, type[ObjectiveOptions]] = {name: options_class(name) for name in OBJECTIVES}


def _make_command(name: str, options: type[ObjectiveOptions]) -> type[Build]:
    """The class of a command, whose docstring is its help."""
    objective = ("objective", options, field(default_factory=options))
    command = make_dataclass(
        f"Build{name.capitalize()}", [objective], bases=(Build,), frozen=True, kw_only=True
    )
    command.__doc__ = options.summary
    return command


BUILDS: dict[str, Callable[..., Build]] = {
    name: _make_command(name, options) for name, options in _OPTIONS.items()
}

# Any objective, for a command that takes its name after the other flags; the first is the default.
AnyObjective: Any = reduce(
    or_, (Annotated[options, subcommand(name)] for name, options in _OPTIONS.items())
)
DefaultObjective = _OPTIONS[OBJECTIVES[0]]


def command_of(manifest: Manifest) -> str:
    """Return the command that builds a data set again, with every option that is not the default.

    The manifest does not tell where the input was; input and output are left as INPUT and OUTPUT.
    The command of an objective that this version does not have is empty.

    Example:
        "python -m pipeline bert --input INPUT --tokenizer vocab.txt --output OUTPUT --seed 1"
    """
    objective, tokenizer, output = manifest.objective, manifest.tokenizer, manifest.output
    if objective.name not in OBJECTIVES:
        return ""
    name = f"{tokenizer.name}@{tokenizer.revision}" if tokenizer.revision else tokenizer.name
    shards = manifest.splits["train"].shards if "train" in manifest.splits else ()
    spread: dict[str, Any] = {"seed": manifest.seed, "validation_share": output.validation_share}
    if shards and not FORMATS[output.format].joined:
        spread["num_shards"] = len(shards) // len({shard.bin for shard in shards})
    groups: tuple[tuple[type[Any], Mapping[str, Any]], ...] = (
        (CorpusOptions, spread),
        (options_class(objective.name), objective.options),
        (DocumentOptions, manifest.corpus.options),
        (TokenizerOptions, tokenizer.options),
        (OutputOptions, asdict(output.options)),
    )
    words = ["python", "-m", "pipeline", objective.name]
    words += ["--input", "INPUT", "--tokenizer", name, "--output", "OUTPUT"]
    for options, values in groups:
        words += _flags(options, values)
    return shlex.join(words)


def _flags(options: type[Any], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that differ from their defaults, as on the command line."""
    for option in fields(options):
        value = values.get(option.name, option.default)
        flag = option.name.replace("_", "-")
        if value == option.default or (isinstance(value, list | tuple) and not value):
            continue
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif isinstance(value, list | tuple):
            yield from (f"--{flag}", *map(str, value))
        else:
            yield from (f"--{flag}", str(value))
