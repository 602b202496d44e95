"""Options of a job and of a build; the command line is made from them before it imports Beam."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.corpus.registry import FORMATS
from corpusmill.dataset.manifest_entries import ADDED_TAG, SOURCE_NAME
from corpusmill.dataset.ownership import MEETING
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions, check_parts
from corpusmill.layout.placement import MAX_REPEAT
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.settings.constraints import CheckedOptions, Needs, Range
from corpusmill.settings.options import Choices, Option, options_of
from corpusmill.settings.words import read_own_options, split_own_options
from corpusmill.tokenization.tokenizer_file import TokenizerOptions
from pipeline.console.run_log import LogOptions
from pipeline.launchers import count_own_processors
from transforms.task_sizes import TaskSizes

_SIZE = re.compile(
    r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*(?:([kmgtp])(i?))?b?", re.IGNORECASE
)


def parse_size(name: str, size: int | str) -> int:
    """Parse a number of bytes.

    Args:
        name: of the option that has the value.
        size: a number of bytes; or a number and B, kB, MB, GB, TB or PB (powers of 1,000), or KiB
            to PiB (powers of 1,024), in any case.

    Raises:
        UserError: it is not a size, or less than one byte.

    Example:
        "1.5TiB" is 1,649,267,441,664, and "5TB" is 5,000,000,000,000.
    """
    number_of_bytes = 0
    if match := _SIZE.fullmatch(str(size).strip()):
        number, prefix, is_binary = match.groups()
        power = "kmgtp".index(prefix.lower()) + 1 if prefix else 0
        factor = (1024 if is_binary else 1000) ** power
        number_of_bytes = round(float(number.replace("_", "").replace(",", "")) * factor)
    if number_of_bytes < 1:
        cure = "Give a number and a unit, such as 300GB, 5TB or 1.5TiB"
        raise UserError(option(name, str(size)), "it is not a size of one byte or more", cure)
    return number_of_bytes


def list_input_formats() -> Choices:
    """Return the names of the input formats, which no type of an option lists.

    To find them is to search the installed packages, which is left to whoever needs the names.
    """
    return {(DocumentOptions, "input_format"): ("auto", *FORMATS.names)}


_SOURCE = re.compile(rf"({SOURCE_NAME})=(.+)", re.DOTALL)
_TAKEN = re.compile(r"(.+)@(\d+(?:\.\d+)?)", re.DOTALL)
# The names of shards have five digits.
MAX_SHARDS = 99_999


class NamedPath(NamedTuple):
    """A path of a part of the corpus that has a name.

    Attributes:
        source: the name.
        path: as of an input.
        repeat: how often its documents are taken; None where that is not said.
        options: how it is read, by the names of fields of `DocumentOptions`, as far as it is said.
    """

    source: str
    path: str
    repeat: float | None
    options: Mapping[str, Any]


@cache
def _options_of_sources() -> list[Option]:
    """List the options that a source may have of its own."""
    repeat = Option("repeat", float, None, str, "", "")
    return [repeat, *options_of(DocumentOptions, list_input_formats())]


def parse_source(text: str) -> NamedPath:
    """Parse a value of --source.

    Raises:
        UserError: it is not valid.

    Example:
        "books=corpus/books@2;text-field=body" is the source books at corpus/books, taken twice,
        whose text is in the field body. A path that ends with @2 is "books=PATH@2;repeat=1".
    """
    try:
        value, words = split_own_options(text)
    except UserError as error:
        raise error.about(option("source", text)) from None
    match = _SOURCE.fullmatch(value)
    if match is None:
        cause = "it is not of the form NAME=PATH or NAME=PATH@REPEAT"
        cure = "Begin the name with a letter, and continue with letters, digits and _"
        raise UserError(option("source", text), cause, cure)
    name, path = match.groups()
    if re.fullmatch(ADDED_TAG, name):
        cause = f"{name} stands in the names of shards that are added to a data set"
        raise UserError(option("source", text), cause, "Give the source another name")
    with about_source(name):
        options = read_own_options(words, _options_of_sources())
    repeat = options.pop("repeat", None)
    if repeat is None and (taken := _TAKEN.fullmatch(path)):
        path, repeat = taken[1], float(taken[2])
    if repeat is not None and not 0 < repeat <= MAX_REPEAT:
        cause = f"documents cannot be taken {repeat:g} times"
        raise UserError(option("source", text), cause, f"Give a number above 0, up to {MAX_REPEAT}")
    return NamedPath(name, path, repeat, options)


@contextmanager
def about_source(name: str) -> Iterator[None]:
    """Name the source in errors of a block, and spell its options as `--source` has them."""
    try:
        yield
    except UserError as error:
        for declared in _options_of_sources():
            spell = partial(_spell_own, declared.name.replace("_", "-"))
            error = error.renamed(declared.name, spell)
        error = error.renamed("input", lambda path: path)
        raise error.about(f"{option('source', name)}: {error.args[0]}") from None


def _spell_own(name: str, words: str) -> str:
    return f"{name}={words}" if words else name


@dataclass(frozen=True, kw_only=True)
class InputOptions(CheckedOptions):
    """What is read."""

    input: tuple[str, ...] = ()
    """Files, globs or folders of UTF-8 text (plain, .gz, .bz2, .zst, .xz, .lz4), local, gs:// or s3://,
    or a data set on the Hugging Face hub: hf://datasets/organization/name[@revision][/path or
    glob], wikitext-2 or wikitext-103."""
    source: Annotated[tuple[str, ...], Needs("input", ())] = ()
    """In place of --input: parts of the corpus with names, as NAME=PATH or NAME=PATH@REPEAT. In a
    data set each has shards and counts of its own. REPEAT is how often its documents are taken:
    books=PATH@2 takes each twice, and web=PATH@0.5 every second at random. What differs in how a
    source is read follows: 'web=PATH;text-field=body;keep-fields=url', in a file of options web:
    {path: PATH, text_field: body}."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is not valid.
        """
        super().__post_init__()
        for source in self.source:
            parse_source(source)


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(InputOptions):
    """What is read, and how its examples are spread over files."""

    tokenizer: str
    """A Hugging Face tokenizer.json, a BERT vocab.txt, a vocab.json with a merges.txt beside it, a
    .tiktoken or SentencePiece .model file, or a folder with one of these; tiktoken:NAME; the
    name of a model on the Hugging Face hub, with or without @REVISION; or bytes, for which no file
    is needed (a file of this name is ./bytes)."""
    num_shards: Annotated[int | None, Range(1, MAX_SHARDS)] = None
    """Number of files of the train split; by default, one for about every 256 MB of examples, and
    more where documents have fewer than 64 bytes."""
    order: Literal["shuffled", "corpus"] = "shuffled"
    """Where a document's examples stand: anywhere in the data set, at random (shuffled), or in the
    order of the corpus, so that each shard holds a contiguous part of it (corpus)."""
    seed: Annotated[int, Range(0, MAX_SEED)] = 0
    """The same input, options and seed give the same bytes."""
    validation_share: Annotated[float, Range(0, 1, without=1)] = 0.0
    """Share of the documents that forms a validation split."""


@dataclass(frozen=True, kw_only=True)
class DatasetOptions(CorpusOptions):
    """What is read and what is written."""

    output: str
    """Folder of the data set: a new or an empty one."""
    provenance: bool = True
    """Write beside the shards where each row comes from: its documents, their places in the input,
    and which of their tokens it holds (`corpusmill trace`, or SQL). This takes 2 % of the
    shards' bytes for sections of articles in rows of 512 tokens, 4.5 % in rows of 128 tokens, 3 %
    where each paragraph is a document, 7 % where such a document is a row of its own, and 13 % for
    the few bytes of ELECTRA's rows."""
    max_rejects: Annotated[float | None, Range(0)] = None
    """How many rejects are allowed, as a number (100) or as a share (0.001) of the input's lines
    and rows, of its bytes, of its files for those that end early or are damaged, and of the stored
    bytes that these have lost, or have in all where that is unknown; all by default."""
    strict: bool = False
    """Fail before anything is published if the data set has findings: what makes it of little use,
    such as rows of padding."""
    replace: Annotated[bool, Needs("resume", False), Needs("append", False)] = False
    """Replace the data set in the output folder."""
    append: Annotated[bool, Needs("provenance", True)] = False
    """Add the input to the data set in the output folder, as a generation with shards of its own;
    no file of the data set is touched but those that describe it. All options must be those of the
    data set."""
    existing: Annotated[Literal["refuse", "skip", "allow"], Needs("append", True)] = "refuse"
    """With --append, what becomes of documents whose text the data set holds already: the run fails
    before anything is tokenized (refuse), they are left out and counted (skip), or they are added
    once more (allow)."""
    resume: bool = False
    """Resume a run into the output folder that was stopped; if there is none, start one."""


