"""Byte-level BPE in compiled loops gives the ids of the tokenizers library."""

import json
import re
import unicodedata
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, pre_tokenizers

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled import byte_level_pieces as pieces
from corpusmill.tokenization.compiled.byte_level_bpe import (
    LONGEST_PIECE,
    compile_byte_level_bpe,
    is_known,
)
from corpusmill.tokenization.compiled.byte_level_pieces import (
    DEEPSEEK,
    DEEPSEEK_STEPS,
    GPT2,
    O200K,
    RULES,
    byte_alphabet,
)
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from tests.tools.knobs import knobs
from tests.tools.lazily import Lazily
from tests.tools.token_rows import (
    Recorder,
    as_spans,
    encoded_rows,
    plain_rows,
    plainly,
    refuse,
    rows,
)
from tests.tools.tokenizer_samples import BYTE_LEVEL, PLAIN_PATH, TEXT, splits_of

COMPILED = ["GPT-2", "GPT-2, NFC", "DIGITS", "DIGITS3", "CL100K", "QWEN2", "O200K", "DEEPSEEK"]
PARSED: Lazily[str, Any] = Lazily(BYTE_LEVEL, lambda name: json.loads(BYTE_LEVEL[name]))
PLAIN = Lazily(BYTE_LEVEL, lambda name: Tokenizer.from_str(BYTE_LEVEL[name]))

# fmt: off
signs = [
    "'", "'s", "'LL", "'re", "'ve", "'t", "'\u017f", "!", "..", "1", "22", "333", "٣", "½", "a",
    "Z", "株", "東京", "é", "e\u0301", "ไทยเขียน", "हिन्दी", "العربية", "👩\u200d🚀", "\u0378",
    "\x00", "\x1c", " ", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\x85", "<",
    "<mask>", "A", "Ab", "ǅ", "ʰ", "/", "\u0301",
]
# fmt: on
texts = st.lists(
    st.one_of(
        st.sampled_from([*signs, *" ".join(TEXT).split(" ")]),
        st.text(st.characters(codec="utf-8"), max_size=4),
    ),
    max_size=16,
).map("".join)


ENCODERS = Lazily(
    COMPILED, lambda name: compile_byte_level_bpe(PARSED[name], plainly(PLAIN[name]))[0]
)


@settings(max_examples=15, deadline=None)
@given(sentences=st.lists(texts, max_size=4))
@example(
    sentences=["a  b", " a ", "  ", "\n", " \n ", "a\n\n b", "a \r\n", "\t\tx", "!\n\n", "! \n"]
)
@example(sentences=["it's IT'S it'll we've 'tis ''s", "1234567 12 3", "a1b2", "'", "''", "x'"])
@example(
    sentences=["ABCd AbC aB ǅa 株A株b Aʰb \u0301 !\u0301 !!\u0301a \u0301AB \u0301Ab", "A株B's 'Re"]
)
@example(
    sentences=["!\n/", "!/\r\n//a", " \u0301\u0301", "\n\u0301", "\r\u0301A", "\u00a0A", "Σ's'S"]
)
@example(sentences=["".join(signs), " ".join(signs), "", "x" * 2000, "ab" * 300])
@example(sentences=["e\u0301", "\u0e01\u0e48\u0e38", "\u1100\u1161 한", "שָּׁ", "が", "\u304b\u3099"])
def test_ids_are_those_of_the_library(sentences: list[str]) -> None:
    for name, encode_spans in ENCODERS.items():
        encoded = rows(*encode_spans(*as_spans(sentences)))
        assert encoded == plain_rows(PLAIN[name], sentences), name


# What is not assigned among kana, and other characters that are nothing unless letters follow.
ODD_TO_DEEPSEEK = re.compile("[\\W\u3040]")


@njit
def ends_of_pieces(rules: pieces.PieceRules, text: np.ndarray) -> np.ndarray:
    """Where the pieces of a text end; -1 ends them if one depends on unknown characters."""
    ends, count, place = np.zeros(len(text) + 1, np.int64), 0, 0
    while 0 <= place < len(text):
        place = pieces.end_of_piece(rules, text, place, len(text))
        ends[count], count = place, count + 1
    return ends[:count]


