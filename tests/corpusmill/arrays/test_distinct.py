from functools import reduce
from itertools import pairwise
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import distinct
from corpusmill.arrays.distinct import (
    EMPTY,
    Hashes,
    add_hashes,
    are_among,
    estimate_distinct,
    hash_rows,
    sort_distinct,
)
from corpusmill.arrays.randomness import mix

rows_of_ids = st.lists(st.lists(st.integers(0, 5), max_size=7), max_size=30)
hashes = st.lists(st.integers(0, 40), max_size=20).map(lambda values: np.array(values, np.uint64))


def hash_lists(rows: list[list[int]], dtype: str = "int32", before: int = 0) -> list[int]:
    values = [9] * before + [value for row in rows for value in row]
    ends = np.cumsum([before, *map(len, rows)])
    return [int(value) for value in hash_rows(np.array(values, dtype), ends)]


def sketch_of(values: Hashes) -> Hashes:
    return add_hashes(EMPTY, values)


@given(rows_of_ids)
def test_rows_have_equal_hashes_if_they_are_equal(rows: list[list[int]]) -> None:
    hashed = hash_lists(rows)
    assert len(set(hashed)) == len({tuple(row) for row in rows})
    by_row = dict(zip(map(tuple, rows), hashed, strict=True))
    assert hashed == [by_row[tuple(row)] for row in rows]
    assert hash_lists(rows, "uint8", 3) == hash_lists(rows, "int64") == hashed


def test_a_thousand_near_rows_have_hashes_of_their_own() -> None:
    row = list(range(20))
    changed = [[*row[:i], row[i] + by, *row[i + 1 :]] for i in range(20) for by in range(1, 30)]
    swapped = [[*row[:i], b, a, *row[i + 2 :]] for i, (a, b) in enumerate(pairwise(row))]
    parts = [row[a:b] for a in range(20) for b in range(a + 1, 21)]
    rows = [*changed, *swapped, *parts, [], [0], [0, 0], [0] * 20]
    assert len(set(hash_lists(rows))) == len({tuple(row) for row in rows})


@given(st.lists(hashes, max_size=8), st.randoms(use_true_random=False), st.integers(2, 12))
def test_parts_give_the_sketch_of_the_whole_in_any_order(
    parts: list[Hashes], random: Random, size: int
) -> None:
    with patch.object(distinct, "SKETCH_SIZE", size):
        whole = sketch_of(np.concatenate([EMPTY, *parts]))
        smallest = sorted({int(value) for part in parts for value in part})[:size]
        assert whole.tolist() == smallest
        sketches = [sketch_of(part) for part in (*parts, *parts)]
        random.shuffle(sketches)
        middle = len(sketches) // 2
        left, right = (
            reduce(add_hashes, half, EMPTY) for half in (sketches[:middle], sketches[middle:])
        )
        assert add_hashes(left, right).tolist() == smallest
        assert add_hashes(right, left).tolist() == smallest


@pytest.mark.parametrize("rows", [0, 1, 2047, 2048, 10_000, 300_000])
@pytest.mark.parametrize("copies", [1, 3])
def test_the_estimate_is_near_however_often_rows_occur(rows: int, copies: int) -> None:
    different = np.array([mix(np.uint64(row)) for row in range(1, rows + 1)], np.uint64)
    frequent = np.full(1000, different[0]) if rows else EMPTY
    sketch = EMPTY
    for part in np.array_split(np.concatenate([different] * copies + [frequent]), 7):
        sketch = add_hashes(sketch, part)
    assert len(sketch) <= distinct.SKETCH_SIZE
    estimate = estimate_distinct(sketch)
    assert estimate == rows if rows < distinct.SKETCH_SIZE else abs(estimate / rows - 1) < 0.06


@given(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1)), st.lists(st.integers(0, 9)))
def test_distinct_values_and_whether_others_are_among_them(
    values: list[int], others: list[int]
) -> None:
    ordered = sort_distinct(np.array(values, np.uint64))
    assert ordered.tolist() == sorted({*values})
    found = are_among(np.array(others, np.uint64), ordered)
    assert found.tolist() == [other in values for other in others]
