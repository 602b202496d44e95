"""A corpus read, tokenized and measured by the kernels in one pass, as a job does it in tasks."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.inspection.corpus_measures import Measures, measure_text, measure_tokens
from corpusmill.tokenization.encoding import EncodedDocuments, encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile


def read_documents(text: Path) -> list[pa.RecordBatch]:
    with text.open("rb") as stream:
        read = read_text(stream, FileRange("", 0, DocumentOptions(input_format="text")))
        return [batch.documents for batch in read]


def encode(batches: Iterable[pa.RecordBatch], tokenizer: TokenizerFile) -> list[EncodedDocuments]:
    sentences = SentenceTokenizer(tokenizer.json, tokenizer.token_dtype)
    return [encode_documents(sentences, batch) for batch in batches]


def measure_corpus(batches: list[pa.RecordBatch], tokenizer: TokenizerFile) -> Measures:
    measures = Measures()
    for batch, encoded in zip(batches, encode(batches, tokenizer), strict=True):
        measures.add(measure_text(batch))
        measures.add(measure_tokens(encoded.documents, tokenizer.special.unk_id))
    return measures
