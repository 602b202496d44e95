"""WordPiece in compiled loops gives the ids of the tokenizers library."""

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers

from corpusmill.tokenization.compiled.units import EncodeSpans
from corpusmill.tokenization.compiled.wordpiece import compile_wordpiece, is_known
from tests.tools.lazily import Lazily
from tests.tools.token_rows import Recorder, as_spans, plain_rows, plainly, refuse, rows
from tests.tools.tokenizer_samples import MEMOIZING, TEXT


def variant(lowercase: bool, **normalizer: Any) -> str:
    described = json.loads(MEMOIZING["WordPiece, lower-cased" if lowercase else "WordPiece, cased"])
    described["normalizer"] |= normalizer
    return json.dumps(described)


VARIANTS: dict[str, dict[str, bool]] = {
    "uncased": {"lowercase": True},
    "cased": {"lowercase": False},
    "with accents": {"lowercase": True, "strip_accents": False},
    "cased, without accents": {"lowercase": False, "strip_accents": True},
    "not cleaned": {"lowercase": True, "clean_text": False, "handle_chinese_chars": False},
}
TOKENIZERS = Lazily(VARIANTS, lambda name: variant(**VARIANTS[name]))
PARSED: Lazily[str, Any] = Lazily(TOKENIZERS, lambda name: json.loads(TOKENIZERS[name]))
PLAIN = Lazily(TOKENIZERS, lambda name: Tokenizer.from_str(TOKENIZERS[name]))


def make(name: str, encode_plainly: EncodeSpans | None = None) -> EncodeSpans:
    return compile_wordpiece(PARSED[name], PLAIN[name], encode_plainly or plainly(PLAIN[name]))


def assert_equal(name: str, encode_spans: EncodeSpans, texts: list[str]) -> None:
    assert rows(*encode_spans(*as_spans(texts))) == plain_rows(PLAIN[name], texts), name


ENCODERS = Lazily(TOKENIZERS, make)
TEXT_WORDS = " ".join(TEXT).split(" ")
words = st.lists(
    st.one_of(
        st.sampled_from([*TEXT_WORDS, " ", "\t", "\x00", "\ufffd", "\u00ad", "[SEP]"]),
        st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF), max_size=8),
    ),
    max_size=8,
).map("".join)


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(words, max_size=4))
@example(texts=["", " ", "a b", "Naïve ΟΔΥΣΣΕΥΣ İstanbul", "x" * 101, "x" * 100, "don't", "日本"])
@example(
    texts=[
        "e\u0301",
        "\u0301",
        "a\u0301\u0323b",
        "\u1100\u1161",
        "ไทยเขียน",
        "हिन्दी में",
        "東京がカﾞ한국어",
        "a\u302e\ua953",
    ]
)
def test_ids_are_those_of_the_library(texts: list[str]) -> None:
    for name, encode_spans in ENCODERS.items():
        assert_equal(name, encode_spans, texts)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_character_is_treated_as_by_the_library(name: str) -> None:
    texts = [
        f"film{chr(code)}s Robert{chr(code)}"
        for code in (*range(0x10000), *range(0x1F200, 0x1FC00))
        if code != 0x5B and not 0xD800 <= code < 0xE000
    ]
    assert_equal(name, ENCODERS[name], texts)


def test_combining_marks_that_are_not_accents_are_never_reordered() -> None:
    # All are of one class; others would be reordered if normalized together.
    codes = {*range(0x10000)} - {0x302E, 0x302F}  # these are left to the library
    marks = [chr(code) for code in codes if unicodedata.category(chr(code)) != "Mn"]
    assert {unicodedata.combining(mark) for mark in marks} == {0, 9}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_words_of_scripts_with_spaces_never_go_to_the_library(name: str) -> None:
    texts = [
        "Robert's 12,345 films!",
        "a[1] [b",
        "naïve Straße",
        "Журнал",
        "Ελλάδα",
        "مرحبا",
        "filmfilmfilm",
        "東京がカ。한국어！👍🏽",
    ]
    assert_equal(name, make(name, refuse), texts)


@pytest.mark.parametrize("text", ["[MASK]", "a[Mb", "a\u302e", "a\U00010400", "\U00020000"])
def test_uncertain_text_goes_to_the_library(text: str) -> None:
    recorder = Recorder(PLAIN["uncased"])
    assert_equal("uncased", make("uncased", recorder), ["sure", text, "sure"])
    assert recorder.texts == [text]


def changed(**parts: Any) -> Any:
    return {**PARSED["uncased"], **parts}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_berts_tokenizers_are_compiled(name: str) -> None:
    assert is_known(PARSED[name])


@pytest.mark.parametrize(
    "parse",
    [
        lambda: changed(normalizer=None),
        lambda: changed(normalizer=json.loads(normalizers.NFC().__getstate__())),
        lambda: changed(pre_tokenizer={"type": "WhitespaceSplit"}),
        lambda: changed(model={**PARSED["uncased"]["model"], "continuing_subword_prefix": ""}),
        lambda: changed(
            added_tokens=[{**PARSED["uncased"]["added_tokens"][0], "normalized": True}]
        ),
        lambda: json.loads(MEMOIZING["WordLevel"]),
        lambda: json.loads(MEMOIZING["BPE"]),
    ],
)
def test_others_are_not_compiled(parse: Callable[[], Any]) -> None:
    assert not is_known(parse())
