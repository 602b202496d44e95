"""ERNIE's examples of small corpora whose token ids show where words begin."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from corpusmill.objectives.ernie import Ernie, ErnieOptions
from corpusmill.tokenization.words.word_marks import mark
from tests.tools.builders import SPECIAL, Corpus, batch_of, pool_of

VOCAB_SIZE = 1100


def continues_word(token: int) -> bool:
    """Return whether a token continues a word: all except the multiples of 3 do."""
    return token % 3 != 0


def marked(corpus: Corpus) -> dict[int, list[list[int]]]:
    """Return the corpus as a batch for `build`; a sentence's first token begins a word."""
    return {
        document: [
            [
                int(mark(np.array([token]), np.array([place > 0 and continues_word(token)]))[0])
                for place, token in enumerate(sentence)
            ]
            for sentence in sentences
        ]
        for document, sentences in corpus.items()
    }


def ernie(**options: Any) -> Ernie:
    """Return the objective with a vocabulary of 1100 ids."""
    return Ernie(ErnieOptions(**options), SPECIAL, VOCAB_SIZE, "int16")


def build(corpus: Corpus, seed: int = 1, repeat: int = 0, **options: Any) -> pa.RecordBatch:
    """Build one pass over a corpus that is its own pool."""
    travelling, splits = marked(corpus), np.zeros(len(corpus), np.uint8)
    batch, pool = batch_of(travelling), pool_of(travelling)
    return ernie(**options).build(batch, repeat, pool, splits, seed)


def unmask(example: Mapping[str, Any]) -> list[int]:
    """Return the example's ids before masking."""
    original: list[int] = list(example["input_ids"])
    places: Sequence[int] = example.get("masked_lm_positions", [])
    for place, token in zip(places, example.get("masked_lm_ids", []), strict=True):
        original[place] = token
    return original
