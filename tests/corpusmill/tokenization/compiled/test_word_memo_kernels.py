"""The memo of words in compiled loops."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpusmill.tokenization.compiled import word_memo as kernels
from corpusmill.tokenization.compiled.units import NO_SINGLE, read_part
from corpusmill.tokenization.compiled.word_memo import MemoArrays, allocate_memo

# Bytes near others in value, and with the highest bit set, where bit tricks go wrong
byte_strings = st.lists(st.sampled_from([0, 1, 32, 97, 127, 128, 254]), max_size=40).map(bytes)


def padded(text: bytes) -> np.ndarray:
    return np.frombuffer(text + b"\xa0 \x00\xff\x20\x21\x1f\x80" * 2, np.uint8)


@settings(max_examples=40, deadline=None)
@given(text=byte_strings)
@example(text=bytes(range(24)))
def test_units_are_read_in_words_that_are_filled_up(text: bytes) -> None:
    for size in range(len(text) + 1):
        expected = text[:size][:16].ljust(16, b"\xff")
        words = kernels.read_unit(padded(text), 0, size)
        if size <= kernels.SHORT_UNIT:
            assert np.array(words, np.uint64).tobytes() == expected
        for place in range(0, 16, 8):
            word = np.uint64(read_part(padded(text), place, size - place))
            assert place >= len(padded(text)) - 8 or word.tobytes() == expected[place : place + 8]


@pytest.mark.parametrize("length", [16, 17, 24, 25, 64])
def test_a_change_anywhere_changes_the_hash_of_a_long_unit(length: int) -> None:
    text = bytes(range(100, 100 + length))
    values = {kernels.hash_tail(padded(text), 0, length)}
    for place in range(8, length):
        for bit in range(8):
            changed = bytearray(text)
            changed[place] ^= 1 << bit
            values.add(kernels.hash_tail(padded(bytes(changed)), 0, length))
    assert len(values) == 1 + 8 * (length - 8)
    assert all(kernels.is_long(np.uint64(value)) for value in values)


@pytest.mark.parametrize("before", [0, 2, 4, 7, 11, 13])
def test_units_that_differ_in_any_place_are_spread_over_the_index(before: int) -> None:
    memo = allocate_memo(1 << 18)  # 8192 slots: 2000 at random take 1775 of them, 13 up or down
    slots = {find(memo, b"", b"x" * before + b"%04d" % number)[1] for number in range(2000)}
    assert len(memo.slots) == 8192
    assert len(slots) > 1600


def find(memo: MemoArrays, before: bytes, unit: bytes) -> tuple[int, int, np.uint64]:
    span = len(before), len(before) + len(unit)
    entry, slot, second = kernels.find_entry(memo, padded(before + unit), span)
    return int(entry), int(slot), np.uint64(second)


def test_single_characters_of_three_bytes_are_found_in_a_table() -> None:
    asked: list[str] = []

    def encode(text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        units = [text[start:end].tobytes().decode() for start, end in spans]
        asked.extend(units)
        rows = [[ord(character) for character in unit.replace("式", "ab")] for unit in units]
        return np.array([*chain(*rows)], np.int32), np.cumsum([0, *map(len, rows)])

    memo = kernels.WordMemo(encode, "ideographs")
    # fmt: off
    sentences = [
        "株東式株，東。", "，", "\u3099", "\u3099株", "é", "aéb", "東\u0301", "株東\u3099", "𠀀",
    ]
    # fmt: on
    text = np.frombuffer("".join(sentences).encode(), np.uint8)
    offsets = np.cumsum([0, *(len(sentence.encode()) for sentence in sentences)])
    for _ in range(3):
        ids, ends = memo.encode(text, offsets, np.dtype(np.int32))
        rows = ["".join(map(chr, ids[first:last])) for first, last in pairwise(ends)]
        assert rows == [sentence.replace("式", "ab") for sentence in sentences]
    assert len(asked) == len(set(asked))
    known = np.flatnonzero(memo._table != NO_SINGLE)
    # Those that extend others are not in it, nor those with several ids.
    assert {chr(code): int(memo._table[code]) for code in known} == {
        "株": ord("株"), "東": ord("東"), "，": ~ord("，"), "。": ~ord("。"),
    }  # fmt: skip


@pytest.mark.parametrize("largest", [2**28 - 1, 2**28, 2**31 - 1])
def test_ids_may_have_any_size(largest: int) -> None:
    def encode(_: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids = np.tile(np.arange(largest - 3, largest + 1, dtype=np.int32), len(spans))
        return ids, np.arange(0, len(ids) + 1, 4)

    memo = kernels.WordMemo(encode)
    text = np.frombuffer(b"a bb a bb", np.uint8)
    for _ in range(2):
        ids, _ = memo.encode(text, np.array([0, len(text)]), np.dtype(np.int32))
        assert ids.tolist() == [*range(largest - 3, largest + 1)] * 4
