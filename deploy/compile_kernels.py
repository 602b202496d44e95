"""Compile all kernels while an image is built, so that workers need not compile them.

    python deploy/compile_kernels.py

A kernel is compiled separately for each type of token ids; therefore each objective, also of other
packages, is built from the bundled sample with vocabularies of all three types, and every format is
written. Run this with the installed library and with the workers' NUMBA_CPU_NAME,
NUMBA_CPU_FEATURES and NUMBA_CACHE_DIR. If root runs it, or the owner of the installed library,
other users copy the kernels, once they may read the folder (chmod -R a+rX).
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args, get_origin, get_type_hints

from corpusmill.commands.build_command import list_flags
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.testing import small_tokenizer

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "wiki.sample.tokens"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>")

# Vocabulary sizes whose ids are int16, uint16 and int32. Ids that also mark the beginning of a word
# need twice as many values.
VOCABULARIES = (1_000, 60_000, 140_000)

# Short rows, where an objective has a length.
_LENGTH = 64
# Models that builds use, and all others, whose training has kernels of its own.
_MODELS, _FURTHER_MODELS = ("wordpiece", "bpe"), ("wordlevel", "unigram")
# A job even for so little text: it has kernels that training in one process does not call.
_BY_A_JOB = ("--workers", "1", "--min-bytes-per-worker", "0", "--vocab-size", "800")


def list_builds(entries: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the objective, the tokenizer's model and the flags of builds that call every kernel.

    Each objective is built with its presets and with each value of its options that have a few, and
    each format is written once.

    Args:
        entries: of the vocabulary.
    """
    untried = set(FORMATS.names)
    tokenizer = replace(small_tokenizer(*_list_special_tokens()), vocab_size=entries)
    for name in OBJECTIVES.names:
        options = OBJECTIVES[name]
        for variant in _list_variants(options):
            flags = list(list_flags(options, asdict(variant)))
            objective = variant.bind(tokenizer.with_roles(variant.special_tokens))
            model, columns = "bpe" if objective.text_cuts(0) else "wordpiece", objective.columns
            yield name, model, flags
            for output_format in sorted(untried):
                with suppress(UserError):  # the format refuses these rows
                    resolve(OutputOptions(output_format=output_format), columns)
                    untried.discard(output_format)
                    yield name, model, [*flags, "--output-format", output_format]
    yield OBJECTIVES.names[0], "bpe", ["--drop-duplicates"]


def _list_variants(options: type[ObjectiveOptions]) -> list[ObjectiveOptions]:
    sets: list[dict[str, Any]] = [
        {},
        *(dict(preset.options) for preset in options.presets.values()),
    ]
    hints = get_type_hints(options)
    for option in fields(options):
        if get_origin(hints[option.name]) is Literal:
            sets += [{option.name: value} for value in get_args(hints[option.name])]
    # Shares that are 0 by default leave kernels out.
    none = [option.name for option in fields(options) if option.default == 0]
    if shares := {name: 0.5 for name in none if hints[name] is float}:
        sets += [{**changes, **shares} for changes in sets]
    variants: list[ObjectiveOptions] = []
    for changes in sets:
        length = {"max_seq_length": _LENGTH} if "max_seq_length" in hints else {}
        with suppress(UserError):  # some values need others
            variant = options(**{**changes, **length})
            variants += [variant] * (variant not in variants)
    return variants


def compile_kernels(folder: Path) -> None:
    """Build small data sets that call every kernel.

    Args:
        folder: for the tokenizers and the data sets.

    Raises:
        subprocess.CalledProcessError: a build failed, and has printed the reason.
    """
    special = ["--special-tokens", *_list_special_tokens()]
    for model in (*_MODELS, *_FURTHER_MODELS):
        trained, named = folder / f"{model}.json", special if model in _MODELS else []
        places = ("--output", str(trained), "--model", model)
        _run("train-tokenizer", *places, *_BY_A_JOB, *named)
    for model in _MODELS:
        for entries in VOCABULARIES:
            _write_larger(folder / f"{model}.json", entries, folder / f"{model}-{entries}.json")
    for entries in VOCABULARIES:
        for number, (objective, model, flags) in enumerate(list_builds(entries)):
            tokenizer, output = folder / f"{model}-{entries}.json", folder / f"{number}-{entries}"
            places = ("--tokenizer", str(tokenizer), "--output", str(output))
            _run(objective, *places, *flags)
    # Its kernels are the same for each type of ids.
    places = ("--tokenizer", str(folder / "unigram.json"), "--output", str(folder / "unigram"))
    _run(OBJECTIVES.names[0], *places)


def _list_special_tokens() -> list[str]:
    variants = [
        variant for name in OBJECTIVES.names for variant in _list_variants(OBJECTIVES[name])
    ]
    named = [variant.special_tokens for variant in variants]
    tokens = [names[0] for roles in named for names in roles.values()]
    return list(dict.fromkeys([*SPECIAL_TOKENS, *tokens]))


def _write_larger(trained: Path, entries: int, path: Path) -> None:
    """Write a tokenizer with additional entries, which do not occur in any text."""
    tokenizer = json.loads(trained.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    for number in range(len(vocabulary), entries):
        vocabulary[f"[unused{number}]"] = number
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def _run(command: str, *arguments: str) -> None:
    subprocess.run(  # noqa: S603  the arguments are constants
        [sys.executable, "-m", "pipeline", command, "--input", str(SAMPLE), *arguments], check=True
    )


def main() -> None:
    """Compile the kernels of the installed library."""
    with TemporaryDirectory(prefix="corpusmill-kernels-") as folder:
        compile_kernels(Path(folder))


if __name__ == "__main__":
    main()
