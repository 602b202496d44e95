"""Documents that are read again, compared with those of one reading of the whole file."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.arrays.text_hashes import LENGTH, digests_of
from corpusmill.corpus.batches import TEXT_SCHEMA, FileRange
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.provenance.read_again import find_again
from tests.tools.corpus_files import split_documents
from tests.tools.knobs import knobs

NUMBER = 5
TEXTS = {
    "titles": DocumentOptions(input_format="text"),
    "blank lines": DocumentOptions(input_format="text", document_rule="blank-lines"),
    "whole": DocumentOptions(input_format="text", document_rule="whole-file"),
    "split": DocumentOptions(input_format="text", sentence_rule="split", language="en"),
}
RECORDS = DocumentOptions(input_format="json-lines")
TABLE = DocumentOptions(input_format="parquet")


# The name, content and options of a file.
File = tuple[str, bytes, DocumentOptions]


def list_files(sample: Path) -> Iterator[tuple[str, File]]:
    """Yield files, each with a name for the test."""
    text = sample.read_bytes()
    for name, options in TEXTS.items():
        yield name, ("file.txt", text, options)
    yield "compressed", ("file.txt.gz", gzip.compress(text), TEXTS["titles"])
    texts = ["\n".join(lines) for lines in split_documents(sample)]
    lines = "".join(json.dumps({"text": one}) + "\n" for one in texts).encode()
    yield "records", ("file.jsonl", lines, RECORDS)
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), sink, row_group_size=20)
    yield "table", ("file.parquet", sink.getvalue(), TABLE)


NAMES = (*TEXTS, "compressed", "records", "table")


class Corpus:
    """A file of documents, whose text is read as a whole.

    Attributes:
        documents: all of its documents, as the table of documents has them.
        texts: their sentences, by id.
        file: the file.
        content: its bytes.
    """

    def __init__(self, sample: Path, kind: str) -> None:
        name, self.content, options = dict(list_files(sample))[kind]
        self.file = FileRange(name, NUMBER, options)
        batches = read_corpus(open_decompressed(self.open(), name), self.file)
        parts = [batch.documents for batch in batches if batch.documents.num_rows]
        has_lengths = LENGTH.name in parts[0].schema.names
        columns: dict[str, list[Any]] = {"document": [], "length": [], "tokens": [], "digest": []}
        self.texts: dict[int, list[str]] = {}
        for part in parts:
            ids = part.column("document").to_pylist()
            self.texts |= dict(zip(ids, part.column("sentences").to_pylist(), strict=True))
            columns["document"] += ids
            lengths = part.column(LENGTH.name).to_pylist() if has_lengths else [0] * len(ids)
            columns["length"] += lengths
            columns["tokens"] += [1] * len(ids)
            columns["digest"] += digests_of(part).tolist()
        kinds = (pa.uint64(), pa.uint64(), pa.uint32(), pa.uint64())
        self.documents = pa.table(
            {name: pa.array(column, kind)
             for (name, column), kind in zip(columns.items(), kinds, strict=True)}
        )  # fmt: skip

    def open(self) -> BinaryIO:
        return io.BytesIO(self.content)

    def read(self, wanted: pa.Table) -> dict[int, list[str]]:
        """Return the sentences of some documents, in the order in which they are read."""
        read: dict[int, list[str]] = {}
        for batch in find_again(self.open, self.file, wanted):
            assert batch.schema == TEXT_SCHEMA
            assert batch.num_rows
            ids = batch.column("document").to_pylist()
            read |= dict(zip(ids, batch.column("sentences").to_pylist(), strict=True))
        return read


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("step", [1, 2, 13])
def test_documents_have_the_texts_that_they_had(kind: str, step: int, sample: Path) -> None:
    corpus = Corpus(sample, kind)
    assert len(corpus.documents) > 1 or kind == "whole"
    for is_small in (False, True):
        wanted = corpus.documents.take(pa.array(range(0, len(corpus.documents), step)))
        with knobs(is_small):
            read = corpus.read(wanted)
        ids = wanted.column("document").to_pylist()
        assert [*read.items()] == [(number, corpus.texts[number]) for number in ids]


@pytest.mark.parametrize("kind", ["compressed", "table", "titles", "records"])
def test_a_text_that_is_not_there_is_left_out(kind: str, sample: Path) -> None:
    corpus = Corpus(sample, kind)
    ids = corpus.documents.column("document").to_pylist()
    digests = corpus.documents.column("digest").to_numpy().copy()
    digests[3] += np.uint64(1)
    wanted = corpus.documents.set_column(3, "digest", pa.array(digests))
    assert [*corpus.read(wanted)] == [number for number in ids if number != ids[3]]


def test_only_ranges_around_documents_are_read(sample: Path) -> None:
    corpus = Corpus(sample, "records")
    far = b'{"text": "some other text"}\n' * 100_000
    lines = corpus.content.splitlines(keepends=True)
    corpus.content = lines[0] + far + lines[1] + far + lines[2]
    wanted = corpus.documents.slice(0, 3)
    ids = wanted.column("document").to_numpy()
    moved = ids + np.arange(3, dtype=np.uint64) * np.uint64(len(far))
    wanted = wanted.set_column(0, "document", pa.array(moved))
    read = list[tuple[int, int]]()

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            begin = self.tell()
            content = super().read(size)
            read.append((begin, len(content)))
            return content

    texts: list[Any] = []
    for batch in find_again(lambda: Watched(corpus.content), corpus.file, wanted):
        texts += batch.column("sentences").to_pylist()
    assert texts == [corpus.texts[number] for number in ids.tolist()]
    assert sum(length for _, length in read) < len(far)
