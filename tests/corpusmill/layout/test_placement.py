import pickle
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.layout.placement import (
    TRAIN,
    VALIDATION,
    Layout,
    SourceLayout,
    apportion,
    assign_splits,
    count_validation_shards,
    divide_files,
    draw_keys,
    sort_order,
)
from tests.tools.distributions import assert_counts, assert_uniform

DOCUMENTS = np.arange(20_000, dtype=np.uint64) * np.uint64(997)


def homes(layout: Layout, split: int = TRAIN) -> np.ndarray:
    shards = layout.homes(DOCUMENTS, np.full(len(DOCUMENTS), split, np.uint8))
    assert shards.dtype == np.uint32
    return shards.astype(np.int64)


def keys_of(documents: np.ndarray, repeat: int = 0, index: int = 0, seed: int = 1) -> np.ndarray:
    rows = len(documents)
    repeats, indices = np.full(rows, repeat, np.uint16), np.full(rows, index, np.uint32)
    keys = draw_keys(documents, repeats, indices, seed=seed)
    assert keys.dtype == np.uint64
    return keys


# Splits


def test_share_of_validation_documents() -> None:
    for seed in (0, 1, MAX_SEED):
        for share in (0.01, 0.5, 0.9):
            splits = assign_splits(seed, DOCUMENTS, share)
            assert splits.dtype == np.uint8
            assert_counts(np.bincount(splits, minlength=2), [1 - share, share], "splits")
    assert (assign_splits(1, DOCUMENTS, 0.0) == TRAIN).all()
    assert (assign_splits(1, DOCUMENTS, 1.0) == VALIDATION).all()
    # A larger share keeps the documents of a smaller one, and another seed has others.
    small, large = assign_splits(1, DOCUMENTS, 0.1), assign_splits(1, DOCUMENTS, 0.2)
    assert (large[small == VALIDATION] == VALIDATION).all()
    assert (small != assign_splits(2, DOCUMENTS, 0.1)).any()


def test_validation_shards() -> None:
    table = ((8, 0.0, 0), (8, 0.01, 1), (32, 0.1, 3), (1, 0.5, 1), (100, 0.25, 25))
    for shards, share, expected in table:
        assert count_validation_shards(shards, share) == expected


# Shards


def test_homes_are_balanced() -> None:
    assert (homes(Layout(1, 1, 0)) == 0).all()
    for count in (2, 7, 32):
        assert_uniform(np.bincount(homes(Layout(1, count, 0)), minlength=count), "homes")
    assert (homes(Layout(1, 8, 0)) != homes(Layout(2, 8, 0))).any()


def test_files_are_divided_into_equal_parts() -> None:
    table: tuple[tuple[list[int], int, list[tuple[int, int]]], ...] = (
        ([30, 70], 2, [(0, 0), (1, 20)]),
        ([50, 50], 2, [(0, 0), (1, 0)]),
        ([0, 10, 0], 3, [(1, 0), (1, 3), (1, 6)]),
        ([1], 3, [(0, 0), (0, 0), (0, 0)]),
        ([], 2, [(0, 0), (0, 0)]),
    )
    for sizes, shards, expected in table:
        assert divide_files(sizes, shards) == expected


def test_the_shards_of_validation_follow_trains() -> None:
    layout = Layout(1, 5, 3)
    assert layout.shards == 8
    assert set(homes(layout)) == set(range(5))
    validation = homes(layout, VALIDATION)
    assert set(validation) == {5, 6, 7}
    assert_uniform(np.bincount(validation - 5), "validation homes")
    assert [layout.split_of(shard) for shard in range(8)] == [TRAIN] * 5 + [VALIDATION] * 3


def test_homes_in_the_order_of_the_corpus() -> None:
    """Each split's and source's shards hold contiguous documents, from their first ids on."""
    sources = (SourceLayout(0, 1.0, 2, 1), SourceLayout(50, 1.0, 1, 1))
    layout = Layout(1, 3, 2, sources, firsts=(0, 20, 50, 0, 50))
    documents = np.array([0, 19, 20, 49, 50, 99], np.uint64)
    train = layout.homes(documents, np.full(6, TRAIN, np.uint8))
    assert train.tolist() == [0, 0, 1, 1, 2, 2]
    assert layout.homes(documents, np.full(6, VALIDATION, np.uint8)).tolist() == [3, 3, 3, 3, 4, 4]
    assert train.dtype == np.uint32


