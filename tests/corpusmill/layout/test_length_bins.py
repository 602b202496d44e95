"""Rows by length: every row is in its bin, in order, in groups of equal size."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, Column, Role
from corpusmill.errors import UserError
from corpusmill.layout.length_bins import LengthBin, cut_lengths, split_into_bins
from tests.tools.builders import offsets_of

LONGEST = 50
COLUMNS = (
    Column("label", "int8", ""),
    Column("tokens", "int16", "", LONGEST, role=Role.TOKEN_IDS),
)


def batch_of(lengths: list[int], first: int = 0) -> pa.RecordBatch:
    """Rows with consecutive numbers, which are in a column and in each of their ids."""
    numbers = np.arange(first, first + len(lengths), dtype=np.int16)
    ids = ragged.to_arrow(np.repeat(numbers, lengths), offsets_of(lengths))
    return pa.RecordBatch.from_arrays([pa.array(numbers), ids], names=["number", "input_ids"])


def test_the_bins_of_a_length() -> None:
    assert cut_lengths(COLUMNS, 20) == (
        LengthBin(0, 1, 20),
        LengthBin(1, 21, 40),
        LengthBin(2, 41, 50),
    )
    assert [length_bin.max_length for length_bin in cut_lengths(COLUMNS, 25)] == [25, 50]
    assert cut_lengths(COLUMNS, None) == ()


@pytest.mark.parametrize("bin_size", [LONGEST, 1000])
def test_one_bin_is_refused(bin_size: int) -> None:
    with pytest.raises(UserError, match=f"--bin-size {bin_size}.*1 bins.*Give 1 to 49"):
        cut_lengths(COLUMNS, bin_size)


def test_too_many_bins_are_refused() -> None:
    wide = (Column("tokens", "int16", "", 1010, role=Role.TOKEN_IDS),)
    with pytest.raises(UserError, match=r"--bin-size 10: .*101 bins.*Give 11 to 1009"):
        cut_lengths(wide, 10)
    assert len(cut_lengths(wide, 11)) == 92


@pytest.mark.parametrize(("bin_size", "bins"), [(500, 2), (11, 91), (10, 100)])
def test_two_to_a_hundred_bins_are_allowed(bin_size: int, bins: int) -> None:
    wide = (Column("tokens", "int16", "", 1000, role=Role.TOKEN_IDS),)
    assert len(cut_lengths(wide, bin_size)) == bins


def test_rows_without_a_greatest_length_are_refused() -> None:
    stream = Column("tokens", "int16", "", ANY_LENGTH, role=Role.TOKEN_IDS)
    with pytest.raises(UserError, match="have no maximum length"):
        cut_lengths([stream], 20)


@given(
    st.lists(st.lists(st.integers(1, LONGEST), max_size=30), max_size=6),
    st.integers(1, LONGEST - 1),
    st.integers(1, 12),
)
def test_every_row_is_in_its_bin_in_order(
    batches: list[list[int]], bin_size: int, rows: int
) -> None:
    bins = cut_lengths(COLUMNS, bin_size)
    firsts = offsets_of(map(len, batches)).tolist()
    pieces = [batch_of(*piece) for piece in zip(batches, firsts, strict=False)]
    numbers: list[list[int]] = [[] for _ in bins]
    sizes: list[list[int]] = [[] for _ in bins]
    for number, group in split_into_bins(pieces, "input_ids", bins, rows, 2**24):
        numbers[number] += group.column("number").to_pylist()
        sizes[number].append(group.num_rows)
        for name, ids in zip(*(group.column(i).to_pylist() for i in (0, 1)), strict=True):
            assert set(ids) == {name}
            assert bins[number].min_length <= len(ids) <= bins[number].max_length
    lengths = np.array([length for batch in batches for length in batch], np.int64)
    for number in range(len(bins)):
        assert numbers[number] == np.flatnonzero((lengths - 1) // bin_size == number).tolist()
        assert all(size == rows for size in sizes[number][:-1])
        assert all(0 < size <= rows for size in sizes[number])


@given(st.lists(st.integers(1, LONGEST), max_size=40), st.integers(1, 12))
def test_without_bins_rows_are_cut_alone(lengths: list[int], rows: int) -> None:
    groups = list(split_into_bins([batch_of(lengths)], "input_ids", (), rows, 2**24))
    assert {number for number, _ in groups} <= {0}
    numbers = [number for _, group in groups for number in group.column("number").to_pylist()]
    assert numbers == list(range(len(lengths)))
    assert all(group.num_rows == rows for _, group in groups[:-1])


def test_no_more_rows_wait_than_one_group_of_each_bin() -> None:
    rng = np.random.default_rng(1)
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for _ in range(60):
            read += 40
            yield batch_of(rng.integers(1, LONGEST + 1, 40).tolist())

    bins = cut_lengths(COLUMNS, 10)
    yielded = 0
    for _, group in split_into_bins(batches(), "input_ids", bins, 16, 2**24):
        yielded += group.num_rows
        assert read - yielded <= len(bins) * 16 + 40
    assert yielded == read == 2400


def test_no_long_row_is_lost_when_a_group_ends_by_its_tokens() -> None:
    width = 16
    batches = [
        pa.RecordBatch.from_arrays(
            [ragged.to_arrow(np.zeros(rows * width, np.int8), np.arange(rows + 1) * width)],
            names=["input_ids"],
        )
        for rows in (3, 5, 1, 2)
    ]
    bins = (LengthBin(0, 1, width - 1), LengthBin(1, width, width))
    groups = [
        (number, group.num_rows)
        for number, group in split_into_bins(batches, "input_ids", bins, 8, 4 * width)
    ]
    assert groups == [(1, 4), (1, 4), (1, 3)]
