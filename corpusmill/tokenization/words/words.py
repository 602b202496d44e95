"""Rules of words: the stretches of a text that masks, n-grams and phrase labels treat as one word.

A rule is a function from a text to the (begin, end) spans of its words in characters, in order and
without overlap. Characters outside all of them, such as white space, belong to no word. Besides the
built-in rules, any package may provide others: as an entry point of the group `corpusmill.words`,
or as "package.module:function". A function whose words never contain an ASCII space or a line
break, and that cuts the text between two of them as it cuts this text alone, may declare this with
an attribute `cuts_at_spaces = True`; then the ids and boundaries of recurring words are remembered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from corpusmill.errors import UserError

Spans = list[tuple[int, int]]

GROUP = "corpusmill.words"
BUILT_IN = ("jieba", "unicode")
_DOTTED_NAME = regex.compile(r"[\w.]+:[\w.]+")

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
_WORDS = regex.compile(
    rf"{_PLAIN_WORD} | {_WORD}(?:(?<=\u200d)(?=\p{{Extended_Pictographic}}){_WORD})*+",
    regex.VERBOSE | regex.VERSION1,
)
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
    """

    name: str
    version: str
    cut: Callable[[str], Spans]
    cuts_at_spaces: bool = False

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
    return [match.span() for match in _WORDS.finditer(text)]


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
            "--words jieba",
            "it needs rjieba, which is not installed",
            "Install the extra 'chinese' (pip install '.[chinese]')",
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


def load_words(name: str) -> WordRule | None:
    """Load a rule by its name.

    Args:
        name: a name in BUILT_IN, an entry point of GROUP, or "package.module:function"; or empty.

    Returns:
        None if the name is empty.

    Raises:
        UserError: there is no rule of that name, it cannot be loaded, or a library is missing.
    """
    if not name:
        return None
    if name == "unicode":
        return WordRule(name, f"regex {version('regex')}", cut_unicode, cuts_at_spaces=True)
    if name == "jieba":
        cut = load_chinese()
        return WordRule(name, f"rjieba {version('rjieba')}, regex {version('regex')}", cut)
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    entry = installed.get(name)
    if entry is None and not _DOTTED_NAME.fullmatch(name):
        known = ", ".join(sorted({*BUILT_IN, *installed}))
        raise UserError(
            f"--words {name}",
            f"this is not a known rule of words; there are {known}",
            "Give one of these, or a function as package.module:function, or install the package "
            f"that provides it as an entry point of the group {GROUP}",
        )
    return _load_foreign(name, entry or EntryPoint(name, name, GROUP))


def _load_foreign(name: str, entry: EntryPoint) -> WordRule:
    try:
        cut = entry.load()
    except Exception as failure:
        raise UserError(
            f"--words {name}",
            f"it cannot be loaded ({type(failure).__name__}: {failure})",
            "Install its package for all workers, and give package.module:function",
        ) from failure
    if not callable(cut):
        raise UserError(
            f"--words {name}",
            f"it is of type {type(cut).__name__}, not a function",
            "Give a function from a text to the (begin, end) spans of its words",
        )
    package = entry.module.partition(".")[0]
    owners = [entry.dist.name] if entry.dist else packages_distributions().get(package, ())
    named = ", ".join(f"{owner} {version(owner)}" for owner in sorted(set(owners)))
    return WordRule(name, named, cut, bool(getattr(cut, "cuts_at_spaces", False)))


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
            f"--words {rule.name}",
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
