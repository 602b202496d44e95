"""Tokenizers trained from streams of text, so that the corpus need not fit into memory.

Only the counts of distinct words are kept, and the same counts and options give the same file, byte
for byte: each module says why for its model. `models` is the table of all of them; it is not
imported here, as `unigram` needs the sentencepiece library.
"""

from corpusmill.tokenization.training.wordpiece import (
    SPECIAL_TOKENS,
    WordPieceOptions,
    bert_tokenizer,
    train_wordpiece,
)

__all__ = ["SPECIAL_TOKENS", "WordPieceOptions", "bert_tokenizer", "train_wordpiece"]
