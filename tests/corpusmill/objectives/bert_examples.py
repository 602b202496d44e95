"""BERT's examples of small corpora, before and after they are masked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.random_documents import Pool
from tests.tools.builders import SPECIAL, Corpus, batch_of, pool_of

VOCAB_SIZE = 1000


def bert(**options: float | None) -> Bert:
    """Return the objective with a vocabulary of 1000 ids."""
    return Bert(BertOptions(**options), SPECIAL, VOCAB_SIZE, "int16")  # type: ignore[arg-type]


def build(
    corpus: Corpus,
    pool: Pool | None = None,
    seed: int = 1,
    repeat: int = 0,
    **options: float | None,
) -> pa.RecordBatch:
    """Build one pass over a corpus, which is its own pool by default."""
    splits = np.zeros(len(corpus), np.uint8)
    return bert(**options).build(batch_of(corpus), repeat, pool or pool_of(corpus), splits, seed)


def unmask(example: Mapping[str, Any]) -> list[int]:
    """Return the example's ids before masking."""
    original = list(example["input_ids"])
    for place, token in zip(example["masked_lm_positions"], example["masked_lm_ids"], strict=True):
        original[place] = token
    return original


def segments(example: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Return the first and second segment, after checking the special tokens around them."""
    original, first_length = unmask(example), example["first_length"]
    assert original[0] == SPECIAL.cls_id
    assert original[first_length + 1] == original[-1] == SPECIAL.sep_id
    return original[1 : first_length + 1], original[first_length + 2 : -1]
