"""What a data set is made of, and how: a build's options with nothing left to be chosen.

A recipe also gives the description of the data set: all of its manifest but the results.
"""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import version

from rich.console import Console

from corpusmill.arrays.columns import Role, column_of, tokens_of
from corpusmill.console.terminal import hide_native_errors
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import (
    CorpusReading,
    DocumentOptions,
    TextMaker,
    make_texts,
    read_by_source,
)
from corpusmill.corpus.filters.functions import FILTERS, FilterOptions, load_filters
from corpusmill.corpus.filters.overlaps import Passages
from corpusmill.corpus.input_formats import check_start, read_file, resolve_format
from corpusmill.corpus.records.record_documents import NoTextError
from corpusmill.corpus.registry import FORMATS
from corpusmill.corpus.registry import FORMATS as INPUT_FORMATS
from corpusmill.corpus.sentence_splitting import splitter_of
from corpusmill.dataset.manifest import Manifest, ObjectiveEntry, OutputEntry, TokenizerEntry
from corpusmill.dataset.manifest_entries import (
    VERSION,
    CorpusEntry,
    Evaluation,
    EvaluationFile,
    Filtering,
    Generation,
    NamedFilter,
    Provenance,
    Source,
    SourceFile,
)
from corpusmill.dataset.manifest_json import check_columns
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS as OUTPUT_FORMATS
from corpusmill.formats.shard_formats import resolve
from corpusmill.layout.placement import Layout, count_validation_shards
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.text_cuts import TextMarks
from corpusmill.tokenization.tokenizer_file import TokenizerFile, vocabulary_of
from corpusmill.tokenization.words.words import load_words
from pipeline.job_options import MAX_SHARDS, CorpusOptions, DatasetOptions, parse_source
from pipeline.recipe.build_options import BuildOptions
from pipeline.recipe.inputs import (
    EXPANSION,
    InputFile,
    choose_format,
    list_inputs,
    read_bytes,
    sum_costs,
)
from pipeline.recipe.probe import prove_cuts, prove_tokenizer, read_probe
from pipeline.recipe.records import Records
from pipeline.recipe.sources import (
    NamedSource,
    keep_order,
    list_sources,
    parse_sources,
    spread_sources,
)
from transforms.corpus.listed import open_listed
from transforms.storage.files import open_file

_OPTION = "drop_overlap_with"


def read_evaluation(
    paths: Sequence[str], text_field: str, temp_folder: str
) -> tuple[Passages, Evaluation]:
    """Read an evaluation set: a passage is a line, or the text of a record.

    Args:
        paths: files, globs, folders, or names of data sets on the hub.
        text_field: the field of records that holds the text.
        temp_folder: a folder for data sets that are fetched from the hub.

    Returns:
        The passages, and what the manifest says of them.

    Raises:
        UserError: a file cannot be read, or holds what cannot be read; there are too many passages,
            or only short ones.
    """
    try:
        files = list_inputs(paths, temp_folder)
        texts = (text for file in files for text in _read_passages(file, text_field))
        passages = Passages.from_texts(texts)
    except UserError as error:
        # The evaluation set is read as an input is.
        named = error.renamed(
            "input", lambda path: option(_OPTION, path) if path else option(_OPTION)
        )
        raise named.renamed(_OPTION, lambda path: option(_OPTION, path or paths)) from None
    digest = hashlib.sha256(passages.runs.astype("<u8").tobytes()).hexdigest()
    entries = tuple(EvaluationFile(file.name, file.bytes, _digest(file)) for file in files)
    entry = Evaluation(entries, passages.compared, passages.ignored, len(passages.runs), digest)
    return passages, entry


def _read_passages(file: InputFile, text_field: str) -> Iterator[str]:
    options = DocumentOptions(text_field=text_field, sentence_rule="document")
    options = resolve_format(options, {file.path: file.content})
    if options.input_format == "text":
        options = replace(options, input_format="lines")
    with open_listed(file.planned) as raw:
        for batch in read_file(raw, FileRange(file.name, 0, options)):
            for reject in batch.rejects:
                cause = f"byte {reject.offset} begins what cannot be read ({reject.reason})"
                cure = (
                    "Repair the file, or name the field that holds its text "
                    f"({option('text_field')})"
                )
                raise UserError(option(_OPTION, file.name), cause, cure)
            yield from batch.documents.column("sentences").flatten().to_pylist()


