"""Hashes of texts, against the original algorithm in plain Python."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.text_hashes import digests_of, hash_lines

C1, C2, BITS = 0x87C37B91114253D5, 0x4CF5AD432745937F, 2**64 - 1


def rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & BITS


def finish(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & BITS
    return value ^ value >> 33


def murmur(text: bytes) -> tuple[int, int]:
    """MurmurHash3_x64_128 with seed 0, after its source."""
    one = two = 0
    for place in range(0, len(text) + 1, 16):
        block = text[place : place + 16]
        first, second = (int.from_bytes(part, "little") for part in (block[:8], block[8:]))
        one ^= rotate(first * C1 & BITS, 31) * C2 & BITS
        if len(block) == 16:
            one = ((rotate(one, 27) + two) * 5 + 0x52DCE729) & BITS
        two ^= rotate(second * C2 & BITS, 33) * C1 & BITS
        if len(block) == 16:
            two = ((rotate(two, 31) + one) * 5 + 0x38495AB5) & BITS
    one, two = one ^ len(text), two ^ len(text)
    one = (one + two) & BITS
    two = (two + one) & BITS
    one, two = finish(one), finish(two)
    one = (one + two) & BITS
    return one, (two + one) & BITS


@given(st.binary(max_size=100), st.integers(0, 9))
def test_texts_of_any_length_and_place(text: bytes, place: int) -> None:
    content = np.frombuffer(b"x" * place + text, np.uint8)
    [hashed] = hash_lines(content, np.arange(2), np.array([place, place + len(text)])).tolist()
    assert tuple(hashed) == murmur(text)


@given(st.lists(st.lists(st.text(max_size=700), max_size=4), max_size=5), st.integers(0, 5))
def test_lines_are_hashed_as_the_joined_text(texts: list[list[str]], skipped: int) -> None:
    lists = pa.array(texts, pa.list_(pa.string()))[skipped:]
    lines, offsets = ragged.from_arrow(lists)
    hashes = hash_lines(*(ragged.from_arrow(lines)[0], offsets, ragged.from_arrow(lines)[1]))
    expected = [murmur("\n".join(text).encode()) for text in texts[skipped:]]
    assert [tuple(pair) for pair in hashes.tolist()] == expected
    documents = pa.record_batch([lists], ["sentences"])
    assert digests_of(documents).tolist() == [first for first, _ in expected]


@pytest.mark.parametrize("size", [1023, 1024, 1025, 2049])
def test_lines_longer_than_the_first_room_are_hashed_as_the_joined_text(size: int) -> None:
    text = np.arange(size - 1, dtype=np.uint8)  # and a newline
    lines = np.array([0, 100, size - 1])
    joined = np.insert(text, 100, 10)
    whole = hash_lines(joined, np.array([0, 1]), np.array([0, size]))
    assert hash_lines(text, np.array([0, 2]), lines).tolist() == whole.tolist()