@given(st.integers(1, 40), st.integers(0, 5), st.integers(1, 45))
def test_each_repeat_is_built_in_one_shard(train: int, validation: int, repeats: int) -> None:
    """In the shard after that of the repeat before, and never in another split."""
    layout = Layout(1, train, validation)
    for home in range(layout.shards):
        shard_of_repeat = {
            repeat: shard
            for shard in layout.shards_of(home, repeats)
            for repeat in layout.repeats_of(shard, home, repeats)
        }
        assert sorted(shard_of_repeat) == list(range(repeats))
        assert (
            sum(
                len(layout.repeats_of(shard, home, repeats))
                for shard in set(layout.shards_of(home, repeats))
            )
            == repeats
        )
        assert shard_of_repeat[0] == home
        split = layout.split_of(home)
        first, count = (train, validation) if split == VALIDATION else (0, train)
        for repeat, shard in shard_of_repeat.items():
            assert layout.split_of(shard) == split
            assert shard == first + (home - first + repeat) % count


# Places in a shard


def test_keys_are_spread_evenly() -> None:
    keys = keys_of(DOCUMENTS)
    assert_uniform(np.bincount((keys >> np.uint64(58)).astype(np.int64), minlength=64), "keys")
    # They do not follow the home.
    quarters = (keys >> np.uint64(62)).astype(np.int64)
    both = np.bincount(homes(Layout(1, 4, 0)) * 4 + quarters, minlength=16)
    assert_uniform(both, "home and quarter")


def test_every_example_has_its_own_key() -> None:
    keys = np.concatenate(
        [
            keys_of(DOCUMENTS[:1000], repeat, index, seed)
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
    """Rows with equal keys are ordered by document, repeat and index."""
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


def test_sources_share_the_shards_and_are_taken_as_often_as_asked() -> None:
    for total, sizes in ((10, [80.0, 15.0, 0.0]), (2, [1.0, 1.0, 1.0]), (99, [0.1, 0.7])):
        shares = apportion(total, sizes)
        assert sum(shares) == max(total, len(sizes))
        assert min(shares) >= 1
        assert apportion(sum(shares), sizes) == shares
    layout = Layout(7, 5, 0, (SourceLayout(0, 0.25, 2, 0), SourceLayout(20_000, 1.75, 3, 0)))
    documents = np.arange(40_000, dtype=np.uint64)
    copies = layout.count_copies(documents)
    assert {*copies[:20_000].tolist()} == {0, 1}
    assert {*copies[20_000:].tolist()} == {1, 2}
    assert copies[:20_000].mean() == pytest.approx(0.25, abs=0.02)
    assert copies[20_000:].mean() == pytest.approx(1.75, abs=0.02)
    homes = layout.homes(documents, np.zeros(40_000, np.uint8))
    assert {*homes[:20_000].tolist()} == {0, 1}
    assert {*homes[20_000:].tolist()} == {2, 3, 4}


class CountedSources(tuple[SourceLayout, ...]):
    """Sources that count how often all of them are read."""

    readings = 0

    def __iter__(self) -> Iterator[SourceLayout]:
        type(self).readings += 1
        return super().__iter__()


def test_the_shards_of_very_many_sources_are_found_without_reading_all_of_them_again() -> None:
    number = 2000
    sources = [
        SourceLayout(source << 40, 1.0, 1 + source % 2, source % 3) for source in range(number)
    ]
    layout = Layout(
        1,
        sum(source.train_shards for source in sources),
        sum(source.validation_shards for source in sources),
        CountedSources(sources),
    )
    pickled = len(pickle.dumps(layout))
    CountedSources.readings = 0
    found = [
        (layout.source_of(shard), *layout.range_around(shard)) for shard in range(layout.shards)
    ]
    assert CountedSources.readings <= 2
    expected = [
        (number % len(sources), first, count)
        for number, (first, count) in enumerate(layout.ranges())
        for _ in range(count)
    ]
    assert found == expected
    assert len(pickle.dumps(layout)) == pickled


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=20), st.integers(1, 1000))
def test_shards_are_apportioned_by_exact_sums(sizes: list[float], shards: int) -> None:
    total, whole = max(shards, len(sizes)), sum(map(Fraction, sizes))
    counts = apportion(total, sizes)
    assert sum(counts) == (total if whole else len(sizes))
    for end in range(len(sizes) + 1):
        share = sum(map(Fraction, sizes[:end])) / whole if whole else 0
        assert sum(counts[:end]) == end + round((total - len(sizes)) * share)
