"""The corpus of a build: the files of its parts, and how each part is read and spread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rich.console import Console

from corpusmill.corpus.batches import OFFSET_BITS, document_id
from corpusmill.corpus.conditions import Sample, settle_condition
from corpusmill.corpus.document_options import OF_GROUPS, DocumentOptions
from corpusmill.corpus.input_formats import check_start
from corpusmill.errors import UserError, option
from corpusmill.layout.placement import (
    Layout,
    SourceLayout,
    apportion,
    count_validation_shards,
    divide_files,
)
from pipeline.job_options import InputOptions, about_source, parse_source
from pipeline.recipe.inputs import InputFile, choose_format, list_inputs
from pipeline.recipe.records import write_records
from transforms.storage.files import open_file


@dataclass(frozen=True)
class NamedSource:
    """A source.

    Attributes:
        name: as the user named it.
        paths: its input.
        repeat: how often each of its documents is taken.
        files: its files, whose names begin with its own.
        first_file: number of the files of all sources before it.
        options: how it is read where the user says so for this source, by the names of options.
        documents: how it is read; once its files are listed, with a format.
    """

    name: str
    paths: tuple[str, ...]
    repeat: float
    files: tuple[InputFile, ...] = ()
    first_file: int = 0
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    documents: DocumentOptions = field(default_factory=DocumentOptions)


def parse_sources(texts: Sequence[str]) -> list[NamedSource]:
    """Gather the paths of each source, sorted by name.

    Args:
        texts: values of --source; those of one name are one source.

    Raises:
        UserError: one is not valid, or a source is to be taken twice as often as itself, or read in
            two ways.
    """
    paths: dict[str, list[str]] = {}
    given: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, path, repeat, options = parse_source(text)
        paths.setdefault(name, []).append(path)
        known = given.setdefault(name, {})
        if repeat is not None and known.setdefault("repeat", repeat) != repeat:
            cause = f"the same source is taken {known['repeat']:g} times elsewhere"
            raise UserError(option("source", text), cause, "Give one number, or another name")
        for option_name, value in options.items():
            if known.setdefault(option_name, value) != value:
                cause = f"the same source has another {option_name.replace('_', '-')} elsewhere"
                raise UserError(option("source", text), cause, "Give one, or another name")
    return [
        NamedSource(name, tuple(paths[name]), given[name].pop("repeat", 1.0), options=given[name])
        for name in sorted(paths)
    ]


def list_sources(
    sources: Sequence[NamedSource],
    choose: Callable[[Mapping[str, Any]], DocumentOptions],
    temp_folder: str,
    console: Console,
) -> list[NamedSource]:
    """List the files of sources, numbered in the order of the sources, and find their formats.

    Args:
        sources: as `parse_sources` returns them.
        choose: returns how a source with some options of its own is read.
        temp_folder: as of `list_inputs`.
        console: where formats and files of the hub are announced.

    Raises:
        UserError: a source has no files, they cannot be read, or not in this way.
    """
    listed: list[NamedSource] = []
    for source in sources:
        with about_source(source.name):
            documents = choose(source.options)
            found = list_inputs(source.paths, temp_folder, documents, console)
            files = tuple(replace(file, name=f"{source.name}/{file.name}") for file in found)
            documents = choose_format(files, documents, console, source.name)
        first = listed[-1].first_file + len(listed[-1].files) if listed else 0
        listed.append(replace(source, documents=documents, files=files, first_file=first))
    return listed


# The sources, if there are some, all files, and the rules of documents with a format.
Corpus = tuple[Sequence[NamedSource], Sequence[InputFile], DocumentOptions]


def find_corpus(
    named: InputOptions,
    choose: Callable[[Mapping[str, Any]], DocumentOptions],
    temp_folder: str,
    console: Console,
    records: Any,
) -> Corpus:
    """Return the sources, if there are some, all files, and the rules with a format.

    Args:
        named: the input, or the sources.
        choose: returns how a source with some options of its own is read.
        temp_folder: a folder for data sets that are fetched from the hub, and for records.
        console: where the format and files of the hub are announced.
        records: what is read in place of files; None where files are named.

    Raises:
        UserError: the input is not usable.
    """
    documents = choose({})
    sources = list_sources(parse_sources(named.source), choose, temp_folder, console)
    if sources:
        files = [file for source in sources for file in source.files]
        return sources, files, _share_options(documents, sources)
    found = find_documents(named.input, documents, temp_folder, console, records)
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
        **{name: getattr(first, name) for name in OF_GROUPS},
    )


def find_documents(
    inputs: Sequence[str],
    documents: DocumentOptions,
    temp_folder: str,
    console: Console,
    records: Any = None,
) -> tuple[Sequence[InputFile], DocumentOptions]:
    """List the input, and find its format.

    Args:
        inputs: as the user named them.
        documents: the rules of documents.
        temp_folder: a folder for data sets that are fetched from the hub, and for records.
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
        fields = documents.text_field, documents.keep_fields
        judged = Sample(documents.where).paths if documents.where is not None else ()
        others = [path[0] for path in judged]
        try:
            file = write_records(records, temp_folder, *fields, parts, others)
        except UserError as error:
            raise error.renamed("keep_fields", documents.mention_field) from None
        with open_file(file.path, file.bytes) as stream:
            check_start(stream, "the input", documents)
        return [file], settle_condition(documents, [partial(open_file, file.path, file.bytes)])
    if not inputs:
        cure = f"Name at least one file, glob or folder, or sources with {option('source')}"
        raise UserError(option("input"), "it is missing", cure)
    files = list_inputs(inputs, temp_folder, documents, console)
    return files, choose_format(files, documents, console)


