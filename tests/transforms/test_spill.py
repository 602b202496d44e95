"""Small batches that become larger ones, rows that wait in files, and sorting in bounded memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import IDENTITY_SCHEMA
from corpusmill.arrays.ragged import RowBuffer
from corpusmill.layout.sorting import KEY, join_small
from tests.tools.builders import from_rows
from tests.tools.knobs import knobs
from transforms.shuffle.spill import RowSorter, Spill, load_segment, put_in_order

BATCHES = [pa.record_batch({"document": [place]}) for place in range(8)]
SCHEMA = pa.schema([KEY, *IDENTITY_SCHEMA, pa.field("input_ids", pa.list_(pa.int16()))])
# Keys over their whole range, some of them equal, so that the rest of the identity decides.
KEYS = [(place * 7919 % 250 * 2**56 + place % 3) % 2**64 for place in range(3000)]
ROWS = [(key, place, 0, place % 2, [place, 1]) for place, key in enumerate(KEYS)]


def test_batches_are_joined_until_they_are_large() -> None:
    for rows, sizes in {1: [1] * 8, 2: [2] * 4, 3: [3, 3, 2], 9: [8]}.items():
        joined = list(join_small(BATCHES, rows * 8))
        assert [batch.num_rows for batch in joined] == sizes
        assert pa.Table.from_batches(joined) == pa.Table.from_batches(BATCHES)


def test_rows_of_one_bucket_are_written_in_pieces(tmp_path: Path) -> None:
    joined_bytes = 2**20
    spill = Spill(str(tmp_path), 4 * joined_bytes)
    batches = [pa.record_batch({"row": np.arange(n, n + 2**14)}) for n in range(0, 2**19, 2**14)]
    with knobs(joined_bytes=joined_bytes):
        for batch in batches:
            spill.add(batch, np.full(batch.num_rows, 7, np.uint32))
        spill.write()
    assert len({segment.path for segment in spill.segments}) == 1
    assert {segment.bucket for segment in spill.segments} == {7}
    assert max(segment.length for segment in spill.segments) < 2 * joined_bytes
    loaded = [load_segment(segment, batches[0].schema) for segment in spill.segments]
    assert pa.Table.from_batches(loaded).equals(pa.Table.from_batches(batches))


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


def test_rows_are_put_in_any_order_however_little_memory_there_is(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    names = [f"{number}" if number % 3 else None for number in draw.permutation(2000).tolist()]
    rows = pa.record_batch({"number": range(2000), "name": pa.array(names, pa.string())})

    def keys_of(batch: pa.RecordBatch) -> list[tuple[str, int]]:
        return [(row["name"] or "", row["number"]) for row in batch.to_pylist()]

    expected = sorted(keys_of(rows))
    for sort_bytes, files in ((10**9, 0), (10_000, 3), (300, 80)):
        folder = tmp_path / str(sort_bytes)
        folder.mkdir()
        batches = (rows.slice(first, 7) for first in range(0, 2000, 7))
        ordered = list(put_in_order(batches, keys_of, str(folder), sort_bytes))
        assert [key for batch in ordered for key in keys_of(batch)] == expected
        assert len(list(folder.iterdir())) >= files
    assert list(put_in_order([], keys_of, str(tmp_path), 9)) == []