@settings(max_examples=80, deadline=None)
@given(
    text=st.one_of(
        texts,
        st.text(
            st.sampled_from([*"aAZé株カ・\u3040゛ʰǅ!/'sS1 \n\r\t\u0301\u0e33\u3000\u2167\u200d"]),
            max_size=30,
        ),
    )
)
@example(text="ABCd AbC aB ǅa 株A株b Aʰb \u0301 !\u0301 !!\u0301a \u0301AB \u0301Ab株A 's'Re")
@example(text="!\n/!/\r\n//a \u0301\u0301\n\u0301\r\u0301A\u00a0AΣ's'SA株B's 'Re''ll")
def test_pieces_are_those_of_the_pattern(text: str) -> None:
    """Also where the sample's vocabulary has no token that would show a difference."""
    content = np.frombuffer(text.encode() + b"\0" * 8, np.uint8)[: len(text.encode())]
    for pattern, described in RULES.items():
        classes = pieces.character_classes(pattern)
        ends = ends_of_pieces(pieces.PieceRules(classes, *described), content).tolist()
        split = pre_tokenizers.Sequence(splits_of(pattern)).pre_tokenize_str(text)
        expected = [*accumulate(len(piece.encode()) for piece, _ in split)]
        assert ends in (expected, [*expected[: len(ends) - 1], -1]), pattern
        assert (
            -1 not in ends
            or "\u017f" in text
            or (classes[[*map(ord, text)]] == pieces.UNKNOWN).any()
            or (pattern == DEEPSEEK and ODD_TO_DEEPSEEK.search(text))
        )


@pytest.mark.parametrize("name", COMPILED)
def test_ordinary_text_of_any_script_never_goes_to_the_library(name: str) -> None:
    sentences = [
        "It's 12,345 o'clock!",
        "清晨的河面，漂着薄雾。",
        "ไทยเขียน อย่างนี้",
        "हिन्दी में",
        "😀👍🏽",
        "1 < 2 <b>|m",
        "<",
    ]
    encode_spans, _ = compile_byte_level_bpe(PARSED[name], refuse)
    assert rows(*encode_spans(*as_spans(sentences))) == plain_rows(PLAIN[name], sentences)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("GPT-2", "a<mask>b"), ("GPT-2", "1 <m 2"), ("GPT-2", "<|"),
        ("CL100K", "x'\u017f"), ("GPT-2, NFC", "e\u0301"), ("GPT-2, NFC", "\u0e01\u0e48\u0e38"),
        ("DEEPSEEK", "1\u200d2"), ("DEEPSEEK", "あ\u3040"),
        ("O200K", "x'\u017f"),
        ("GPT-2", "y" * (LONGEST_PIECE + 1)),
    ],
)  # fmt: skip
def test_uncertain_text_goes_to_the_library(name: str, text: str) -> None:
    recorder, sentences = Recorder(PLAIN[name]), ["sure", text, "sure"]
    encode_spans, _ = compile_byte_level_bpe(PARSED[name], recorder)
    assert rows(*encode_spans(*as_spans(sentences))) == plain_rows(PLAIN[name], sentences)
    assert recorder.texts == [text]


@pytest.mark.parametrize("length", [LONGEST_PIECE - 1, LONGEST_PIECE])
def test_a_piece_of_up_to_512_bytes_never_goes_to_the_library(length: int) -> None:
    sentences = ["y" * length]
    encode_spans, _ = compile_byte_level_bpe(PARSED["GPT-2"], refuse)
    assert rows(*encode_spans(*as_spans(sentences))) == plain_rows(PLAIN["GPT-2"], sentences)


# Not assigned in any version; by a later Unicode than Python's, a letter and a number; for private
# use; noncharacters.
RARE = ["\u0378", "\u1c89", "\U00010d40", "\ue000", "\U000f0000", "\ufdd0", "\U0010ffff"]


@pytest.mark.parametrize("name", ["GPT-2", "CL100K", "O200K"])
def test_a_long_line_with_rare_characters_never_goes_to_the_library(name: str) -> None:
    line = "，".join(["東京" * 9, *RARE, "株\u0378式", "\u0378\u1c89\u0378x"] * 50)
    sentences = [line, "a" + line, "1".join(RARE), "a".join(RARE), "".join(RARE)]
    pieces.character_classes.cache_clear()  # what other tests have learnt
    encode_spans, _ = compile_byte_level_bpe(PARSED[name], refuse)
    assert rows(*encode_spans(*as_spans(sentences))) == plain_rows(PLAIN[name], sentences)


