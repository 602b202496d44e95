"""Compiled phrases of jieba are those of rjieba, which cuts where they cannot be proven."""

from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpusmill.tokenization.words import jieba_words
from corpusmill.tokenization.words.jieba_words import FindPhrases, choose_cutter
from tests.tools.lazily import LazyModule

rjieba = LazyModule("rjieba")

needs_data = pytest.mark.skipif(find_spec("jieba") is None, reason="needs the package jieba")
# Words of several lengths and beginnings of words; what the Markov model joins and does not know;
# ASCII words, and what stands within them; what is never joined.
PARTS = [
    *"中国人民大学的一是在不了有和之龘䶮\U00020000豈",
    *[
        "中华人民共和国",
        "中华人",
        "科学院",
        "杭研",
        "B超",
        "T恤",
        "卡拉OK",
        "乒乓球拍",
        "一一",
        "〇二",
    ],
    *["v1.2-rc_3", "30%", "5.", "%", "a-", "-", "_", "+", "#", "&", "C++", "3"],
    *["々", "〇", "，", "。", " ", "\n", "é", "ひ", "\x00", "\ufffd", "\U0010ffff"],
]
texts_of_parts = st.lists(
    st.one_of(
        st.sampled_from(PARTS),
        st.text(st.characters(min_codepoint=0x4DB0, max_codepoint=0xA010), max_size=5),
    ),
    max_size=40,
).map("".join)


@cache
def load_rjieba() -> Any:
    return rjieba.Jieba()


def cut(text: str) -> list[str]:
    words: list[str] = load_rjieba().cut(text, hmm=True)
    return words


def phrases(find: FindPhrases, text: str) -> list[str]:
    begins = np.flatnonzero(find(jieba_words.to_codes(text)))
    assert not text or begins[0] == 0
    bounds = [*begins.tolist(), len(text)]
    return [text[begin:end] for begin, end in pairwise(bounds)]


@cache
def compiled() -> FindPhrases:
    cutter = choose_cutter(cut)
    assert is_compiled(cutter)
    return cutter


def is_compiled(find: FindPhrases) -> bool:
    return getattr(find, "func", None) is jieba_words.cut_phrases


@needs_data
@settings(max_examples=100, deadline=None)
@given(text=texts_of_parts)
@example(text="".join(PARTS) + "".join(reversed(PARTS)))
@example(text="小明硕士毕业于中国科学院计算所，后在日本京都大学深造")
@example(text="\r中\r")
@example(text="")
def test_compiled_phrases_are_those_of_rjieba(text: str) -> None:
    assert phrases(compiled(), text) == cut(text)


@pytest.mark.parametrize(("name", "value"), [("find_spec", lambda _: None), ("_FILES_SHA256", "")])
def test_without_the_data_the_library_cuts(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(jieba_words, name, value)
    find = choose_cutter(cut)
    assert not is_compiled(find)
    for text in ["", "T恤卡拉OK 小明硕士毕业于中国科学院。", "\U00020000\n"]:
        assert phrases(find, text) == cut(text)


@needs_data
def test_where_the_library_cuts_otherwise_it_cuts_everything() -> None:
    find = choose_cutter(list)
    assert not is_compiled(find)
    assert phrases(find, "中国科学院") == list("中国科学院")
