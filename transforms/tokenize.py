"""Batches of documents to batches of tokenized documents."""

from collections.abc import Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer, load_sentence_tokenizer
from transforms.elements import NamedOutputs
from transforms.read import open_file
from transforms.tally import COUNTS, Count, Tally

TOKENS = "tokens"


class _TokenizeBatch(beam.DoFn):
    """A batch of text to a batch of token ids; the tokenizer is loaded once a process."""

    def __init__(
        self,
        tokenizer_path: str,
        token_dtype: str,
        memoize: bool,
        special_tokens_in_text: bool,
        words: str,
    ) -> None:
        self._path, self._dtype, self._shared = tokenizer_path, token_dtype, Shared()
        self._memoize, self._special_tokens_in_text = memoize, special_tokens_in_text
        self._words = words

    def setup(self) -> None:
        self._tokenizer = self._shared.acquire(self._load, tag=self._path)
        self._tally = Tally("tokenize", live=("documents",))

    def start_bundle(self) -> None:
        self._tally.start()

    def process(self, element: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        encoded = encode_documents(self._tokenizer, element)
        self._tally.add("documents", encoded.documents.num_rows)
        self._tally.add("tokens", encoded.tokens)
        self._tally.add("empty_sentences", encoded.empty_sentences)
        self._tally.add("empty_documents", encoded.empty_documents)
        if encoded.documents.num_rows:
            yield encoded.documents

    def finish_bundle(self) -> Iterator[TaggedOutput]:
        yield from self._tally.finish()

    def _load(self) -> SentenceTokenizer:
        with open_file(self._path) as stream:
            return load_sentence_tokenizer(
                stream.read().decode(),
                np.dtype(self._dtype),
                self._memoize,
                self._special_tokens_in_text,
                self._words,
            )


class TokenizeDocuments(beam.PTransform):
    """Tokenize batches of documents; gives a tuple of the collections TOKENS and COUNTS.

    Args:
        tokenizer_path: a complete tokenizer.json that every worker can read.
        token_dtype: NumPy name of the type of a token id, marked where there is a rule of words.
        memoize: whether ids of words may be remembered.
        special_tokens_in_text: whether special tokens that stand in the text become their ids.
        words: rule of words by which ids are marked (`corpusmill.tokenization.words`); empty for
            none.
    """

    def __init__(
        self,
        tokenizer_path: str,
        token_dtype: str,
        memoize: bool = True,
        special_tokens_in_text: bool = True,
        words: str = "",
    ) -> None:
        super().__init__()
        self._path, self._dtype = tokenizer_path, token_dtype
        self._memoize, self._special_tokens_in_text = memoize, special_tokens_in_text
        self._words = words

    def expand(self, documents: beam.PCollection[pa.RecordBatch]) -> NamedOutputs:
        """One DoFn in the stage of its input."""
        tokenize = beam.ParDo(
            _TokenizeBatch(
                self._path, self._dtype, self._memoize, self._special_tokens_in_text, self._words
            )
        ).with_output_types(pa.RecordBatch, **{COUNTS: Count})
        return documents | "TokenizeBatch" >> tokenize.with_outputs(COUNTS, main=TOKENS)

    def display_data(self) -> dict[str, str]:
        """The tokenizer and the rule of words."""
        return {"tokenizer": self._path, "token_dtype": self._dtype, "words": self._words}
