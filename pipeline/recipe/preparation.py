"""From the options of a build to its recipe: all of it is read, and tried, before any work."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console

from corpusmill.arrays.columns import check_columns, tokens_of
from corpusmill.arrays.kernel_cache import before_compiling
from corpusmill.console.terminal import hide_native_errors
from corpusmill.corpus.document_options import DocumentOptions, TextMaker, make_texts
from corpusmill.corpus.filters.functions import load_filters
from corpusmill.corpus.records.record_documents import NoTextError
from corpusmill.errors import UserError, option
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.text_cuts import TextMarks
from corpusmill.tokenization.tokenizer_file import TokenizerFile, added_tokens, vocabulary_of
from corpusmill.tokenization.words.words import load_words
from pipeline.job_options import BuildOptions
from pipeline.recipe.inputs import read_bytes, read_evaluation
from pipeline.recipe.probe import prove_cuts, prove_tokenizer, read_probe
from pipeline.recipe.recipe import Recipe
from pipeline.recipe.rehearsal import rehearse_beside
from pipeline.recipe.sources import find_corpus

_LIKE_SPECIAL = re.compile(r"<\|?[A-Za-z_]+\|?>")


def prepare(
    build: BuildOptions,
    temp_folder: str,
    console: Console,
    records: Any = None,
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
    before_compiling(partial(rehearse_beside, objective, build.output_options, tokenizer))
    rules = partial(_choose_documents, build, objective.text_maker(tokenizer.json))
    with _naming_objectives():
        sources, files, documents = find_corpus(build.dataset, rules, temp_folder, console, records)
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
    with hide_native_errors():
        texts, document_bytes = read_probe(recipe.files, recipe.reading)
        memoize = prove_tokenizer(tokenizer, texts, console, load_words(objective.words))
    recipe = replace(recipe, memoize=memoize, document_bytes=document_bytes)
    _check_recipe(recipe, console)
    return recipe


def _choose_documents(
    build: BuildOptions, maker: TextMaker | None, own: Mapping[str, Any]
) -> DocumentOptions:
    """Return how a source is read that has some options of its own, by name."""
    return make_texts(build.objective.choose_documents(replace(build.documents, **own)), maker)


def _check_recipe(recipe: Recipe, console: Console) -> None:
    """Refuse what cannot be written or joined, and say what is no special token.

    Raises:
        UserError: of an option of shards; or the objective does not join records, sources do not
            join them in one way, or documents stand in the order of the corpus.
    """
    _ = recipe.output, recipe.layout
    grouping, sources = recipe.documents.grouping, recipe.sources
    if any(source.documents.grouping != grouping for source in sources):
        cause = "the records of all sources are joined in one way, or none are"
        cure = f"Give all the same {option('group_by')}, or build data sets that readers mix"
        raise UserError(option("source"), cause, cure)
    if grouping is None:
        return
    value = option("group_by", grouping.by)
    if not recipe.objective.joins_records:
        cause = f"{recipe.objective.name} makes its rows of each record by itself"
        raise UserError(value, cause, "Leave it out")
    if recipe.dataset.order == "corpus":
        cause = f"records of one document do not keep their places ({option('order', 'corpus')})"
        raise UserError(value, cause, "Leave one of the two out")
    # Qwen2.5-Coder's <|file_sep|> is an added token that is not marked as special.
    added = {token["content"] for token in added_tokens(json.loads(recipe.tokenizer.json))}
    for name in _LIKE_SPECIAL.findall(grouping.heads[1]):
        if name not in added:
            console.print(f"{name} is no special token of {recipe.tokenizer.name}, but text")


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
    """Tell by which command a tokenizer is trained that has all that the objective needs.

    Raises:
        UserError: with these options the objective needs other special tokens.
    """
    # Imported here because builds train none.
    from corpusmill.tokenization.training.models import MODELS  # noqa: PLC0415

    model, tokens = build.objective.suited_tokenizer
    suited = vocabulary_of(tokens or MODELS[model].special_tokens)
    name = build.objective.bind(suited.with_roles(build.objective.special_tokens)).name
    sources, paths = build.dataset.source, build.dataset.input or ("INPUT",)
    corpus = ["--source", *sources] if sources else ["--input", *paths]
    words = ["corpusmill", "train-tokenizer", "--for", name, *corpus]
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
