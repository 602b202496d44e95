"""Rules of words: their words, and how a rule is loaded by its name."""

import functools
import sys
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from uniseg import wordbreak

from corpusmill import plugins
from corpusmill.errors import UserError
from corpusmill.tokenization.sources.proof import HARD_TEXTS
from corpusmill.tokenization.words import words
from corpusmill.tokenization.words.words import Spans, WordRule, cut_unicode, find_words, load_words
from tests.tools.many_scripts import DOCUMENTS

TEXTS = [*HARD_TEXTS, *(sentence for document in DOCUMENTS.values() for sentence in document)]
# Characters of every class in the rules of Annex 29, and marks that extend them.
HOT = "ab\u05d0\u05d1\u30a2\u30a4\u682a\u304212\u0663'\".,:;_- \u00a0\u202f\t\n\u0301\u200d\u00ad"
HOT += "\u0e01\u0e31\U0001f469\U0001f3fd\u24c2\u2764\ufe0f\U0001f1e9\U0001f1ea\u2019\u00b7\u3099"
known_text = st.one_of(
    st.text(st.sampled_from(HOT), max_size=12),
    st.text(st.sampled_from(sorted(set("".join(TEXTS)))), max_size=12),
)
hard_text = st.one_of(known_text, st.text(st.characters(codec="utf-8"), max_size=8))


def written(cut: Spans, text: str) -> list[str]:
    return [text[begin:end] for begin, end in cut]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \t ", ""),
        ("the quick , brown fox .", "the|quick|,|brown|fox|."),
        ("The end.", "The|end|."),
        ("don't 'tis it\u2019s dogs'", "don't|'|tis|it\u2019s|dogs|'"),
        ("rock'n'roll ''a''", "rock'n'roll|'|'|a|'|'"),
        ("well-known @-@ e-mail", "well|-|known|@|-|@|e|-|mail"),
        ("3.14 1,000 2:1 1.a a.1 v2 .5 5.", "3.14|1,000|2|:|1|1|.|a|a|.|1|v2|.|5|5|."),
        ("example.org snake_case __x", "example.org|snake_case|__x"),
        ("caf\u00e9 cafe\u0301 \u0301a", "caf\u00e9|cafe\u0301|\u0301|a"),
        ("\u6771\u4eac\u304c\u30bf\u30ef\u30fc", "\u6771|\u4eac|\u304c|\u30bf\u30ef\u30fc"),
        ("\uff21\uff22\uff11", "\uff21\uff22\uff11"),
        ("\ud55c\uad6d\uc5b4 \ub9d0", "\ud55c\uad6d\uc5b4|\ub9d0"),
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940 \u0964",
            "\u0939\u093f\u0928\u094d\u0926\u0940|\u0964",
        ),
        (
            "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627\u060c \u0661\u0662",
            "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627|\u060c|\u0661\u0662",
        ),
        ("\u05e6\u05d4\u05f4\u05dc \u05d0'", "\u05e6\u05d4\u05f4\u05dc|\u05d0'"),
        ('\u05d0"\u05d1 a"b', '\u05d0"\u05d1|a|"|b'),
        (
            "\U0001f44d\U0001f3fd\U0001f468\u200d\U0001f469 \U0001f1e9\U0001f1ea\U0001f1e9x",
            "\U0001f44d\U0001f3fd|\U0001f468\u200d\U0001f469|\U0001f1e9\U0001f1ea|\U0001f1e9|x",
        ),
        ("a\u00a0b 3,50\u202f\u20ac a\u3000b", "a|b|3,50|\u20ac|a|b"),
    ],
)  # fmt: skip
def test_unicode_words(text: str, expected: str) -> None:
    assert written(cut_unicode(text), text) == (expected.split("|") if expected else [])


@settings(max_examples=80)
@given(text=known_text)
@example(text=" ".join(TEXTS))
def test_unicode_words_are_those_of_the_annex(text: str) -> None:
    expected = []
    # The annex lets this one space join letters.
    for part in text.split("\u202f"):
        expected += [regex.sub(r"^\s+", "", word) for word in wordbreak.words(part)]
    assert written(cut_unicode(text), text) == [word for word in expected if word]


@settings(max_examples=80)
@given(parts=st.lists(hard_text, max_size=5))
def test_unicode_words_are_those_of_the_text_between_white_space(parts: list[str]) -> None:
    for space in (" ", "\u3000"):
        text = space.join(parts)
        expected, base = [], 0
        for part in parts:
            expected += [(base + begin, base + end) for begin, end in cut_unicode(part)]
            base += len(part) + 1
        assert cut_unicode(text) == expected


