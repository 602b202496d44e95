"""Text prepared to be cut into units."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from corpusmill.tokenization.compiled import units
from corpusmill.tokenization.compiled.units import is_ideograph, may_extend
from tests.tools.knobs import knobs
from tests.tools.token_rows import as_arrays, as_spans

BLANKS = "".join(one for one in map(chr, range(0x110000)) if one.isspace())

texts = st.lists(
    st.one_of(
        st.sampled_from([" ", "  ", "a", "\t", "株", "\U00020000", "é", *BLANKS]),
        st.text(st.characters(codec="utf-8"), max_size=4),
    ),
    max_size=12,
).map("".join)


def padded(*sentences: str) -> tuple[np.ndarray, np.ndarray]:
    text, offsets = as_arrays([*sentences])
    return np.append(text, np.full(units.PADDING, 0x20, np.uint8)), offsets


def shown(cuts: np.ndarray, text: np.ndarray, offsets: np.ndarray) -> list[str]:
    """The sentences, with a bar before each cut within them."""
    return [
        "".join(
            "|" * int(cuts[place] and place > start) + chr(text[place])
            for place in range(start, end)
        )
        .encode("latin-1")
        .decode()
        for start, end in pairwise(offsets.tolist())
    ]


def cut_plainly(sentence: str) -> str:
    """The plain way: character by character."""
    cut = sentence[:1]
    for before, character in pairwise(sentence):
        is_space = before.isspace() or ord(before) < 0x20
        cut += "|" * (character == " " and not is_space) + character
    return cut


@settings(max_examples=50, deadline=None)
@given(sentences=st.lists(texts, max_size=5))
@example(sentences=["a  b c", "a\t b", " a", "  a", "a \u3000 b", "\u00a0 x", "", " "])
@example(sentences=[f"a{blank} b" for blank in BLANKS])
@example(sentences=["\u00a0 b"])
@example(sentences=["\u3000 b", "a b"])
def test_words_own_the_spaces_that_follow_no_white_space(sentences: list[str]) -> None:
    text, offsets = padded(*sentences)
    expected = [cut_plainly(sentence) for sentence in sentences]
    assert shown(units.find_spaces(text), text, offsets) == expected


SEPARATING = normalizers.BertNormalizer(
    clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
)


def test_ideographs_are_those_that_the_normalizer_separates() -> None:
    for code in [*range(0xD800), *range(0xE000, 0x110000)]:
        is_listed = SEPARATING.normalize_str(chr(code)) != chr(code)
        assert is_ideograph(code) == is_listed, hex(code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<sb", True), ("<s", True), ("< s<", False), ("<", False), ("<\u017f", False),
        ("", False), ("!", True), ("a!", True), ("!b", True), ("株", True), ("東", False),
    ],
)  # fmt: skip
def test_added_tokens_are_suspected_by_their_first_two_bytes(text: str, expected: bool) -> None:
    starts = units.token_starts([{"content": content} for content in ("<s>", "!", "株")])
    content = np.frombuffer(b"<s!" + text.encode() + b"!s>", np.uint8)
    found = units.may_have_token(starts, content, 3, len(content) - 3)
    assert found == expected


EXTENDS = regex.compile(r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]")


def test_no_character_that_extends_another_is_missed() -> None:
    seen = 0
    for code in [*range(0xD800), *range(0xE000, 0x110000)]:
        if EXTENDS.match(chr(code)):
            seen += 1
            assert may_extend(code), hex(code)
    assert seen > 2000
    common = "a ,0\n\u00b7\u2014\u2026\u201d\u3002\u3001\u300b\u306e\u30a2\uff0c\uff11"
    common += "\u682a\U00020000\ufe50\u03b2"
    for character in common:
        assert not may_extend(ord(character))


def test_ideographs_are_cut_out_unless_a_mark_may_follow() -> None:
    text, offsets = padded("a\u5f0f\u5f0f b", "\u5f0f\u0301a", "a b", "", "x\U00020000", "\u5f0f")
    singles = np.full(0x10000, units.NO_SINGLE, np.int32)
    assert shown(units.find_cuts("ideographs", text, offsets, singles), text, offsets) == [
        "a|\u5f0f|\u5f0f| b", "\u5f0f\u0301a", "a| b", "", "x|\U00020000", "\u5f0f",
    ]  # fmt: skip


# A bar begins a unit, and an equals sign a run of them.
@pytest.mark.parametrize(
    "expected",
    [
        "=株株|a=株", "|株\u0301", "=株株|株\u0301", "=株|，株\u0301", "=株，株|，株\u0301",
        "=株|式=株", "=株|，|式", "=株，", "=株|，a", "=株|，，=株", "|，=株，株", "=株|、=株",
        "=株|𠀀=株", "=株| ，=株", "=株|aé=株", "=株|，\n=株", "=株|，\u0301=株", "|株🚀=株",
        "=株", "|式", "|式=株，株", "",
    ],
)  # fmt: skip
def test_ideographs_of_known_ids_and_single_signs_between_them_are_a_run(expected: str) -> None:
    singles = np.full(0x10000, units.NO_SINGLE, np.int32)
    singles[ord("株")], singles[ord("，")] = 7, ~8
    sentence = expected.replace("=", "").replace("|", "")
    text, offsets = padded("a株", sentence, "\u0301株")
    cuts = units.find_cuts("ideographs", text, offsets, singles)
    (start, end), found = offsets[1:3], bytearray()
    for place in range(start, end):
        is_run = cuts[place] & units.RUN
        found += b"=" if is_run else b"|" * int(cuts[place] or place == start)
        found += text[place : place + 1].tobytes()
    assert found.decode() == expected


def test_words_are_cut_at_each_space() -> None:
    text, offsets = padded("a  b", " c\t d")
    assert shown(units.find_cuts("words", text, offsets), text, offsets) == ["a| | b", " c\t| d"]


def test_words_are_joined_between_characters_that_belong_together() -> None:
    joints = np.zeros(0x400, np.uint8)
    joints[[0x20, 0x0A]] = units.GAP | units.BEGINS
    joints[[*b"ab"]] = units.ENDS | units.BEGINS | units.STAYS
    joints[ord("c")] = units.ENDS | units.BEGINS
    joints[0x301] = units.ENDS | units.DEPENDS
    sentences = ["a  b", "a\nb", "a \u0301", "a\u0301 b", "c\u0301 b", "a x", "x a", " a ", "\n"]
    text, offsets = padded(*sentences)
    assert shown(units.find_cuts("joined", text, offsets, joints), text, offsets) == [
        "a|  b", "a|\nb", "a \u0301", "a\u0301| b", "c\u0301 b", "a x", "x a", " a| ", "\n",
    ]  # fmt: skip


def parts_of(sentences: list[str], **values: int) -> list[str]:
    """Encode sentences, and return the texts that a tokenizer gets."""
    seen: list[str] = []

    def encode(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        seen.extend(texts)
        ids = np.array([ord(character) for text in texts for character in text], np.int32)
        return ids, np.cumsum([0, *map(len, texts)])

    with knobs(**values):
        ids, ends = units.encode_spans_by(encode)(*as_spans(sentences))
    assert "".join(map(chr, ids)) == "".join(sentences)
    assert list(ends) == [0, *accumulate(map(len, sentences))]
    return seen


@pytest.mark.parametrize(
    ("most", "parts"),
    [
        (4, ["né", "ab", " cde", "f"]), (5, ["né", "ab", " cdef"]), (6, ["né", "ab", " cdef"]),
        (7, ["né", "ab cdef"]),
    ],
)  # fmt: skip
def test_texts_that_would_fill_the_memory_are_cut_before_spaces(
    most: int, parts: list[str]
) -> None:
    assert parts_of(["né", "ab cdef"], most_characters=most) == parts


@pytest.mark.parametrize(
    ("sought", "parts"), [(2, ["ab cd", "ef"]), (3, ["ab", " cdef"]), (4, ["ab", " cdef"])]
)
def test_a_space_is_sought_in_the_last_characters_of_a_part(sought: int, parts: list[str]) -> None:
    assert parts_of(["ab cdef"], most_characters=5, sought_characters=sought) == parts
