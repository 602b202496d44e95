"""The memo of words in compiled loops."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpusmill.tokenization.compiled import word_memo as kernels
from corpusmill.tokenization.compiled.units import NO_SINGLE, NO_TABLE, read_part
from corpusmill.tokenization.compiled.word_memo import Found, MemoArrays, allocate_memo

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


units = st.lists(st.binary(min_size=1, max_size=26), unique=True, max_size=15).map(
    lambda units: [*dict.fromkeys(unit.replace(b"\xff", b"\xfe") for unit in units)]
)


@settings(max_examples=40, deadline=None)
@given(units=units)
@example(units=[b"a", b"a\x00", b"a" * 8, b"a" * 9, b"a" * 16, b"a" * 7 + b"\x00"])
@example(units=[b"\x00", b"\x00" * 15, b"\x00" * 16, b"\x00" * 17, b"\x00" * 24])
def test_what_was_added_is_found_and_nothing_else(units: list[bytes]) -> None:
    memo = allocate_memo(1 << 12)
    for number, unit in enumerate(units):
        entry, slot, second = find(memo, b"", unit)
        assert entry == 0
        span = (0, len(unit))
        assert kernels.add_entry(memo, np.uint64(slot), padded(unit), span, second) == number + 1
    larger = kernels.grow_memo(memo, 1 << 16)
    assert larger is not None
    for known in (memo, larger):
        for number, unit in enumerate(units):
            assert find(known, b"x ", unit)[0] == number + 1


def look(memo: MemoArrays, *sentences: bytes, longest: int = 64) -> Found:
    text, offsets = padded(b"".join(sentences)), np.cumsum([0, *map(len, sentences)])
    cuts = (text == 0x20).view(np.uint8)
    return kernels.look_up(memo, longest, text, cuts, offsets, NO_TABLE, np.empty(0, np.int32))  # type: ignore[no-any-return]


def test_units_wait_until_their_ids_are_known() -> None:
    memo = allocate_memo(1 << 12)
    found = look(memo, b"ab c ab", b"", b"ab c")
    assert found.waiting.tolist() == [
        [0, 2, 1, 0],
        [2, 4, 2, 0],
        [4, 7, 3, 0],
        [7, 9, 1, 0],
        [9, 11, 2, 0],
    ]
    assert found.waiting_ends.tolist() == [0, 3, 3, 5]
    assert found.new.tolist() == [0, 1, 2]
    kernels.put_ids(memo, np.array([1, 2, 3]), np.array([7, 8, 9]), np.array([0, 1, 3, 3]))
    found = look(memo, b"ab c ab", b"", b"ab d", b"c ab c")
    assert found.ids.tolist() == [7, 8, 9, 7, 8, 9]
    assert found.ends.tolist() == [0, 3, 3, 4, 6]
    assert found.waiting.tolist() == [[9, 11, 4, 4], [11, 12, 5, 4]]
    assert found.new.tolist() == [0, 1]


def test_long_units_are_not_remembered() -> None:
    memo = allocate_memo(1 << 12)
    found = look(memo, b"x" * 8 + b" " + b"y" * 8 + b" z", longest=8)
    assert found.waiting[:, 2].tolist() == [1, 0, 2]


def test_units_without_room_are_not_remembered() -> None:
    found = look(allocate_memo(0), b" ".join(b"%d" % number for number in range(20)))
    assert found.waiting[:, 2].tolist() == [*range(1, 16), *[0] * 5]
    memo = allocate_memo(0)  # 16 words of long units
    found = look(memo, b" ".join(bytes([97 + number]) * 39 for number in range(4)) + b" e")
    assert found.waiting[:, 2].tolist() == [1, 2, 3, 0, 4]


@pytest.mark.parametrize("size", [1022, 1023, 1024, 1025, 2048, 3000])
@pytest.mark.parametrize("gap", [1, 2, 9, 700, 5000])
def test_units_go_on_from_block_to_block(size: int, gap: int) -> None:
    text = bytearray(b"x" * size)
    text[gap::gap] = b" " * len(text[gap::gap])
    found = look(allocate_memo(1 << 20), bytes(text), b"y", longest=10_000)
    places = [*range(0, size, gap)]
    assert found.waiting[:, 0].tolist() == [*places, size]
    assert found.waiting[:, 1].tolist() == [*places[1:], size, size + 1]


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32])
def test_ids_are_put_where_they_belong(dtype: type) -> None:
    memo = allocate_memo(0)
    counts = [0, 1, 2, 3, 4, 5, 9]
    ids, ends = np.arange(1, sum(counts) + 1), np.cumsum([0, *counts])
    expected = [ids[first:last].tolist() for first, last in pairwise(ends)]
    sentence = b"a b c d e f g"
    look(memo, sentence)
    kernels.put_ids(memo, np.arange(1, 8), ids, ends)
    text, offsets = padded(sentence + b" b h b"), np.array([0, 13, 13, 15, 19])
    cuts = (text == 0x20).view(np.uint8)
    found = kernels.look_up(memo, 1, text, cuts, offsets, NO_TABLE, np.empty(0, dtype))
    found = kernels.look_up(memo, 64, text, cuts, offsets, NO_TABLE, np.empty(0, dtype))
    assert found.ids.dtype == dtype
    others = found.waiting[:, 2].copy()
    others[others > 7] = 0  # as if there had been no room
    found.waiting[:, 2] = others
    own, own_ends = np.array([30_000, 8], np.int32), np.array([0, 2])
    token_ids, token_offsets = kernels.fill_in(memo, found, own, own_ends)
    assert token_ids.dtype == dtype
    rows = [token_ids[first:last].tolist() for first, last in pairwise(token_offsets)]
    whole = [number for row in expected for number in row]
    assert rows == [whole, [], expected[1], [30_000, 8, *expected[1]]]


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
