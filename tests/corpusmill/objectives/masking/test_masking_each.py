"""Places that are drawn by themselves, as ModernBERT's program draws them."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.masking.masked_lm import MaskedLm
from tests.corpusmill.objectives.bert_examples import VOCAB_SIZE, bert
from tests.corpusmill.objectives.reference_modernbert import IGNORED, mask_row
from tests.tools.builders import SPECIAL, offsets_of, seeds
from tests.tools.distributions import arrays_of, assert_same_distributions

SHARE = 0.3
ROWS = 20_000
ROW = [2, 10, 11, 12, 3, 2, 13, 14, 3, 1]
OPTIONS: dict[str, Any] = {
    "mask": "dynamic",
    "max_predictions_per_seq": None,
    "draw_each_token": True,
    "masked_lm_prob": SHARE,
}


def masker() -> MaskedLm:
    return bert(**OPTIONS).masked_lm


def mask(rows: list[list[int]], seed: int = 1) -> list[tuple[list[int], list[int]]]:
    """Return the masked rows, and their labels by place."""
    input_ids = np.array([token for row in rows for token in row], np.int16)
    offsets = offsets_of(map(len, rows))
    keys = np.random.default_rng(seed).integers(2**63, size=len(rows), dtype=np.uint64)
    positions, ids, ends = masker().mask(input_ids, np.empty(0, np.int8), offsets, keys)
    masked = []
    for row in range(len(rows)):
        labels = np.full(len(rows[row]), IGNORED)
        labels[positions[ends[row] : ends[row + 1]]] = ids[ends[row] : ends[row + 1]]
        masked.append((input_ids[offsets[row] : offsets[row + 1]].tolist(), labels.tolist()))
    return masked


def properties(masked: list[int], labels: list[int]) -> dict[str, int]:
    """What is compared of a row: which places are predicted, and what stands there."""
    predicted = [label != IGNORED for label in labels]
    kinds = [
        0 if not is_predicted else 1 + (token == SPECIAL.mask_id) + 2 * (token == label)
        for token, label, is_predicted in zip(masked, labels, predicted, strict=True)
    ]
    # Ids of five ranges, of which the first holds the special ones.
    replaced = [token for token, kind in zip(masked, kinds, strict=True) if kind == 1]
    return {
        "predictions": sum(predicted),
        "special tokens predicted": sum(predicted[place] for place in (0, 4, 5, 8)),
        "set of places": sum(2**place * is_set for place, is_set in enumerate(predicted)),
        "first place": kinds[0],
        "a place": kinds[3],
        "next place": 4 * kinds[3] + kinds[4],
        "masks": kinds.count(2),
        "random token": replaced[0] * 20 // VOCAB_SIZE if replaced else -1,
    }


def test_places_are_distributed_as_in_the_reference() -> None:
    rng = random.Random(4)  # noqa: S311 - no secret
    theirs = (mask_row(ROW, SHARE, 4, VOCAB_SIZE - 1, rng) for _ in range(ROWS))
    ours = mask([ROW] * ROWS)
    both = [arrays_of(properties(*row) for row in rows) for rows in (ours, theirs)]
    assert_same_distributions(both[0], both[1], "ModernBERT")


@given(st.lists(st.lists(st.integers(1, VOCAB_SIZE - 1), max_size=70), max_size=6), seeds)
def test_rows_are_themselves_but_for_the_predicted_places(rows: list[list[int]], seed: int) -> None:
    for row, (masked, labels) in zip(rows, mask(rows, seed), strict=True):
        for token, other, label in zip(row, masked, labels, strict=True):
            assert label in {token, IGNORED}
            assert token in {other, label}


def test_padding_is_not_predicted() -> None:
    [(masked, labels)] = mask([[0] * 1000])
    assert (masked, set(labels)) == ([0] * 1000, {IGNORED})


def test_what_would_limit_the_draws_is_refused() -> None:
    for other, cause in (
        ({"max_predictions_per_seq": 20}, "it needs --max-predictions-per-seq None"),
        ({"whole_word_mask": True}, "it does not go with --whole-word-mask"),
        ({"mask": "static"}, "it needs --mask dynamic"),
    ):
        with pytest.raises(UserError, match=f"--draw-each-token: {cause}"):
            BertOptions(**{**OPTIONS, **other})
