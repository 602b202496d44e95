"""The width of batches, and the padding of their rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import Padding, attention_mask, pad
from tests.tools import batches_in_python as expected
from tests.tools.batches_in_python import lists_of

rows = st.lists(st.lists(st.integers(0, 999), max_size=20), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("padding", "width"),
    [
        (Padding(), 9),
        (Padding(pad_to_multiple_of=8), 16),
        (Padding(pad_to_multiple_of=3), 9),
        (Padding(max_length=9), 9),
        (Padding(max_length=64), 9),
        (Padding(max_length=64, pad_to_multiple_of=8), 16),
        (Padding(padding="max_length", max_length=64), 64),
        (Padding(padding="max_length", max_length=9), 9),
    ],
)
def test_width(padding: Padding, width: int) -> None:
    assert padding.width(np.array([5, 9, 0])) == width


@given(rows, st.integers(0, 5), st.integers(-1, 7))
def test_rows_are_padded_at_their_ends(values: list[list[int]], more: int, fill: int) -> None:
    width = max(map(len, values)) + more
    lists = lists_of(values)
    filled, marks = pad(*lists, width, fill), attention_mask(lists.offsets, width)
    assert filled.tolist() == [expected.pad(row, width, fill) for row in values]
    assert marks.tolist() == [expected.mark(row, width) for row in values]
    for matrix in (filled, marks):
        assert matrix.dtype == np.int64
        assert matrix.flags.c_contiguous


def test_a_batch_longer_than_the_model_is_refused() -> None:
    with pytest.raises(UserError) as refusal:
        Padding(max_length=8).width(np.array([3, 9]))
    assert refusal.value.value == "max_length=8"
    assert "has 9 tokens" in refusal.value.cause
    with pytest.raises(UserError, match="9 tokens"):
        Padding(padding="max_length", max_length=8).width(np.array([3, 9]))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"padding": "shortest"}, 'padding="shortest"'),
        ({"padding": "max_length"}, 'padding="max_length"'),
        ({"pad_to_multiple_of": 0}, "pad_to_multiple_of=0"),
        ({"max_length": 0}, "max_length=0"),
        ({"max_length": 100, "pad_to_multiple_of": 8}, "pad_to_multiple_of=8"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError) as refusal:
        Padding(**options)
    assert refusal.value.value == named
