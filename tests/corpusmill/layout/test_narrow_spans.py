"""Spans that are narrow while rows are sorted."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.layout.narrow_spans import narrow_rows, narrow_schema, widen_rows
from corpusmill.layout.sorting import KEY
from corpusmill.objectives.columns import SPANS

SCHEMA = pa.schema([KEY, *IDENTITY_SCHEMA, *arrow_schema([SPANS])])
NAME = SPANS.name
LARGEST = 2**64 - 1

documents = st.sampled_from([0, 7, 2**31, 2**32, 2**40 + 5, LARGEST])
spans = st.tuples(documents, st.sampled_from([0, 4, 2**32 - 1]), st.sampled_from([1, 2, 2**31 - 1]))


def rows_of(*rows: tuple[int, list[int]]) -> pa.RecordBatch:
    columns = [(place, document, 0, 0, values) for place, (document, values) in enumerate(rows)]
    records = [dict(zip(SCHEMA.names, row, strict=True)) for row in columns]
    return pa.RecordBatch.from_pylist(records, SCHEMA)


@given(st.lists(st.tuples(documents, st.lists(spans, max_size=4)), max_size=8), st.integers(0, 8))
def test_narrow_rows_become_what_they_were(
    drawn: list[tuple[int, list[tuple[int, int, int]]]], begin: int
) -> None:
    rows = rows_of(*((owner, [n for span in own for n in span]) for owner, own in drawn))
    rows = rows.slice(begin)
    narrow = narrow_rows(rows, NAME)
    assert narrow.schema == narrow_schema(SCHEMA, NAME)
    assert widen_rows(narrow, NAME) == rows


def test_spans_of_the_own_document_take_a_third_of_the_bytes() -> None:
    narrow = narrow_rows(rows_of((7, [7, 4, 2, 9, 0, 1]), (9, []), (9, [9, 5, 6])), NAME)
    assert narrow.column(NAME).to_pylist() == [[4, 2, 0, 2**31 + 1, 9, 0], [], [5, 6]]


@pytest.mark.parametrize("span", [[7, 2**32, 1], [7, 0, 2**31], [9, 2**40, 1], [9, 0, 2**40]])
def test_numbers_that_do_not_fit_are_refused(span: list[int]) -> None:
    with pytest.raises(ValueError, match="spans must begin before token"):
        narrow_rows(rows_of((7, [7, 0, 1]), (7, span)), NAME)


def test_a_slice_is_widened_alone() -> None:
    narrow = narrow_rows(rows_of((7, [7, 0, 1, 9, 1, 1]), (7, [8, 3, 2]), (9, [9, 5, 6])), NAME)
    widened = widen_rows(narrow.slice(1), NAME)
    assert widened.column(NAME).to_pylist() == [[8, 3, 2], [9, 5, 6]]
    assert np.diff(widened.column(NAME).offsets.to_numpy()).tolist() == [3, 3]
