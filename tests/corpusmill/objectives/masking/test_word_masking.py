from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.objectives.masking.tokens import MaskingRule, count_predictions, row_keys
from corpusmill.objectives.masking.words import (
    end_of_ngram,
    label_words,
    mask_words,
    ngram_thresholds,
)
from tests.corpusmill.objectives.reference_word_masking import find_words
from tests.tools.builders import offsets_of

CLS, SEP, MASK = 2, 3, 4
SPECIAL = {0, CLS, SEP}
MASKABLE = np.ones(60, np.bool_)
MASKABLE[list(SPECIAL)] = False
# The rows below have none of them, so that replacements and unchanged tokens differ.
REPLACEMENTS = np.arange(40, 60, dtype=np.int32)


class Row(NamedTuple):
    """Token ids, and whether each continues the previous word."""

    input_ids: list[int]
    continues: list[int]


class Masked(NamedTuple):
    """A masked row."""

    input_ids: list[int]
    positions: list[int]
    labels: list[int]


tokens = st.tuples(st.integers(0, 39), st.integers(0, 1))
rows_of_any_kind = st.lists(tokens, max_size=40).map(
    lambda row: Row([token for token, _ in row], [mark for _, mark in row])
)
batches = st.lists(rows_of_any_kind, max_size=6)
shares, caps, ngrams = st.floats(0.01, 1), st.integers(1, 20), st.integers(1, 5)


def label(rows: list[Row], joins: bool = False) -> np.ndarray:
    """Return seg_labels of a batch of rows."""
    input_ids = np.array([token for row in rows for token in row.input_ids], np.int16)
    continues = np.array([mark for row in rows for mark in row.continues], np.int16)
    labels: np.ndarray = label_words(
        input_ids, continues, offsets_of(len(row.input_ids) for row in rows), MASKABLE, joins
    )
    return labels


def mask(
    rows: list[Row], share: float = 0.15, cap: int = 20, ngram: int = 1, seed: int = 1,
    documents: list[int] | None = None, indices: list[int] | None = None, num_special: int = 0,
) -> list[Masked]:  # fmt: skip
    """Return masked rows; by default each row is a document of its own."""
    offsets = offsets_of(len(row.input_ids) for row in rows)
    input_ids = np.array([token for row in rows for token in row.input_ids], np.int16)
    owners = np.array(range(len(rows)) if documents is None else documents, np.uint64)
    places = np.array([0] * len(rows) if indices is None else indices, np.uint32)
    keys = row_keys(np.uint64(seed), owners, 0, places)
    rule = MaskingRule(share, cap, num_special, MASK)
    positions, labels, ends = mask_words(
        input_ids, label(rows), offsets, keys, REPLACEMENTS, rule, ngram
    )
    assert labels.dtype == input_ids.dtype
    assert len(positions) == len(labels) == ends[-1]
    parts = [
        np.split(flat, ends_of[1:-1])
        for flat, ends_of in ((input_ids, offsets), (positions, ends), (labels, ends))
    ]
    return [Masked(*(part.tolist() for part in row)) for row in zip(*parts, strict=True)][
        : len(rows)
    ]


def words_of(row: Row) -> list[list[int]]:
    return [word for stretch in find_words(*row, SPECIAL) for word in stretch]


def most_predictions(row: Row, share: float, cap: int) -> int:
    rule = MaskingRule(share, cap, 0, MASK)
    return int(count_predictions(len(row.input_ids), sum(map(len, words_of(row))), rule))


@given(batches)
def test_labels_say_where_words_begin(rows: list[Row]) -> None:
    expected = []
    for row in rows:
        labels = [-1] * len(row.input_ids)
        for word in words_of(row):
            for place in word:
                labels[place] = int(place != word[0])
        expected += labels
    assert label(rows).tolist() == expected


def test_what_is_left_of_a_word_begins_one() -> None:
    row = Row([CLS, 10, 11, SEP, 12, 13, SEP], [0, 1, 1, 0, 1, 1, 1])
    assert label([row, Row([10, 11], [1, 1])]).tolist() == [-1, 0, 1, -1, 0, 1, -1, 0, 1]
    # By Google's rule only at the beginning of a row.
    joined = label([row, Row([10, 11], [1, 1]), Row([CLS, 10, SEP, 11], [0, 1, 0, 1])], joins=True)
    assert joined.tolist() == [-1, 0, 1, -1, 1, 1, -1, 0, 1, -1, 0, -1, 1]


