"""BERT's examples of small corpora, before and after they are masked."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.random_documents import Pool
from tests.tools.builders import SPECIAL, Corpus, build_pass

VOCAB_SIZE = 1000


def bert(segments: Any = "next-sentence", **options: Any) -> Bert:
    """Return the objective with a vocabulary of 1000 ids."""
    return Bert(BertOptions(segments, **options), SPECIAL, VOCAB_SIZE, "int16")


def build(
    corpus: Corpus, pool: Pool | None = None, seed: int = 1, repeat: int = 0, **options: Any
) -> pa.RecordBatch:
    """Build one pass over a corpus, which is its own pool by default."""
    return build_pass(bert(**options), corpus, repeat, seed, pool)


def unmask(example: Mapping[str, Any]) -> list[int]:
    """Return the example's ids before masking."""
    original = list(example["input_ids"])
    places, tokens = (example.get(f"masked_lm_{name}", []) for name in ("positions", "ids"))
    for place, token in zip(places, tokens, strict=True):
        original[place] = token
    return original


def segments(example: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Return the first and second segment, after checking the special tokens around them."""
    original, first_length = unmask(example), example["first_length"]
    assert original[0] == SPECIAL.cls_id
    assert original[first_length + 1] == original[-1] == SPECIAL.sep_id
    return original[1 : first_length + 1], original[first_length + 2 : -1]
