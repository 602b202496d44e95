"""Small batches that become larger ones."""

import pyarrow as pa
import pytest

from transforms.spill import join_small

BATCHES = [pa.record_batch({"document": [place]}) for place in range(8)]


@pytest.mark.parametrize(("rows", "sizes"), [(1, [1] * 8), (2, [2] * 4), (3, [3, 3, 2]), (9, [8])])
def test_batches_are_joined_until_they_are_large(rows: int, sizes: list[int]) -> None:
    joined = list(join_small(BATCHES, rows * 8))
    assert [batch.num_rows for batch in joined] == sizes
    assert pa.Table.from_batches(joined) == pa.Table.from_batches(BATCHES)
