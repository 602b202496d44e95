"""Words cut where no token reaches across have the ids of whole texts, with any vocabulary."""

import json
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.tokenization.compiled.byte_level_bpe import compile_byte_level_bpe
from corpusmill.tokenization.compiled.seams import SIGNS, Seams, mark_seams, mark_signs
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from tests.corpusmill.tokenization.compiled.test_byte_level_characters import (
    make_tokenizer,
    spelled,
    train_at_random,
)
from tests.corpusmill.tokenization.compiled.test_units import padded, shown
from tests.tools.token_rows import encoded_rows, plain_rows, refuse
from tests.tools.tokenizer_samples import BYTE_LEVEL

PATTERNS = ("GPT-2", "DIGITS", "DIGITS3", "CL100K", "QWEN2", "O200K", "DEEPSEEK")


def describe(
    merges: list[tuple[bytes, bytes]], pattern: str = "GPT-2", normalizer: str = "", added: str = ""
) -> str:
    """A tokenizer.json with the pre-tokenizer of a known pattern."""
    described = json.loads(make_tokenizer(merges).to_str())
    described["pre_tokenizer"] = json.loads(BYTE_LEVEL[pattern])["pre_tokenizer"]
    described["normalizer"] = {"type": normalizer} if normalizer else None
    tokenizer = Tokenizer.from_str(json.dumps(described))
    tokenizer.add_special_tokens([added] if added else [])
    return tokenizer.to_str()


def find(described: str) -> Seams:
    return compile_byte_level_bpe(json.loads(described), refuse)[1]


def mark_words(described: str, *sentences: str) -> list[str]:
    """The sentences, with a bar before each cut within words."""
    text, offsets = padded(*(sentence.replace("|", "") for sentence in sentences))
    cuts = np.zeros(len(text), np.uint8)
    mark_seams(find(described), text, cuts)
    return shown(cuts, text, offsets)


# Tokens of two letters, of the end of one and any of U+0E00 to U+0E3F, and of one and any of U+5000
# to U+5FFF.
CROSSING = [
    *spelled("กข".encode())[:2], ("ก".encode(), "ข".encode()), *spelled("ข".encode())[1:],
    (b"\x82", b"\xe0\xb8"), *spelled("中".encode() + b"\xe5"),
]  # fmt: skip
WORDS = {
    # A mark is a sign to these: it ends a piece of letters, and may begin one.
    ("GPT-2", "DIGITS", "DIGITS3", "CL100K", "QWEN2"): [
        " กข|ั|ก|น|ั้|ข|中|丸|中|。|中|，（|中倀", "aน|นA น|น", "👍น|น1น|น|，|น|น", "น", "น",
    ],
    # By this, a word ends before a capital after other letters.
    ("O200K",): [" กขั|ก|นั้|ข|中|丸|中|。|中|，（|中倀", "aนนA น|น", "👍นน1น|น|，|น|น", "น", "น"],
    ("DEEPSEEK",): [
        " กขั|ก|น|ั|้|ข|中|丸|中|。|中|，（|中倀", "aน|นA น|น", "👍น|น1น|น|，|น|น", "น", "น",
    ],
}  # fmt: skip


@pytest.mark.parametrize("gap", ["", "x" * 61, "é" * 31])
def test_words_are_cut_where_no_token_reaches_across(gap: str) -> None:
    for patterns, expected in WORDS.items():
        for pattern in patterns:
            assert mark_words(describe(CROSSING, pattern), gap, *expected)[1:] == expected, pattern


LETTERS = [*"กขน\u0e31\u0e49中丸东倀。，（「ァァ가각aAé '1"]
texts = st.text(st.sampled_from(LETTERS), max_size=14)


@settings(max_examples=25, deadline=None)
@given(
    trained=st.lists(texts, min_size=1, max_size=8),
    count=st.integers(0, 40),
    seed=st.integers(0, 2**16),
    sentences=st.lists(texts, min_size=1, max_size=12),
)
# Small letters, and a capital after letters without case; marks between signs.
@example(["aA"], 0, 0, ["aขนAb", "aกนAb กนA", "，，\u0e31น", "นA", "น\u0e31\u0e49น"])
def test_ids_are_those_of_the_library_with_any_vocabulary(
    trained: list[str], count: int, seed: int, sentences: list[str]
) -> None:
    draw = random.Random(seed)  # noqa: S311  no secret
    merges = [*dict.fromkeys(train_at_random(trained, count, draw))]
    draw.shuffle(merges)
    check([*trained, *sentences], *(describe(merges, pattern) for pattern in PATTERNS))


def check(sentences: list[str], *described: str) -> None:
    for each in described:
        tokenizer = SentenceTokenizer(each, np.dtype(np.int32))
        expected = plain_rows(Tokenizer.from_str(each), sentences)
        assert encoded_rows(tokenizer, sentences) == expected


def test_what_a_normalizer_joins_to_marks_is_not_cut_off() -> None:
    """By itself it is another character than with the mark, with which it is in a token."""
    for last, whole in (("と\u3099", "ど"), ("가\u11a8", "각")):
        described = describe([*spelled(("な" + whole).encode())], "QWEN2", "NFC")
        check([f"な{last}", f"な{last}な{last}"], described)
        assert mark_words(described, f"な{last[0]}，な中") == [f"な{last[0]}，|な|中"]


def test_nothing_is_cut_beside_a_token_without_merges_that_is_found_as_a_whole() -> None:
    described = json.loads(describe([], "CL100K"))
    described["model"]["ignore_merges"] = True
    names = dict(
        zip(described["model"]["vocab"].values(), described["model"]["vocab"], strict=True)
    )
    described["model"]["vocab"]["".join(names[byte] for byte in "中丸".encode())] = 5000
    check(["中丸", "东中丸", "中丸东 中丸"], json.dumps(described))


def test_nothing_is_cut_within_added_tokens() -> None:
    check(["中丸。中", "。中丸。东"], describe([], "CL100K", added="丸。中"))


def test_spaces_are_cut_before_the_last_one_unless_a_token_may_follow() -> None:
    sentences = [
        "a    b",
        "\n    b",
        "    1",
        "   <s>",
        "  \t  #",
        "a  ",
        "b",
        "  中",
        "    b",
        "  ",
    ]
    for pattern in PATTERNS:
        check(sentences, describe([(b" ", b" "), (b"  ", b" ")], pattern, added="<s>"))
        check(sentences, describe([(b" ", b" "), (b"  ", b" ")], pattern, added="b"))
    assert mark_ascii("a  | b  1   <  [  \t x | #", "b  ", "c") == [
        "a  | b  1   <  [  \t x | #", "b  ", "c",
    ]  # fmt: skip
    assert mark_ascii("a   b", are_split=False) == ["a   b"]


def mark_ascii(*sentences: str, are_split: bool = True) -> list[str]:
    text, offsets = padded(*(sentence.replace("|", "") for sentence in sentences))
    cuts = np.zeros(len(text), np.uint8)
    mark_signs(text, offsets, cuts, are_split)
    return shown(cuts, text, offsets)


def test_signs_are_cut_off_after_letters_and_digits_of_ascii() -> None:
    expected = "a|, Z|.9|-x|!\"z|?)A|) ,; 0|;k|:b's (c|) \u00e9. \u0e01, @. {. `- /!x|(y|=9|[z]|;"
    expected = expected.replace("]|;", "];")
    assert mark_ascii(expected, ", a") == [expected, ", a"]
    assert all(mark_ascii(f"a{sign}") == [f"a|{sign}"] for sign in SIGNS)
