"""Places that are drawn by the weights of their tokens, as DistilBERT's program draws them."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.masking.masked_lm import MaskedLm
from tests.corpusmill.objectives.bert_examples import VOCAB_SIZE, bert
from tests.corpusmill.objectives.reference_distilbert import mask_row, token_probs
from tests.tools.builders import SPECIAL, offsets_of, seeds
from tests.tools.distributions import arrays_of, assert_same_distributions

SHARE = 0.3
ROWS = 5_000
# Token n is in the corpus n * n times; 5 to 9 never.
COUNTS = [0] * 10 + [number**2 for number in range(10, VOCAB_SIZE)]
WEIGHTS = tuple(token_probs(COUNTS, SPECIAL.all_ids, 0.7))
ROW = [2, 10, 900, 11, 12, 5, 1, 300, 12, 100, 3]


def masker(weights: tuple[float, ...] = WEIGHTS) -> MaskedLm:
    options = bert(mask="dynamic", max_predictions_per_seq=None, masked_lm_prob=SHARE)
    return replace(options.masked_lm, token_weights=weights)


def mask(
    rows: list[list[int]], seed: int = 1, weights: tuple[float, ...] = WEIGHTS
) -> list[tuple[list[int], list[int]]]:
    """Return the masked rows and their predicted places."""
    input_ids = np.array([token for row in rows for token in row], np.int16)
    offsets = offsets_of(map(len, rows))
    keys = np.random.default_rng(seed).integers(2**63, size=len(rows), dtype=np.uint64)
    plain = input_ids.copy()
    positions, labels, ends = masker(weights).mask(input_ids, np.empty(0, np.int8), offsets, keys)
    places = positions + np.repeat(offsets[:-1], np.diff(ends))
    assert labels.tolist() == plain[places].tolist()
    return [
        (
            input_ids[offsets[row] : offsets[row + 1]].tolist(),
            positions[ends[row] : ends[row + 1]].tolist(),
        )
        for row in range(len(rows))
    ]


def properties(masked: list[int], places: list[int]) -> dict[str, int]:
    """What is compared of a row."""
    kinds = [0 if masked[place] == SPECIAL.mask_id else 1 + (masked[place] == ROW[place])
             for place in places]  # fmt: skip
    others = [masked[place] for place, kind in zip(places, kinds, strict=True) if kind == 1]
    return {
        "predictions": len(places),
        "set of places": sum(2**place for place in places),
        "kind of the first": kinds[0],
        "kinds of two": 3 * kinds[0] + kinds[1],
        "masks": kinds.count(0),
        "random token": others[0] * 20 // VOCAB_SIZE if others else -1,
    }


def test_places_are_distributed_as_in_the_reference() -> None:
    rng = random.Random(4)  # noqa: S311 - no secret
    theirs = (mask_row(ROW, WEIGHTS, SHARE, 4, rng) for _ in range(ROWS))
    both = [arrays_of(properties(*row) for row in rows) for rows in (mask([ROW] * ROWS), theirs)]
    assert_same_distributions(both[0], both[1], "DistilBERT")


@given(st.lists(st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=70), max_size=6), seeds)
def test_rows_have_their_share_of_predictions_and_no_special_ones(
    rows: list[list[int]], seed: int
) -> None:
    for row, (masked, places) in zip(rows, mask(rows, seed), strict=True):
        possible = sum(token not in SPECIAL.all_ids for token in row)
        assert len(places) == min(possible, int(np.ceil(SHARE * len(row))))
        assert not {row[place] for place in places} & {*SPECIAL.all_ids}
        others = set(range(len(row))) - set(places)
        assert all(masked[place] == row[place] for place in others)


def test_an_id_without_weight_is_not_predicted() -> None:
    weights = [1.0] * VOCAB_SIZE
    weights[12] = 0.0
    [(_, places)] = mask([[12, 13] * 50], weights=tuple(weights))
    assert len(places) == 30
    assert all(place % 2 for place in places)


@pytest.mark.parametrize(
    "weights",
    [(1.0,), (-1.0,) * VOCAB_SIZE, (float("inf"),) * VOCAB_SIZE, (float("nan"),) * VOCAB_SIZE],
    ids=["few", "negative", "infinite", "no numbers"],
)
def test_other_weights_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="token_weights must be 1000 numbers"):
        masker(weights)