@given(text=hard_text)
def test_every_character_but_white_space_is_in_one_word(text: str) -> None:
    covered = [place for span in cut_unicode(text) for place in range(*span)]
    assert covered == [m.start() for m in regex.finditer(r"\S", text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\u5c0f\u660e\u7855\u58eb\u6bd5\u4e1a\u4e8e\u4e2d\u56fd\u79d1\u5b66\u9662\u3002",
            "\u5c0f\u660e|\u7855\u58eb|\u6bd5\u4e1a|\u4e8e|\u4e2d\u56fd\u79d1\u5b66\u9662|\u3002",
        ),
        # A name outside the dictionary
        (
            "\u4ed6\u6765\u5230\u4e86\u7f51\u6613\u676d\u7814\u5927\u53a6",
            "\u4ed6|\u6765\u5230|\u4e86|\u7f51\u6613|\u676d\u7814|\u5927\u53a6",
        ),
        # Phrases with letters; words separated by white space; the rest cut by Unicode's rule
        ("T\u6064\u5361\u62c9OK", "T\u6064|\u5361\u62c9|OK"),
        ("\u4e2d \u56fd", "\u4e2d|\u56fd"),
        ("\u845b\U000e0100\u57ce", "\u845b\U000e0100|\u57ce"),
        ("don't e-mail caf\u00e9 3.14%", "don't|e|-|mail|caf\u00e9|3.14|%"),
        ("\u4f60\u597d caf\u00e9 3.14%", "\u4f60\u597d|caf\u00e9|3.14|%"),
    ],
)
def test_chinese_phrases(text: str, expected: str) -> None:
    rule = load_words("jieba")
    assert rule is not None
    assert written(rule.cut(text), text) == expected.split("|")
    assert not rule.cuts_at_spaces
    assert str(rule).startswith("jieba (rjieba ")


@given(text=hard_text)
@example(text=" ".join(TEXTS))
def test_chinese_phrases_are_whole_unicode_words(text: str) -> None:
    rule = load_words("jieba")
    assert rule is not None
    joined = rule.cut(text)
    find_words(rule, [text])
    assert {begin for begin, _ in joined} <= {begin for begin, _ in cut_unicode(text)}
    assert {end for _, end in joined} <= {end for _, end in cut_unicode(text)}
    assert written(joined, regex.sub(r"\S", "x", text)) == ["x" * (e - b) for b, e in joined]


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(UserError, match=r"--words jieba: .*rjieba, which is not.*'chinese'"):
        load_words("jieba")


def halves(text: str) -> Spans:
    """Words of two characters."""
    return [(begin, min(begin + 2, len(text))) for begin in range(0, len(text), 2)]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("rules_of_mine")
    module.halves = halves  # type: ignore[attr-defined]
    module.number = 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_a_function_is_a_rule_by_its_dotted_name(package: ModuleType) -> None:
    rule = load_words("rules_of_mine:halves")
    assert rule == WordRule("rules_of_mine:halves", "", halves)
    package.halves.cuts_at_spaces = True
    rule = load_words("rules_of_mine:halves")
    del package.halves.cuts_at_spaces
    assert rule is not None
    assert rule.cuts_at_spaces
    assert str(rule) == "rules_of_mine:halves"


def test_a_rule_of_an_installed_package_names_its_version() -> None:
    rule = load_words("regex:findall")
    assert rule is not None
    assert rule.version == f"regex {metadata.version('regex')}"


@pytest.mark.usefixtures("package")
def test_a_package_provides_a_rule_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = EntryPoints([EntryPoint("halves", "rules_of_mine:halves", words.WORDS.group)])
    monkeypatch.setattr(plugins, "installed_entries", functools.cache(lambda: installed))
    rule = load_words("halves")
    assert rule is not None
    assert (rule.name, rule.cut) == ("halves", halves)
    with pytest.raises(UserError, match=r"--words quarters: .*wordpiece, halves, or"):
        load_words("quarters")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("words", "it is not known, .* Choose one of jieba, unicode, wordpiece, or give package"),
        ("no_such_package:f", "cannot be imported .ModuleNotFoundError"),
        ("rules_of_mine:quarters", "cannot be imported .AttributeError"),
        ("rules_of_mine:number", "is not a function from a text to the .begin, end. spans"),
        ("rules_of_mine:", "it is not known"),
        (":", "it is not known"),
    ],
)
def test_names_of_other_things_are_refused(name: str, cause: str) -> None:
    with pytest.raises(UserError, match=f"--words {name}: .*{cause}"):
        load_words(name)


def test_an_empty_name_means_no_rule() -> None:
    assert load_words("") is None


def test_words_of_several_texts_are_counted_in_characters_of_all() -> None:
    rule = load_words("unicode")
    assert rule is not None
    spans = find_words(rule, ["", "a b", "", "cd", " "])
    assert spans.tolist() == [[0, 1], [2, 3], [3, 5]]
    assert spans.dtype == np.int64
    assert find_words(rule, []).shape == (0, 2)


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 3)],
        [(-1, 1)],
        [(1, 1)],
        [(1, 2), (0, 1)],
        [(0, 2), (1, 2)],
        [0, 1],
        [(0, 1, 2)],
        [(0, 1, 1, 2)],
        [("a", "b")],
        [(0, None)],
        None,
        ["ab"],
    ],
)
def test_a_rule_that_returns_other_things_is_refused_with_the_text(spans: Spans) -> None:
    rule = WordRule("mine:cut", "", lambda text: spans if text == "ab" else [(0, len(text))])
    with pytest.raises(UserError, match=r"--words mine:cut: for 'ab' it returns"):
        find_words(rule, ["abcd", "ab", "abcd"])


def test_spans_may_be_arrays_or_lists() -> None:
    rule = WordRule("m", "", lambda _: [[0, 1], np.array([1, 3])])  # type: ignore[list-item]
    assert find_words(rule, ["abc"]).tolist() == [[0, 1], [1, 3]]