def _digest(file: InputFile) -> str:
    digest = hashlib.sha256()
    with open_listed(file.planned) as stream:
        while block := stream.read(2**20):
            digest.update(block)
    return digest.hexdigest()


# By default one shard for each 256 MB of examples, which take about 0.8 bytes for each byte of text
# and repeat.
_TEXT_BYTES_PER_SHARD = 320 * 10**6
# Smaller documents cost as much as one of so many bytes: each has an id, a place and a digest, and
# rows of its own in many objectives.
_LEAST_DOCUMENT_BYTES = 64


@dataclass(frozen=True)
class Recipe:
    """What a data set is made of, and how.

    Attributes:
        dataset: what is read, and how examples are spread over files.
        objective_options: the objective's options.
        tokenizer: the tokenizer.
        documents: the rules of documents, with a format; those that sources have in common, which
            `reading` completes.
        output_options: the options of shards.
        files: the input.
        filters: which documents are left out.
        evaluation: the passages that documents must not overlap with, and their entry in the
            manifest; None for none.
        memoize: whether the ids of words may be remembered.
        preset: the preset from which the objective's options are; None for none.
        sources: the parts of the input that have names; empty where none has.
        first_file: the number of the first file, which is above 0 where a data set is continued.
        tag: stands in the names of the shards that are added to a data set.
        document_bytes: the mean size of a document in a piece of the input; 0 if it is unknown.
    """

    dataset: CorpusOptions
    objective_options: ObjectiveOptions
    tokenizer: TokenizerFile
    documents: DocumentOptions
    output_options: OutputOptions
    files: Sequence[InputFile]
    filters: FilterOptions = field(default_factory=FilterOptions)
    evaluation: tuple[Passages, Evaluation] | None = None
    memoize: bool = True
    preset: str | None = None
    sources: Sequence[NamedSource] = ()
    first_file: int = 0
    tag: str = ""
    document_bytes: float = 0.0

    @cached_property
    def objective(self) -> Objective:
        """The objective, bound to the tokenizer."""
        return self.objective_options.bind(self.tokenizer)

    @cached_property
    def output(self) -> OutputOptions:
        """The options of shards, with those that the format chooses."""
        return resolve(self.output_options, self.objective.columns)

    @property
    def reading(self) -> CorpusReading:
        """How each file is read."""
        return read_by_source(
            self.documents, [(source.first_file, source.documents) for source in self.sources]
        )

    @cached_property
    def text_bytes(self) -> int:
        """Bytes of text, exact for plain files."""
        if not self.sources:
            return estimate_text_bytes(self.files, self.documents)
        return sum(estimate_text_bytes(source.files, source.documents) for source in self.sources)

    @property
    def document_weight(self) -> float:
        """How many times the work of its text the input is, 1 unless its documents are tiny."""
        size = self.document_bytes
        return max(1.0, _LEAST_DOCUMENT_BYTES / size) if size else 1.0

    @property
    def work_bytes(self) -> int:
        """Bytes of text of documents that are not tiny, and are as much work."""
        return round(self.text_bytes * self.document_weight)

    @property
    def read_bytes(self) -> int:
        """Bytes that are read, those that are read twice counted twice."""
        return sum_costs(self.files) * (2 if self.filters.drop_duplicates else 1)

    @property
    def layout(self) -> Layout:
        """How the examples are spread over shards, from the options and the input's size alone."""
        options = self.dataset
        sizes = [
            estimate_text_bytes(source.files, source.documents) * source.repeat
            for source in self.sources
        ]
        built = (sum(sizes) if sizes else self.text_bytes) * self.document_weight
        default = round(built * self.objective.repeats / _TEXT_BYTES_PER_SHARD)
        train = options.num_shards or min(max(1, default), MAX_SHARDS)
        validation = count_validation_shards(train, options.validation_share)
        layout = Layout(options.seed, train, validation)
        if self.sources:
            layout = spread_sources(self.sources, sizes, layout, options.validation_share)
        if options.order == "corpus":
            repeats = self.objective.repeats
            layout = keep_order(layout, self.files, self.sources, repeats, self.first_file)
        return layout


