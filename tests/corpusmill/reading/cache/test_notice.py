"""What is said of a shard whose unpacking takes long."""

from io import StringIO
from typing import Any

import pytest

from corpusmill.dataset.manifest import Shard
from corpusmill.reading.cache.pieces import Piece
from corpusmill.reading.cache.unpacking import Notice, batch_rows


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def describe(rows: int, tokens: int) -> Shard:
    values: dict[str, Any] = {"file": "train.parquet", "bytes": 1, "sha256": "0" * 64}
    return Shard(**values, rows=rows, tokens=tokens)


def unpack(seconds: float, stream: StringIO) -> None:
    """Unpack 10 batches of 100 rows, each in some seconds."""
    now = 0.0
    with Notice(Piece(describe(1000, 10_000), 0, 1000), 100, stream, lambda: now) as notice:
        for _ in range(10):
            assert notice.count_batch()
            now += seconds


def test_a_short_wait_is_not_mentioned() -> None:
    screen = Screen()
    unpack(1.0, screen)
    assert screen.getvalue() == ""


def test_a_long_wait_is_explained_once_and_followed_on_a_terminal() -> None:
    screen = Screen()
    with pytest.warns(UserWarning, match="rows are unpacked") as said:
        unpack(4.0, screen)
    [warning] = said
    assert str(warning.message).startswith("train.parquet: rows are unpacked before")
    assert "30% of 1,000 rows in 12 s" in str(warning.message)
    assert "--num-shards" in str(warning.message)
    lines = screen.getvalue().split("\r")[1:]
    assert lines[0] == "train.parquet: unpacked 30% of 1,000 rows in 12 s"
    assert lines[-1] == "train.parquet: unpacked 90% of 1,000 rows in 36 s\n"


def test_progress_is_shown_on_terminals_alone() -> None:
    file = StringIO()
    with pytest.warns(UserWarning, match="rows are unpacked"):
        unpack(4.0, file)
    assert file.getvalue() == ""


@pytest.mark.usefixtures("usual_thresholds")
@pytest.mark.parametrize(
    ("rows", "tokens", "expected"),
    [(10, 10 * 512, 1024), (10, 10 * 5000, 1024), (10, 640, 8192), (10, 20, 65536), (0, 0, 1024)],
)
def test_short_rows_are_unpacked_in_larger_batches(rows: int, tokens: int, expected: int) -> None:
    assert batch_rows(describe(rows, tokens)) == expected
