"""Parts of the corpus with names: which files are theirs, and how their examples are spread."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from corpusmill.corpus.batches import OFFSET_BITS, document_id
from corpusmill.errors import UserError, option
from corpusmill.layout.placement import (
    Layout,
    SourceLayout,
    apportion,
    count_validation_shards,
    divide_files,
)
from pipeline.job_options import parse_source
from pipeline.recipe.inputs import InputFile, list_inputs


@dataclass(frozen=True)
class NamedSource:
    """A source.

    Attributes:
        name: as the user named it.
        paths: its input.
        repeat: how often each of its documents is taken.
        files: its files, whose names begin with its own.
        first_file: number of the files of all sources before it.
    """

    name: str
    paths: tuple[str, ...]
    repeat: float
    files: tuple[InputFile, ...] = ()
    first_file: int = 0


def _mention_path(source: str, path: str) -> str:
    return option("source", f"{source}={path}" if path else source)


def parse_sources(texts: Sequence[str]) -> list[NamedSource]:
    """Gather the paths of each source, sorted by name.

    Args:
        texts: values of --source; those of one name are one source.

    Raises:
        UserError: one is not valid, or a source is to be taken twice as often as itself.
    """
    paths: dict[str, list[str]] = {}
    repeats: dict[str, float] = {}
    for text in texts:
        name, path, repeat = parse_source(text)
        paths.setdefault(name, []).append(path)
        if repeat is not None and repeats.setdefault(name, repeat) != repeat:
            cause = f"the same source is taken {repeats[name]:g} times elsewhere"
            raise UserError(option("source", text), cause, "Give one number, or another name")
    return [NamedSource(name, tuple(paths[name]), repeats.get(name, 1.0)) for name in sorted(paths)]


def list_sources(
    sources: Sequence[NamedSource], temp_folder: str, suffixes: Sequence[str]
) -> list[NamedSource]:
    """List the files of sources, numbered in the order of the sources.

    Raises:
        UserError: a source has no files, or they cannot be read.
    """
    listed: list[NamedSource] = []
    for source in sources:
        try:
            found = list_inputs(source.paths, temp_folder, suffixes)
        except UserError as error:
            raise error.renamed("input", partial(_mention_path, source.name)) from None
        files = tuple(replace(file, name=f"{source.name}/{file.name}") for file in found)
        first = listed[-1].first_file + len(listed[-1].files) if listed else 0
        listed.append(replace(source, files=files, first_file=first))
    return listed


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
