"""The batch job as functions, and what they return.

The job is a package of its own, which the functions look for when they are called.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from corpusmill.commands.command import Job
from corpusmill.commands.table import JOB_PACKAGE, find_job
from corpusmill.console.shown_reports import CorpusReport
from corpusmill.dataset.shards import open_data_set
from corpusmill.errors import UserError
from corpusmill.location import locate
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.reading.data_set import DataSet

# Where the job is in a checkout that is not installed.
_BESIDE = "pipeline.command_line"

Path_ = str | PathLike[str]


@dataclass(frozen=True)
class TrainedTokenizer:
    """A tokenizer.json that was written. Whatever takes a path takes it as well.

    Attributes:
        path: its file: a path, or a URL.
        model: the kind of tokenizer ("wordpiece").
        remarks: what the training had to say, in words: the size of the vocabulary, and what was
            left out.
    """

    path: str
    model: str
    remarks: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<{'; '.join(self.remarks) or self.path}>"

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, as a `tokenizers.Tokenizer`.

        Raises:
            UserError: its file is not on this machine.
        """
        from tokenizers import Tokenizer  # noqa: PLC0415  takes a while to load

        path = Path(self.path).expanduser()
        if not path.is_file():
            cause = "it is not a file of this machine"
            raise UserError(self.path, cause, "Copy it, and open it with tokenizers")
        return Tokenizer.from_file(str(path))

    @property
    def vocab_size(self) -> int:
        """The number of its tokens, special tokens included."""
        size: int = self.tokenizer.get_vocab_size(with_added_tokens=True)
        return size

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens around them."""
        tokens: list[str] = self.tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens


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
    run = _find_function("build")
    if isinstance(output, str | PathLike):  # other values are refused as those of all options
        locate(fspath(output), storage_options)  # they are checked before any work
    given = {"input": input, "tokenizer": tokenizer, "output": output, "preset": preset}
    run(objective, {**given, **options, "beam_options": beam_options})
    return _open_data_set(output, storage_options)


def inspect_corpus(
    input: object,  # noqa: A002
    tokenizer: Path_,
    objective: str | ObjectiveOptions = OBJECTIVES.names[0],
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
    given = {"input": input, "tokenizer": tokenizer, "preset": preset, **options}
    numbers = _find_function("inspect_corpus")(objective, {**given, "beam_options": beam_options})
    return CorpusReport(numbers)


def train_tokenizer(
    input: object,  # noqa: A002
    output: Path_,
    model: str | None = None,
    **options: Any,
) -> TrainedTokenizer:
    """Train a tokenizer on a corpus of any size, and write its tokenizer.json.

    Args:
        input: what is read, as for `build`.
        output: the tokenizer.json to write.
        model: "wordpiece", "bpe", "wordlevel" or "unigram"; by default "wordpiece", or the one that
            suits the objective that for_ names.
        options: those of the command `corpusmill train-tokenizer`, with underscores: for_, extend,
            vocab_size, min_frequency, special_tokens, sample, replace and so on.

    Returns:
        The tokenizer, which `build` takes.

    Raises:
        UserError: as for `build`.

    Example:
        corpusmill.train_tokenizer(texts, "tokenizer.json", vocab_size=8000)
    """
    run = _find_function("train_tokenizer")
    trained, described = run({"input": input, "output": output, "model": model, **options})
    return TrainedTokenizer(fspath(output), trained, tuple(described))


def drop(
    data_set: Path_,
    *,
    where: str | None = None,
    document: int | Sequence[int] | np.ndarray = (),
    beam_options: Sequence[str] = (),
    **options: Any,
) -> DataSet:
    """Remove documents from a data set, and every row that holds any of their text.

    Args:
        data_set: its folder: a path or a URL. Readers that have it open must open it again.
        where: remove the documents for which this condition of SQL is true, over document, file,
            source, split, place, length, tokens, digest and the kept fields.
        document: remove the documents with these ids, uint64[n], as `DataSet.trace` tells them.
        beam_options: as for `build`.
        options: runner, workers, progress and the other options of the command `corpusmill drop`.

    Returns:
        The data set as it is now, whose `manifest.removals` ends with what was removed, unless no
        document matches.

    Raises:
        UserError: as for `build`; the data set cannot be changed, or has no such document.
        Exception: the job failed; the same call finishes what it began.

    Example:
        corpusmill.drop("out", where="url LIKE '%example.com%'").manifest.removals[-1].rows
    """
    given = {"data_set": data_set, "document": document, "where": where, **options}
    _find_function("drop")({**given, "beam_options": beam_options})
    return _open_data_set(data_set)


def _open_data_set(folder: Path_, storage_options: Mapping[str, Any] | None = None) -> DataSet:
    """Open a data set: the split "train", or the only one."""
    _, manifest = open_data_set(locate(fspath(folder), storage_options))
    split = "train" if "train" in manifest.splits else next(iter(manifest.splits))
    return DataSet(fspath(folder), split, storage_options=storage_options)


def _find_function(name: str) -> Any:
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
