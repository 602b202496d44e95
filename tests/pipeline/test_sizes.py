"""Sizes as people write them, and quantities as reports write them."""

import pytest

from corpusmill.errors import UserError
from pipeline.console.plan_report import (
    format_duration,
    format_hours,
    format_number,
    format_size,
)
from pipeline.job_options import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5TB", 5 * 10**12), ("300 GB", 3 * 10**11), ("1.5TiB", 3 * 2**39), ("12", 12),
        ("7b", 7), ("2g", 2 * 10**9), ("1e9", 10**9), ("1,000kb", 10**6), ("1PiB", 2**50),
    ],
)  # fmt: skip
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_size("--corpus-bytes", text) == size


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "not a size"), ("TB", "not a size"), ("-5GB", "not a size"), ("1.5.2GB", "not a size"),
        ("5XB", "XB is not one of the units"), ("0GB", "less than one byte"),
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused(text: str, cause: str) -> None:
    with pytest.raises(UserError, match=cause) as refused:
        parse_size("--corpus-bytes", text)
    assert "5TB" in refused.value.cure


def test_quantities_are_written_with_three_digits() -> None:
    assert [format_size(size) for size in (0, 999, 1000, 999_600, 5e12, 7e18)] == [
        "0 B", "999 B", "1.00 kB", "1.00 MB", "5.00 TB", "7,000 PB",
    ]  # fmt: skip
    assert [format_duration(seconds) for seconds in (0.04, 99, 100, 3600, 1e6)] == [
        "0.0 s", "99 s", "2 min", "1 h 0 min", "11 d 14 h",
    ]  # fmt: skip
    assert [format_number(number) for number in (12_345, 999_600, 1.24e12)] == [
        "12,345", "1.00 million", "1.24 trillion",
    ]  # fmt: skip
    assert [format_hours(hours) for hours in (1e-5, 0.00412, 4.123, 1234.5)] == [
        "< 0.001", "0.00412", "4.12", "1,234",
    ]  # fmt: skip
