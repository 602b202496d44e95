"""Small batches that become larger ones."""

import pyarrow as pa
import pytest

from transforms.spill import join_small

BATCHES = [
    pa.record_batch({"document": [place], "fact": ["a fact that is longer than its document"]})
    for place in range(8)
]


@pytest.mark.parametrize(
    ("columns", "sizes"), [((), [1] * 8), (("document",), [2] * 4), (("document", "fact"), [1] * 8)]
)
def test_only_the_columns_that_count_make_a_batch_large(
    columns: tuple[str, ...], sizes: list[int]
) -> None:
    joined = list(join_small(BATCHES, 2 * 8, columns))
    assert [batch.num_rows for batch in joined] == sizes
    assert pa.Table.from_batches(joined) == pa.Table.from_batches(BATCHES)