def spread_sources(
    sources: Sequence[NamedSource], sizes: Sequence[float], layout: Layout, share: float
) -> Layout:
    """Give each source shards of its own, in proportion to the text that is built from it.

    Args:
        sources: with their files.
        sizes: the size of the text of each that is built, every repeat counted.
        layout: of all text; its number of shards is kept where there are not more sources.
        share: share of the documents in the validation split.
    """
    spread = tuple(
        SourceLayout(
            document_id(source.first_file, 0),
            source.repeat,
            shards,
            count_validation_shards(shards, share),
        )
        for source, shards in zip(sources, apportion(layout.train_shards, sizes), strict=True)
    )
    return replace(
        layout,
        train_shards=sum(source.train_shards for source in spread),
        validation_shards=sum(source.validation_shards for source in spread),
        sources=spread,
    )


def keep_order(
    layout: Layout,
    files: Sequence[InputFile],
    sources: Sequence[NamedSource],
    repeats: int,
    first_file: int = 0,
) -> Layout:
    """Give each shard a contiguous part of the input, of about equal size.

    A file that is not read in ranges may be one shard's whole, whatever its size.

    Args:
        layout: of the data set.
        files: the input.
        sources: with their files; empty where there is but one.
        repeats: how many times the objective builds each document.
        first_file: the number of the first file.

    Raises:
        UserError: documents are taken several times.
    """
    most = max([repeats, *(source.repeat for source in sources)])
    if most > 1:
        cause = f"a document is built {most:g} times here, and has but one place in the corpus"
        cure = "Leave it out, or build each document once"
        raise UserError(f"{option('order')} corpus", cause, cure)
    parts: list[tuple[int, Sequence[InputFile]]] = [(first_file, files)]
    if sources:
        parts = [(source.first_file, source.files) for source in sources]
    firsts = [
        document_id(first + file, min(byte, 2**OFFSET_BITS - 1))
        for (first, of_part), (_, shards) in zip(parts * 2, layout.ranges(), strict=True)
        for file, byte in divide_files([each.cost for each in of_part], shards)
    ]
    return replace(layout, firsts=tuple(firsts))
