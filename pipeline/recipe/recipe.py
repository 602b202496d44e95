"""What a data set is made of, and how: a build's options with nothing left to be chosen.

A recipe also gives the description of the data set: all of its manifest but the results.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from corpusmill.arrays.columns import Role, column_of
from corpusmill.corpus.document_options import CorpusReading, DocumentOptions, read_by_source
from corpusmill.corpus.filters.functions import FILTERS, FilterOptions
from corpusmill.corpus.filters.overlaps import Passages
from corpusmill.corpus.registry import FORMATS as INPUT_FORMATS
from corpusmill.corpus.sentence_splitting import splitter_of
from corpusmill.dataset.manifest import Manifest, ObjectiveEntry, OutputEntry, TokenizerEntry
from corpusmill.dataset.manifest_entries import (
    VERSION,
    CorpusEntry,
    Evaluation,
    Filtering,
    Generation,
    NamedFilter,
    Provenance,
    Source,
    SourceFile,
)
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS as OUTPUT_FORMATS
from corpusmill.formats.shard_formats import resolve
from corpusmill.layout.placement import Layout, count_validation_shards
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.words.words import load_words
from pipeline.job_options import MAX_SHARDS, CorpusOptions, DatasetOptions
from pipeline.recipe.inputs import InputFile, estimate_text_bytes, sum_costs
from pipeline.recipe.sources import NamedSource, keep_order, spread_sources

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

    @cached_property
    def header(self) -> Manifest:
        """The manifest of the data set, without its results."""
        return _describe(self)

    @cached_property
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
    def input_bytes(self) -> int:
        """Bytes that will be counted as read once; an estimate for compressed files."""
        return sum_costs(self.files)

    @property
    def token_dtype(self) -> np.dtype[Any]:
        """The type of the ids in documents and pool."""
        return self.tokenizer.choose_dtype(self.objective.words)

    @property
    def read_bytes(self) -> int:
        """Bytes that are read, those that are read twice counted twice."""
        return self.input_bytes * self.filters.readings

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


def _describe(recipe: Recipe) -> Manifest:
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
            files=tuple(_describe_file(recipe, number) for number in range(len(files))),
            package=_name_all(INPUT_FORMATS.package_of(each.input_format) for each in readings),
            filtering=_describe_filters(recipe) if recipe.filters != FilterOptions() else None,
            sources=_describe_sources(recipe),
        ),
        provenance=_describe_provenance(recipe),
    )


def _describe_file(recipe: Recipe, number: int) -> SourceFile:
    """Return the entry of a file of the input, with what it resembles in part if read as text."""
    file = recipe.files[number]
    is_text = recipe.reading.of_file(recipe.first_file + number).input_format == "text"
    resembles = (file.content.resembles or None) if is_text else None
    return SourceFile(file.name, file.bytes, resembles=resembles)


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
        filters.near_duplicates,
    )
