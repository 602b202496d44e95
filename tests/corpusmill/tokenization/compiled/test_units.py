"""Text prepared to be cut into units."""

from itertools import accumulate, pairwise

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from corpusmill.limits import RefusalLimits
from corpusmill.tokenization.compiled import units
from corpusmill.tokenization.compiled.units import ideograph_bytes, may_extend
from tests.tools.token_rows import as_arrays, as_spans

BLANKS = "".join(chr(code) for code in range(0x110000) if chr(code).isspace())

texts = st.lists(
    st.one_of(
        st.sampled_from([" ", "  ", "a", "\t", "株", "\U00020000", "é", *BLANKS]),
        st.text(st.characters(codec="utf-8"), max_size=4),
    ),
    max_size=12,
).map("".join)


def rows(text: np.ndarray, offsets: np.ndarray) -> list[bytes]:
    return [text[start:end].tobytes() for start, end in pairwise(offsets)]


def hidden(sentence: str) -> bytes:
    """The plain way: character by character."""
    kept = []
    for before, character in zip(["a", *sentence], sentence, strict=False):
        inner = character == " " and before.isspace()
        kept.append(bytes([units.INNER_SPACE]) if inner else character.encode())
    return b"".join(kept)


@settings(max_examples=150, deadline=None)
@given(sentences=st.lists(texts, max_size=5))
@example(sentences=["a  b c", "a\t b", " a", "  a", "a \u3000 b", "\u00a0 x", "", " "])
@example(sentences=[f"a{blank} b" for blank in BLANKS])
def test_spaces_after_white_space_are_hidden(sentences: list[str]) -> None:
    text, offsets = as_arrays(sentences)
    text_hidden = units.hide_inner_spaces(text, offsets)
    assert rows(text_hidden, offsets) == [hidden(sentence) for sentence in sentences]
    assert len(text_hidden) == len(text) + units.WORD_BYTES


SEPARATING = normalizers.BertNormalizer(
    clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
)


def test_ideographs_are_those_that_the_normalizer_separates() -> None:
    for code in [*range(0xD800), *range(0xE000, 0x110000)]:
        encoded = chr(code).encode()
        listed = SEPARATING.normalize_str(chr(code)) != chr(code)
        size = ideograph_bytes(np.frombuffer(encoded + b"\0" * 8, np.uint8), 0)
        assert size == (len(encoded) if listed else 0), hex(code)


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


def test_only_sentences_with_ideographs_are_separable() -> None:
    sentences = ["\u682a\u5f0f", "a\u5f0f\u0301", "a b", "", "\u00e9", "\U00020000\u0301a"]
    separable = units.find_separable(*as_arrays(sentences))
    assert separable.tolist() == [True, True, False, False, False, True]


@pytest.mark.parametrize("rule", ["words", "ideographs", "spaced"])
def test_a_slice_of_sentences_is_prepared_like_a_whole_text(rule: str) -> None:
    text, offsets = as_arrays(["x  y", "a  株", "b"])
    keys, source, own, separable = units.prepare_units(rule, text, offsets[1:])  # type: ignore[arg-type]
    alone = units.prepare_units(rule, *as_arrays(["a  株", "b"]))  # type: ignore[arg-type]
    assert keys.tobytes() == alone[0].tobytes()
    assert source.tobytes() == alone[1].tobytes()
    assert own.tolist() == alone[2].tolist()
    assert (separable is None) == ("ideographs" not in rule)
    assert str(separable) == str(alone[3])


def test_spaces_are_hidden_between_characters_that_belong_together() -> None:
    joints = np.zeros(0x400, np.uint8)
    joints[[0x20, 0x0A]] = units.GAP | units.BEGINS
    joints[[*b"ab"]] = units.ENDS | units.BEGINS | units.STAYS
    joints[ord("c")] = units.ENDS | units.BEGINS
    joints[0x301] = units.ENDS | units.DEPENDS
    sentences = ["a  b", "a\nb", "a \u0301", "a\u0301 b", "c\u0301 b", "a x", "x a", " a ", "\n"]
    text, offsets = as_arrays(sentences)
    hidden = units.hide_joined_spaces(joints, text, offsets).tobytes()
    shown = [
        hidden[first:last].replace(b"\xff", b"_").decode()
        for first, last in pairwise(offsets.tolist())
    ]
    assert shown == [
        "a _b", "a b", "a_\u0301", "a\u0301 b", "c\u0301_b", "a_x", "x_a", " a ", " ",
    ]  # fmt: skip


def parts_of(sentences: list[str], **limits: int) -> list[str]:
    """Encode sentences, and return the texts that a tokenizer gets."""
    seen: list[str] = []

    def encode(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        seen.extend(texts)
        ids = np.array([ord(character) for text in texts for character in text], np.int32)
        return ids, np.cumsum([0, *map(len, texts)])

    ids, ends = units.encode_spans_by(encode, RefusalLimits(**limits))(*as_spans(sentences))
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