def prepare(
    build: BuildOptions,
    temp_folder: str,
    console: Console,
    records: Records | None = None,
) -> Recipe:
    """Read the tokenizer, list the input, find its format, and try the tokenizer on its text.

    Args:
        build: the options of the build.
        temp_folder: a folder for data sets that are fetched from the hub, and for records.
        console: where choices are announced that the user did not make.
        records: what is read in place of files; None where files are named.

    Raises:
        UserError: the options, the tokenizer, the input, a filter or the objective's rule of words
            is not usable, or shards cannot be written as the options ask.
    """
    build.objective.check_build()
    load_filters(build.filters.filter)
    with hide_native_errors():
        tokenizer = read_tokenizer(build.dataset.tokenizer, read_bytes, build.tokenizer_options)
    tokenizer = tokenizer.with_roles(build.objective.special_tokens)
    build = replace(build, objective=build.objective.complete(tokenizer, read_bytes))
    objective = _bind(build, tokenizer)
    _check_objective(objective, tokenizer)
    if not isinstance(objective.text_cuts(build.dataset.seed), TextMarks | None):
        prove_cuts(tokenizer)
    maker = objective.text_maker(tokenizer.json)
    with _naming_objectives():
        sources, files, documents = _find_corpus(build, maker, temp_folder, console, records)
    compared, text_field = build.filters.drop_overlap_with, build.documents.text_field
    evaluation = read_evaluation(compared, text_field, temp_folder) if compared else None
    recipe = Recipe(
        dataset=build.dataset,
        objective_options=build.objective,
        tokenizer=tokenizer,
        documents=documents,
        output_options=build.output_options,
        files=files,
        filters=build.filters,
        evaluation=evaluation,
        preset=build.preset,
        sources=sources,
    )
    memoize, document_bytes = _prove_tokenizer(recipe, console)
    recipe = replace(recipe, memoize=memoize, document_bytes=document_bytes)
    _ = recipe.output, recipe.layout  # refuse options of shards
    return recipe


def _prove_tokenizer(recipe: Recipe, console: Console) -> tuple[bool, float]:
    """Try the tokenizer on text of the corpus.

    Returns:
        Whether words may be remembered, and the mean size of a document.
    """
    tokenizer, words = recipe.tokenizer, load_words(recipe.objective.words)
    with hide_native_errors():
        texts, document_bytes = read_probe(recipe.files, recipe.reading)
        memoize = prove_tokenizer(tokenizer, texts, console, words)
    return memoize, document_bytes


def _find_corpus(
    build: BuildOptions,
    maker: TextMaker | None,
    temp_folder: str,
    console: Console,
    records: Records | None,
) -> tuple[Sequence[NamedSource], Sequence[InputFile], DocumentOptions]:
    """Find sources, files and formats, as `find_documents`."""

    def choose_documents(options: DocumentOptions) -> DocumentOptions:
        return make_texts(build.objective.choose_documents(options), maker)

    documents = choose_documents(build.documents)
    sources = list_sources(
        parse_sources(build.dataset.source),
        lambda options: choose_documents(replace(build.documents, **options)),
        temp_folder,
        console,
    )
    if sources:
        files = [file for source in sources for file in source.files]
        return sources, files, _share_options(documents, sources)
    found = find_documents(build.dataset.input, documents, temp_folder, console, records)
    return (), *found