@pytest.mark.parametrize("pattern", [GPT2, O200K, DEEPSEEK])
def test_the_classes_of_characters_are_those_of_the_library(pattern: str) -> None:
    """All of the planes that have letters, and some of each other plane."""
    pieces.character_classes.cache_clear()
    classes = pieces.character_classes(pattern)
    codes = [*range(0xD800), *range(0xE000, 0x34000), *range(0x34000, 0x110000, 61)]
    assert (classes[codes] != pieces.UNKNOWN).sum() > 140_000
    text = "".join(map(chr, codes))
    content, spans = as_spans([text])
    assert pieces.learn_classes(classes, content, spans, pattern)
    assert not (classes[codes] == pieces.UNKNOWN).any()
    patterns = {pieces.NUMBER: r"\p{N}+", pieces.SPACE: r"\s+"}
    if pattern == O200K:
        patterns |= {pieces.UPPER: r"[\p{Lu}\p{Lt}]+", pieces.LOWER: r"\p{Ll}+"}
        patterns |= {pieces.LETTER: r"[\p{Lm}\p{Lo}]+", pieces.MARK: r"\p{M}+"}
    elif pattern == DEEPSEEK:
        patterns |= {pieces.IDEOGRAPH: f"[[\\p{{L}}\\p{{M}}]&&{DEEPSEEK_STEPS[1][:-1]}]"}
        patterns |= {pieces.OTHER: f"[[\\p{{P}}\\p{{S}}]&&[^{DEEPSEEK_STEPS[1][1:-1]}]"}
    else:
        patterns |= {pieces.LETTER: r"\p{L}+"}
    for kind, regex in patterns.items():
        split = pre_tokenizers.Split(Regex(regex), "removed", invert=True)
        matched = np.zeros(len(codes), np.bool_)
        for _, (start, end) in split.pre_tokenize_str(text):
            matched[start:end] = True
        assert np.array_equal(matched, classes[codes] == kind)
    assert unicodedata.category(chr(0x378)) == "Cn"


def test_the_alphabet_of_bytes_is_the_librarys() -> None:
    assert sorted(byte_alphabet()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_alphabet().values()) == list(range(256))
    for character, byte in byte_alphabet().items():
        split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        if byte < 0x80:
            assert split.pre_tokenize_str(chr(byte))[0][0] == character


@pytest.mark.parametrize("name", COMPILED)
def test_known_tokenizers_are_compiled(name: str) -> None:
    assert is_known(PARSED[name])


def changed(name: str, **model: Any) -> Any:
    return {**PARSED[name], "model": {**PARSED[name]["model"], **model}}


@pytest.mark.parametrize(
    "parsed",
    [
        PARSED["RoBERTa"], PARSED["GPT-2, NFKC"],
        json.loads(PLAIN_PATH["ByteLevel, no regex"]),
        changed("GPT-2", end_of_word_suffix="</w>"),
        changed("GPT-2", continuing_subword_prefix="##"),
        changed("GPT-2", vocab={"a": 0}, merges=[]),
        # A long token without merges, which the library looks up as a whole.
        changed("CL100K", vocab={**PARSED["CL100K"]["model"]["vocab"], "qzx" * 11: 5000}),
    ],
)  # fmt: skip
def test_others_are_not_compiled(parsed: Any) -> None:
    assert not is_known(parsed)


@pytest.mark.parametrize("token", ["qzx", "qz" * 16])
def test_tokens_without_merges_are_looked_up_as_a_whole(token: str) -> None:
    parsed = changed("CL100K", vocab={**PARSED["CL100K"]["model"]["vocab"], token: 5000})
    assert is_known(parsed)
    plain = Tokenizer.from_str(json.dumps(parsed))
    encode_spans, _ = compile_byte_level_bpe(parsed, refuse)
    sentences = [token, f"a {token}", f"{token}x {token}", token[:-1], f"!{token}!{token}"]
    for batch in (sentences, sentences[:1]):
        encoded = rows(*encode_spans(*as_spans(batch)))
        assert encoded == plain_rows(plain, batch)
        assert encoded[0] == [5000]


def test_the_memory_of_the_memo_stays_bounded_with_text_that_never_recurs() -> None:
    with knobs(small=True, memo_bytes=1 << 14):
        tokenizer = SentenceTokenizer(BYTE_LEVEL["GPT-2"], np.dtype(np.int32))
    for first in range(0, 20_000, 2_000):
        sentences = [" ".join(f"w{number}" for number in range(first, first + 2_000))]
        assert encoded_rows(tokenizer, sentences) == plain_rows(PLAIN["GPT-2"], sentences)
    assert tokenizer._memo is not None
    assert sum(array.nbytes for array in tokenizer._memo._memo[:-1]) <= 1 << 14


@pytest.mark.parametrize(("merges", "expected"), [(2**22 - 257, True), (2**22 - 256, False)])
def test_a_tokenizer_of_more_pairs_than_ranks_can_number_is_not_compiled(
    merges: int, expected: bool
) -> None:
    model = PARSED["GPT-2"]["model"] | {"merges": range(merges)}
    assert is_known(PARSED["GPT-2"] | {"model": model}) == expected
