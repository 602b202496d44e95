"""Parquet's own structures, each beside a plain reading of the specification."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.formats import parquet_encodings
from corpusmill.formats.parquet import cut_pages
from corpusmill.formats.parquet_encodings import (
    Byte,
    Long,
    count_levels,
    encode_struct,
    make_dictionary,
    most_level_bytes,
    put_levels,
    put_places,
    put_runs,
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


def test_many_groups_have_several_headers() -> None:
    # A header of a single byte tells of up to 63 groups of eight bits.
    for bits in (8 * 62, 8 * 63 - 1, 8 * 63, 8 * 63 + 1, 8 * 64, 8 * 127):
        out = np.zeros(most_level_bytes(bits), np.uint8)
        end = put_runs(np.ones(bits, np.int64), True, out, 0)
        groups = -(-bits // 8)
        assert end == groups + -(-groups // 63)
        assert read_runs(out[:end].tobytes(), bits) == [1 - bit % 2 for bit in range(bits)]


def test_runs_are_as_short_as_they_can_be() -> None:
    out = np.zeros(20, np.uint8)
    assert out[: put_runs(np.array([9, 2]), True, out, 0)].tolist() == [18, 1, 3, 0]


def read_places(data: bytes, number: int) -> list[int]:
    """Read places in a dictionary of more than two values; exactly the bytes must be used."""
    bits, groups = data[0], -(-number // 8)
    if not number:
        assert len(data) == 1
        return []
    header = bytes([*((groups << 1 | 1) >> 7 * i & 127 | 128 for i in range(5))])
    size = max(1, -(-(groups << 1 | 1).bit_length() // 7))
    assert data[1 : 1 + size] == header[: size - 1] + bytes([header[size - 1] & 127])
    assert len(data) == 1 + size + groups * bits
    packed, width = data[1 + size :], bits // 8
    places = [
        int.from_bytes(packed[begin : begin + width], "little")
        for begin in range(0, len(packed), width)
    ]
    assert not any(places[number:])
    return places[:number]


def encode_values(values: np.ndarray) -> tuple[list[int], list[int]] | None:
    """Return the dictionary and the places that are written; None if there is no dictionary."""
    dictionary = make_dictionary(values)
    if dictionary is None:
        return None
    out = np.full(3 * len(values) + 64, 99, np.uint8)
    end = put_places(dictionary, values, out, 1)
    assert out[0] == 99
    assert (out[end:] == 99).all()
    data, entries = out[1:end].tobytes(), dictionary.values.tolist()
    if len(entries) <= 2:
        assert data[0] == 1
        return entries, read_runs(data[1:], len(values))
    assert data[0] == (8 if len(entries) <= 256 else 16 if len(entries) <= 65536 else 24)
    return entries, read_places(data, len(values))


@given(
    st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "int64"]),
    st.integers(0, 2000), st.integers(1, 300), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_a_dictionary_and_places_give_the_values(
    dtype: str, number: int, distinct: int, seed: int
) -> None:
    draw, limits = np.random.default_rng(seed), np.iinfo(dtype)
    smallest = draw.integers(limits.min, limits.max, dtype=np.int64, endpoint=True)
    kinds = smallest + draw.integers(0, 2 * distinct, distinct)
    values = draw.choice(kinds[(limits.min <= kinds) & (kinds <= limits.max)], number).astype(dtype)
    encoded = encode_values(values)
    if encoded is not None:
        entries, places = encoded
        assert len({*entries}) == len(entries)
        assert np.array(entries)[places].tolist() == values.tolist()


def test_values_that_recur_have_a_dictionary() -> None:
    # A value must recur five times. Up to 256 neighbouring values all have entries.
    for entries in (1, 256, 257):
        values = np.arange(7, 7 + entries, dtype=np.int16)
        assert make_dictionary(np.tile(values, 4)) is None
        assert make_dictionary(np.tile(values, 5)) is not None
    # Places have bits for the entries.
    for entries in (1, 2, 3, 256, 257, 65536, 65537):
        values = np.tile(np.arange(entries, dtype=np.int32), 5)
        assert encode_values(values) == ([*range(entries)], values.tolist())


def test_no_dictionary_has_more_entries_than_three_bytes_tell_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet_encodings, "_MOST_TRIPLES", 300)
    assert make_dictionary(np.tile(np.arange(300), 5)) is not None
    assert make_dictionary(np.tile(np.arange(301), 5)) is None


def test_the_most_frequent_value_comes_first() -> None:
    values = np.array([900] * 1000 + [7] * 500 + [5] * 500)
    encoded = encode_values(values)
    assert encoded == ([900, 5, 7], [0] * 1000 + [2] * 500 + [1] * 500)
    assert encode_values(np.array([7, *[900] * 1000])) == ([900, 7], [1, *[0] * 1000])


def test_values_that_lie_far_apart_stand_as_they_are() -> None:
    """Their counts would take more memory than they themselves."""
    assert make_dictionary(np.array([0, 999] * 500)) is not None
    assert make_dictionary(np.array([0, 1000] * 500)) is None
    assert make_dictionary(np.array([-(2**63), 2**63 - 1] * 500)) is None


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


def test_structures_are_those_of_thrift() -> None:
    structures: list[tuple[dict[int, Any], list[int]]] = [
        ({1: 5, 3: b"a"}, [0x15, 10, 0x28, 1, 97, 0]),
        ({1: Long(64), 2: Byte(7)}, [0x16, 128, 1, 0x13, 7, 0]),
        ({2: True, 3: False, 4: {1: 0}}, [0x21, 0x12, 0x1C, 0x15, 0, 0, 0]),
        ({1: [1, 2], 2: []}, [0x19, 0x25, 2, 4, 0x19, 0x0C, 0]),
        ({1: [0] * 14, 2: b"b" * 127}, [0x19, 0xE5, *[0] * 14, 0x18, 127, *b"b" * 127, 0]),
        ({1: [0] * 15, 2: b"b" * 128}, [0x19, 0xF5, 15, *[0] * 15, 0x18, 128, 1, *b"b" * 128, 0]),
    ]
    for fields, expected in structures:
        assert list(encode_struct(fields)) == expected
    for largest in (0, 2**31 - 1, Long(2**63 - 1), Byte(127)):
        assert encode_struct({1: largest})[-1] == 0
