"""ERNIE's examples of small corpora whose token ids show where words begin."""

from typing import Any

import pyarrow as pa

from corpusmill.objectives.ernie import Ernie, ErnieOptions
from tests.tools.builders import SPECIAL, Corpus, build_pass, mark_corpus

VOCAB_SIZE = 1100


def continues_word(token: int) -> bool:
    """Return whether a token continues a word: all except the multiples of 3 do."""
    return token % 3 != 0


def marked(corpus: Corpus) -> dict[int, list[list[int]]]:
    """Return the corpus as a batch for `build`; a sentence's first token begins a word."""
    return mark_corpus(corpus, lambda place, token: place > 0 and continues_word(token))


def ernie(**options: Any) -> Ernie:
    """Return the objective with a vocabulary of 1100 ids."""
    return Ernie(ErnieOptions(**options), SPECIAL, VOCAB_SIZE, "int16")


def build(corpus: Corpus, seed: int = 1, repeat: int = 0, **options: Any) -> pa.RecordBatch:
    """Build one pass over a corpus that is its own pool."""
    return build_pass(ernie(**options), marked(corpus), repeat, seed)
