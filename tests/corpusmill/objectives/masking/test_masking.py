from itertools import combinations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.objectives.masking.tokens import MaskingRule, count_predictions, mask_rows, row_keys
from tests.tools.builders import offsets_of
from tests.tools.distributions import assert_counts, assert_uniform

VOCAB_SIZE = 60
CLS, SEP, MASK = 2, 3, 4
MASKABLE = np.ones(VOCAB_SIZE, np.bool_)
MASKABLE[[0, CLS, SEP]] = False
# The rows below have none of them, so that replacements and unchanged tokens differ.
REPLACEMENTS = np.arange(40, 60, dtype=np.int32)
row_lists = st.lists(st.lists(st.integers(0, 39), min_size=1, max_size=30), max_size=8)


def mask(
    rows: list[list[int]], share: float = 0.15, cap: int = 20, seed: int = 1, repeat: int = 0,
    documents: list[int] | None = None, indices: list[int] | None = None, num_special: int = 0,
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:  # fmt: skip
    """Return masked rows, positions and labels; by default each row is a document of its own."""
    offsets = offsets_of(map(len, rows))
    input_ids = np.array([token for row in rows for token in row], np.int16)
    owners = np.array(range(len(rows)) if documents is None else documents, np.uint64)
    places = np.array([0] * len(rows) if indices is None else indices, np.uint32)
    keys = row_keys(np.uint64(seed), owners, repeat, places)
    rule = MaskingRule(share, cap, num_special, MASK)
    positions, labels, ends = mask_rows(input_ids, offsets, keys, MASKABLE, REPLACEMENTS, rule)
    assert labels.dtype == input_ids.dtype
    return (
        [part.tolist() for part in np.split(input_ids, offsets[1:-1])] if rows else [],
        [part.tolist() for part in np.split(positions, ends[1:-1])] if rows else [],
        [part.tolist() for part in np.split(labels, ends[1:-1])] if rows else [],
    )


@given(st.integers(0, 65535), st.floats(0.001, 1), st.integers(1, 10_000))
def test_number_of_predictions_rounds_as_python_does(
    num_tokens: int, share: float, cap: int
) -> None:
    rule = MaskingRule(share, cap, 0, MASK)
    expected = min(cap, max(1, round(num_tokens * share)))
    assert count_predictions(num_tokens, 10**9, rule) == expected


def test_predictions_never_exceed_the_maskable_tokens() -> None:
    assert count_predictions(100, 3, MaskingRule(0.5, 20, 0, MASK)) == 3
    assert count_predictions(1, 0, MaskingRule(0.15, 20, 0, MASK)) == 0


@given(row_lists, st.floats(0.01, 1), st.integers(1, 20), st.integers(0, MAX_SEED))
def test_masked_rows_are_the_rows_but_for_the_predicted_places(
    rows: list[list[int]], share: float, cap: int, seed: int
) -> None:
    masked_rows, positions, labels = mask(rows, share, cap, seed)
    for row, masked, places, originals in zip(rows, masked_rows, positions, labels, strict=True):
        maskable = int(MASKABLE[row].sum())
        assert len(places) == min(maskable, cap, max(1, round(len(row) * share)))
        assert places == sorted(set(places))
        assert originals == [row[place] for place in places]
        assert MASKABLE[originals].all()
        for place, token in enumerate(masked):
            if place in places:
                assert token in {row[place], MASK} or token >= 40
            else:
                assert token == row[place]


@given(st.integers(0, 3), st.integers(0, 20))
def test_special_tokens_of_a_row_do_not_count_for_the_share(num_special: int, cap: int) -> None:
    assume(cap)
    row = [CLS, *range(10, 30), SEP, SEP]
    _, positions, _ = mask([row], 0.5, cap, num_special=num_special)
    assert len(positions[0]) == min(cap, round((23 - num_special) * 0.5))


def test_every_set_of_places_is_equally_likely() -> None:
    row = [CLS, 10, 11, SEP, 12, 13, 14, 15, SEP]
    _, positions, _ = mask([row] * 20_000, 0.5, 3)
    drawn = [tuple(places) for places in positions]
    possible = list(combinations([1, 2, 4, 5, 6, 7], 3))
    assert set(drawn) == set(possible)
    assert_uniform(np.array([drawn.count(places) for places in possible]), "sets of places")


def test_eighty_ten_ten() -> None:
    rows = [list(range(10, 30))] * 5_000
    masked_rows, positions, labels = mask(rows, 0.2)
    masked = np.array(masked_rows)[np.arange(5_000)[:, None], np.array(positions)]
    unchanged = masked == np.array(labels)
    counts = np.array([(masked == MASK).sum(), (masked >= 40).sum(), unchanged.sum()])
    assert counts.sum() == 20_000
    assert_counts(counts, [0.8, 0.1, 0.1], "mask, random, unchanged")
    # The places of a row are independent: the number of masks in a row is binomial.
    masks_per_row = np.bincount((masked == MASK).sum(axis=1), minlength=5)
    assert_counts(
        masks_per_row,
        [0.2**4, 4 * 0.8 * 0.2**3, 6 * 0.8**2 * 0.2**2, 4 * 0.8**3 * 0.2, 0.8**4],
        "rows",
    )


def test_replacements_are_uniform() -> None:
    masked_rows, _, _ = mask([[10] * 10] * 20_000, 1.0, 10)
    counts = np.bincount(np.array(masked_rows).ravel(), minlength=VOCAB_SIZE)
    assert counts[[*range(4), *range(5, 10), *range(11, 40)]].sum() == 0
    assert_uniform(counts[REPLACEMENTS], "replacement ids")


def test_a_row_without_maskable_tokens_has_no_predictions() -> None:
    rows = [[CLS, SEP, SEP], [CLS, 10, SEP], [0, 0]]
    masked_rows, positions, _ = mask(rows)
    assert positions == [[], [1], []]
    assert masked_rows[0] == rows[0]


def test_no_rows() -> None:
    assert mask([]) == ([], [], [])


def test_documents_indices_repeats_and_seeds_draw_differently() -> None:
    row = list(range(10, 40))
    masks = [
        mask([row], 0.3, 9, seed, repeat, [document], [index])[1][0]
        for seed in (0, 1, MAX_SEED)
        for repeat in (0, 1)
        for document in (0, 1)
        for index in (0, 1)
    ]
    assert len(set(map(tuple, masks))) == len(masks)
