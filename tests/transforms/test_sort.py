"""Sorting in bounded memory, compared with sorting all rows at once."""

from pathlib import Path

import pyarrow as pa

from corpusmill.arrays.columns import IDENTITY_SCHEMA
from corpusmill.arrays.ragged import RowBuffer
from corpusmill.layout.sorting import KEY
from tests.tools.builders import from_rows
from tests.tools.knobs import knobs
from transforms.shuffle.spill import RowSorter

SCHEMA = pa.schema([KEY, *IDENTITY_SCHEMA, pa.field("input_ids", pa.list_(pa.int16()))])
# Keys over their whole range, some of them equal, so that the rest of the identity decides.
KEYS = [(place * 7919 % 250 * 2**56 + place % 3) % 2**64 for place in range(3000)]
ROWS = [(key, place, 0, place % 2, [place, 1]) for place, key in enumerate(KEYS)]


@knobs(sort_file_bytes=10_000)
def test_rows_come_back_in_order_however_little_memory_there_is(tmp_path: Path) -> None:
    """Rows that will not fit are not kept until memory is full."""
    for memory_bytes, size, most in (
        (1, 100, 15_000), (20_000, 100, 15_000), (60_000, 100, 15_000), (2**30, 100, 2**30),
        (1, 999, 2**30), (20_000, 999, 2**30), (2**30, 999, 2**30),
    ):  # fmt: skip
        buffer, largest = RowBuffer(SCHEMA, 2**28), 0
        sorter = RowSorter(buffer, str(tmp_path), memory_bytes)
        for start in range(0, len(ROWS), size):
            sorter.add(from_rows(ROWS[start : start + size], SCHEMA), (start + size) / len(ROWS))
            largest = max(largest, buffer.nbytes)
        assert largest <= most
        assert bool(list(tmp_path.iterdir())) == (memory_bytes < 2**30)
        batches = list(sorter.drain(64))
        assert max(part.num_rows for part in batches) <= 64
        rows = [tuple(row.values()) for part in batches for row in part.to_pylist()]
        assert rows == sorted(ROWS)
        assert list(tmp_path.iterdir()) == []


def test_nothing_gives_nothing(tmp_path: Path) -> None:
    assert list(RowSorter(RowBuffer(SCHEMA, 2**28), str(tmp_path), 100).drain(64)) == []
