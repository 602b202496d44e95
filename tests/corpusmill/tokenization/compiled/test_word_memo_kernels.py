"""The memo of words in compiled loops."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpusmill.tokenization.compiled import units as unit_words
from corpusmill.tokenization.compiled import word_memo as kernels
from corpusmill.tokenization.compiled.units import WORD_BYTES, find_separable, may_extend
from corpusmill.tokenization.compiled.word_memo import MemoArrays, allocate_memo
from tests.corpusmill.tokenization.compiled.test_units import SEPARATING
from tests.corpusmill.tokenization.compiled.test_units import texts as texts_with_ideographs
from tests.tools.token_rows import as_arrays

# Bytes near a space's in value, and with the highest bit set, where bit tricks go wrong
byte_strings = st.lists(
    st.sampled_from([0, 1, 31, 32, 32, 33, 97, 98, 127, 128, 160, 223, 255]), max_size=40
).map(bytes)


def padded(text: bytes) -> np.ndarray:
    return np.frombuffer(text + b"\xa0 \x00\xff\x20\x21\x1f\x80", np.uint8)


@settings(max_examples=150, deadline=None)
@given(text=byte_strings)
@example(text=b"abcdefgh")
@example(text=b"\x21 \x21" * 5)  # a borrow after a space
def test_a_word_is_read_up_to_a_space_or_the_end(text: bytes) -> None:
    for place in range(len(text) + 1):
        for stop in range(place, len(text) + 1):
            expected = text[place:stop].split(b" ")[0][:WORD_BYTES]
            word, size = unit_words.read_word(padded(text), place, stop)
            assert size == len(expected)
            assert np.uint64(word).tobytes() == expected.ljust(WORD_BYTES)


@settings(max_examples=120, deadline=None)
@given(text=byte_strings)
def test_a_unit_is_read_to_its_end_and_hashed_by_its_bytes_alone(text: bytes) -> None:
    seen: dict[bytes, int] = {}
    for start in range(len(text)):
        unit = unit_words.read_unit(padded(text), start, len(text), 0)
        expected = text[start:].split(b" ")[0]
        assert (unit.start, unit.end) == (start, start + len(expected))
        assert np.uint64(unit.first).tobytes() == expected[:WORD_BYTES].ljust(WORD_BYTES)
        alone = unit_words.read_unit(padded(expected), 0, len(expected), 0)
        assert alone == (0, len(expected), 0, unit.first, unit.hash)
        after_space = unit_words.read_unit(padded(b" " + expected), 0, 1 + len(expected), 1)
        assert after_space == (1, 1 + len(expected), 1, unit.first, unit.hash)
        assert seen.setdefault(expected, unit.hash) == unit.hash


@pytest.mark.parametrize(
    "text", [b"abcdefg", b"abcdefgh", b"abcdefghijklmnop", b"\xf0\x9f\x9a\x80" * 5]
)
def test_a_change_anywhere_changes_the_hash(text: bytes) -> None:
    values = {unit_words.read_unit(padded(text), 0, len(text), 0).hash}
    for place in range(len(text)):
        for bit in range(8):
            changed = bytearray(text)
            changed[place] ^= 1 << bit
            if 32 not in changed:
                values.add(unit_words.read_unit(padded(bytes(changed)), 0, len(text), 0).hash)
    assert len(values) >= 8 * len(text) - 3  # two changes or so make a space


@pytest.mark.parametrize("before", [0, 2, 4, 7, 13])
def test_units_that_differ_in_any_place_are_spread_over_the_table(before: int) -> None:
    memo = allocate_memo(1 << 18)  # 8192 slots: 2000 at random take 1775 of them, 13 up or down
    slots = {find(memo, b"", b"x" * before + b"%04d" % number)[1] for number in range(2000)}
    assert len(memo.table) == 8192
    assert len(slots) > 1600


def look(
    memo: MemoArrays,
    known: int,
    *sentences: bytes,
    longest: int = 64,
    own_space: int | None = None,
) -> list[Any]:
    text, offsets = padded(b"".join(sentences)), np.cumsum([0, *map(len, sentences)])
    looked = kernels.look_up(memo, known, longest, own_space, None, text, offsets)
    return [array.tolist() for array in looked]


def test_units_are_numbered_in_their_order() -> None:
    memo = allocate_memo(1 << 12)
    assert look(memo, 0, b"ab  c ab") == [[0, 1, 0], [0, 3], [[0, 2], [4, 5]], []]
    assert look(memo, 2, b"", b" ", b"d c", b"ab") == [[2, 1, 0], [0, 0, 0, 2, 3], [[1, 2]], []]


def units_of(sentence: str) -> list[str]:
    """The units of a sentence: the normalizer separates ideographs, of which some stay."""
    separated = ""
    for character, after in zip(sentence, [*sentence[1:], " "], strict=False):
        stays = may_extend(ord(after))
        separated += character if stays else SEPARATING.normalize_str(character)
    return [unit for unit in separated.split(" ") if unit]


@settings(max_examples=150, deadline=None)
@given(sentences=st.lists(texts_with_ideographs, max_size=5), size=st.sampled_from([0, 1 << 12]))
@example(sentences=["株式 a", "a株b", "", "\U00020000", "株" * 30, "a" * 70 + "株"], size=1 << 12)
@example(sentences=["株株株\u0301a株", "株\u0301", "株\U000e0100株\U000e0100株株"], size=1 << 12)
def test_ideographs_are_units_unless_a_mark_may_follow(sentences: list[str], size: int) -> None:
    memo = allocate_memo(size, True)
    text, offsets = as_arrays(sentences)
    separable = find_separable(text, offsets)
    text = np.append(text, np.zeros(WORD_BYTES, np.uint8))
    spans: list[list[int]] = []
    for _ in range(2):  # what is remembered is found again
        looked = kernels.look_up(memo, len(spans), 64, None, separable, text, offsets)
        entries, unit_offsets, new, unremembered = (array.tolist() for array in looked)
        spans, others = spans + new, iter(unremembered)
        found = [spans[entry] if entry >= 0 else next(others) for entry in entries]
        written = [text[begin:end].tobytes().decode() for begin, end in found]
        for sentence, first, last in zip(sentences, unit_offsets, unit_offsets[1:], strict=False):
            assert written[first:last] == units_of(sentence)


def test_the_end_of_a_sentence_ends_a_unit() -> None:
    memo = allocate_memo(1 << 12)
    entries, unit_offsets, new, _ = look(memo, 0, b"abcdefgh", b"abcd", b"efgh", b"abcdefgh")
    assert entries == [0, 1, 2, 0]
    assert unit_offsets == [0, 1, 2, 3, 4]
    assert new == [[0, 8], [8, 12], [12, 16]]


def test_long_units_are_not_remembered() -> None:
    memo = allocate_memo(1 << 12)
    text = b"x" * 8 + b" " + b"y" * 9 + b" z"
    assert look(memo, 0, text, longest=8) == [[0, -1, 1], [0, 3], [[0, 8], [19, 20]], [[9, 18]]]


def test_units_without_room_are_not_remembered() -> None:
    memo = allocate_memo(0)
    entries, _, new, unremembered = look(memo, 0, b" ".join(b"%d" % n for n in range(20)))
    assert entries == [*range(15), *[-1] * 5]
    assert (len(new), len(unremembered)) == (15, 5)
    memo = allocate_memo(0)  # 16 words after first ones
    entries, *_ = look(memo, 0, b" ".join(bytes([97 + n]) * 40 for n in range(4)) + b" e")
    assert entries == [0, 1, 2, -1, 3]


units = st.lists(
    st.binary(min_size=1, max_size=26).map(lambda text: text.replace(b" ", b"\xa0")),
    unique=True,
    max_size=15,
)


@settings(max_examples=120, deadline=None)
@given(units=units)
@example(units=[b"a", b"a\x00", b"a" * 8, b"a" * 9, b"a" * 16, b"a" * 7 + b"\x00"])
def test_what_was_added_is_found_and_nothing_else(units: list[bytes]) -> None:
    memo = allocate_memo(1 << 12)
    for entry, unit in enumerate(units):
        known, slot = find(memo, b"", unit)
        assert known == -1
        assert kernels.add_entry(memo, entry, slot, padded(unit), read_plain(b"", unit))
    for entry, unit in enumerate(units):
        assert find(memo, b"x ", unit)[0] == entry


def read_plain(before: bytes, text: bytes) -> unit_words.Unit:
    """A unit that owns no space, with the types that compiled kernels take."""
    start = len(before)
    unit: unit_words.Unit = unit_words.read_unit(padded(before + text), start, start + len(text), 0)
    return unit._replace(first=np.uint64(unit.first), hash=np.uint64(unit.hash))


def find(memo: MemoArrays, before: bytes, text: bytes) -> tuple[int, int]:
    entry, slot = kernels.find_entry(memo, padded(before + text), read_plain(before, text))
    return int(entry), int(slot)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32])
def test_ids_of_units_follow_each_other(dtype: type) -> None:
    memo = allocate_memo(0)
    memo.id_ends[:4] = [0, 2, 2, 3]  # the ids of entries 0, 1 and 2 are [5, 6], [] and [7]
    memo.ids[:3] = [5, 6, 7]
    token_ids, token_offsets = kernels.emit_ids(
        memo,
        np.array([0, -1, 2, -1, 1, 0], np.int32),
        np.array([0, 2, 2, 5, 6]),
        np.array([30_000, 8, 9], np.int32),
        np.array([0, 1, 3]),
        np.empty(0, dtype),
    )
    assert token_ids.dtype == dtype
    rows = [token_ids[first:last].tolist() for first, last in pairwise(token_offsets)]
    assert rows == [[5, 6, 30_000], [], [7, 8, 9], [5, 6]]