def _share_options(documents: DocumentOptions, sources: Sequence[NamedSource]) -> DocumentOptions:
    """Return what sources have in common, of which the options of each may differ.

    Args:
        documents: how sources without options of their own are read.
        sources: with their formats.

    Returns:
        The options with a format, and with all fields that are kept of any source.
    """
    fields = dict.fromkeys(name for each in sources for name in each.documents.keep_fields)
    first, known = sources[0].documents, documents.input_format
    return replace(
        documents,
        input_format=first.input_format if known == "auto" else known,
        # What one source keeps may be the text of others.
        text_field=first.text_field if documents.text_field in fields else documents.text_field,
        keep_fields=tuple(fields),
    )


def find_documents(
    inputs: Sequence[str],
    documents: DocumentOptions,
    temp_folder: str,
    console: Console,
    records: Records | None = None,
) -> tuple[Sequence[InputFile], DocumentOptions]:
    """List the input, and find its format.

    Args:
        inputs: as the user named them.
        documents: the rules of documents.
        temp_folder: as `prepare` has it.
        console: where the format and files of the hub are announced.
        records: what is read in place of files; None where files are named.

    Returns:
        The files, and the rules with a format.

    Raises:
        UserError: the input is not usable.
    """
    if records is not None:
        if documents.input_format not in {"auto", "json-lines"}:
            cause = "the input is not files, and its records are read as JSON lines"
            value = option("input_format", documents.input_format)
            raise UserError(value, cause, "Leave the option out")
        documents = replace(documents, input_format="json-lines")
        parts = documents.text_maker.fields if documents.text_maker else ()
        file = records.write(temp_folder, documents.text_field, documents.keep_fields, parts)
        with open_file(file.path, file.bytes) as stream:
            check_start(stream, "the input", documents)
        return [file], documents
    if not inputs:
        cure = f"Name at least one file, glob or folder, or sources with {option('source')}"
        raise UserError(option("input"), "it is missing", cure)
    files = list_inputs(inputs, temp_folder, documents, console)
    return files, choose_format(files, documents, console)


@contextmanager
def _naming_objectives() -> Iterator[None]:
    """Name an objective that makes texts of the fields which a record without a text has."""
    try:
        yield
    except NoTextError as error:
        for name in OBJECTIVES.names:
            with suppress(UserError):  # of another package that cannot be loaded
                if OBJECTIVES[name].reads_fields(error.names):
                    error.add_note(f"Of records with such fields, `corpusmill {name}` builds rows.")
        raise


def _bind(build: BuildOptions, tokenizer: TokenizerFile) -> Objective:
    """Return the objective for a tokenizer.

    Raises:
        UserError: the tokenizer lacks a special token; the note on it is a command that trains one
            which has all that the objective needs.
    """
    try:
        return build.objective.bind(tokenizer)
    except UserError as error:
        with suppress(UserError):  # none that `train-tokenizer --for` trains would do
            error.add_note(_describe_training(build))
        raise


def _describe_training(build: BuildOptions) -> str:
    """Tell how a tokenizer is trained that suits the objective.

    Raises:
        UserError: with these options the objective needs other special tokens.
    """
    # Imported here because builds train none.
    from corpusmill.tokenization.training.models import MODELS  # noqa: PLC0415

    model, tokens = build.objective.suited_tokenizer
    suited = vocabulary_of(tokens or MODELS[model].special_tokens)
    name = build.objective.bind(suited.with_roles(build.objective.special_tokens)).name
    paths = [*build.dataset.input, *(parse_source(one).path for one in build.dataset.source)]
    words = ["corpusmill", "train-tokenizer", "--for", name, "--input", *(paths or ["INPUT"])]
    return f"To train one: {shlex.join([*words, '--output', f'{name}-tokenizer.json'])}"


def _check_objective(objective: Objective, tokenizer: TokenizerFile) -> None:
    """Refuse an objective whose data set nobody could verify or read."""
    name, columns = objective.name, objective.columns
    if name not in OBJECTIVES:
        cause = "no objective has this name, under which its data set would be opened"
        raise UserError(f"objective {name}", cause, "Let `name` be that of the entry point")
    try:
        check_columns(columns, tokenizer.vocab_size)
        tokens = tokens_of(objective.built_columns)
    except ValueError as error:
        cause = f"its columns could not be verified or read ({error})"
        raise UserError(f"objective {name}", cause, "Correct its `columns`") from None
    if tokens.name != columns[0].name:
        cause = f"it builds the tokens as {tokens.name}, and writes them as {columns[0].name}"
        raise UserError(f"objective {name}", cause, "Give both columns one name")


