import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.placement import (
    TRAIN,
    VALIDATION,
    assign_splits,
    count_validation_shards,
    place_examples,
    sort_order,
)
from corpusmill.randomness import MAX_SEED
from tests.corpusmill.distributions import assert_counts, assert_uniform

DOCUMENTS = np.arange(20_000, dtype=np.uint64) * np.uint64(997)


def place(
    documents: np.ndarray, train: int, validation: int = 0, split: int = TRAIN, repeat: int = 0,
    index: int = 0, seed: int = 1,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    rows = len(documents)
    shards, keys = place_examples(
        documents, np.full(rows, repeat, np.uint16), np.full(rows, index, np.uint32),
        np.full(rows, split, np.uint8), np.array([train, validation], np.int64), np.uint64(seed),
    )  # fmt: skip
    assert (shards.dtype, keys.dtype) == (np.uint32, np.uint64)
    return shards, keys


# Splits


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, MAX_SEED])
def test_share_of_validation_documents(share: float, seed: int) -> None:
    splits = assign_splits(seed, DOCUMENTS, share)
    assert splits.dtype == np.uint8
    assert_counts(np.bincount(splits, minlength=2), [1 - share, share], "splits")


def test_no_validation_and_nothing_else() -> None:
    assert (assign_splits(1, DOCUMENTS, 0.0) == TRAIN).all()
    assert (assign_splits(1, DOCUMENTS, 1.0) == VALIDATION).all()


def test_a_larger_share_keeps_the_documents_of_the_smaller() -> None:
    small, large = assign_splits(1, DOCUMENTS, 0.1), assign_splits(1, DOCUMENTS, 0.2)
    assert (large[small == VALIDATION] == VALIDATION).all()


def test_another_seed_splits_otherwise() -> None:
    assert (assign_splits(1, DOCUMENTS, 0.5) != assign_splits(2, DOCUMENTS, 0.5)).any()


@pytest.mark.parametrize(
    ("shards", "share", "expected"),
    [(8, 0.0, 0), (8, 0.01, 1), (32, 0.1, 3), (1, 0.5, 1), (100, 0.25, 25)],
)
def test_validation_shards(shards: int, share: float, expected: int) -> None:
    assert count_validation_shards(shards, share) == expected


# Shards


@pytest.mark.parametrize("count", [1, 2, 7, 32])
def test_shards_are_balanced(count: int) -> None:
    shards, _ = place(DOCUMENTS, count, repeat=3)
    if count == 1:
        assert (shards == 0).all()
    else:
        assert_uniform(np.bincount(shards, minlength=count), "documents in shards")


@pytest.mark.parametrize(("count", "repeats"), [(10, 10), (32, 10), (4, 10), (1, 3)])
def test_repeats_of_a_document_are_spread_over_the_shards(count: int, repeats: int) -> None:
    shards = np.stack(
        [place(DOCUMENTS[:500], count, repeat=repeat)[0] for repeat in range(repeats)]
    )
    for of_document in shards.T:
        of_shards = np.bincount(of_document, minlength=count)
        assert of_shards.max() - of_shards.min() <= 1


def test_the_examples_of_one_pass_stay_together() -> None:
    assert np.array_equal(place(DOCUMENTS, 8, index=0)[0], place(DOCUMENTS, 8, index=5)[0])


def test_the_shards_of_validation_follow_trains() -> None:
    train, _ = place(DOCUMENTS, 5, 3)
    validation, _ = place(DOCUMENTS, 5, 3, split=VALIDATION)
    assert set(train) == set(range(5))
    assert set(validation) == {5, 6, 7}
    assert_uniform(np.bincount(validation - 5), "validation shards")


# Places in a shard


def test_keys_are_spread_evenly_and_do_not_depend_on_the_shards() -> None:
    _, keys = place(DOCUMENTS, 8)
    assert_uniform(np.bincount((keys >> np.uint64(58)).astype(np.int64), minlength=64), "keys")
    assert np.array_equal(keys, place(DOCUMENTS, 3, 2, VALIDATION)[1])


def test_keys_do_not_follow_the_shard() -> None:
    shards, keys = place(DOCUMENTS, 4)
    quarters = (keys >> np.uint64(62)).astype(np.int64)
    assert_uniform(
        np.bincount(shards.astype(np.int64) * 4 + quarters, minlength=16), "shard and quarter"
    )


def test_every_example_has_its_own_key() -> None:
    keys = np.concatenate(
        [
            place(DOCUMENTS[:1000], 4, repeat=repeat, index=index, seed=seed)[1]
            for seed in (0, MAX_SEED)
            for repeat in range(4)
            for index in range(4)
        ]
    )
    assert len(np.unique(keys)) == len(keys)


@given(
    st.lists(st.tuples(st.integers(0, 3), *[st.integers(0, 2)] * 3), unique=True, max_size=40),
    st.booleans(),
)
def test_the_order_is_total(rows: list[tuple[int, int, int, int]], wide: bool) -> None:
    """Equal keys are told apart by document, repeat and index."""
    if wide:
        rows = [
            (2**64 - 1 - key, 2**64 - 1 - document, repeat, index)
            for key, document, repeat, index in rows
        ]
    keys, documents, repeats, indices = (
        np.array([row[part] for row in rows], dtype)
        for part, dtype in enumerate((np.uint64, np.uint64, np.uint16, np.uint32))
    )
    order = sort_order(keys, documents, repeats, indices)
    assert [rows[place] for place in order] == sorted(rows)


def test_a_million_different_keys_are_sorted() -> None:
    keys = np.random.default_rng(0).permutation(np.arange(1_000_000, dtype=np.uint64))
    same = np.zeros(len(keys), np.uint64)
    assert np.array_equal(keys[sort_order(keys, same, same, same)], np.arange(1_000_000))
