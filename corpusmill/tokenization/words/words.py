"""Rules of words: the stretches of a text that masks, n-grams and phrase labels treat as one word.

A rule is a function from a text to the (begin, end) spans of its words in characters, in order and
without overlap. Characters outside all of them, such as white space, belong to no word. Besides the
built-in rules, any package may provide others: as an entry point of the group `corpusmill.words`,
or as "package.module:function". A function whose words never contain an ASCII space or a line
break, and that cuts the text between two of them as it cuts this text alone, may declare this with
an attribute `cuts_at_spaces = True`; then the ids and boundaries of recurring words are remembered.
The rule "wordpiece" does not look at the text: it is decided by the tokenizer's vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import accumulate, chain
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import regex

from corpusmill.errors import UserError, option
from corpusmill.plugins import Plugins
from corpusmill.tokenization.words.jieba_cutter import FindPhrases, choose_cutter
from corpusmill.tokenization.words.phrases import Joins, find_joins

Spans = list[tuple[int, int]]
# Texts, uint8[bytes] of valid UTF-8 and int64[texts + 1] offsets into them, to joins.
FindJoins = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64]], Joins]

# Unicode Standard Annex 29, Word Boundary Rules, as one expression over the property Word_Break.
# (The library's own \b joins a single regional indicator, a mark at the start of a text, and some
# apostrophes to the text after them.) Characters that extend another one (WB4) are IGNORED.
_EXTENDS = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]"
_IGNORED = f"{_EXTENDS}*+"
_LETTER = r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]"
_HEBREW = r"\p{WB=Hebrew_Letter}"
_DIGIT = r"\p{WB=Numeric}"
_LETTERS = rf"""(?:
      {_LETTER}{_IGNORED} (?:
          [\p{{WB=MidLetter}}\p{{WB=MidNumLet}}']{_IGNORED}(?={_LETTER})
        | "(?<={_HEBREW}{_EXTENDS}*"){_IGNORED}(?={_HEBREW})
      )?
    | {_DIGIT}{_IGNORED} (?: [\p{{WB=MidNum}}\p{{WB=MidNumLet}}']{_IGNORED}(?={_DIGIT}) )?
    )++"""
_RUN = rf"(?:{_LETTERS}|(?:\p{{WB=Katakana}}{_IGNORED})++)"
# U+202F is white space, too.
_JOINERS = rf"(?:[\p{{WB=ExtendNumLet}}--\u202f]{_IGNORED})++"
_WORD = rf"""(?:
      (?:{_RUN}|{_JOINERS}{_RUN}?) (?:{_JOINERS}{_RUN}?)*+
      (?: '(?<={_HEBREW}{_EXTENDS}*'){_IGNORED} )?
    | \p{{WB=Regional_Indicator}}{_IGNORED}\p{{WB=Regional_Indicator}}{_IGNORED}
    | \S{_IGNORED}
    )"""
# The same for most ASCII words, whose end the next character shows: twice as fast.
_PLAIN_WORD = r"""
      [a-zA-Z]++(?=[\s!-&(-\-/;-@\[-^`{-~]|\Z)
    | [!-/:-@\[-^`{-~](?=[\x00-\x7f]|\Z)"""
_WORDS = rf"{_PLAIN_WORD} | {_WORD}(?:(?<=\u200d)(?=\p{{Extended_Pictographic}}){_WORD})*+"
_HAN = regex.compile(r"\p{Script=Han}+")


@dataclass(frozen=True)
class WordRule:
    """A rule of words, loaded.

    Attributes:
        name: as the user gave it.
        version: its package and that package's version ("regex 2026.11.15"); empty if it is not
            from an installed package.
        cut: returns the spans of a text's words.
        cuts_at_spaces: whether the words of a text are those of the stretches between its ASCII
            spaces and line breaks.
        is_of_pieces: whether the tokenizer's vocabulary decides
            (`corpusmill.tokenization.words.marked_encoding`), and `cut` is never called.
        find_joins: if the words are those of `cut_unicode`, some of them joined: finds in texts
            which belong to the one before, as `corpusmill.tokenization.words.phrases` does.
    """

    name: str
    version: str
    cut: Callable[[str], Spans]
    cuts_at_spaces: bool = False
    is_of_pieces: bool = False
    find_joins: FindJoins | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.version})" if self.version else self.name


def cut_unicode(text: str) -> Spans:
    """Return the words of Unicode Standard Annex 29, without white space.

    An apostrophe, full stop or comma inside a word or number belongs to it; a hyphen separates
    words. Every other character is a word of its own, with the marks that extend it: an ideograph,
    a sign, a letter of a script without spaces between words.

    Example:
        "Isn't 3.14 well-known?" gives the words Isn't, 3.14, well, -, known, ?.
    """
    return [match.span() for match in _compile_words().finditer(text)]


@cache
def _compile_words() -> Any:
    # Few builds have a rule of words, and it takes as long as a message about a mistake may.
    return regex.compile(_WORDS, regex.VERBOSE | regex.VERSION1)


def load_chinese() -> Callable[[str], Spans]:
    """Return the cut of Chinese text: the words of `cut_unicode`, joined to the phrases of jieba.

    It is that of `jieba.cut(text)`, with the default dictionary and the hidden Markov model that
    finds words outside the dictionary. jieba decides only about boundaries next to a character of
    the script Han, because in other scripts its cuts are not words (it knows no accents, for one).
    Both rules give the same in every run of one version.

    Raises:
        UserError: the library is not installed.

    Example:
        "小明硕士毕业于中国科学院。" gives the words 小明, 硕士, 毕业, 于, 中国科学院, 。
    """
    try:
        import rjieba  # noqa: F401, PLC0415  an extra that few jobs need
    except ImportError:
        raise UserError(
            option("words", "jieba"),
            "it needs rjieba, which is not installed",
            "Install the extra 'chinese' (pip install 'corpusmill[chinese]')",
        ) from None
    jieba = _load_dictionary()

    def cut(text: str) -> Spans:
        runs = (match.span() for match in _HAN.finditer(text))
        within = {place for begin, end in runs for place in range(begin, end + 1)}
        if not within:
            return cut_unicode(text)
        within.difference_update(accumulate(map(len, jieba.cut(text, True))))
        spans: Spans = []
        for begin, end in cut_unicode(text):
            joins = begin in within and spans and spans[-1][1] == begin
            spans.append((spans.pop()[0] if joins else begin, end))
        return spans

    return cut


@cache
def _load_dictionary() -> Any:
    """Load the segmenter with its own dictionary, which takes a fifth of a second."""
    from rjieba import Jieba  # noqa: PLC0415

    return Jieba()


def _of_unicode() -> WordRule:
    return WordRule("unicode", f"regex {version('regex')}", cut_unicode, cuts_at_spaces=True)


def _of_chinese() -> WordRule:
    cut, used = load_chinese(), f"rjieba {version('rjieba')}, regex {version('regex')}"

    def joins(text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Joins:
        return find_joins(_choose_cutter(), _compile_words(), text, offsets)

    return WordRule("jieba", used, cut, find_joins=joins)


@cache
def _choose_cutter() -> FindPhrases:
    """Choose what finds phrases, which takes a third of a second, when there is a text."""
    return choose_cutter(partial(_load_dictionary().cut, hmm=True))


def _of_pieces() -> WordRule:
    return WordRule("wordpiece", "", cut_unicode, is_of_pieces=True)


_OURS = {"jieba": _of_chinese, "unicode": _of_unicode, "wordpiece": _of_pieces}

# Of our own, which are more than functions, it has the names alone.
WORDS: Plugins[Callable[[str], Spans]] = Plugins(
    "corpusmill.words",
    "words",
    dict.fromkeys(_OURS, cut_unicode),
    lambda value: cast(Callable[[str], Spans], value) if callable(value) else None,
    "a function from a text to the (begin, end) spans of its words",
    takes_functions=True,
)


def load_words(name: str) -> WordRule | None:
    """Load a rule by its name.

    Args:
        name: that of one of ours, or of an entry point of the group `corpusmill.words`; or
            "package.module:function"; or empty.

    Returns:
        None if the name is empty.

    Raises:
        UserError: there is no rule of that name, it cannot be loaded, or a library is missing.
    """
    if not name:
        return None
    if name in _OURS:
        return _OURS[name]()
    cut, package = WORDS[name], WORDS.package_of(name)
    return WordRule(name, package or "", cut, bool(getattr(cut, "cuts_at_spaces", False)))


def find_words(rule: WordRule, texts: list[str]) -> npt.NDArray[np.int64]:
    """Find the words of texts, counted in characters of all texts one after the other.

    Args:
        rule: the rule of words.
        texts: the texts.

    Returns:
        int64[words, 2], the first character and the end of each word, ascending.

    Raises:
        UserError: the rule does not return spans of the text, in order.

    Example:
        for "a b" and "cd" the unicode rule gives [[0, 1], [2, 3], [3, 5]].
    """
    rows = [rule.cut(text) for text in texts]
    words = _join_spans(texts, rows)
    if words is None:
        pairs = zip(texts, rows, strict=True)
        text, row = next(pair for pair in pairs if _join_spans([pair[0]], [pair[1]]) is None)
        raise UserError(
            option("words", rule.name),
            f"for {text[:60]!r} it returns {str(row)[:120]}, which are not spans of words in it",
            "It must return a list of (begin, end) in characters, in order, apart and not empty",
        )
    return words


def _join_spans(texts: list[str], rows: list[Spans]) -> npt.NDArray[np.int64] | None:
    """The spans of `find_words`; None if a row is not the spans of words in its text."""
    flat = chain.from_iterable
    try:
        spans = np.fromiter(flat(flat(rows)), np.int64).reshape(-1, 2)
        counts = [len(row) for row in rows]
    except (TypeError, ValueError):
        return None
    if len(spans) != sum(counts):
        return None
    sizes = np.array([len(text) for text in texts], np.int64)
    inside = (spans[:, 0] >= 0) & (spans[:, 1] <= np.repeat(sizes, counts))
    spans += np.repeat(np.cumsum(sizes) - sizes, counts)[:, np.newaxis]
    in_order = (spans[:, 0] < spans[:, 1]).all() and (spans[:-1, 1] <= spans[1:, 0]).all()
    return spans if inside.all() and in_order else None
