"""Rows of unequal length against Arrow's own operations."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from tests.tools.builders import from_rows

tokens = st.lists(st.integers(-5, 5), max_size=4)
SCHEMA = pa.schema(
    [
        ("number", pa.uint64()),
        ("flat", pa.list_(pa.int16())),
        ("nested", pa.list_(pa.list_(pa.int16()))),
        ("text", pa.string()),
        ("bytes", pa.binary(2)),
    ]
)
Row = tuple[int, list[int], list[list[int]], str | None, bytes]
rows = st.lists(
    st.tuples(
        st.integers(0, 9),
        tokens,
        st.lists(tokens, max_size=3),
        st.one_of(st.none(), st.text(max_size=3)),
        st.binary(min_size=2, max_size=2),
    ),
    min_size=1,
)


@given(rows, st.data())
def test_taking_rows_is_arrows_take(given_rows: list[Row], data: st.DataObject) -> None:
    """Slices, any order, and rows that occur several times or never."""
    whole = from_rows(given_rows, SCHEMA)
    start = data.draw(st.integers(0, len(given_rows) - 1))
    batch = whole.slice(start, data.draw(st.integers(1, len(given_rows) - start)))
    chosen = data.draw(st.lists(st.integers(0, batch.num_rows - 1), max_size=9))
    result = ragged.take_rows(batch, np.array(chosen, np.int64))
    assert result.schema == SCHEMA
    assert result.equals(batch.take(pa.array(chosen, pa.int64())))


def test_the_example_of_take() -> None:
    values, offsets = np.array([7, 8, 9], np.int16), np.array([0, 2, 2, 3], np.int32)
    result, result_offsets = ragged.take(values, offsets, np.array([2, 0]))
    assert result.tolist() == [9, 7, 8]
    assert result_offsets.tolist() == [0, 1, 3]


def test_arrow_and_back_copies_nothing() -> None:
    values, offsets = np.arange(5, dtype=np.int16), np.array([0, 2, 5], np.int32)
    again, offsets_again = ragged.from_arrow(ragged.to_arrow(values, offsets))
    assert np.shares_memory(values, again)
    assert offsets_again.tolist() == offsets.tolist()


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 3), st.integers(1, 5))
def test_rows_cut_into_parts_are_slices_of_them(sizes: list[int], first: int, size: int) -> None:
    offsets = first + np.cumsum([0, *sizes])
    starts = [
        place
        for begin, end in pairwise(offsets.tolist())
        for place in range(begin, end, size)
    ]  # fmt: skip
    assert ragged.cut_rows(offsets, size).tolist() == [*starts, offsets[-1]]


SMALL_LISTS = pa.schema(
    [
        pa.field("numbers", pa.int8(), nullable=False),
        pa.field("lists", pa.list_(pa.field("element", pa.uint16(), nullable=False))),
    ]
)


def test_a_batch_has_the_types_of_its_schema() -> None:
    lists = pa.array([[1], [7, 8], [], [65535]], pa.list_(pa.int64())).slice(1)
    batch = ragged.to_batch([np.array([1, -128, 127]), lists], SMALL_LISTS)
    assert batch.schema == SMALL_LISTS
    batch.validate(full=True)
    assert batch.to_pydict() == {"numbers": [1, -128, 127], "lists": [[7, 8], [], [65535]]}


@pytest.mark.parametrize(
    ("numbers", "lists"), [([128], [[1]]), ([-129], [[1]]), ([1], [[65536]]), ([1], [[-1]])]
)
def test_numbers_that_do_not_fit_are_refused(numbers: list[int], lists: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        ragged.to_batch([np.array(numbers), pa.array(lists)], SMALL_LISTS)


@pytest.mark.parametrize(("width", "rows"), [(2**17, 2), (2**17 + 1, 1), (2**18 + 1, 1)])
def test_rows_are_encoded_in_chunks_of_a_quarter_of_a_million_numbers(
    width: int, rows: int
) -> None:
    assert ragged.chunk_rows([Column("a", "int32", "", width)]) == rows


def test_more_values_than_offsets_can_tell_are_refused() -> None:
    values, offsets = np.zeros(2**20, np.int8), np.array([0, 2**20, 2**20], np.int32)
    with pytest.raises(ValueError, match="more than 2"):
        ragged.take(values, offsets, np.zeros(2**11, np.int64))


def test_values_other_than_one_are_counted_in_each_row() -> None:
    column = pa.array([[7], [1, 0, 1], [], [0]], pa.list_(pa.int8()))
    assert ragged.count_in_rows(column, np.not_equal, 0).tolist() == [1, 2, 0, 0]
    assert ragged.count_in_rows(column[1:], np.not_equal, 1).tolist() == [  # a slice
        1,
        0,
        1,
    ]
    assert ragged.count_in_rows(column[:0], np.not_equal, 0).tolist() == []
