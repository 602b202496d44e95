from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.bert import Bert, BertOptions
from corpusmill.objective import IDENTITY_SCHEMA
from corpusmill.randomness import MAX_SEED
from corpusmill.spill import (
    KEY,
    Layout,
    add_keys,
    count_slices,
    cut_into_groups,
    order_by_bucket,
    sort_rows,
    transit_schema,
)
from tests.corpusmill.builders import SPECIAL
from tests.corpusmill.distributions import assert_uniform

Row = tuple[int, int, int, list[int]]
VALUES = pa.field("input_ids", pa.list_(pa.int16()))
EXAMPLE_SCHEMA = pa.schema([*IDENTITY_SCHEMA, VALUES])

cuts_of_rows = st.lists(st.integers(0, 60), max_size=8)
seeds = st.integers(0, MAX_SEED)


def examples_of(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = [[row[part] for row in rows] for part in range(4)]
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, EXAMPLE_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EXAMPLE_SCHEMA)


def many_examples(number: int) -> pa.RecordBatch:
    """Documents of three repeats of two examples, each with ids of its own."""
    return examples_of(
        [
            (place // 6 * 37, place % 6 // 2, place % 2, [place, -place][: 1 + place % 2])
            for place in range(number)
        ]
    )


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
    buckets = (
        np.random.default_rng(seed).choice([0, largest // 2, largest], rows + 1).astype(np.uint32)
    )
    batches = cut(batch, cuts)
    of_batches = np.split(buckets, np.cumsum([part.num_rows for part in batches])[:-1])
    found = list(order_by_bucket(batches, of_batches))
    assert [bucket for bucket, _ in found] == sorted(set(buckets.tolist()))
    for bucket, grouped in found:
        expected = [
            row for row, of_row in zip(batch.to_pylist(), buckets, strict=True) if of_row == bucket
        ]
        assert grouped.to_pylist() == expected
        assert grouped.schema == EXAMPLE_SCHEMA


@given(
    seeds,
    st.integers(1, 5),
    st.integers(0, 3),
    st.sampled_from([1, 2, 3, 7, 64, 4096]),
    st.integers(0, 50),
)
def test_slices_behind_each_other_are_the_shard_in_order(
    seed: int, train: int, validation: int, slices: int, rows: int
) -> None:
    """So the number of slices never changes the bytes of a shard."""
    examples = many_examples(rows)
    splits = (examples.column("document").to_numpy() % 2 if validation else np.zeros(rows)).astype(
        np.uint8
    )
    whole, parts = (
        shards_of(examples, splits, Layout(seed, train, validation, number))
        for number in (1, slices)
    )
    assert parts == whole
    assert sum(map(len, whole.values())) == rows
    for shard, of_shard in whole.items():
        assert shard < train + validation
        assert of_shard == sorted(of_shard)


def shards_of(
    examples: pa.RecordBatch, splits: np.ndarray, layout: Layout
) -> dict[int, list[tuple[int, int, int, int]]]:
    """(key, document, repeat, index) of the rows of each shard, its slices sorted one by one."""
    buckets, keys = layout.buckets(examples, splits)
    assert buckets.dtype == np.uint32
    found: dict[int, list[tuple[int, int, int, int]]] = {}
    if not examples.num_rows:
        return found
    for bucket, rows in order_by_bucket([add_keys(examples, keys)], [buckets]):
        ordered = sort_rows([rows]).to_pylist()
        assert bucket < layout.shards * layout.slices
        found.setdefault(bucket // layout.slices, []).extend(
            (row["key"], row["document"], row["repeat"], row["index"]) for row in ordered
        )
    return found


def test_slices_are_balanced() -> None:
    examples = many_examples(20_000)
    buckets, _ = Layout(1, 1, 0, 16).buckets(examples, np.zeros(20_000, np.uint8))
    assert_uniform(np.bincount(buckets, minlength=16), "rows in slices")


@given(seeds, st.integers(1, 50))
def test_a_row_goes_to_the_same_bucket_in_any_batch(seed: int, rows: int) -> None:
    examples, layout = many_examples(rows), Layout(seed, 4, 0, 3)
    buckets, keys = layout.buckets(examples, np.zeros(rows, np.uint8))
    for place in range(rows):
        alone = layout.buckets(examples.slice(place, 1), np.zeros(1, np.uint8))
        assert (alone[0][0], alone[1][0]) == (buckets[place], keys[place])


def test_shards_count_both_splits() -> None:
    assert Layout(0, 8, 2, 1).shards == 10


@pytest.mark.parametrize(
    ("corpus_bytes", "repeats", "shards", "expected"),
    [
        (0, 1, 1, 1),
        (10_800_000, 10, 8, 1),
        (540_000_000, 10, 8, 16),
        (540_000_000, 10, 128, 1),
        (10**15, 40, 1, 4096),
    ],
)
def test_number_of_slices(corpus_bytes: int, repeats: int, shards: int, expected: int) -> None:
    assert count_slices(corpus_bytes, repeats, shards) == expected


# Rows of a bucket


@given(
    st.lists(st.tuples(*[st.integers(0, 2)] * 4), unique=True, min_size=1, max_size=30),
    cuts_of_rows,
    st.randoms(use_true_random=False),
)
def test_rows_are_sorted_the_same_however_they_arrive(
    rows: list[tuple[int, int, int, int]], cuts: list[int], rng: Random
) -> None:
    """Few different keys, so that documents, repeats and indices decide too."""
    expected = [(*row, [row[0], row[3]]) for row in sorted(rows)]
    rng.shuffle(rows)
    examples = examples_of(
        [(document, repeat, index, [key, index]) for key, document, repeat, index in rows]
    )
    keyed = add_keys(examples, np.array([row[0] for row in rows], np.uint64))
    assert keyed.schema == pa.schema([KEY, *EXAMPLE_SCHEMA])
    found = [tuple(row.values()) for row in sort_rows(cut(keyed, cuts)).to_pylist()]
    assert found == expected


@given(st.integers(0, 60), st.integers(1, 25), cuts_of_rows)
def test_groups_do_not_show_how_the_rows_were_cut(
    rows: int, group_rows: int, cuts: list[int]
) -> None:
    batch = many_examples(rows)
    groups = list(cut_into_groups(cut(batch, cuts), group_rows))
    full, rest = divmod(rows, group_rows)
    assert [group.num_rows for group in groups] == [group_rows] * full + [rest] * bool(rest)
    assert [row for group in groups for row in group.to_pylist()] == batch.to_pylist()


def test_groups_are_given_as_soon_as_they_are_full() -> None:
    """No more than one group and one batch are held."""
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for _ in range(10):
            read += 1
            yield many_examples(4)

    seen = [(read, group.num_rows) for group in cut_into_groups(batches(), 5)]
    assert seen == [(2, 5), (3, 5), (4, 5), (5, 5), (7, 5), (8, 5), (9, 5), (10, 5)]


def test_what_travels() -> None:
    objective = Bert(BertOptions(), SPECIAL, 1000, "int16")
    names = ["key", "document", "repeat", "index", "input_ids", "first_length"]
    names += ["next_sentence_label", "masked_lm_positions", "masked_lm_ids"]
    assert transit_schema(objective).names == names
    assert not any(field.nullable for field in transit_schema(objective))
