"""Places drawn by the weights of tokens, or by themselves, as DistilBERT's and ModernBERT's."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.masking.masked_lm import MaskedLm
from tests.corpusmill.objectives import reference_distilbert, reference_modernbert
from tests.corpusmill.objectives.bert_examples import VOCAB_SIZE, bert
from tests.tools.builders import SPECIAL, offsets_of, seeds
from tests.tools.distributions import arrays_of, assert_same_distributions

SHARE = 0.3
DYNAMIC: dict[str, Any] = {
    "mask": "dynamic", "max_predictions_per_seq": None, "masked_lm_prob": SHARE,
}  # fmt: skip
EACH = {**DYNAMIC, "draw_each_token": True}
# Token n is in the corpus n * n times; 5 to 9 never.
COUNTS = [0] * 10 + [number**2 for number in range(10, VOCAB_SIZE)]
WEIGHTS = tuple(reference_distilbert.token_probs(COUNTS, SPECIAL.all_ids, 0.7))
ROW = [2, 10, 900, 11, 3, 2, 12, 5, 300, 12, 3, 1]
any_rows = st.lists(st.lists(st.integers(1, VOCAB_SIZE - 1), max_size=70), max_size=6)


def masker(weights: tuple[float, ...] = WEIGHTS) -> MaskedLm:
    return replace(bert(**DYNAMIC).masked_lm, token_weights=weights)


def mask(
    masked_lm: MaskedLm, rows: list[list[int]], seed: int = 1
) -> list[tuple[list[int], list[int]]]:
    """Return the masked rows, and their predicted places."""
    input_ids = np.array([token for row in rows for token in row], np.int16)
    offsets, plain = offsets_of(map(len, rows)), input_ids.copy()
    keys = np.random.default_rng(seed).integers(2**63, size=len(rows), dtype=np.uint64)
    positions, labels, ends = masked_lm.mask(input_ids, np.empty(0, np.int8), offsets, keys)
    places = positions + np.repeat(offsets[:-1], np.diff(ends))
    assert labels.tolist() == plain[places].tolist()
    others = np.delete(np.arange(len(plain)), places)
    assert input_ids[others].tolist() == plain[others].tolist()
    return [
        (
            input_ids[offsets[row] : offsets[row + 1]].tolist(),
            positions[ends[row] : ends[row + 1]].tolist(),
        )
        for row in range(len(rows))
    ]


def properties(masked: list[int], places: list[int]) -> dict[str, int]:
    """What is compared of a row: which places are predicted, and what stands there."""
    kinds = {
        place: 1 if masked[place] == SPECIAL.mask_id else 2 + (masked[place] == ROW[place])
        for place in places
    }
    # Ids of some ranges, of which the first holds the special ones.
    replaced = [masked[place] for place, kind in kinds.items() if kind == 2]
    return {
        "predictions": len(places),
        "special tokens predicted": sum(ROW[place] in {2, 3} for place in places),
        "set of places": sum(2**place for place in places),
        "first place": kinds.get(0, 0),
        "a place": kinds.get(3, 0),
        "a place and the next but one": 4 * kinds.get(1, 0) + kinds.get(3, 0),
        "masks": [*kinds.values()].count(1),
        "random token": replaced[0] * 20 // VOCAB_SIZE if replaced else -1,
    }


def test_places_are_distributed_as_in_the_references() -> None:
    number, rng = 4_000, random.Random(4)  # noqa: S311 - no secret
    by_weight = [reference_distilbert.mask_row(ROW, WEIGHTS, SHARE, 4, rng) for _ in range(number)]
    each = [
        (masked, [place for place, label in enumerate(labels) if label >= 0])
        for masked, labels in (
            reference_modernbert.mask_row(ROW, SHARE, 4, VOCAB_SIZE - 1, rng) for _ in range(number)
        )
    ]
    for masked_lm, theirs in ((masker(), by_weight), (bert(**EACH).masked_lm, each)):
        ours = mask(masked_lm, [ROW] * number)
        both = [arrays_of(properties(*row) for row in rows) for rows in (ours, theirs)]
        assert_same_distributions(both[0], both[1], str(masked_lm.rule))


@given(any_rows, seeds)
def test_rows_have_their_share_of_predictions_and_no_special_ones(
    rows: list[list[int]], seed: int
) -> None:
    for row, (_, places) in zip(rows, mask(masker(), rows, seed), strict=True):
        possible = sum(token not in SPECIAL.all_ids for token in row)
        assert len(places) == min(possible, int(np.ceil(SHARE * len(row))))
        assert not {row[place] for place in places} & {*SPECIAL.all_ids}
    mask(bert(**EACH).masked_lm, rows, seed)


def test_ids_without_weight_and_padding_are_not_predicted() -> None:
    weights = [1.0] * VOCAB_SIZE
    weights[12] = 0.0
    [(_, places)] = mask(masker(tuple(weights)), [[12, 13] * 50])
    assert len(places) == 30
    assert all(place % 2 for place in places)
    assert mask(bert(**EACH).masked_lm, [[0] * 1000]) == [([0] * 1000, [])]


def test_other_weights_and_what_would_limit_the_draws_are_refused() -> None:
    for wrong in ((1.0,), *((value,) * VOCAB_SIZE for value in (-1.0, np.inf, np.nan))):
        with pytest.raises(ValueError, match="token_weights must be 1000 numbers"):
            masker(wrong)
    for other, cause in (
        ({"max_predictions_per_seq": 20}, "it needs --max-predictions-per-seq None"),
        ({"whole_word_mask": True}, "it does not go with --whole-word-mask"),
        ({"mask": "static"}, "it needs --mask dynamic"),
    ):
        with pytest.raises(UserError, match=f"--draw-each-token: {cause}"):
            BertOptions(**{**EACH, **other})
