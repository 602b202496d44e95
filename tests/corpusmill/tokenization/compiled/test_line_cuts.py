"""Texts of many lines, cut at line breaks, have the ids of the whole, with any tokenizer."""

import json
from itertools import chain, pairwise

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import PreTokenizer

from corpusmill.tokenization.compiled.byte_level_bpe import compile_byte_level_bpe
from corpusmill.tokenization.compiled.exactness import choose_line_rule, mark_lines
from corpusmill.tokenization.compiled.seams import Seams, mark_seams, mark_signs
from corpusmill.tokenization.compiled.units import PADDING
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from tests.corpusmill.tokenization.compiled.test_word_memo import ODD, SPECIAL_STRINGS
from tests.tools.knobs import knobs
from tests.tools.lazily import Lazily
from tests.tools.token_rows import as_arrays, encoded_rows, plain_rows, refuse
from tests.tools.tokenizer_samples import BYTE_LEVEL, MEMOIZING, PLAIN_PATH, TEXT


def without_mask(tokenizer_json: str) -> str:
    """A tokenizer like GPT's, without an added token that includes the white space before it."""
    described = json.loads(tokenizer_json)
    for token in described["added_tokens"]:
        token["lstrip"] = False
    return json.dumps(described)


MASKLESS = {f"{name}, no mask": name for name in BYTE_LEVEL}
SAMPLES = (
    MEMOIZING | PLAIN_PATH | Lazily(MASKLESS, lambda name: without_mask(BYTE_LEVEL[MASKLESS[name]]))
)
PLAIN = Lazily(SAMPLES, lambda name: Tokenizer.from_str(SAMPLES[name]))
# Their memo is small and kept from example to example, so that it is filled and emptied again.
TOKENIZERS = Lazily(
    SAMPLES,
    lambda name: knobs(small=True)(SentenceTokenizer)(SAMPLES[name], np.dtype(np.int16)),
)
SEAMS = Lazily(MASKLESS, lambda name: compile_byte_level_bpe(json.loads(SAMPLES[name]), refuse)[1])
# SentenceTokenizer chooses no rule for the others.
RULES = Lazily(SAMPLES, lambda name: choose_line_rule(json.loads(SAMPLES[name])))

# fmt: off
BREAKS = [
    "\n", "\n\n", "\r\n", "\r\n\r\n", "\n \n", " \n", "\n    ", "\n\t", "\t\n\n\n  ", "\r", "\n\n ",
    "\u3000\n", "\n\u00a0", "\n\u2028\n", "\x0b\n\x0c", "\n\x1c", "\x85\n", "   ", " \n/", ".\n/",
    ".\n\n",
]
# fmt: on
words = st.one_of(
    st.sampled_from([*" ".join(TEXT).split(), *SPECIAL_STRINGS, *ODD]),
    st.sampled_from(["\u682a\uff0c", "\u4e00\uff08", "\u9fbf\uff1a\u6771", "\u3001\u4eac"]),
    st.sampled_from(["return", "//", "}", "#", "12", "…", "。", "\u00a8x", "\ufdfa"]),
)
lined = st.lists(
    st.tuples(words, st.one_of(st.sampled_from(BREAKS), st.sampled_from([" ", ""]))), max_size=12
).map(lambda parts: "".join(word + gap for word, gap in parts))
texts = st.lists(st.builds(str.__add__, st.sampled_from(["", *BREAKS]), lined), max_size=4)
CODE = "def f(a):\r\n    if a:\n\treturn [\n        1,\n    ]\n\n\n// b\n.\n/c \n \n  # d   \n"


def test_gpt_is_cut_and_what_cannot_be_is_not() -> None:
    around = ("GPT-2", "DIGITS", "DIGITS3")
    assert {RULES[f"{name}, no mask"] for name in around} == {"around-breaks"}
    assert {RULES[f"{name}, no mask"] for name in ("CL100K", "QWEN2", "O200K", "DEEPSEEK")} == {
        "after-breaks"
    }
    assert {RULES["WordPiece, cased"], RULES["BPE, NFKC"]} == {"at-breaks"}
    whole = ("GPT-2", "RoBERTa, no mask", "GPT-2, NFC, no mask", "GPT-2, NFKC, no mask")
    assert {RULES[name] for name in whole} == {"whole"}


def test_gpt_with_an_added_token_that_begins_as_words_do_is_not_cut() -> None:
    described = json.loads(SAMPLES["GPT-2, no mask"])
    described["added_tokens"][0]["content"] = "begin"
    assert choose_line_rule(described) == "whole"


def test_a_tokenizer_with_an_added_token_that_crosses_a_sign_is_not_cut() -> None:
    described = json.loads(SAMPLES["CL100K, no mask"])
    described["added_tokens"][0]["content"] = "(a"
    assert choose_line_rule(described) == "after-breaks"
    described["added_tokens"][0]["content"] = "<a.b>"
    assert choose_line_rule(described) == "whole"


def test_a_tokenizer_with_an_added_word_that_begins_with_a_sign_is_not_cut() -> None:
    described = json.loads(SAMPLES["CL100K, no mask"])
    described["added_tokens"][0]["content"] = "-b"
    assert choose_line_rule(described) == "after-breaks"
    described["added_tokens"][0]["single_word"] = True
    assert choose_line_rule(described) == "whole"


