"""Unigram tokenizers in compiled loops give the ids of the tokenizers library."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers, processors

from corpusmill.tokenization.compiled import unigram_text
from corpusmill.tokenization.compiled.unigram import compile_unigram
from corpusmill.tokenization.compiled.unigram_text import read_characters, read_spacing
from corpusmill.tokenization.compiled.units import EncodeSpans
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.proof import HARD_TEXTS, LINED_TEXTS
from tests.corpusmill.tokenization.compiled.test_word_memo import ODD, SPECIAL_STRINGS
from tests.tools.knobs import knobs
from tests.tools.lazily import Lazily
from tests.tools.many_scripts import DOCUMENTS
from tests.tools.token_rows import (
    Recorder,
    as_spans,
    encoded_rows,
    plain_rows,
    plainly,
    refuse,
    rows,
)
from tests.tools.tokenizer_samples import TEXT
from tests.tools.unigram_samples import (
    SPACE,
    TEXTS,
    WORDS,
    at_white_space,
    keys_of_map,
    mapped,
    metaspace,
    steps,
    unigram,
)

TOKENIZERS = WORDS | TEXTS
MOST = 1 << 21
LOADED = Lazily(TOKENIZERS, lambda name: Tokenizer.from_str(TOKENIZERS[name]))
# A small memo is emptied again and again.
ENCODERS = Lazily(
    TOKENIZERS,
    lambda name: knobs(small=True)(SentenceTokenizer)(TOKENIZERS[name], np.dtype(np.int16)),
)
GAPS = ["", " ", " ", " ", "  ", "\n", " \n", "\n\n", "\t", "\u3000", "\u200b", "\u00a0 "]


# What `make test` tries of them: each kind of steps once.
FEW = [
    "as trained", "NFKC, small", "some bytes", "added", "T5", "DeBERTa", "model", "whole",
    "whole, T5", "left end", "prepended",
]  # fmt: skip


def assert_equal(texts: list[str], names: Iterable[str]) -> None:
    for name in names:
        tokenizer = ENCODERS[name]
        assert tokenizer.memoizes, name
        # Words are remembered, or whole texts are compiled.
        assert (tokenizer._memo is not None) == (name in WORDS), name
        expected = plain_rows(LOADED[name], texts)
        for _ in range(2):
            assert encoded_rows(tokenizer, texts) == expected, name


words = st.one_of(
    st.sampled_from(" ".join([*TEXT, *HARD_TEXTS]).split()),
    st.sampled_from([*ODD, *SPECIAL_STRINGS, "<0x41>", SPACE, "``a''", "@-@"]),
    st.deferred(lambda: st.sampled_from(keys_of_map())),
    st.text(st.characters(codec="utf-8", max_codepoint=0x20000), max_size=6),
    # Marks and letters of scripts that have them.
    st.text(st.sampled_from("ae\u0301\u0323\u0308กำน้ีุ่कि्ष़बَّن"), max_size=6),
    st.builds(lambda word, times: word * times, st.sampled_from("ab株"), st.integers(20, 90)),
)
texts_of_words = st.lists(st.tuples(words, st.sampled_from(GAPS)), max_size=8).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)


HARD = (
    ["", " ", "  ", " a", "a ", "a  b", "\n", "a\n", "\na", "\x01", "\x01 a", "a \x1c "],
    ["a \u0301", "a \u200b b", "\u3000\u0301 b", "e\u0301 b", "a \u00a8b", "\uff41\u0301"],
    ["aaaa aaaaaa xaaa", "<unk>", "x<unk>y", "<unk>\U0001f600", "\U0001f600\U00020000"],
    ["film Robert  film", "aRobert film", "``film'' 'film'"],
    [*HARD_TEXTS, *LINED_TEXTS],
    [*ODD, *SPECIAL_STRINGS, " ".join(ODD), "".join(ODD)],
    [*DOCUMENTS],
)


def with_hard_texts(test: Callable[[list[str]], None]) -> Callable[[], None]:
    for texts in HARD:
        test = example(texts=texts)(test)
    drawn = given(texts=st.lists(texts_of_words, max_size=4))(test)
    return settings(max_examples=5, deadline=None)(drawn)


@with_hard_texts
def test_ids_are_those_of_the_library(texts: list[str]) -> None:
    assert_equal(texts, FEW)


@with_hard_texts
def test_ids_of_all_tokenizers_are_those_of_the_library(texts: list[str]) -> None:
    assert_equal(texts, TOKENIZERS)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_characters_beside_others_are_treated_as_by_the_library(name: str) -> None:
    # Other characters with each tokenizer.
    codes = [code for code in range(0x20000) if not 0xD800 <= code < 0xE000]
    rng = np.random.default_rng([*TOKENIZERS].index(name))
    texts = []
    for _ in range(600):
        one, two, three = (chr(codes[number]) for number in rng.integers(len(codes), size=3))
        mark = "\u0301\u0323\u093c\u0e48\u200d\u3099"[rng.integers(6)]
        texts.append(f"a{one}{mark} {one}b{two}{one}{three} {one}")
    assert encoded_rows(ENCODERS[name], texts) == plain_rows(LOADED[name], texts)


def test_ids_of_real_text_are_those_of_the_library(wikitext: Path) -> None:
    lines = (wikitext / "wiki.valid.tokens").read_text("utf-8").splitlines()[:500]
    for name in ("T5", "DeBERTa", "model", "whole"):
        expected = plain_rows(LOADED[name], lines)
        assert encoded_rows(ENCODERS[name], lines) == expected, name


def compiled(tokenizer_json: str, encode_plainly: EncodeSpans = refuse, most: int = MOST) -> Any:
    plain = Tokenizer.from_str(tokenizer_json)
    known = compile_unigram(json.loads(tokenizer_json), plain, encode_plainly, most)
    return known and known[0]


STRIP, SEVERAL = normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")
SPLIT = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()])
UNKNOWN: dict[str, Callable[[], str]] = {
    "another normalizer": lambda: unigram(normalizers.BertNormalizer()),
    "a pattern": lambda: unigram(normalizers.Replace(Regex("[ab]"), "c")),
    "a map after spaces": lambda: unigram(steps(SEVERAL, normalizers.NFKC())),
    "no metaspace": lambda: unigram(pre_tokenizer=pre_tokenizers.WhitespaceSplit()),
    "another split": lambda: unigram(pre_tokenizer=SPLIT),
    "another space": lambda: unigram(pre_tokenizer=pre_tokenizers.Metaspace("_")),
    "stripped, first": lambda: unigram(
        steps(STRIP, SEVERAL), pre_tokenizer=metaspace("first", split=True)
    ),
    "several become a mark": lambda: unigram(
        steps(mapped(), normalizers.Replace(Regex(" {2,}"), SPACE)), at_white_space()
    ),
    "normalized added token": lambda: unigram(added=(AddedToken("film", normalized=True),)),
    "reserved characters": lambda: unigram(normalizers.Replace("\ue000", "a")),
    "padding": lambda: with_padding(unigram()),
    "another template": lambda: with_template(unigram()),
}


def with_padding(tokenizer_json: str) -> str:
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.enable_padding()
    return str(tokenizer.to_str())


def with_template(tokenizer_json: str) -> str:
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.post_processor = processors.TemplateProcessing("$A $A")
    return str(tokenizer.to_str())


@pytest.mark.parametrize("name", UNKNOWN)
def test_others_are_left_to_the_library(name: str) -> None:
    assert compiled(UNKNOWN[name]()) is None
    assert not SentenceTokenizer(UNKNOWN[name](), np.dtype(np.int16)).memoizes


@pytest.mark.parametrize("name", ["as trained", "NFKC, small", "T5", "model", "model, bytes"])
def test_text_of_most_scripts_never_goes_to_the_library(name: str) -> None:
    texts = [
        "Robert's ½ film…",
        "naïve Straße",
        "Журнал",
        "中文没有空格。",
        "日本語のテキスト",
        "한국어",
    ]
    texts += ["العربية", "ภาษาไทยไม่มีช่องว่าง", "हिन्दी क्षत्रिय", "😀👍", "（１２）", "ไทย น้ำ"]
    assert rows(*compiled(WORDS[name])(*as_spans(texts))) == plain_rows(LOADED[name], texts)


@pytest.mark.parametrize("text", ["a\u200db", "\u0301a", "a\r\nb", SPACE, "\U00020000", "Robert!"])
def test_uncertain_text_goes_to_the_library(text: str) -> None:
    plain = LOADED["added"]
    recorder = Recorder(plain)
    encode_spans = compiled(TOKENIZERS["added"], recorder)
    assert rows(*encode_spans(*as_spans(["sure", text, "sure"]))) == plain_rows(
        plain, ["sure", text, "sure"]
    )
    assert recorder.texts == [text]


@pytest.mark.parametrize(("text", "left"), [("\u00bd", []), ("\ufdfa", ["\ufdfa"])])
def test_characters_that_grow_are_left_to_the_library(text: str, left: list[str]) -> None:
    recorder = Recorder(LOADED["NFKC, small"])
    compiled(TOKENIZERS["NFKC, small"], recorder)(*as_spans([text]))
    assert recorder.texts == left


def test_a_tokenizer_of_very_many_characters_is_not_compiled() -> None:
    text = unigram()
    plain = Tokenizer.from_str(text)
    spacing = read_spacing(json.loads(text))
    assert spacing is not None
    in_pieces = set(map(chr, range(0x20000, 0x20000 + (1 << 19))))
    assert read_characters(json.loads(text), plain, spacing, in_pieces) is None
    assert read_characters(json.loads(text), plain, spacing, {*[*in_pieces][:1000]}) is not None


JOINED = regex.compile(r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}\p{GCB=V}\p{GCB=T}]")
LEADING = regex.compile(r"[\p{GCB=Prepend}\p{GCB=L}\p{GCB=RI}]")


def test_no_character_of_a_longer_grapheme_is_missed() -> None:
    for code in [*range(0xD800), *range(0xF900, 0x10000), *range(0x1F000, 0x20000)]:
        if JOINED.match(chr(code)):
            assert unigram_text._joins(code) or unigram_text._is_never_known(code), hex(code)
        if LEADING.match(chr(code)):
            assert unigram_text._is_never_known(code), hex(code)


def test_long_texts_go_to_the_library_which_gets_them_in_parts() -> None:
    plain = LOADED["whole"]
    for length, expected in ((20, []), (21, ["a" * 21])):
        recorder = Recorder(plain)
        encode_spans = compiled(TOKENIZERS["whole"], recorder, most=20)
        encode_spans(*as_spans(["a" * length]))
        assert recorder.texts == expected


def test_special_tokens_that_are_plain_text_are_compiled() -> None:
    tokenizer = Tokenizer.from_str(WORDS["as trained"])
    for hidden, texts in ((True, []), (False, ["a<mask>"])):
        tokenizer.encode_special_tokens = hidden
        recorder = Recorder(tokenizer)
        described = json.loads(WORDS["as trained"])
        known = compile_unigram(described, tokenizer, recorder, MOST)
        assert known is not None
        known[0](*as_spans(["a<mask>", "b"]))
        assert recorder.texts == texts


# As the library reads them; correctly rounded, both sums would be equal, and "b bbb" come first.
SCORES = {"b": -9.1258544921875, "bbb": -12.385905265808105, f'{SPACE}"': -9.700169563293457}


def test_scores_are_those_that_the_library_reads() -> None:
    more = (*SCORES.items(), *((character, -8.0) for character in '"'))
    texts = ['"bbbb"', '"bbbbbbb"', 'a "bbbb"']
    described = json.loads(unigram(more=more))
    for last in range(6):
        # Numbers with many digits, of which it reads some a bit too low or too high.
        described["model"]["vocab"][-2][1] = -9.700169563293457 - last * 1.0000000000000002e-3
        text = json.dumps(described)
        plain = Tokenizer.from_str(text)
        assert rows(*compiled(text)(*as_spans(texts))) == plain_rows(plain, texts)


def test_the_last_of_equal_pieces_counts_and_an_empty_one_never() -> None:
    text = unigram(more=(("film", -90.0), ("", 5.0), ("film", -0.5)))
    plain, texts = Tokenizer.from_str(text), ["film", "a film", "filmfilm"]
    assert rows(*compiled(text)(*as_spans(texts))) == plain_rows(plain, texts)


def test_a_zero_byte_may_be_a_piece_or_in_one() -> None:
    text = unigram(more=(("\0", -3.0), ("a\0b", -3.0)))
    plain, texts = Tokenizer.from_str(text), ["\0", "film \0 film", "a\0b\0\0", "xa\0"]
    assert rows(*compiled(text)(*as_spans(texts))) == plain_rows(plain, texts)


def test_unknown_neighbours_may_be_a_piece_after_all() -> None:
    # Scores so high that two unknown characters are better than a piece.
    described = json.loads(unigram())
    pieces = [["<unk>", 0.0], [SPACE, 100.0], ["xy", 100.0], ["z", 150.0]]
    described["model"] |= {"vocab": pieces, "unk_id": 0}
    described["added_tokens"] = []
    text = json.dumps(described)
    plain, texts = Tokenizer.from_str(text), ["xy", "xyxy", "zxyz", "qxy", "xq<unk>"]
    assert rows(*compiled(text)(*as_spans(texts))) == plain_rows(plain, texts)


def test_a_model_without_an_unknown_token_fails_as_the_library_does() -> None:
    described = json.loads(unigram())
    described["model"]["unk_id"] = None
    text = json.dumps(described)
    plain = Tokenizer.from_str(text)
    encode_spans = compiled(text, plainly(plain))
    assert rows(*encode_spans(*as_spans(["film"]))) == plain_rows(plain, ["film"])
    with pytest.raises(Exception, match="unk_id"):
        encode_spans(*as_spans(["\U0001f600"]))


def test_whole_texts_of_words_rules_take_the_plain_path() -> None:
    make = partial(SentenceTokenizer, WORDS["as trained"], np.dtype(np.int16))
    assert not make(words="unicode").memoizes
    assert make(words="wordpiece").memoizes
