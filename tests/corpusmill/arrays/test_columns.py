from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import (
    ANY_LENGTH,
    Column,
    Role,
    arrow_schema,
    most_values,
    pad_rows,
    smallest_integer,
)
from tests.tools.builders import offsets_of

rows_of_numbers = st.lists(st.lists(st.integers(0, 100), max_size=6), max_size=8)


@pytest.mark.parametrize(
    ("largest", "name"),
    [
        (0, "int8"), (127, "int8"), (128, "uint8"), (255, "uint8"), (256, "int16"),
        (32767, "int16"),
        (32768, "uint16"), (65535, "uint16"), (65536, "int32"), (2**31, "uint32"), (2**32, "int64"),
    ],
)  # fmt: skip
def test_smallest_integer(largest: int, name: str) -> None:
    assert smallest_integer(largest) == np.dtype(name)


def test_arrow_types_of_columns() -> None:
    columns = [
        Column("input_ids", "uint16", "ids", 512, 9),
        Column("next_sentence_label", "int8", "label"),
    ]
    element = pa.field("element", pa.uint16(), nullable=False)
    label = pa.field("next_sentence_label", pa.int8(), nullable=False)
    plain = pa.schema([pa.field("input_ids", pa.list_(element), nullable=False), label])
    padded = pa.schema([pa.field("input_ids", pa.list_(element, 512), nullable=False), label])
    assert arrow_schema(columns) == plain
    assert arrow_schema(columns, padded=True) == padded


@given(rows_of_numbers, st.integers(0, 3), st.integers(-1, 1), st.data())
def test_padded_rows_of_any_stretch(
    rows: list[list[int]], more: int, pad: int, data: st.DataObject
) -> None:
    offsets = offsets_of(map(len, rows))
    values = np.array([value for row in rows for value in row], np.int16)
    start = data.draw(st.integers(0, len(rows)))
    width = max([0, *map(len, rows[start:])]) + more
    matrix = pad_rows(values, offsets[start:], width, pad)
    assert matrix.dtype == np.int16
    assert matrix.shape == (len(rows) - start, width)
    assert matrix.tolist() == [row + [pad] * (width - len(row)) for row in rows[start:]]


# Ragged arrays, which the columns are passed in


@given(rows_of_numbers, st.data())
def test_lists_to_arrays_and_back(rows: list[list[int]], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    column = pa.array(rows, pa.list_(pa.int16())).slice(start)
    values, offsets = ragged.from_arrow(column)
    lists = [values[a:b].tolist() for a, b in pairwise(offsets)]
    assert lists == rows[start:]
    assert ragged.to_arrow(values, offsets).to_pylist() == rows[start:]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_text_to_arrays(kind: pa.DataType) -> None:
    texts = ["é", "", "abc", "d"]
    column = pa.array(texts).cast(kind)
    for part, start in ((column, 0), (column.slice(1), 1), (column.slice(4), 4)):
        values, offsets = ragged.from_arrow(part)
        strings = [bytes(values[a:b]).decode() for a, b in pairwise(offsets)]
        assert strings == texts[start:]
    values, offsets = ragged.from_arrow(pa.array([], kind))
    assert (len(values), offsets.tolist()) == (0, [0])


@pytest.mark.parametrize("inner", [pa.string(), pa.list_(pa.int16())])
def test_inner_lists_stay_arrow(inner: pa.DataType) -> None:
    rows = [["a", "bc"], [], ["d"]] if inner == pa.string() else [[[1], [2, 3]], [], [[4]]]
    sentences, offsets = ragged.from_arrow(pa.array(rows, pa.list_(inner)).slice(1))
    assert offsets.tolist() == [2, 2, 3]
    assert isinstance(sentences, pa.Array)
    assert sentences[2:].to_pylist() == rows[2]


def test_batches_are_cast_to_their_schema() -> None:
    schema = pa.schema(
        [
            pa.field("label", pa.int8(), nullable=False),
            arrow_schema([Column("x", "int16", "", 4)])[0],
        ]
    )
    batch = ragged.to_batch(
        [
            np.array([0, 1], np.int64),
            ragged.to_arrow(np.array([5, 6], np.int16), np.array([0, 1, 2])),
        ],
        schema,
    )
    assert batch.schema == schema
    assert batch.to_pylist() == [{"label": 0, "x": [5]}, {"label": 1, "x": [6]}]


@pytest.mark.parametrize(("longest", "values"), [(2**22, 2**22), (2**22 - 2, 2**22 - 1)])
def test_a_row_has_at_most_one_boundary_more_than_tokens(longest: int, values: int) -> None:
    boundaries = Column("b", "int32", "", ANY_LENGTH, role=Role.BOUNDARIES)
    assert most_values(boundaries, longest, padded=False) == longest + 1
    other = Column("v", "int32", "", ANY_LENGTH, role=Role.VALUE)
    assert most_values(other, longest, padded=False) == 2**22
    narrow = Column("v", "int32", "", values, role=Role.VALUE)
    assert most_values(narrow, longest, padded=False) == values
