"""Rows that are packed, and unpacked as a whole or in part."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.layout.placement import draw_keys
from corpusmill.provenance import packing
from corpusmill.provenance.packed_rows import PackedRows
from corpusmill.provenance.spans import Rows

# Document, repeat, index, spans.
Row = tuple[int, int, int, list[tuple[int, int, int]]]


def rows_of(rows: list[Row]) -> Rows:
    documents, repeats, indices = ([row[number] for row in rows] for number in range(3))
    spans = [span for row in rows for span in row[3]]
    offsets = np.cumsum([0, *(len(row[3]) for row in rows)])
    named, firsts, tokens = ([span[number] for span in spans] for number in range(3))
    return Rows(
        np.array(documents, np.uint64),
        np.array(repeats, np.int64),
        np.array(indices, np.int64),
        offsets,
        np.array(named, np.uint64),
        np.array(firsts, np.int64),
        np.array(tokens, np.int64),
    )


def pack(rows: list[Row]) -> dict[str, np.ndarray]:
    columns = rows_of(rows)
    spans = np.array([number for row in rows for span in row[3] for number in span], np.uint64)
    return packing.pack(columns[:3], spans, 3 * columns.span_offsets, np.arange(len(rows)))


def to_lists(rows: Rows) -> list[list[int]]:
    return [column.tolist() for column in rows]


documents = st.sampled_from([0, 5, 2**63, 2**64 - 1])
spans = st.tuples(documents, st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1))
many_rows = st.lists(
    st.tuples(documents, st.integers(0, 1), st.integers(0, 3), st.lists(spans, max_size=3)),
    max_size=12,
).map(sorted)


def test_rows_are_packed_as_the_example_tells() -> None:
    rows: list[Row] = [
        (7, 0, 0, [(7, 0, 60), (9, 5, 40)]),
        (7, 0, 1, [(7, 64, 50), (7, 120, 50)]),
    ]
    columns = {name: values.tolist() for name, values in pack(rows).items()}
    assert columns == {
        "documents": [7, 2],
        "is_next": [False, True],
        "own": [0],
        "repeat": [0],
        "index": [0],
        "spans": [2, 2],
        "tokens": [100, 100],
        "is_own": [True, True, False, True],
        "span_tokens": [60, 50],
        "gap": [0, 4, 6],
        "other": [1],
        "other_first": [5],
    }


@given(rows=many_rows, data=st.data())
def test_some_rows_are_unpacked_like_all(rows: list[Row], data: st.DataObject) -> None:
    expected = rows_of(rows)
    packed = PackedRows(pack(rows))
    assert to_lists(packed.unpack()) == to_lists(expected)
    numbers = st.lists(st.integers(0, len(rows) - 1), max_size=15) if rows else st.just([])
    chosen = np.array(data.draw(numbers), np.int64)
    assert to_lists(packed.take(chosen)) == to_lists(expected.take(chosen))
    assert to_lists(expected.take(chosen)) == to_lists(rows_of([rows[n] for n in chosen]))


@given(many_rows, st.integers(0, 2**64 - 1))
def test_keys_are_those_by_which_rows_are_sorted(rows: list[Row], seed: int) -> None:
    expected = rows_of(rows)
    keys = draw_keys(*expected[:3], np.uint64(seed))
    assert PackedRows(pack(rows)).keys(seed).tolist() == keys.tolist()
