from collections.abc import Iterator
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import IDENTITY_SCHEMA
from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.layout.placement import draw_keys
from corpusmill.layout.sorting import (
    KEY,
    add_keys,
    cut_into_groups,
    order_by_bucket,
    sort_rows,
)
from tests.tools.builders import from_rows

VALUES = pa.field("input_ids", pa.list_(pa.int16()))
EXAMPLE_SCHEMA = pa.schema([*IDENTITY_SCHEMA, VALUES])
KEYED_SCHEMA = pa.schema([KEY, *EXAMPLE_SCHEMA])

cuts_of_rows = st.lists(st.integers(0, 60), max_size=8)
seeds = st.integers(0, MAX_SEED)


def many_examples(number: int) -> pa.RecordBatch:
    """Documents of three repeats of two examples, each with different ids."""
    rows = [
        (place // 6 * 37, place % 6 // 2, place % 2, [place, -place][: 1 + place % 2])
        for place in range(number)
    ]
    return from_rows(rows, EXAMPLE_SCHEMA)


def cut(batch: pa.RecordBatch, cuts: list[int]) -> list[pa.RecordBatch]:
    edges = [0, *sorted(min(place, batch.num_rows) for place in cuts), batch.num_rows]
    return [batch.slice(start, stop - start) for start, stop in pairwise(edges)]


# Buckets


@given(
    st.integers(0, 60),
    cuts_of_rows,
    st.sampled_from([1, 5, 65_535, 65_536, 2**32 - 1]),
    st.integers(0, 99),
)
def test_rows_are_grouped_by_bucket_in_the_order_they_came(
    rows: int, cuts: list[int], largest: int, seed: int
) -> None:
    batch = many_examples(rows + 1)
    drawn = np.random.default_rng(seed).choice([0, largest // 2, largest], rows + 1)
    buckets = drawn.astype(np.uint32)
    batches = cut(batch, cuts)
    split_buckets = np.split(buckets, np.cumsum([part.num_rows for part in batches])[:-1])
    grouped = list(order_by_bucket(batches, split_buckets))
    assert [bucket for bucket, _ in grouped] == sorted(set(buckets.tolist()))
    for bucket, bucket_rows in grouped:
        expected = [
            row
            for row, row_bucket in zip(batch.to_pylist(), buckets, strict=True)
            if row_bucket == bucket
        ]
        assert bucket_rows.to_pylist() == expected
        assert bucket_rows.schema == EXAMPLE_SCHEMA


# Rows of a bucket


@given(
    st.lists(st.tuples(*[st.integers(0, 2)] * 4), unique=True, min_size=1, max_size=30),
    cuts_of_rows,
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
def test_rows_are_sorted_the_same_however_they_arrive(
    rows: list[tuple[int, int, int, int]], cuts: list[int], size: int, rng: Random
) -> None:
    """Few different keys, so that documents, repeats and indices decide too."""
    keyed = [(*row, [row[0], row[3]]) for row in rows]
    expected = sorted(keyed)
    rng.shuffle(keyed)
    pieces = cut(from_rows(keyed, KEYED_SCHEMA), cuts)
    groups = list(sort_rows(pieces, size))
    assert pieces == []
    assert [group.num_rows for group in groups[:-1]] == [size] * (len(groups) - 1)
    assert [tuple(row.values()) for group in groups for row in group.to_pylist()] == expected


@given(seeds, st.integers(1, 50), cuts_of_rows)
def test_a_row_has_the_same_key_in_any_batch(seed: int, rows: int, cuts: list[int]) -> None:
    examples = many_examples(rows)
    keyed = add_keys(examples, seed)
    assert keyed.schema == KEYED_SCHEMA
    identity = [examples.column(name).to_numpy() for name in IDENTITY_SCHEMA.names]
    expected = draw_keys(*identity, seed=seed).tolist()
    assert keyed.column("key").to_pylist() == expected
    parts = [add_keys(part, seed).column("key").to_pylist() for part in cut(examples, cuts)]
    assert [key for part in parts for key in part] == expected


@given(st.integers(0, 60), st.integers(1, 25), cuts_of_rows)
def test_groups_do_not_show_how_the_rows_were_cut(
    rows: int, group_rows: int, cuts: list[int]
) -> None:
    batch = many_examples(rows)
    groups = list(cut_into_groups(cut(batch, cuts), "input_ids", group_rows, 2**24))
    full, rest = divmod(rows, group_rows)
    assert [group.num_rows for group in groups] == [group_rows] * full + [rest] * bool(rest)
    assert [row for group in groups for row in group.to_pylist()] == batch.to_pylist()


def test_groups_are_yielded_as_soon_as_they_are_full() -> None:
    """No more than one group and one batch are kept."""
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for _ in range(10):
            read += 1
            yield many_examples(4)

    seen = [(read, group.num_rows) for group in cut_into_groups(batches(), "input_ids", 5, 2**24)]
    assert seen == [(2, 5), (3, 5), (4, 5), (5, 5), (7, 5), (8, 5), (9, 5), (10, 5)]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12), cuts_of_rows)
def test_groups_end_with_the_row_that_makes_them_reach_the_tokens(
    lengths: list[int], tokens: int, cuts: list[int]
) -> None:
    rows = [(number, 0, 0, [1] * length) for number, length in enumerate(lengths)]
    batch = from_rows(rows, EXAMPLE_SCHEMA)
    groups = list(cut_into_groups(cut(batch, cuts), "input_ids", 5, tokens))
    assert [row for group in groups for row in group.to_pylist()] == batch.to_pylist()
    for place, group in enumerate(groups):
        sizes = [len(row) for row in group.column("input_ids").to_pylist()]
        assert len(sizes) <= 5
        assert sum(sizes[:-1]) < tokens
        assert len(sizes) == 5 or sum(sizes) >= tokens or place == len(groups) - 1
