"""The description of a data set: all of its manifest but the results."""

from dataclasses import asdict
from importlib.metadata import version

from corpusmill.arrays.columns import Role, column_of
from corpusmill.corpus.filters.filter_options import FilterOptions
from corpusmill.corpus.filters.functions import FILTERS
from corpusmill.corpus.registry import FORMATS as INPUT_FORMATS
from corpusmill.corpus.sentence_splitting import splitter_of
from corpusmill.dataset.manifest import Manifest, ObjectiveEntry, OutputEntry, TokenizerEntry
from corpusmill.dataset.manifest_entries import (
    VERSION,
    CorpusEntry,
    Filtering,
    Generation,
    NamedFilter,
    Provenance,
    Source,
    SourceFile,
)
from corpusmill.formats.shard_formats import FORMATS as OUTPUT_FORMATS
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.words.words import load_words
from pipeline.job_options import DatasetOptions
from pipeline.recipe.recipe import Recipe


def describe(recipe: Recipe) -> Manifest:
    """Return the manifest of a recipe's data set, without its results."""
    words, files = load_words(recipe.objective.words), recipe.files
    objective, output, documents = recipe.objective, recipe.output, recipe.documents
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
            sentence_splitter=splitter_of(documents.language),
            bytes=sum(file.bytes for file in files),
            files=tuple(SourceFile(file.name, file.bytes) for file in files),
            package=INPUT_FORMATS.package_of(documents.input_format),
            filtering=_describe_filters(recipe) if recipe.filters != FilterOptions() else None,
            sources=_describe_sources(recipe),
        ),
        provenance=_describe_provenance(recipe),
    )


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
