"""Phrases of many texts at once are those of each text, and mark the same tokens."""

from typing import cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.words.words import Spans, WordRule, cut_unicode, join_marks, load_words
from tests.corpusmill.tokenization.words.test_marked_encoding import EXAMPLES, reference_marks
from tests.corpusmill.tokenization.words.test_words import HOT, TEXTS
from tests.tools.knobs import knobs
from tests.tools.lazily import Lazily
from tests.tools.token_rows import Recorder, as_arrays, encoded_rows
from tests.tools.tokenizer_samples import MEMOIZING

# Phrases, other characters of the script Han, marks after ideographs, and what is dropped.
CHINESE = [
    "小明硕士毕业于中国科学院",
    "他来到了网易杭研大厦",
    "人々",
    "T恤卡拉OK",
    "株\u0301式",
    "，",
    "。”",
    "\u3000",
    "東京",
    "〇二",
    "\u845b\U000e0100城",
    "\U00020000",
    "[SEP]",
    "\x00",
    "\x1c",
    "\r",
    "\n",
    "don't",
    "3.14",
    "\u200d\U0001f469",
    "㊗\u200d㊗",
    "ひらがな",
    " ",
    "quick brown",
    "\ufffd",
    "\ue154",
]
texts_of_chinese = st.lists(
    st.lists(
        st.one_of(
            st.sampled_from(CHINESE), st.text(st.sampled_from("中国人民大学" + HOT), max_size=6)
        ),
        max_size=8,
    ).map("".join),
    max_size=5,
)
RULE = cast(WordRule, load_words("jieba"))
NAMES = ("WordPiece, lower-cased", "WordPiece, cased")
MARKING = Lazily(
    NAMES, lambda name: SentenceTokenizer(MEMOIZING[name], np.dtype(np.int16), words="jieba")
)
LOADED = Lazily(NAMES, lambda name: Tokenizer.from_str(MEMOIZING[name]))


def joined(texts: list[str]) -> list[Spans]:
    """The phrases of texts, by which words are joined."""
    assert RULE.find_joins is not None
    joins, counts, _ = (array.tolist() for array in RULE.find_joins(*as_arrays(texts)))
    flags = iter(joins)
    rows: list[Spans] = []
    for text, count in zip(texts, counts, strict=True):
        words = cut_unicode(text)
        assert len(words) == count
        row: Spans = []
        for begin, end in words:
            row.append((row.pop()[0] if next(flags) else begin, end))
        rows.append(row)
    assert not [*flags]
    return rows


@settings(max_examples=80, deadline=None)
@given(texts=texts_of_chinese)
@example(texts=[*TEXTS, "".join(TEXTS), *CHINESE])
@example(texts=["", "中国", "", "国\u0301", "\u0301中", "\r", "\n中"])
@example(texts=["", ""])
def test_the_phrases_of_many_texts_are_those_of_each(texts: list[str]) -> None:
    assert joined(texts) == [RULE.cut(text) for text in texts]


def test_texts_may_be_cut_in_several_batches() -> None:
    texts = [*TEXTS, *CHINESE] * 2
    for joined_text_bytes in (1, 40):
        with knobs(joined_text_bytes=joined_text_bytes):
            assert joined(texts) == [RULE.cut(text) for text in texts]


@settings(max_examples=40, deadline=None)
@given(texts=texts_of_chinese)
@example(texts=[*TEXTS, *CHINESE, "".join(CHINESE), *(one for row in EXAMPLES for one in row)])
# A character that the lower-cased tokenizer removes and the other keeps, before a token that covers
# two words.
@example(texts=["\ufe0f中中1㊗\u200d㊗"])
def test_marks_are_those_of_the_reference(texts: list[str]) -> None:
    for name, tokenizer in MARKING.items():
        assert tokenizer.memoizes
        expected = [reference_marks(LOADED[name], RULE.cut(text), text) for text in texts]
        for _ in range(2):
            assert encoded_rows(tokenizer, texts) == expected, name


# What BERT's tokenizer removes, or takes as a part of a longer word, unlike Unicode's rule.
RARE = ["\ue000", "\U000f0000", "\u0378\u0378", "\ufffd", "\x1c", " a\ue000b ", "ะะ", "☰☱"]
long_lines = st.lists(
    st.sampled_from([*RARE, "\u845b\U000e0100城", "株\u0301式", "小明硕士毕业于中国科学院" * 20]),
    max_size=12,
).map("".join)


@settings(max_examples=20, deadline=None)
@given(line=long_lines)
@example(line="中国".join([*RARE, ""]))
def test_of_a_long_line_only_stretches_with_rare_characters_go_to_the_library(line: str) -> None:
    line = "中国人民大学" * 200 + line + "中国" * 200
    for name, tokenizer in MARKING.items():
        expected = reference_marks(LOADED[name], RULE.cut(line), line)
        assert encoded_rows(tokenizer, [line]) == [expected], name
        recorder = Recorder(LOADED[name])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokenizer, "_encode_plainly", recorder)
            encoded_rows(tokenizer, [line])
        assert sum(map(len, recorder.texts)) <= 100


def test_a_text_is_left_where_not_every_word_has_its_tokens() -> None:
    # Words of 2 + 1 tokens; of 1, where there should be 3; and of 1 and 1, as there should be.
    ids, ends = np.array([2, 3, 4, 6, 8, 2], np.int32), np.array([0, 3, 4, 6])
    joins = np.array([False, True, False, False, True, False, True])
    marked, left = join_marks(ids, ends, joins, np.array([2, 3, 2]), np.zeros(3, np.bool_))
    assert left.tolist() == [False, True, False]
    assert marked.tolist() == [2, 3, 5, 6, 8, 3]
