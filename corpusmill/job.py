"""The batch job as functions. It is a package of its own, which these look for when called."""

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from corpusmill.commands.command import Job
from corpusmill.commands.table import JOB_PACKAGE, find_job
from corpusmill.console.shown_reports import CorpusReport
from corpusmill.dataset.shards import open_data_set
from corpusmill.dataset.storage import UrlFolder
from corpusmill.errors import UserError
from corpusmill.objectives.options import ObjectiveOptions
from corpusmill.reading.data_set import DataSet
from corpusmill.tokenization.training.trained import TrainedTokenizer

# Where the job is in a checkout that is not installed.
_BESIDE = "pipeline.command_line"

Path_ = str | PathLike[str]


def build(
    objective: str | ObjectiveOptions,
    input: object,  # noqa: A002  the option's name
    tokenizer: Path_,
    output: Path_,
    *,
    preset: str | None = None,
    beam_options: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> DataSet:
    """Build a data set, and open it.

    The same input, options and seed give the same bytes as the command `corpusmill`, with any
    number of workers. What the command prints as an error is raised. Calls run one at a time.

    Args:
        objective: the name of an objective ("bert"), or its options (`BertOptions(...)`).
        input: what is read. A string or a path names files, as `--input` does, and so does a list
            of them. Or the records themselves: an iterable of texts or of dicts with a field
            "text" (option `text_field`), which is read once; a pandas or polars frame; an Arrow
            table or reader; a `datasets.Dataset`. Records become the very documents that a
            JSON-lines file of them has, with `json.dumps` on each line; of tables only the text
            counts. They are written to a temporary file, in bounded memory. None if the option
            `source` names the parts of the corpus.
        tokenizer: a tokenizer.json or any other tokenizer that the command takes, or what
            `train_tokenizer` returned.
        output: the folder of the data set: a path or a URL.
        preset: the options under which a model was trained ("roberta"); options that are given win.
        beam_options: Beam's own options, as after `--` on the command line.
        storage_options: options of the filesystem with which the data set is opened afterwards, as
            fsspec takes them.
        options: the options of the command, with underscores: those of the objective
            (max_seq_length=128, duplicates=5), and seed, num_shards, validation_share, replace,
            resume, strict, max_rejects, input_format, document_rule, sentence_rule, output_format,
            runner, workers, progress and all others that `corpusmill bert --help` explains. A group
            of them may be given as its dataclass: documents=DocumentOptions(...).

    Returns:
        The split "train"; the only split if there is no such split.

    Raises:
        UserError: an argument, the input or the machine is at fault; or the job is not installed.
        Exception: the job failed; what is finished is kept, and resume=True continues from there.

    Example:
        dataset = corpusmill.build("bert", texts, "tokenizer.json", "out", max_seq_length=128)
    """
    run = _find("build")
    folder = UrlFolder(fspath(output), dict(storage_options or {}))  # known before any work
    given = {"input": input, "tokenizer": tokenizer, "output": output, **options}
    if preset is not None:
        given["preset"] = preset
    run(objective, {**given, "beam_options": beam_options})
    _, manifest = open_data_set(folder)
    split = "train" if "train" in manifest.splits else next(iter(manifest.splits))
    return DataSet(fspath(output), split, storage_options=storage_options)


def inspect_corpus(
    input: object,  # noqa: A002
    tokenizer: Path_,
    objective: str | ObjectiveOptions = "bert",
    *,
    preset: str | None = None,
    beam_options: Sequence[str] = (),
    **options: Any,
) -> CorpusReport:
    """Measure a corpus, and estimate what a build of it would give, without building it.

    Args:
        input: what is read, as for `build`.
        tokenizer: as for `build`.
        objective: what a build would make.
        preset: as for `build`.
        beam_options: as for `build`.
        options: those of the command `corpusmill inspect-corpus`, with underscores: sample_tokens,
            html, json, and those of a build.

    Raises:
        UserError: as for `build`.
        Exception: the job failed.

    Example:
        corpusmill.inspect_corpus(texts, "tokenizer.json", "gpt").findings
    """
    given = {"input": input, "tokenizer": tokenizer, **options}
    if preset is not None:
        given["preset"] = preset
    return CorpusReport(_find("inspect_corpus")(objective, {**given, "beam_options": beam_options}))


def train_tokenizer(
    input: object,  # noqa: A002
    output: Path_,
    model: str = "wordpiece",
    **options: Any,
) -> TrainedTokenizer:
    """Train a tokenizer on a corpus of any size, and write its tokenizer.json.

    Args:
        input: what is read, as for `build`.
        output: the tokenizer.json to write.
        model: "wordpiece", "bpe", "wordlevel" or "unigram".
        options: those of the command `corpusmill train-tokenizer`, with underscores: vocab_size,
            min_frequency, special_tokens, sample, replace and so on.

    Returns:
        The tokenizer, which `build` takes.

    Raises:
        UserError: as for `build`.

    Example:
        corpusmill.train_tokenizer(texts, "tokenizer.json", vocab_size=8000)
    """
    run = _find("train_tokenizer")
    described = run({"input": input, "output": output, "model": model, **options})
    return TrainedTokenizer(fspath(output), model, tuple(described))


def _find(name: str) -> Any:
    """Return a function of the installed job, or of the one beside this library in a checkout.

    Raises:
        UserError: there is no job.
    """
    job: Job | None = find_job()
    if job is None and Path(__file__).parents[1].joinpath("pipeline", "command_line.py").is_file():
        job = import_module(_BESIDE).JOB
    if job is None:
        cause = "it is a part of the batch job, which is not installed"
        raise UserError(f"corpusmill.{name}", cause, f"Run pip install {JOB_PACKAGE}")
    with warnings.catch_warnings():
        # Of a library's progress bars, which are not used here.
        warnings.filterwarnings("ignore", "IProgress not found")
        return job.function(name)
