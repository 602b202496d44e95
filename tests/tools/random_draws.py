"""Data sets to which text is added whose random documents come from all text."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.storage import UrlFolder
from corpusmill.dataset.verify import verify
from corpusmill.layout.placement import assign_splits
from corpusmill.objectives import random_documents as pools
from corpusmill.objectives.random_documents import Pool
from corpusmill.provenance.records import RowOrigin
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import load_sentence_tokenizer
from tests.tools.builders import write_and_open
from tests.tools.growing import SHARE, Growing
from tests.tools.origins import list_origins

# Some documents of the sample do not fit.
BUDGET = 3000
FLAGS = (*SHARE, "--pool-tokens", str(BUDGET))


@pytest.fixture(scope="module")
def first(
    halves: tuple[Path, Path], wordpiece: Path, tmp_path_factory: pytest.TempPathFactory
) -> Growing:
    """A data set of the first half with a small pool."""
    growing = Growing(tmp_path_factory.mktemp("first") / "out", wordpiece, FLAGS)
    growing.build(halves[0])
    return growing


@pytest.fixture
def growing(first: Growing, tmp_path: Path) -> Growing:
    """A copy of it."""
    return first.copy_to(tmp_path / "out")


@pytest.fixture(scope="module")
def appended(
    first: Growing, halves: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Growing:
    """The same with the second half."""
    growing = first.copy_to(tmp_path_factory.mktemp("both") / "out")
    growing.append(halves[1], flags=all_of(halves[0]))
    return growing


def all_of(*inputs: Path) -> tuple[str | Path, ...]:
    """Return the options that draw random documents from all text."""
    return "--random-documents", "all", "--earlier-input", *inputs


def problems(output: Path) -> list[Any]:
    """Return what `verify` finds."""
    return verify(UrlFolder(str(output)))


def number_of(document: int) -> int:
    """Return the number of a document's file."""
    return document >> OFFSET_BITS


def draws(origins: list[RowOrigin], generation: str) -> Iterator[tuple[RowOrigin, int]]:
    """Yield the rows of a generation with a random document, and that."""
    for origin in origins:
        others = {*origin.documents} - {origin.document}
        if f"-{generation}-" in origin.shard and others:
            [other] = others
            yield origin, other


def draw_plainly(growing: Growing, files: Sequence[Path], budget: int, folder: Path) -> Pool:
    """Draw the pool from all documents of files by the same kernels, in a plain loop."""
    options, batches = DocumentOptions(input_format="text"), list[pa.RecordBatch]()
    dtype, content = np.dtype(np.int16), growing.tokenizer.read_text()
    tokenizer = load_sentence_tokenizer(content, dtype, True, True, "")
    for number, file in enumerate(files):
        with file.open("rb") as stream:
            for batch in read_corpus(stream, FileRange("text", number, options)):
                batches.append(encode_documents(tokenizer, batch.documents).documents)
    documents = pa.concat_batches(batches)
    ids, _, tokens = pools.measure_documents(documents).T
    priorities = pools.priorities(1, ids)
    limit = pools.choose(priorities, ids, tokens.astype(np.int64), budget)
    kept = documents.filter(pa.array(priorities <= np.uint64(limit)))
    splits = assign_splits(1, kept.column("document").to_numpy(), 0.2)
    parts = [kept.filter(pa.array(splits == split)) for split in (0, 1)]
    train, validation = (
        dict(zip(part.column("document").to_pylist(), part.column("sentences").to_pylist(),
                 strict=True))
        for part in parts
    )  # fmt: skip
    return write_and_open(parts, train, validation, folder)


def old_draw(output: Path, generation: str = "more1") -> int:
    """Return a document of the first part that is in rows of a later one."""
    origins = list_origins(output)
    return next(
        other for origin, other in draws(origins, generation)
        if number_of(other) < number_of(origin.document)
    )  # fmt: skip
