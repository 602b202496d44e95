"""A corpus measured in one pass, as the job `inspect-corpus` measures it in tasks."""

from collections.abc import Iterable

import pyarrow as pa

from corpusmill.inspection.corpus_measures import Measures, measure_text, measure_tokens
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile


def measure_corpus(
    batches: Iterable[pa.RecordBatch], sentences: SentenceTokenizer, tokenizer: TokenizerFile
) -> Measures:
    measures = Measures()
    for batch in batches:
        encoded = encode_documents(sentences, batch).documents
        measures.add(measure_text(batch))
        measures.add(measure_tokens(encoded, tokenizer.special, tokenizer.vocab_size))
    return measures
