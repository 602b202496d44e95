"""What a data set is made of, and how: a build's options with nothing left to be chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rich.console import Console

from corpusmill.corpus.input_formats import FORMATS
from corpusmill.corpus.options import DocumentOptions
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import resolve
from corpusmill.layout.placement import Layout, count_validation_shards
from corpusmill.objectives.objective import Objective, ObjectiveOptions
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile, TokenizerOptions
from corpusmill.tokenization.words.words import load_words
from pipeline.console.run_log import LogOptions
from pipeline.console.terminal import hide_native_errors
from pipeline.options import MAX_SHARDS, CorpusOptions, DatasetOptions, RunOptions
from pipeline.preparation.inputs import (
    EXPANSION,
    InputFile,
    choose_format,
    list_inputs,
    print_hub_files,
    read_bytes,
    sum_costs,
)
from pipeline.preparation.probe import prove_tokenizer, read_probe

# By default one shard for each 256 MB of examples, which take about 0.8 bytes for each byte of text
# and repeat.
_TEXT_BYTES_PER_SHARD = 320 * 10**6


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """The options that a build shares with an estimate of one."""

    dataset: CorpusOptions
    objective: ObjectiveOptions
    tokenizer_options: TokenizerOptions = field(default_factory=TokenizerOptions)
    documents: DocumentOptions = field(default_factory=DocumentOptions)
    output_options: OutputOptions = field(default_factory=OutputOptions)
    run: RunOptions = field(default_factory=RunOptions)
    log: LogOptions = field(default_factory=LogOptions)


@dataclass(frozen=True, kw_only=True)
class Build(BuildOptions):
    """The options of a build."""

    dataset: DatasetOptions


@dataclass(frozen=True)
class Recipe:
    """What a data set is made of, and how.

    Attributes:
        dataset: what is read, and how examples are spread over files.
        objective_options: the objective's options.
        tokenizer: the tokenizer.
        documents: the rules of documents, with a format.
        output_options: the options of shards.
        files: the input.
        memoize: whether the ids of words may be remembered.
    """

    dataset: CorpusOptions
    objective_options: ObjectiveOptions
    tokenizer: TokenizerFile
    documents: DocumentOptions
    output_options: OutputOptions
    files: Sequence[InputFile]
    memoize: bool = True

    @cached_property
    def objective(self) -> Objective:
        """The objective, bound to the tokenizer."""
        return self.objective_options.bind(self.tokenizer)

    @cached_property
    def output(self) -> OutputOptions:
        """The options of shards, with those that the format chooses."""
        return resolve(self.output_options, self.objective.columns)

    @cached_property
    def text_bytes(self) -> int:
        """Bytes of text, exact for plain files."""
        return estimate_text_bytes(self.files, self.documents)

    @property
    def layout(self) -> Layout:
        """How the examples are spread over shards, from the options and the input's size alone."""
        options = self.dataset
        default = round(self.text_bytes * self.objective.repeats / _TEXT_BYTES_PER_SHARD)
        train = options.num_shards or min(max(1, default), MAX_SHARDS)
        validation = count_validation_shards(train, options.validation_share)
        return Layout(options.seed, train, validation)


def prepare(build: BuildOptions, temp_folder: str, console: Console) -> Recipe:
    """Read the tokenizer, list the input, find its format, and try the tokenizer on its text.

    Args:
        build: the options of the build.
        temp_folder: a folder for data sets that are fetched from the hub.
        console: where choices are announced that the user did not make.

    Raises:
        UserError: the tokenizer, the input or the objective's rule of words is not usable.
    """
    with hide_native_errors():
        tokenizer = read_tokenizer(build.dataset.tokenizer, read_bytes, build.tokenizer_options)
    words = load_words(build.objective.bind(tokenizer).words)
    documents = build.objective.choose_documents(build.documents)
    files = list_inputs(build.dataset.input, temp_folder, documents.suffixes)
    print_hub_files(files, console)
    documents = choose_format(files, documents, console)
    texts = read_probe(files, documents)
    with hide_native_errors():
        memoize = prove_tokenizer(tokenizer, texts, console, words)
    return Recipe(
        build.dataset, build.objective, tokenizer, documents, build.output_options, files, memoize
    )


def estimate_text_bytes(files: Sequence[InputFile], documents: DocumentOptions) -> int:
    """Estimate the bytes of text in an input; exact for plain files.

    Args:
        files: the input.
        documents: the rules of documents, with a format.
    """
    compresses = FORMATS[documents.input_format].compresses
    return sum_costs(files) * (EXPANSION if compresses else 1)