def estimate_text_bytes(files: Sequence[InputFile], documents: DocumentOptions) -> int:
    """Estimate the bytes of text in an input; exact for plain files.

    Args:
        files: the input.
        documents: the rules of documents, with a format.
    """
    compresses = FORMATS[documents.input_format].compresses
    return sum_costs(files) * (EXPANSION if compresses else 1)


def describe_data_set(recipe: Recipe) -> Manifest:
    """Return the manifest of a recipe's data set, without its results."""
    words, files = load_words(recipe.objective.words), recipe.files
    objective, output, documents = recipe.objective, recipe.output, recipe.documents
    readings = [source.documents for source in recipe.sources] or [documents]
    return Manifest(
        corpusmill_version=version("corpusmill"),
        objective=ObjectiveEntry(
            name=objective.name,
            options=asdict(recipe.objective_options),
            repeats=objective.repeats,
            package=OBJECTIVES.package_of(objective.name),
            facts=objective.facts,
            preset=recipe.preset,
        ),
        seed=recipe.dataset.seed,
        tokenizer=TokenizerEntry.from_tokenizer(recipe.tokenizer, str(words) if words else None),
        output=OutputEntry(
            format=output.output_format,
            options=output,
            validation_share=recipe.dataset.validation_share,
            package=OUTPUT_FORMATS.package_of(output.output_format),
            num_shards=recipe.layout.train_shards,
            order="corpus" if recipe.dataset.order == "corpus" else None,
        ),
        columns=objective.columns,
        corpus=CorpusEntry(
            options=documents.recorded(),
            sentence_splitter=_name_all(splitter_of(each.language) for each in readings),
            bytes=sum(file.bytes for file in files),
            files=tuple(
                SourceFile(file.name, file.bytes, resembles=_find_resemblance(recipe, number))
                for number, file in enumerate(files)
            ),
            package=_name_all(INPUT_FORMATS.package_of(each.input_format) for each in readings),
            filtering=_describe_filters(recipe) if recipe.filters != FilterOptions() else None,
            sources=_describe_sources(recipe),
        ),
        provenance=_describe_provenance(recipe),
    )


def _find_resemblance(recipe: Recipe, number: int) -> str | None:
    """Return what a file resembles in part that is read as text."""
    is_text = recipe.reading.of_file(recipe.first_file + number).input_format == "text"
    return (recipe.files[number].content.resembles or None) if is_text else None


def _name_all(names: Iterable[str | None]) -> str | None:
    """Join what is named, each once; None where nothing is."""
    return ", ".join(sorted({name for name in names if name})) or None


def _describe_provenance(recipe: Recipe) -> Provenance | None:
    dataset = recipe.dataset
    if not isinstance(dataset, DatasetOptions) or not dataset.provenance:
        return None
    has_spans = column_of(recipe.objective.built_columns, Role.SPANS) is not None
    generation = Generation(recipe.first_file, recipe.layout, recipe.tag)
    return Provenance(VERSION, (generation,), has_spans)


def _describe_sources(recipe: Recipe) -> tuple[Source, ...]:
    return tuple(
        Source(
            source.name,
            source.repeat,
            len(source.files),
            sum(file.bytes for file in source.files),
            options=source.documents.differences(recipe.documents) or None,
        )
        for source in recipe.sources
    )


def _describe_filters(recipe: Recipe) -> Filtering:
    filters = recipe.filters
    return Filtering(
        tuple(NamedFilter(name, FILTERS.package_of(name)) for name in filters.filter),
        filters.drop_duplicates,
        recipe.evaluation[1] if recipe.evaluation else None,
    )
