"""Compile all kernels for the wheel, so that nobody's first run waits for a compiler.

    python -m deploy.compile_kernels FOLDER

A kernel is compiled separately for each type of token ids; therefore each objective, also of other
packages, is built from the bundled sample with vocabularies of all three types, every format is
written, and the data sets are verified, inspected, changed and read in all the ways that there are.
`make wheels` puts the folder into the library's wheel.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numba
from pyarrow.parquet import read_table

from corpusmill import (
    DataSet,
    Loader,
    MaskedDiffusion,
    Stage,
    TokenPacks,
    TokenWindows,
    make_batches,
    mix,
)
from corpusmill.arrays.kernel_cache import kernel_folder
from corpusmill.arrays.numba_cache import BASELINES, ship_kernels
from corpusmill.commands.build_command import list_flags
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.knobs import VARIABLE
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.reading.collate.collators import Layout
from corpusmill.reading.data_set import Samples
from corpusmill.testing import small_tokenizer
from pipeline.command_line import main as run_command

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "wiki.sample.tokens"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>")

# Fields by which conversations are known, and the template that renders them.
_FIELDS = ("messages",)
_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
)

_INPUT = ("--input", str(SAMPLE))

# Vocabulary sizes whose ids are int16, uint16 and int32. Ids that also mark the beginning of a word
# need twice as many values.
VOCABULARIES = (1_000, 60_000, 140_000)

# Short rows, where an objective has a length.
_LENGTH = 64
# Places in rows of these have other types.
_LONGER = (200, 512)
# Models that builds use, and all others, whose training has kernels of its own.
_MODELS, _FURTHER_MODELS = ("wordpiece", "bpe"), ("wordlevel", "unigram")
# A job even for so little text: it has kernels that training in one process does not call.
_BY_A_JOB = ("--workers", "1", "--min-bytes-per-worker", "0", "--vocab-size", "800")
# Tables of words grow with so little text.
_SMALL_TABLES = {VARIABLE: "first_slots=4 words_at_once=3"}


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
        for variant in _list_variants(options, _LONGER if entries == VOCABULARIES[0] else ()):
            flags = list(list_flags(options, asdict(variant)))
            objective = variant.bind(tokenizer.with_roles(variant.special_tokens))
            model, columns = "bpe" if objective.text_cuts(0) else "wordpiece", objective.columns
            yield name, model, flags
            for output_format in sorted(untried):
                with suppress(UserError):  # the format refuses these rows
                    resolve(OutputOptions(output_format=output_format), columns)
                    untried.discard(output_format)
                    yield name, model, [*flags, "--output-format", output_format]
    yield OBJECTIVES.names[0], "bpe", ["--drop-duplicates", "--drop-near-duplicates", "0.8"]


def _list_variants(
    options: type[ObjectiveOptions], longer: Sequence[int] = ()
) -> list[ObjectiveOptions]:
    """List sets of an objective's options, with short rows, and the plain ones with longer rows."""
    sets: list[dict[str, Any]] = [
        {},
        *(dict(preset.options) for preset in options.presets.values()),
    ]
    hints = get_type_hints(options)
    for option in fields(options):
        if get_origin(hints[option.name]) is Literal:
            sets += [{option.name: value} for value in get_args(hints[option.name])]
        elif hints[option.name] is bool:
            sets += [{option.name: not option.default}]
    # Shares that are 0 by default leave kernels out.
    none = [option.name for option in fields(options) if option.default == 0]
    if shares := {name: 0.5 for name in none if hints[name] is float}:
        sets += [{**changes, **shares} for changes in sets]
    if "max_seq_length" in hints:
        plain = [changes for changes in sets if len(changes) < 2]
        longer_sets = [{**changes, "max_seq_length": size} for size in longer for changes in plain]
        sets = [{**changes, "max_seq_length": _LENGTH} for changes in sets] + longer_sets
    variants: list[ObjectiveOptions] = []
    for changes in sets:
        with suppress(UserError):  # some values need others
            variant = options(**changes)
            variants += [variant] * (variant not in variants)
    return variants


def compile_kernels(folder: Path) -> None:
    """Call every kernel: build small data sets, and do with them whatever can be done.

    Args:
        folder: for the tokenizers and the data sets.

    Raises:
        SystemExit: a command failed, and has printed the reason.
    """
    special = ["--special-tokens", *_list_special_tokens()]
    corpora = _write_corpora(folder / "corpora")
    for model in (*_MODELS, *_FURTHER_MODELS):
        trained, named = folder / f"{model}.json", special if model in _MODELS else []
        files = ("--input", str(corpora[0]), "--output", str(trained), "--model", model)
        training = (sys.executable, "-m", "corpusmill", "train-tokenizer", *files, *_BY_A_JOB)
        subprocess.run([*training, *named], env=os.environ | _SMALL_TABLES, check=True)  # noqa: S603
    for model in _MODELS:
        for entries in VOCABULARIES:
            _write_larger(folder / f"{model}.json", entries, folder / f"{model}-{entries}.json")
    for entries in VOCABULARIES:
        for number, (objective, model, flags) in enumerate(list_builds(entries)):
            tokenizer, output = folder / f"{model}-{entries}.json", folder / f"{number}-{entries}"
            text = corpora[-1] if OBJECTIVES[objective].reads_fields(_FIELDS) else SAMPLE
            files = ("--input", str(text), "--tokenizer", str(tokenizer), "--output", str(output))
            _run(objective, *files, *flags)
            _use(output)
        _drop_some(folder / f"0-{entries}")
        for number, corpus in enumerate(corpora[:-1]):
            tokenizer, output = folder / f"bpe-{entries}.json", folder / f"{number}-of-{entries}"
            files = ("--input", str(corpus), "--tokenizer", str(tokenizer), "--output", str(output))
            compared = ("--drop-overlap-with", str(SAMPLE))
            _run("gpt", *files, *compared, "--special-tokens-in-text", "--max-rejects", "9")
            _run("inspect-corpus", *files[:4], "gpt")
    # Its kernels are the same for each type of ids.
    tokenizer, output = folder / "unigram.json", folder / "unigram"
    places = ("--tokenizer", str(tokenizer), "--output", str(output))
    _run(OBJECTIVES.names[0], *_INPUT, *places)


