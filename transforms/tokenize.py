"""Batches of documents to batches of tokenized documents."""

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer, load_sentence_tokenizer
from transforms.elements import NamedOutputs
from transforms.storage.files import open_file
from transforms.tally import COUNTS, Count, Tally

TOKENS = "tokens"


@dataclass(frozen=True)
class Tokenizing:
    """How text becomes ids.

    Attributes:
        path: a complete tokenizer.json that every worker can read.
        token_dtype: NumPy name of the type of a token id, marked where there is a rule of words.
        memoize: whether ids of words may be remembered.
        special_tokens_in_text: whether special tokens that stand in the text become their ids.
        words: rule of words by which ids are marked (`corpusmill.tokenization.words.words`); empty
            for none.
    """

    path: str
    token_dtype: str
    memoize: bool = True
    special_tokens_in_text: bool = True
    words: str = ""

    def load(self) -> SentenceTokenizer:
        """The tokenizer; one a process where it is loaded through Beam's `Shared`."""
        with open_file(self.path) as stream:
            return load_sentence_tokenizer(
                stream.read().decode(),
                np.dtype(self.token_dtype),
                self.memoize,
                self.special_tokens_in_text,
                self.words,
            )


def tally_of_tokenizing() -> Tally:
    """The counts of the stage; its documents are live."""
    return Tally("tokenize", live=("documents",))


def tokenize_batch(
    tokenizer: SentenceTokenizer, batch: pa.RecordBatch, tally: Tally
) -> pa.RecordBatch:
    """The documents of a batch as ids, counted; without those that have no token."""
    encoded = encode_documents(tokenizer, batch)
    tally.add("documents", encoded.documents.num_rows)
    tally.add("tokens", encoded.tokens)
    tally.add("empty_sentences", encoded.empty_sentences)
    tally.add("empty_documents", encoded.empty_documents)
    return encoded.documents


class _TokenizeBatch(beam.DoFn):
    """A batch of text to a batch of token ids; the tokenizer is loaded once a process."""

    def __init__(self, tokenizing: Tokenizing) -> None:
        self._tokenizing, self._shared = tokenizing, Shared()

    def setup(self) -> None:
        self._tokenizer = self._shared.acquire(self._tokenizing.load, tag=self._tokenizing.path)
        self._tally = tally_of_tokenizing()

    def start_bundle(self) -> None:
        self._tally.start()

    def process(self, element: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        documents = tokenize_batch(self._tokenizer, element, self._tally)
        if documents.num_rows:
            yield documents

    def finish_bundle(self) -> Iterator[TaggedOutput]:
        yield from self._tally.finish()


class TokenizeDocuments(beam.PTransform):
    """Tokenize batches of documents; gives a tuple of the collections TOKENS and COUNTS.

    Args:
        tokenizing: how.
    """

    def __init__(self, tokenizing: Tokenizing) -> None:
        super().__init__()
        self._tokenizing = tokenizing

    def expand(self, documents: beam.PCollection[pa.RecordBatch]) -> NamedOutputs:
        """One DoFn in the stage of its input."""
        tokenize = beam.ParDo(_TokenizeBatch(self._tokenizing)).with_output_types(
            pa.RecordBatch, **{COUNTS: Count}
        )
        return documents | "TokenizeBatch" >> tokenize.with_outputs(COUNTS, main=TOKENS)

    def display_data(self) -> dict[str, str]:
        """The tokenizer and the rule of words."""
        of = self._tokenizing
        return {"tokenizer": of.path, "token_dtype": of.token_dtype, "words": of.words}
