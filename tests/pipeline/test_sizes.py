"""Sizes as people write them."""

import pytest

from corpusmill.errors import UserError
from pipeline.job_options import parse_size
from tests.tools.table_rows import for_rows


@for_rows(
    ("text", "size"),
    [
        ("5TB", 5 * 10**12), ("300 GB", 3 * 10**11), ("1.5TiB", 3 * 2**39), ("12", 12),
        ("7b", 7), ("2g", 2 * 10**9), ("1e9", 10**9), ("1,000kb", 10**6), ("1PiB", 2**50),
    ],
)  # fmt: skip
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_size("--scale-to", text) == size


@for_rows(
    ("text", "cause"),
    [
        ("", "not a size"), ("TB", "not a size"), ("-5GB", "not a size"), ("1.5.2GB", "not a size"),
        ("5XB", "not a size"), ("0GB", "of one byte or more"),
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused(text: str, cause: str) -> None:
    with pytest.raises(UserError, match=cause) as refused:
        parse_size("--scale-to", text)
    assert "5TB" in refused.value.cure
