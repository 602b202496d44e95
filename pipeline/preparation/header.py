"""The description of a data set: all of its manifest but the results."""

from dataclasses import asdict
from importlib.metadata import version

from corpusmill.corpus.sentence_splitting import splitter_of
from corpusmill.dataset.manifest import (
    CorpusEntry,
    Manifest,
    ObjectiveEntry,
    OutputEntry,
    SourceFile,
    TokenizerEntry,
)
from corpusmill.tokenization.words.words import load_words
from pipeline.preparation.recipe import Recipe


def describe(recipe: Recipe) -> Manifest:
    """Return the manifest of a recipe's data set, without its results."""
    words, files = load_words(recipe.objective.words), recipe.files
    objective, output, documents = recipe.objective, recipe.output, recipe.documents
    return Manifest(
        corpusmill_version=version("corpusmill"),
        objective=ObjectiveEntry(
            objective.name, asdict(recipe.objective_options), objective.repeats
        ),
        seed=recipe.dataset.seed,
        tokenizer=TokenizerEntry.from_tokenizer(recipe.tokenizer, str(words) if words else None),
        output=OutputEntry(output.output_format, output, recipe.dataset.validation_share),
        columns=objective.columns,
        corpus=CorpusEntry(
            options=asdict(documents),
            sentence_splitter=splitter_of(documents.language),
            bytes=sum(file.bytes for file in files),
            files=tuple(SourceFile(file.name, file.bytes) for file in files),
        ),
    )
