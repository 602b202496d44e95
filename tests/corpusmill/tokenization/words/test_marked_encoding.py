"""Marked ids: which tokens continue a word, for tokenizers of every kind."""

from bisect import bisect_right
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.proof import HARD_TEXTS
from corpusmill.tokenization.words.marked_encoding import find_continued
from corpusmill.tokenization.words.words import Spans, cut_unicode
from tests.corpusmill.tokenization.compiled import test_word_memo
from tests.corpusmill.tokenization.compiled.test_word_memo import ODD, SPECIAL_STRINGS
from tests.tools.knobs import knobs
from tests.tools.lazily import Lazily
from tests.tools.many_scripts import DOCUMENTS
from tests.tools.token_rows import as_arrays, encoded_rows, rows
from tests.tools.tokenizer_samples import MEMOIZING, PLAIN_PATH

Rows = list[list[int]]

TINY, USUAL = 1, 1 << 20


def byte_fallback() -> str:
    """Like Llama's: it puts a space before the text and spells unknown characters in bytes."""
    names = ["<unk>", "\u2581", "t", "h", "e", "th", "the", "\u2581the"]
    names += [f"<0x{byte:02X}>" for byte in range(256)]
    model = models.BPE(
        vocab={name: number for number, name in enumerate(names)},
        merges=[("t", "h"), ("th", "e"), ("\u2581", "the")],
        unk_token="<unk>",  # noqa: S106 - not a password
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    return tokenizer.to_str()


def trimmed(trimmed_name: str) -> str:
    """A byte-level tokenizer whose offsets leave white space out."""
    tokenizer = Tokenizer.from_str(MEMOIZING[trimmed_name.removesuffix(", trimmed")])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer.to_str()


MEMOIZED = MEMOIZING | Lazily(("GPT-2, trimmed", "RoBERTa, trimmed"), trimmed)
TOKENIZERS = MEMOIZED | PLAIN_PATH | {"Byte fallback": byte_fallback()}
OF_EVERY_KIND = ["WordPiece, lower-cased", "WordPiece, cased", "BPE, NFKC", "RoBERTa, trimmed"]
OF_EVERY_KIND += ["GPT-2, NFKC", "CL100K", "Unigram", "Byte fallback"]
LOADED = Lazily(TOKENIZERS, lambda name: Tokenizer.from_str(TOKENIZERS[name]))
MARKING = Lazily(
    product(TOKENIZERS, (TINY, USUAL)),
    lambda key: knobs(small=True, memo_bytes=key[1])(SentenceTokenizer)(
        TOKENIZERS[key[0]], np.dtype(np.int16), words="unicode"
    ),
)


def reference_continues(tokens: Spans, words: Spans) -> list[bool]:
    """Whether each token continues the word of the token before it, one by one."""
    continues = []
    before = None
    for begin, end in tokens:
        # The first word that ends after the token's begin; all are in the order of the text.
        own = bisect_right(words, begin, key=lambda word: word[1])
        first, last = words[own] if own < len(words) else (end, end)
        # They share a character, or it has none and is inside the word.
        if max(first, begin) < min(last, end) or first < begin == end < last:
            continues.append(own == before)
            before = own
        else:
            continues.append(False)
            before = None
    return continues


def reference_marks(tokenizer: Tokenizer, words: Spans, text: str) -> list[int]:
    """The marked ids of a text."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    continues = reference_continues(encoding.offsets, words)
    return [2 * token + mark for token, mark in zip(encoding.ids, continues, strict=True)]


def reference_rows(name: str, sentences: list[str]) -> Rows:
    return [reference_marks(LOADED[name], cut_unicode(text), text) for text in sentences]


def shown(name: str, text: str) -> str:
    """The tokens of a text, with + before those that continue a word."""
    [marked] = encoded_rows(MARKING[name, USUAL], [text])
    return " ".join("+" * (one & 1) + str(LOADED[name].id_to_token(one >> 1)) for one in marked)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("WordPiece, lower-cased", "Don't ran .", "don +' +t ran ."),
        ("WordPiece, lower-cased", "na\u00efve-actor", "naive [UNK] actor"),
        ("WordPiece, lower-cased", "\u6771\u4eac \u682a\u5f0f", "\u6771 \u4eac \u682a \u5f0f"),
        ("WordPiece, lower-cased", "qwerty ran", "q +##w +##er +##t +##y ran"),
        ("WordPiece, cased", "\u0e17 ran [SEP]a", "[UNK] ran [SEP] a"),
        ("BPE, NFKC", "\ufb01ne", "fine"),
        ("BPE, NFKD", "xe\u0301x", "x +e\u0301 +x"),
        # Parts of a character, and a token that begins in one character and ends in the next
        ("GPT-2", "the fox's", "t +h +e \u0120f +ox +' +s"),
        ("GPT-2", "\u6771\u4eac", "\u00e6\u013f +\u00b1\u00e4 \u00ba +\u00ac"),
        ("GPT-2, trimmed", "a  b", "a \u0120 \u0120 b"),
        ("RoBERTa, trimmed", "b a", "\u0120 b \u0120 a"),
        # A token of white space belongs to no word
        ("Byte fallback", "the the \u6771e", "\u2581the \u2581the \u2581 <0xE6> +<0x9D> +<0xB1> e"),
    ],
)
def test_tokens_of_a_word_are_marked(name: str, text: str, expected: str) -> None:
    assert shown(name, text) == expected


def test_phrases_of_chinese_are_marked() -> None:
    text = "\u4e1c\u4eac \u4f60\u597d\u5417"
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "\u4e1c": 1}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marking = SentenceTokenizer(tokenizer.to_str(), np.dtype(np.int16), words="jieba")
    assert not marking.memoizes
    assert encoded_rows(marking, [text, ""]) == [[2, 1, 0, 1, 0], []]


spans_of = st.lists(st.integers(0, 30), unique=True, max_size=12).map(
    lambda bounds: list(zip(sorted(bounds)[::2], sorted(bounds)[1::2], strict=False))
)


@given(
    tokens=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=12),
    words=spans_of,
)
def test_marks_of_any_spans(tokens: list[tuple[int, int]], words: Spans) -> None:
    spans = [(begin, begin + size) for begin, size in tokens]
    token_spans, word_spans = (np.array(rows, np.int64).reshape(-1, 2) for rows in (spans, words))
    continued = find_continued(token_spans, word_spans)
    assert continued.tolist() == reference_continues(spans, words)


EXAMPLES = [
    ["", " ", "   ", " a", "a ", "a  b", "\u0301 \u0301a", "a \u0301", "\u00b4 \u0301"],
    SPECIAL_STRINGS,
    [" ".join(SPECIAL_STRINGS), " ".join(ODD), "".join(ODD), *ODD],
    ["x" * 64 + " " + "x" * 65 + " " + "y" * 300] * 3,
    [
        "a\n\nb's \n c\n",
        "\n\u0301a\n\u0301",
        "x\n  y\t\n\u00a0z don't\r\n'tis",
        "\n",
        "\u682a\n\u0301",
    ],
    list(HARD_TEXTS),
    [sentence for document in DOCUMENTS.values() for sentence in document],
    ["\u682a\u0301\u200d\U0001f469 \u845b\U000e0100a \U0001f1e9 \U0001f1ea\u682a\U0001f1e9"],
]


@settings(max_examples=15)
@given(sentences=test_word_memo.sentences_of_text)
def test_marks_are_those_of_the_reference(sentences: list[str]) -> None:
    for name in OF_EVERY_KIND:
        check_marks(name, sentences)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_marks_of_hard_texts_are_those_of_the_reference(name: str) -> None:
    for sentences in EXAMPLES:
        check_marks(name, sentences)


def check_marks(name: str, sentences: list[str]) -> None:
    expected = reference_rows(name, sentences)
    for size in (TINY, USUAL):
        tokenizer = MARKING[name, size]
        assert tokenizer.memoizes == (name in MEMOIZED)
        # The memo is kept from example to example, so that it is filled and emptied again.
        with knobs(texts_per_call=3):
            for _ in range(2):
                assert encoded_rows(tokenizer, sentences) == expected, (name, size)


@settings(max_examples=40)
@given(sentences=test_word_memo.sentences_of_text, cuts=st.lists(st.integers(0, 6), max_size=4))
@example(sentences=["a b", "", "it's a b"], cuts=[1, 2])
def test_the_cutting_into_batches_does_not_matter(sentences: list[str], cuts: list[int]) -> None:
    text, offsets = as_arrays(sentences)
    bounds = sorted({0, len(sentences), *(cut for cut in cuts if cut < len(sentences))})
    for name in ("GPT-2", "Unigram"):
        encoded = []
        for first, last in pairwise(bounds):
            encoded += rows(*MARKING[name, USUAL].encode(text, offsets[first : last + 1]))
        assert encoded == reference_rows(name, sentences)
