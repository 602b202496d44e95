"""The pipeline of one's own: under TestPipeline, and as the program that it is."""

from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from corpusmill.extending import small_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from examples.document_lengths import MeasureLengths, main
from tests.tools.corpus_files import encode, read_documents
from transforms import TokenizeDocuments, local_pipeline, text_batch


def test_documents_are_counted_by_their_length() -> None:
    with local_pipeline() as pipeline:
        texts = pipeline | beam.Create(
            [text_batch("the lamp", "a\na\na"), text_batch("to the town .", "on")]
        )
        lengths = texts | TokenizeDocuments(small_tokenizer()) | MeasureLengths()
        assert_that(lengths, equal_to([(2, 1), (4, 2), (1, 1)]))


def test_the_program_counts_the_documents_of_a_corpus(
    sample: Path,
    tokenizer: TokenizerFile,
    tokenizer_path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--input", str(sample), "--tokenizer", str(tokenizer_path), "--output", f"{tmp_path}/n"])
    (written,) = tmp_path.iterdir()
    expected = Counter[int]()
    for batch in encode(read_documents(sample), tokenizer):
        for sentences in batch.documents.column("sentences").to_pylist():
            expected[1 << (sum(map(len, sentences)) - 1).bit_length()] += 1
    assert set(written.read_text().splitlines()) == {
        f"up to {length} tokens: {number} documents" for length, number in expected.items()
    }
    assert capsys.readouterr().out == ""