def cut(rule: str, *texts: str, seams: Seams | None = None) -> list[list[str]]:
    """The parts of each text."""
    text, offsets = as_arrays(list(texts))
    cuts = np.zeros(len(text) + PADDING, np.uint8)
    padded = np.append(text, np.zeros(PADDING, np.uint8))
    mark_lines(rule, padded, offsets, cuts)  # type: ignore[arg-type]
    if seams and rule in {"around-breaks", "after-breaks"}:
        mark_signs(padded, offsets, cuts, seams.splits_spaces)
        mark_seams(seams, padded, cuts)
    parts = []
    for start, stop in pairwise(offsets.tolist()):
        bounds = [start, *(start + 1 + np.flatnonzero(cuts[start + 1 : stop])).tolist(), stop]
        parts.append([text[a:b].tobytes().decode() for a, b in pairwise(bounds)])
    return parts


def test_cuts_are_made_where_they_help() -> None:
    sentences = ("a\n\nb\nc", "", "x", "d:\n    e\n", "\nf")
    assert cut("around-breaks", *sentences) == [
        ["a", "\n", "\n", "b", "\n", "c"], [""], ["x"], ["d:", "\n    e", "\n"], ["\n", "f"],
    ]  # fmt: skip
    assert cut("around-breaks", "a\n\n<s>\n\nb") == [["a", "\n\n<s>", "\n", "\n", "b"]]
    assert cut("after-breaks", *sentences) == [
        ["a\n\n", "b\n", "c"], [""], ["x"], ["d:\n", "    e\n"], ["\n", "f"],
    ]  # fmt: skip
    assert cut("at-breaks", *sentences) == [
        ["a\n", "\n", "b\n", "c"], [""], ["x"], ["d:\n", "    e\n"], ["\n", "f"],
    ]  # fmt: skip
    assert cut("whole", *sentences) == [[text] for text in sentences]


# Generating a text takes longer than encoding it, so all tokenizers share it.


@settings(max_examples=40, deadline=None)
@given(sentences=texts)
@example(sentences=[CODE, "\n\n\n", ".\n/", "a\n\n\u00a8", "a\n\u0301", "x \n\n  y\n"])
@example(sentences=["a\n\n<s>\n", "a \n<|endoftext|>", "a\n \n\n<s>", "\n<s>", "\n\n[SEP]b\n\n<c>"])
def test_ids_of_the_parts_are_those_of_the_whole(sentences: list[str]) -> None:
    for name, rule in RULES.items():
        if rule == "whole" or name in PLAIN_PATH:
            continue
        parts = cut(rule, *sentences, seams=SEAMS.get(name))
        joined = [list(chain(*plain_rows(PLAIN[name], of_text))) for of_text in parts]
        assert joined == plain_rows(PLAIN[name], sentences), name


@settings(max_examples=40, deadline=None)
@given(sentences=texts)
@example(sentences=[CODE, ".\n/", ".\n\n//a", "a\n\n b", "a\t\nb"])
@example(
    sentences=[
        "\u682a\uff0c\u4eac\uff08\u6771\u3002\n\u682a\uff1a\uff0c \u682a\u3001's\u9fbf\uff1fs",
        "\u682a\u2019s\u4eac\u201c\u6771\u300d\u682a\u2026x\u4eac\uff0e\u6771\u3003\u682a\u3005\u4eac\u30fb\u6771",
        "か、ん。ゔ「ゖ」゙、゜。゠、ァ（ヺ）・、ー。ヽ、ぁ：ぁ's゛，カ・」カ\u3099、",
    ]
)
@example(sentences=["it's.'s a,b (c)d 1,234.5-x don't!\"Re-re:s ;s?; a\u0301, \u00e9.-'s", ",x"])
def test_patterns_break_the_parts_as_the_whole(sentences: list[str]) -> None:
    """Also where the sample's vocabulary has no token that would show a difference."""
    for name in ("GPT-2", "DIGITS", "DIGITS3", "CL100K", "QWEN2", "O200K", "DEEPSEEK"):
        rule, breaking = RULES[f"{name}, no mask"], PLAIN[name].pre_tokenizer
        seams = SEAMS[f"{name}, no mask"]
        seams = seams._replace(crossed=np.full_like(seams.crossed, 0xFF))
        parts = list(chain(*cut(rule, *sentences, seams=seams)))
        assert pieces_of(breaking, parts) == pieces_of(breaking, sentences), name


def pieces_of(breaking: PreTokenizer, texts: list[str]) -> list[str]:
    return [piece for text in texts for piece, _ in breaking.pre_tokenize_str(text)]


@settings(max_examples=40, deadline=None)
@given(sentences=texts, times=st.integers(1, 3))
@example(sentences=[CODE, "", "\n", " \r\n"], times=2)
@example(sentences=["a\n\n<s>\n", "a \n<|endoftext|>", "a\n \n\n<s>", "b\n\n<c>"], times=2)
def test_a_text_of_many_lines_has_the_ids_of_the_tokenizer(
    sentences: list[str], times: int
) -> None:
    for name, tokenizer in TOKENIZERS.items():
        expected = plain_rows(PLAIN[name], sentences)
        for _ in range(times):
            assert encoded_rows(tokenizer, sentences) == expected, name
