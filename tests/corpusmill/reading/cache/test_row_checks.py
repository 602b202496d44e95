"""Rows that contradict their columns are refused, whatever reads them from a file."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.arrays.columns import Column, Role
from corpusmill.reading.cache.unpacking import check_rows, unpack_batch
from corpusmill.reading.rows import Lists, Values

COLUMNS = (
    Column("tokens", "int16", "", 6, role=Role.TOKEN_IDS),
    Column("types", "int8", "", 6, role=Role.SEGMENTS, largest=1),
    Column("places", "int8", "", 2, role=Role.POSITIONS),
    Column("labels", "int16", "", 2, role=Role.PREDICTED_IDS),
    Column("marks", "int8", "", 7, role=Role.BOUNDARIES),
    Column("kind", "int8", "", role=Role.CLASS, largest=1),
)


def lists(dtype: str, values: list[int], offsets: list[int]) -> Lists:
    return Lists(np.array(values, dtype), np.array(offsets, np.int64))


# Rows of 3, 0 and 2 tokens.
SOUND: dict[str, Values] = {
    "tokens": lists("int16", [5, 6, 7, 8, 9], [0, 3, 3, 5]),
    "types": lists("int8", [0, 0, 1, 0, 0], [0, 3, 3, 5]),
    "places": lists("int8", [1, 2, 1], [0, 2, 2, 3]),
    "labels": lists("int16", [4, 4, 4], [0, 2, 2, 3]),
    "marks": lists("int8", [0, 2, 3, 0, 0, 2], [0, 3, 4, 6]),
    "kind": np.array([0, 1, 0], np.int8),
}
STRANGE: dict[str, tuple[dict[str, Any], str]] = {
    "more values than offsets": (
        {"places": lists("int8", [1, 2, 1, 9], [0, 2, 2, 3])}, "places has 4 values, its lists 3"),
    "fewer values than offsets": (
        {"labels": lists("int16", [4, 4], [0, 2, 2, 3])}, "labels has 2 values, its lists 3"),
    "boundaries without values": (
        {"marks": lists("int8", [], [0, 3, 4, 6])}, "marks has 0 values, its lists 6"),
    "offsets that fall": (
        {"places": lists("int8", [1, 2, 1], [0, 3, 2, 3])}, "offsets that do not ascend from 0"),
    "offsets that begin later": (
        {"tokens": lists("int16", [5, 6, 7, 8, 9], [1, 3, 3, 5])}, "do not ascend from 0"),
    "negative offsets": (
        {"places": lists("int8", [1, 2, 1], [-1, 2, 2, 3])}, "do not ascend from 0"),
    "no offsets": ({"places": lists("int8", [], [])}, "do not ascend from 0"),
    "a row less": ({"places": lists("int8", [1, 2], [0, 2, 2])}, "places has another number"),
    "a number less": ({"kind": np.zeros(2, np.int8)}, "kind has another number of rows"),
    "wider values": (
        {"tokens": lists("int64", [5, 6, 7, 8, 2**16], [0, 3, 3, 5])}, "values of the type int16"),
    "fractions": ({"kind": np.zeros(3, np.float32)}, "kind does not have values of the type int8"),
    "lists of lists": (
        {"places": Lists(pa.array([[1], [2], [1]]), np.array([0, 2, 2, 3]))}, "of the type int8"),
    "a matrix": ({"kind": np.zeros((3, 2), np.int8)}, "kind does not have values of the type"),
    "numbers in place of lists": ({"tokens": np.zeros(3, np.int16)}, "tokens does not have lists"),
    "lists in place of numbers": (
        {"kind": lists("int8", [0, 1, 0], [0, 1, 2, 3])}, "kind does not have numbers"),
    "more places than the column's width": (
        {"places": lists("int8", [0, 1, 2, 1], [0, 3, 3, 4]),
         "labels": lists("int16", [4] * 4, [0, 3, 3, 4])}, "places has a list of more than 2"),
    "a negative id": (
        {"tokens": lists("int16", [5, 6, -7, 8, 9], [0, 3, 3, 5])}, "not from 0 to 9"),
    "an id that no token has": (
        {"tokens": lists("int16", [5, 6, 10, 8, 9], [0, 3, 3, 5])}, "not from 0 to 9"),
    "a label that no token has": (
        {"labels": lists("int16", [4, -5, 4], [0, 2, 2, 3])}, "labels has a value that is not"),
    "too few labels": (
        {"labels": lists("int16", [4, 4], [0, 1, 1, 2])}, "rows of labels are not as long"),
    "too few types": (
        {"types": lists("int8", [0] * 4, [0, 2, 2, 4])}, "rows of types are not as long"),
    "a third segment": (
        {"types": lists("int8", [0, 0, 2, 0, 0], [0, 3, 3, 5])}, "types has a value that is not"),
    "a third class": ({"kind": np.array([0, 2, 0], np.int8)}, "kind has a value that is not"),
    "a place before its row": (
        {"places": lists("int8", [1, -100, 1], [0, 2, 2, 3])}, "places has a place that its row"),
    "a place in the next row": (
        {"places": lists("int8", [1, 3, 1], [0, 2, 2, 3])}, "places has a place that its row"),
    "a place in an empty row": (
        {"places": lists("int8", [1, 0, 1], [0, 1, 2, 3]),
         "labels": lists("int16", [4] * 3, [0, 1, 2, 3])}, "places has a place that its row"),
    "marks that go back": (
        {"marks": lists("int8", [0, 3, 2, 3, 0, 0, 2], [0, 4, 5, 7])}, "marks does not lead"),
    **{
        f"marks {marks} of a row of 2": (
            {"marks": lists("int8", [0, 3, 0, *marks], [0, 2, 3, 3 + len(marks)])},
            "marks does not lead",
        )
        for marks in ([], [0], [1, 2], [0, 3], [0, -1, 2])
    },
}  # fmt: skip


def test_strange_rows_are_refused() -> None:
    check_rows(SOUND, COLUMNS, vocab_size=10, longest=3)
    wrong = {}
    for name, (changes, cause) in STRANGE.items():
        with pytest.raises(ValueError, match=r"\w") as refused:
            check_rows(SOUND | changes, COLUMNS, vocab_size=10, longest=3)
        if cause not in str(refused.value):
            wrong[name] = str(refused.value)
    assert wrong == {}
    with pytest.raises(ValueError, match="a row is longer than the 2 tokens of the longest one"):
        check_rows(SOUND, COLUMNS, vocab_size=10, longest=2)


INT8 = pa.int8()
# Nulls in place of rows and among their values, and a value after the end of a padded row.
ARRAYS = [
    (pa.array([[1, 2], None], pa.list_(INT8)), "has nulls"),
    (pa.array([[1, 2], [None]], pa.list_(INT8)), "null"),
    (pa.array([[1, 2], None], pa.list_(INT8, 2)), "has nulls"),
    (pa.array([[1, 2], [1, None]], pa.list_(INT8, 2)), "null"),
    (pa.array([[1, 0, 2], [1, 0, 0]], pa.list_(INT8, 3)), "after the end"),
]


def test_strange_columns_are_refused() -> None:
    for array, cause in ARRAYS:
        batch = pa.RecordBatch.from_arrays([array], names=["places"])
        with pytest.raises(ValueError, match=cause):
            unpack_batch(batch, [replace(COLUMNS[2], width=3)])
    tokens, types = pa.array([[1, 2, 3]], pa.list_(INT8, 3)), pa.array([[0, 1]], pa.list_(INT8, 2))
    batch = pa.RecordBatch.from_arrays([tokens, types], names=["tokens", "types"])
    with pytest.raises(ValueError, match="types has lists of 2 values"):
        unpack_batch(batch, COLUMNS[:2])