def _write_corpora(folder: Path) -> list[Path]:
    """Write text with what the sample lacks: many documents and words, two scripts, bad bytes.

    Returns:
        The files: text, the same as JSON lines, and conversations.
    """
    folder.mkdir()
    sample = SAMPLE.read_text(encoding="utf-8")
    texts = [sample.replace("e", chr(ord("a") + i)) for i in range(12)]
    text = "".join(texts) + "爱伦·坡 was a writer。他生于1809年。\r\n"
    lines = [json.dumps({"text": document}) for document in text.split("\n = ")]
    chats = [
        json.dumps(
            {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": t}]}
        )
        for t in sample.split("\n")
    ]
    contents = {
        "text.txt": text.encode() + b"\xff\n",
        "lines.jsonl": "\n".join(lines).encode(),
        "chats.jsonl": "\n".join(chats).encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder.parent / "chat_template.jinja").write_text(_CHAT_TEMPLATE, encoding="utf-8")
    return [folder / name for name in contents]


def _use(folder: Path) -> None:
    """Verify, show, trace and read a data set."""
    _run("verify", str(folder))
    _run("inspect", str(folder), "--examples", "1")
    _run("audit", str(folder))
    with suppress(UserError):  # a format that has no provenance
        _run("trace", str(folder), "--row", "0", *_INPUT)
    samples = DataSet(folder)
    half = {"masked_lm_prob": 0.1, "mask_replace_prob": 0.5, "random_replace_prob": 0.25}
    weights = {"token_weights": [1.0] * samples.manifest.tokenizer.vocab_size}
    readings: list[dict[str, Any]] = [
        {"batch_size": 4, "shuffle": False, "drop_last": True},
        {"batch_size": 4, "padding": "max_length"},
        {"max_tokens": 4 * max(_LONGER)},
        {"batch_size": 4, "by_length": True},
        {"batch_size": 4, "predicted": "targets"},
        {"batch_size": 4, "mask": False},
        {"batch_size": 4, "diffusion": MaskedDiffusion(cut_rate=0.5)},
        {"batch_size": 4, **half},
        {"batch_size": 4, **weights},
        *({"batch_size": 4, "layout": layout} for layout in get_args(Layout)),
    ]
    for reading in readings:
        with suppress(UserError):  # these rows cannot be read so
            _read(samples, **reading, seed=1)
    with suppress(UserError):  # no stream of tokens
        _read(TokenWindows(samples, _LENGTH, fim_rate=0.5), 4)
        for length in (_LENGTH, *_LONGER):
            _read(TokenPacks(samples, length), 4)
    stages = [Stage([1, 1], samples=8), Stage([1, 3], samples=8, ramp=True)]
    joined, order = mix([samples, samples], stages, window=16)
    _read(joined, 4, order=order)


def _read(samples: Samples, *sizes: int, **options: Any) -> None:
    for _ in islice(Loader(make_batches(samples, *sizes, **options)), 2):
        pass


def _drop_some(folder: Path) -> None:
    """Take documents out of a data set."""
    names = (entry.file for entry in DataSet(folder).manifest.files)
    tables = [read_table(folder / name) for name in names if "/documents-" in name]
    documents = [str(document) for table in tables for document in table["document"].to_pylist()]
    _run("drop", str(folder), "--document", *documents[::7])


def _list_special_tokens() -> list[str]:
    variants = [
        variant
        for name in OBJECTIVES.names
        for variant in _list_variants(OBJECTIVES[name], _LONGER)
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


def _run(*arguments: str) -> None:
    """Run a command.

    Raises:
        SystemExit: it failed, and has printed the reason.
    """
    if status := run_command(arguments):
        raise SystemExit(status)


def main(folder: str) -> None:
    """Compile the kernels of the installed library for the baseline of this machine.

    Args:
        folder: a new folder for the compiled kernels.
    """
    processor, _ = BASELINES[platform.machine()]
    with TemporaryDirectory(prefix="corpusmill-kernels-") as name:
        compiled = str(Path(name, "compiled"))
        # An empty list means the features that the processor's name implies.
        target = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
        os.environ.update(target, NUMBA_CACHE_DIR=compiled, XDG_CACHE_HOME=str(Path(name, "cache")))
        numba.config.reload_config()
        compile_kernels(Path(name))
        print(f"{ship_kernels(kernel_folder(), Path(folder))} kernels in {folder}")


if __name__ == "__main__":
    main(sys.argv[1])
