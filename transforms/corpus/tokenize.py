"""Tokenize batches of documents."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusmill.arrays.distinct import hash_rows
from corpusmill.arrays.ragged import cut_rows
from corpusmill.objectives.tokenized_documents import unpack_documents
from corpusmill.tokenization.encoding import encode_documents, tokenized_schema
from corpusmill.tokenization.gigatoken_engine import Engine
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer, load_sentence_tokenizer
from corpusmill.tokenization.text_cuts import TextCuts
from transforms.storage.checksums import read_blocks
from transforms.tally import Tally

# Copies are counted in passages, so that a document weighs as much as its text: 579 of WikiText-2's
# 6,097 documents are a pair of quotation marks.
PASSAGE_TOKENS = 32


@dataclass(frozen=True)
class Tokenizing:
    """How text is tokenized.

    Attributes:
        path: a complete tokenizer.json that every worker can read.
        sha256: hexadecimal digest of that file.
        token_dtype: NumPy name of the type of a token id, marked where a rule of words is set.
        memoize: whether the ids of words may be remembered.
        special_tokens_in_text: whether special tokens in the text become their ids.
        words: rule of words by which ids are marked (`corpusmill.tokenization.words.words`); empty
            for none.
        cuts: cuts texts before they are tokenized; None if they are not cut.
        engine: what tokenizes long texts.
        keep_fields: names of the fields that are among the facts of documents.
        facts: whether tokenized documents have the columns of facts
            (`corpusmill.arrays.text_hashes`).
    """

    path: str
    sha256: str
    token_dtype: str
    memoize: bool = True
    special_tokens_in_text: bool = True
    words: str = ""
    cuts: TextCuts | None = None
    engine: Engine = "own"
    keep_fields: tuple[str, ...] = ()
    facts: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of tokenized documents."""
        return tokenized_schema(self.token_dtype, self.keep_fields, self.facts)

    def load(self) -> SentenceTokenizer:
        """Load the tokenizer; Beam's `Shared` makes it one for each process.

        Raises:
            DamagedFileError: its file is damaged.
        """
        return load_sentence_tokenizer(
            b"".join(read_blocks(self.path, self.sha256)).decode(),
            np.dtype(self.token_dtype),
            self.memoize,
            self.special_tokens_in_text,
            self.words,
            self.engine,
        )


def tokenize_batch(
    tokenizer: SentenceTokenizer, batch: pa.RecordBatch, tally: Tally, tokenizing: Tokenizing
) -> pa.RecordBatch:
    """Tokenize and count the documents of a batch; documents without tokens are left out."""
    encoded = encode_documents(
        tokenizer, batch, tokenizing.cuts, tokenizing.keep_fields, tokenizing.facts
    )
    tally.add("tokenize.documents", encoded.documents.num_rows)
    tally.add("tokenize.tokens", encoded.tokens)
    tally.add("tokenize.unknown_tokens", encoded.unknown_tokens)
    tally.add("tokenize.text_bytes", encoded.text_bytes)
    tally.add("tokenize.empty_sentences", encoded.empty_sentences)
    tally.add("tokenize.empty_documents", encoded.empty_documents)
    index, token_ids = unpack_documents(encoded.documents)
    passages = cut_rows(index.sentence_offsets[index.offsets], PASSAGE_TOKENS)
    tally.add("tokenize.passages", len(passages) - 1)
    tally.add_distinct("tokenize.distinct_passages", hash_rows(token_ids, passages))
    return encoded.documents
