"""Sorting in bounded memory, compared with sorting all rows at once."""

from pathlib import Path

import pyarrow as pa
import pytest

from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.arrays.row_buffer import RowBuffer
from corpusmill.layout.narrow_spans import narrow_schema
from corpusmill.layout.sorting import KEY
from corpusmill.objectives.columns import SPANS
from tests.tools.builders import from_rows
from transforms.sort import RowSorter

SCHEMA = pa.schema([KEY, *IDENTITY_SCHEMA, pa.field("input_ids", pa.list_(pa.int16()))])
# Keys over their whole range, some of them equal, so that the rest of the identity decides.
KEYS = [(place * 7919 % 250 * 2**56 + place % 3) % 2**64 for place in range(3000)]
ROWS = [(key, place, 0, place % 2, [place, 1]) for place, key in enumerate(KEYS)]


@pytest.mark.parametrize("memory_bytes", [1, 20_000, 2**30])
@pytest.mark.parametrize("size", [100, 999])
def test_rows_come_back_in_order_however_little_memory_there_is(
    memory_bytes: int, size: int, tmp_path: Path
) -> None:
    sorter = RowSorter(RowBuffer(SCHEMA), str(tmp_path), memory_bytes)
    for start in range(0, len(ROWS), size):
        sorter.add(from_rows(ROWS[start : start + size], SCHEMA))
    assert bool(list(tmp_path.iterdir())) == (memory_bytes < 2**30)
    batches = list(sorter.drain(64))
    assert max(part.num_rows for part in batches) <= 64
    rows = [tuple(row.values()) for part in batches for row in part.to_pylist()]
    assert rows == sorted(ROWS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory_bytes", [1, 20_000, 2**30])
def test_spans_come_back_with_their_rows(memory_bytes: int, tmp_path: Path) -> None:
    schema = SCHEMA.append(arrow_schema([SPANS]).field(0))
    rows = [
        (*row, [row[1], place, 2, *[place % 7, 0, 1] * (place % 3)])
        for place, row in enumerate(ROWS)
    ]
    buffer = RowBuffer(narrow_schema(schema, SPANS.name))
    sorter = RowSorter(buffer, str(tmp_path), memory_bytes, SPANS.name)
    for start in range(0, len(rows), 100):
        sorter.add(from_rows(rows[start : start + 100], schema))
    batches = list(sorter.drain(64))
    assert {part.schema for part in batches} == {schema}
    sorted_rows = [tuple(row.values()) for part in batches for row in part.to_pylist()]
    assert sorted_rows == sorted(rows)


def test_spans_do_not_make_rows_too_large_for_memory(tmp_path: Path) -> None:
    schema = SCHEMA.append(arrow_schema([SPANS]).field(0))
    memory_bytes = RowBuffer(SCHEMA).nbytes + sum(40 + 2 * len(row[4]) for row in ROWS)
    sorter = RowSorter(
        RowBuffer(narrow_schema(schema, SPANS.name)), str(tmp_path), memory_bytes, SPANS.name
    )
    sorter.add(from_rows([(*row, [row[1] + 1, 0, 2] * 9) for row in ROWS], schema))
    assert list(tmp_path.iterdir()) == []
    assert sum(part.num_rows for part in sorter.drain(64)) == len(ROWS)


def test_nothing_gives_nothing(tmp_path: Path) -> None:
    assert list(RowSorter(RowBuffer(SCHEMA), str(tmp_path), 100).drain(64)) == []
