"""What is said of a shard whose unpacking takes long."""

import warnings
from typing import Any

import pytest

from corpusmill.dataset.manifest import Shard
from corpusmill.reading.cache.pieces import Piece
from corpusmill.reading.cache.unpacking import batch_rows, warn_if_slow


def describe(rows: int, tokens: int) -> Shard:
    values: dict[str, Any] = {"file": "train.parquet", "bytes": 1, "sha256": "0" * 64}
    return Shard(**values, rows=rows, tokens=tokens)


def unpack(seconds: float) -> None:
    """Unpack 10 batches of 100 rows, each in some seconds."""
    now = 0.0
    count_batch = warn_if_slow(Piece(describe(1000, 10_000), 0, 1000), 100, lambda: now)
    for _ in range(10):
        assert count_batch()
        now += seconds


def test_a_long_wait_is_explained_once() -> None:
    with warnings.catch_warnings(action="error"):
        unpack(1.0)
    with pytest.warns(UserWarning, match="rows are unpacked") as said:
        unpack(4.0)
    [warning] = said
    assert str(warning.message).startswith("train.parquet: rows are unpacked before")
    assert "30% of 1,000 rows in 12 s" in str(warning.message)
    assert "--num-shards" in str(warning.message)


@pytest.mark.usefixtures("usual_thresholds")
def test_short_rows_are_unpacked_in_larger_batches() -> None:
    tokens_of_rows = [(10, 10 * 512), (10, 10 * 5000), (10, 640), (10, 20), (0, 0)]
    sizes = [batch_rows(describe(rows, tokens)) for rows, tokens in tokens_of_rows]
    assert sizes == [1024, 1024, 8192, 65536, 1024]
