"""Documents as a collection: those of a data set, under any cut of the files."""

from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam import coders

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.corpus_files import encode, read_documents
from transforms.corpus.documents import (
    DOCUMENTS,
    ReadDocuments,
    RecordBatchCoder,
    TokenizeDocuments,
)
from transforms.corpus.read import REJECTS
from transforms.testing import collect, local_pipeline, text_batch


def rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return sorted(
        (row for batch in batches for row in batch.to_pylist()), key=lambda row: row["document"]
    )


@pytest.mark.parametrize("range_bytes", [10**9, 5000])
def test_documents_and_their_tokens_are_those_of_a_build(
    sample: Path, tokenizer: TokenizerFile, tokenizer_path: Path, range_bytes: int
) -> None:
    with local_pipeline() as pipeline:
        read = pipeline | ReadDocuments(str(sample), range_bytes=range_bytes)
        texts = collect(read[DOCUMENTS])
        tokens = collect(read[DOCUMENTS] | TokenizeDocuments(str(tokenizer_path)))
        rejects = collect(read[REJECTS])
    whole = read_documents(sample)
    assert rows(texts) == rows(whole)
    assert rows(tokens) == rows([batch.documents for batch in encode(whole, tokenizer)])
    assert rejects == []


def test_files_are_numbered_in_order_and_bad_records_come_apart(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"text": "Two ."}\n{"title": "x"}\n')
    (tmp_path / "a.jsonl").write_text('{"text": "One ."}\n')
    options = DocumentOptions(sentence_rule="document")
    with local_pipeline() as pipeline:
        read = pipeline | ReadDocuments([f"{tmp_path}/b*", f"{tmp_path}/*.jsonl"], options)
        texts, rejects = collect(read[DOCUMENTS]), collect(read[REJECTS])
    assert rows(texts) == [
        {"document": 0, "sentences": ["One ."], "length": 17},
        {"document": 1 << 40, "sentences": ["Two ."], "length": 17},
    ]
    (reject,) = rejects
    assert (Path(reject.file).name, reject.offset) == ("b.jsonl", 18)
    assert reject.reason == "missing-field"


def test_batches_travel_as_what_they_hold_and_not_with_their_parents() -> None:
    coder = coders.registry.get_coder(pa.RecordBatch)
    assert isinstance(coder, RecordBatchCoder)
    batch = text_batch(*["A text .\nMore ."] * 5000)
    part = batch.slice(7, 3)
    assert coder.decode(coder.encode(part)).equals(part)
    assert len(coder.encode(part)) < 2000
    with local_pipeline() as pipeline:
        shuffled = collect(pipeline | beam.Create([part]) | beam.Reshuffle())
    assert rows(shuffled) == part.to_pylist()


def test_mistakes_are_found_when_the_pipeline_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        ReadDocuments(f"{tmp_path}/none*")
    with pytest.raises(UserError, match="no such file"):
        TokenizeDocuments(f"{tmp_path}/none.json")


def test_texts_without_tokens_are_left_out(tokenizer: TokenizerFile) -> None:
    with local_pipeline() as pipeline:
        batches = pipeline | beam.Create([text_batch("the lamp .", "\u200b"), text_batch("\u200b")])
        tokens = collect(batches | TokenizeDocuments(tokenizer))
    assert [row["document"] for row in rows(tokens)] == [0]
