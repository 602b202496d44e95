"""Parquet's own structures, each beside a plain reading of the specification."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.formats.parquet_writer import (
    Byte,
    Long,
    count_levels,
    cut_pages,
    encode_struct,
    most_level_bytes,
    put_levels,
    put_runs,
    put_streams,
)


def read_runs(data: bytes, number: int) -> list[int]:
    """Read bits as Parquet's encoding of runs has them; exactly the bytes must be used."""
    bits: list[int] = []
    stream = iter(data)
    for first in stream:
        header, shift, last = first & 127, 7, first
        while last > 127:
            last = next(stream)
            header |= (last & 127) << shift
            shift += 7
        if header & 1:
            groups = [next(stream) for _ in range(header >> 1)]
            bits += [group >> place & 1 for group in groups for place in range(8)]
        else:
            bits += [next(stream)] * (header >> 1)
    assert number <= len(bits) < number + 8
    return bits[:number]


def levels_of(rows: list[int]) -> Iterator[tuple[int, int]]:
    for length in rows:
        yield from [(0, 1), *[(1, 1)] * (length - 1)] if length else [(0, 0)]


@given(st.lists(st.integers(0, 3) | st.integers(5, 20) | st.integers(600, 70_000), max_size=30))
def test_levels_come_from_lengths(lengths: list[int]) -> None:
    offsets = np.cumsum([7, *lengths])
    expected = list(levels_of(lengths))
    assert count_levels(offsets) == len(expected)
    out = np.full(most_level_bytes(len(expected)) + 1, 99, np.uint8)
    size = put_levels(offsets, out)
    assert (out[size:] == 99).all()
    data = out[:size].tobytes()
    for level in (0, 1):
        size = int.from_bytes(data[:4], "little")
        assert read_runs(data[4 : 4 + size], len(expected)) == [entry[level] for entry in expected]
        data = data[4 + size :]
    assert not data


@given(st.lists(st.integers(0, 40), max_size=400), st.booleans())
def test_runs_of_any_lengths(counts: list[int], first: bool) -> None:
    bits = [int(first) ^ run & 1 for run, count in enumerate(counts) for _ in range(count)]
    out = np.zeros(most_level_bytes(len(bits)), np.uint8)
    end = put_runs(np.array(counts, np.int64), first, out, 3)
    assert read_runs(out[3:end].tobytes(), len(bits)) == bits


# A header of a single byte tells of up to 63 groups of eight bits.
@pytest.mark.parametrize("bits", [8 * 62, 8 * 63 - 1, 8 * 63, 8 * 63 + 1, 8 * 64, 8 * 127])
def test_many_groups_have_several_headers(bits: int) -> None:
    out = np.zeros(most_level_bytes(bits), np.uint8)
    end = put_runs(np.ones(bits, np.int64), True, out, 0)
    groups = -(-bits // 8)
    assert end == groups + -(-groups // 63)
    assert read_runs(out[:end].tobytes(), bits) == [1 - bit % 2 for bit in range(bits)]


def test_runs_are_as_short_as_they_can_be() -> None:
    out = np.zeros(20, np.uint8)
    assert out[: put_runs(np.array([9, 2]), True, out, 0)].tolist() == [18, 1, 3, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("width", [4, 8])
def test_streams_are_the_bytes_of_widened_values(dtype: str, width: int) -> None:
    limits = np.iinfo(dtype)
    values = np.array([0, 1, limits.min, limits.max, 100], dtype)
    out = np.zeros(2 + width * len(values), np.uint8)
    assert put_streams(values, width, out, 2) == len(out)
    wide = values.astype(np.int64).astype(f"<i{width}").view(np.uint8).reshape(-1, width)
    assert out[2:].reshape(width, -1).T.tolist() == wide.tolist()


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.integers(1, 20))
def test_pages_hold_whole_rows(lengths: list[int], most: int) -> None:
    offsets = np.cumsum([5, *lengths])
    pages = cut_pages(offsets, most)
    edges = [0, *(stop for _, stop in pages)]
    assert edges == [*(start for start, _ in pages), len(lengths)]
    for start, stop in pages:
        rows, values = stop - start, offsets[stop] - offsets[start]
        assert rows == 1 or (rows <= most and values <= most)
        is_full = rows == most or (stop < len(lengths) and values + lengths[stop] > most)
        assert is_full or stop == len(lengths)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({1: 5, 3: b"a"}, [0x15, 10, 0x28, 1, 97, 0]),
        ({1: Long(64), 2: Byte(7)}, [0x16, 128, 1, 0x13, 7, 0]),
        ({2: True, 3: False, 4: {1: 0}}, [0x21, 0x12, 0x1C, 0x15, 0, 0, 0]),
        ({1: [1, 2], 2: []}, [0x19, 0x25, 2, 4, 0x19, 0x0C, 0]),
        ({1: [0] * 14, 2: b"b" * 127}, [0x19, 0xE5, *[0] * 14, 0x18, 127, *b"b" * 127, 0]),
        ({1: [0] * 15, 2: b"b" * 128}, [0x19, 0xF5, 15, *[0] * 15, 0x18, 128, 1, *b"b" * 128, 0]),
    ],
)
def test_structures_are_those_of_thrift(fields: dict[int, object], expected: list[int]) -> None:
    assert list(encode_struct(fields)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, 2**31 - 1, Long(2**63 - 1), Byte(127)])
def test_the_largest_integers_are_written(value: int) -> None:
    assert encode_struct({1: value})[-1] == 0


@pytest.mark.parametrize("value", [-1, 2**31, Long(2**63), Byte(128)])
def test_integers_that_do_not_fit_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match=f"{int(value)} does not fit"):
        encode_struct({1: value})