def test_labels_of_a_slice_are_those_of_its_rows() -> None:
    input_ids, continues = np.array([9, CLS, 10, 11, SEP]), np.array([0, 0, 0, 1, 0])
    offsets = np.array([1, 5])
    assert label_words(input_ids, continues, offsets, MASKABLE, False).tolist() == [-1, 0, 1, -1]


@given(batches, shares, caps, ngrams, st.integers(0, MAX_SEED))
def test_words_are_masked_whole_within_the_number_and_can_be_restored(
    rows: list[Row], share: float, cap: int, ngram: int, seed: int
) -> None:
    for row, masked in zip(rows, mask(rows, share, cap, ngram, seed), strict=True):
        assert masked.positions == sorted(set(masked.positions))
        assert len(masked.positions) <= most_predictions(row, share, cap)
        for word in words_of(row):
            assert len({place in masked.positions for place in word}) == 1
        assert MASKABLE[masked.labels].all()
        assert set(masked.input_ids) <= {*row.input_ids, MASK, *REPLACEMENTS.tolist()}
        restored = list(masked.input_ids)
        for place, original in zip(masked.positions, masked.labels, strict=True):
            restored[place] = original
        assert restored == row.input_ids


@given(rows_of_any_kind, shares, caps, st.integers(0, MAX_SEED))
def test_no_word_is_left_that_would_have_had_room(
    row: Row, share: float, cap: int, seed: int
) -> None:
    [masked] = mask([row], share, cap, seed=seed)
    room = most_predictions(row, share, cap) - len(masked.positions)
    left = [word for word in words_of(row) if word[0] not in masked.positions]
    assert all(len(word) > room for word in left)


@pytest.mark.parametrize("ngram", [1, 3])
def test_a_row_whose_words_are_all_too_long_has_no_predictions(ngram: int) -> None:
    row = Row([CLS, 10, 11, 12, 13, SEP], [0, 0, 1, 0, 1, 0])
    assert [len(masked.positions) for masked in mask([row] * 50, 0.1, 9, ngram)] == [0] * 50
    assert {len(masked.positions) for masked in mask([row] * 50, 0.5, 2, ngram)} == {2}


def test_ngrams_end_with_their_segment() -> None:
    row = Row([CLS, 10, 11, SEP, 12, 13, SEP], [0] * 7)
    places = {tuple(masked.positions) for masked in mask([row] * 3000, 0.4, 2, 2, num_special=2)}
    # Any two single words; as n-grams, only neighbours in one segment.
    assert places == {(1, 2), (4, 5), (1, 4), (1, 5), (2, 4), (2, 5)}
    alone = Row([CLS, 10, SEP, 11, SEP], [0] * 5)
    assert {tuple(masked.positions) for masked in mask([alone] * 500, 0.4, 2, 5)} == {(1, 3)}
    assert {end_of_ngram(label([alone]), place, 5, 9, False)[1] for place in (1, 3)} == {1}
    assert end_of_ngram(label([alone]), 1, 5, 9, True) == (4, 2)


def test_an_ngram_takes_the_words_that_have_room() -> None:
    for start, max_words, max_tokens, joins, *expected in (
        (1, 3, 9, False, 5, 4), (1, 3, 3, False, 4, 3), (1, 3, 2, False, 3, 2),
        (1, 3, 1, False, 1, 0), (1, 2, 9, False, 4, 3), (1, 1, 9, False, 3, 2),
        (4, 3, 9, False, 5, 1), (1, 3, 9, True, 7, 5), (1, 3, 4, True, 4, 3),
        (1, 2, 9, True, 4, 3), (4, 3, 9, True, 9, 4), (4, 1, 9, True, 7, 2),
        (4, 1, 1, True, 4, 0), (7, 1, 2, True, 9, 2),
    ):  # fmt: skip
        seg_labels = np.array([-1, 0, 1, 0, 0, -1, 1 if joins else 0, 0, 1, -1], np.int8)
        assert [*end_of_ngram(seg_labels, start, max_words, max_tokens, joins)] == expected


def test_lengths_of_ngrams_favor_short_ones() -> None:
    np.testing.assert_allclose(ngram_thresholds(3), [6 / 11, 9 / 11])
    assert ngram_thresholds(1).tolist() == []


def test_documents_indices_and_seeds_draw_differently() -> None:
    row = Row([10 + place % 30 for place in range(40)], [0] * 40)
    masks = [
        mask([row], 0.3, 9, ngram, seed, [document], [index])[0].positions
        for seed in (0, 1, MAX_SEED)
        for document in (0, 1)
        for index in (0, 1)
        for ngram in (1, 3)
    ]
    assert len(set(map(tuple, masks))) == len(masks)


def test_no_rows() -> None:
    assert mask([]) == []
    assert label([]).tolist() == []