@dataclass(frozen=True)
class RunOptions(CheckedOptions):
    """Where and how the job runs. No byte of the output depends on these options."""

    runner: str = "local"
    """local (processes of this machine; DirectRunner means the same), PrismRunner, FlinkRunner,
    DataflowRunner, or any other runner of Beam's; its own options follow after --."""
    workers: Annotated[int, Range(1)] = count_own_processors()
    """Largest number of worker processes of the local runner, in each rank; by default one for each
    processor that this process may use."""
    rank: Annotated[int | None, Range(0)] = None
    """Number of this process among those that a launcher has started for one command, from 0; by
    default what srun, mpirun, torchrun or an indexed Job of Kubernetes says."""
    ranks: Annotated[int | None, Range(1)] = None
    """Number of these processes, which share the work of the local runner; 1 for a process that
    works alone, whatever the launcher says."""
    rank_address: str | None = None
    """Name or address of this machine at which rank 0 is reached by the others; by default that of
    the machine's name."""
    range_bytes: Annotated[int | None, Range(1)] = None
    """Longest part of a file that is one task; by default 64 MB, or less for small inputs."""
    min_bytes_per_worker: Annotated[int, Range(0)] = 32 * 2**20
    """Bytes of input for which one more worker process starts; 0 always starts all of them."""
    temp_location: str | None = None
    """Folder for temporary files that all workers can reach; by default in the output folder."""
    wait: bool = True
    """Wait for the end of a job that runs elsewhere. --no-wait only submits it."""
    patience: Annotated[int, Range(0)] = 1800
    """Seconds without progress after which a job on Flink is cancelled, because Flink does not
    report most faults; 0 waits for ever."""
    progress: bool = True
    """Show a progress line if the output is a terminal."""
    task_sizes: TaskSizes = field(default_factory=TaskSizes)


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """The options that a build shares with an estimate of one."""

    dataset: CorpusOptions
    objective: ObjectiveOptions
    preset: str | None = None
    """The options under which a model was trained, in place of the defaults; options that are given
    win over it."""
    tokenizer_options: TokenizerOptions = field(default_factory=TokenizerOptions)
    documents: DocumentOptions = field(default_factory=DocumentOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    output_options: OutputOptions = field(default_factory=OutputOptions)
    run: RunOptions = field(default_factory=RunOptions)
    log: LogOptions = field(default_factory=LogOptions)


@dataclass(frozen=True, kw_only=True)
class Build(BuildOptions):
    """The options of a build."""

    dataset: DatasetOptions

    def __post_init__(self) -> None:
        """Refuse names of shards that would be the same in two parts of the data set.

        Raises:
            UserError: they would.
        """
        has_validation = self.dataset.validation_share > 0
        check_parts(self.output_options.shard_name, has_validation, bool(self.dataset.source))

    @property
    def meeting(self) -> str:
        """The file by which ranks meet that share the work."""
        return f"{self.dataset.output.rstrip('/')}/{MEETING}"
