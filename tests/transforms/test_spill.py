"""Small batches that become larger ones, and rows that wait in files."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from corpusmill.layout.sorting import join_small
from tests.tools.knobs import knobs
from transforms.shuffle.spill import Spill, load_segment

BATCHES = [pa.record_batch({"document": [place]}) for place in range(8)]


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
