"""Rules of words: the stretches of a text that masks, n-grams and phrase labels treat as one word.

A rule is a function from a text to the (begin, end) spans of its words in characters, in order and
without overlap. Characters outside all of them, such as white space, belong to no word. Besides the
built-in rules, any package may provide others: as an entry point of the group `corpusmill.words`,
or as "package.module:function". A function whose words never contain an ASCII space or a line
break, and that cuts the text between two of them as it cuts this text alone, may declare this with
an attribute `cuts_at_spaces = True`; then the ids and boundaries of recurring words are remembered.
The rule "wordpiece" does not look at the text: it is decided by the tokenizer's vocabulary.

Chinese phrases are found for many texts at once, in arrays of code points: which words of
`cut_unicode` belong to the one before, and only what can be joined to other characters is shown to
the regular expression.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.errors import UserError, option
from corpusmill.knobs import knob
from corpusmill.plugins import Plugins
from corpusmill.tokenization.compiled.units import is_ideograph, read_character
from corpusmill.tokenization.words.jieba_words import (
    FindPhrases,
    choose_cutter,
    is_shown,
    to_text,
)

# What a character is: of the script Han; a word by itself, unless a mark follows; such a mark;
# white space; what tokenizers and rules of words may treat differently, and is rare in Chinese.
_IDEOGRAPH, _ALONE, _MARK, _BLANK, _RARE = 1, 2, 4, 8, 16
# Beside these no other character is joined to anything but the marks that follow it.
_APART = _ALONE | _BLANK
_PATTERNS = {
    _IDEOGRAPH: r"\p{Script=Han}+",
    _ALONE: r"[\p{WB=Other}--\p{Extended_Pictographic}--\s]+",
    _MARK: r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]+",
    _BLANK: r"\s+",
    # No part of an added token, which is ASCII.
    _RARE: r"[[\x00-\x08\x0e-\x1f\x7f][^\p{P}\s\p{WB=ALetter}\x00-\x7f\u4e00-\u9fff]]+",
}
_SPACE = 0x20
_BREAK = 0x0A  # between texts: a blank that neither rule joins to anything
_FIRST_CONTROL, _LAST_CONTROL = 0x1C, 0x1F  # control characters that are white space to some


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """uint8[0x110000], what each code point is."""
    import regex  # noqa: PLC0415  see `_compile_words`

    kinds = np.zeros(0x110000, np.uint8)
    text = to_text(np.arange(len(kinds), dtype=np.uint32))
    for kind, pattern in _PATTERNS.items():
        for match in regex.finditer(pattern, text, regex.VERSION1):
            kinds[match.start() : match.end()] |= kind
    return kinds


def cut_around_rare(
    text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cut texts around rare characters, at ASCII spaces or where an ideograph is on the other side.

    BERT's normalizer separates both sides, no word of `cut_unicode` is on both, and jieba cuts each
    alone. So the marks of a text are those of its stretches, and a character that BERT's tokenizer
    drops, or joins to others, concerns no more than its own stretch.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[texts + 1] into text.

    Returns:
        int64[stretches + 1] into text; int64[texts + 1] into the former.

    Example:
        with ? for U+E000, "a b ?c d" is cut into "a b", " ?c" and " d", and "\u4e2d?\u56fd" into
        its characters.
    """
    return _cut_around_rare(_kinds(), text, offsets)  # type: ignore[no-any-return]


@njit
def _cut_around_rare(
    kinds: np.ndarray, text: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    cuts, firsts = np.empty(offsets[-1] - offsets[0] + len(offsets), np.int64), offsets.copy()
    cuts[0], firsts[0], count = offsets[0], 0, 0
    for sentence in range(len(offsets) - 1):
        place, stop = offsets[sentence], offsets[sentence + 1]
        was_rare = was_ideograph = is_open = False
        space = place
        while place < stop:
            code, step = read_character(text, place)
            rare = kinds[code] & _RARE > 0 and not is_shown(code)
            ideograph = is_ideograph(code) and kinds[code] & _ALONE > 0
            if rare and not is_open and space > cuts[count]:
                count += 1
                cuts[count] = space
            starts = was_ideograph and rare and kinds[code] & _MARK == 0
            if starts or (was_rare and ideograph) or (is_open and code == _SPACE):
                count += 1
                cuts[count] = place
                is_open = False
            is_open |= rare
            space = place if code == _SPACE else space
            place, was_rare, was_ideograph = place + step, rare, ideograph
        count += 1
        cuts[count], firsts[sentence + 1] = stop, count
    return cuts[: count + 1].copy(), firsts


class Joins(NamedTuple):
    """How the words of texts are joined to phrases.

    Attributes:
        joins: bool[words], whether a word belongs to the phrase of the word before it.
        counts: int64[texts], their words.
        has_controls: bool[texts], whether a text has control characters that are white space to
            some, of which BERT's tokenizer may make a token.
    """

    joins: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.int64]
    has_controls: npt.NDArray[np.bool_]


JOINED_TEXT_BYTES = knob("joined_text_bytes", 2**18, test=40)
"""The texts whose words are joined to phrases at once, while the processor's cache holds them."""


def find_joins(text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Joins:
    """Find the words of `cut_unicode` that belong to the phrase of jieba of the word before them.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[texts + 1] into text.
    """
    cuts = np.searchsorted(offsets, np.arange(offsets[0], offsets[-1], JOINED_TEXT_BYTES))
    bounds = np.unique([0, *cuts, len(offsets) - 1])
    flags = np.zeros(0, np.bool_)
    parts = [Joins(flags, np.zeros(0, np.int64), flags)]
    for first, last in pairwise(bounds.tolist()):
        codes, sizes, has_controls = _read_codes(text, offsets[first : last + 1])
        begins, kept, has_han = _find_plain_words(codes, _kinds())
        # The regular expression gets all others, with a break in place of those in between.
        others = to_text(np.where(begins[kept], np.uint32(_BREAK), codes[kept]))
        words = _compile_words().finditer(others)
        starts = np.array([match.start() for match in words], np.int64)
        begins[kept[starts]] = True
        # No phrase is looked for across a line break.
        phrases = _choose_cutter()(codes) if has_han else np.zeros(len(codes), np.bool_)
        joins, counts = _join_words(codes, _kinds(), begins, phrases, sizes)
        parts.append(Joins(joins, counts, has_controls))
    return Joins(*map(np.concatenate, zip(*parts, strict=True)))


@njit
def _read_codes(text: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the characters of texts.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: int64[texts + 1] into text.

    Returns:
        codes: uint32[characters], with a break after each text.
        sizes: int64[texts], the characters of each, without the break.
        has_controls: bool[texts], as `Joins` has them.
    """
    texts = len(offsets) - 1
    codes, count = np.empty(offsets[-1] - offsets[0] + texts, np.uint32), 0
    sizes, has_controls = np.empty(texts, np.int64), np.zeros(texts, np.bool_)
    for i in range(texts):
        place, first, controls = offsets[i], count, 0
        while place < offsets[i + 1]:
            code, step = read_character(text, place)
            controls += _FIRST_CONTROL <= code <= _LAST_CONTROL
            codes[count] = code
            place, count = place + step, count + 1
        has_controls[i] = controls > 0
        sizes[i] = count - first
        codes[count] = _BREAK
        count += 1
    return codes[:count].copy(), sizes, has_controls


@njit
def _find_plain_words(codes: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Find the words of `cut_unicode` that no other character can belong to.

    Args:
        codes: uint32[characters].
        kinds: uint8[0x110000], what each code point is.

    Returns:
        begins: bool[characters], whether a character is such a word.
        kept: int64[n], the characters that are neither words nor white space, and those after them.
        has_han: whether a character is of the script Han.
    """
    size, has_han = len(codes), False
    begins, kept = np.zeros(size, np.bool_), np.empty(size, np.int64)
    before, this = np.uint8(_BLANK), kinds[codes[0]]
    count, was_settled = 0, True
    for i in range(size):
        after = kinds[codes[i + 1]] if i + 1 < size else np.uint8(_BLANK)
        has_han |= this & _IDEOGRAPH > 0
        is_apart = before & _APART > 0 and after & _APART > 0 and this & (_MARK | _BLANK) == 0
        begins[i] = is_apart or (this & _ALONE > 0 and after & _MARK == 0)
        is_settled = begins[i] or (this & _BLANK > 0 and after & _MARK == 0)
        if not (is_settled and was_settled):
            kept[count] = i
            count += 1
        before, this, was_settled = this, after, is_settled
    return begins, kept[:count].copy(), has_han


@njit
def _join_words(
    codes: np.ndarray,
    kinds: np.ndarray,
    begins: np.ndarray,
    phrases: np.ndarray,
    text_sizes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the words that begin within a phrase, beside a character of the script Han.

    Args:
        codes: uint32[characters], with a break after each text.
        kinds: uint8[0x110000], what each code point is.
        begins: bool[characters], where words begin.
        phrases: bool[characters], where phrases begin.
        text_sizes: int64[texts], the characters of each, without the break.

    Returns:
        The first two attributes of `Joins`.
    """
    joins = np.empty(len(codes), np.bool_)
    counts = np.zeros(len(text_sizes), np.int64)
    words, i, before = 0, 0, np.uint8(_BLANK)
    for text in range(len(text_sizes)):
        first = words
        for _ in range(text_sizes[text] + 1):
            this = kinds[codes[i]]
            if begins[i]:
                is_near = (this | before) & _IDEOGRAPH > 0
                joins[words] = is_near and not phrases[i] and before & _BLANK == 0
                words += 1
            before = this
            i += 1
        counts[text] = words - first
    return joins[:words].copy(), counts


@njit
def join_marks(
    ids: np.ndarray,
    ends: np.ndarray,
    joins: np.ndarray,
    counts: np.ndarray,
    has_controls: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mark the tokens of words that are joined to the one before.

    Where fewer words have tokens than there are, it is not known which: BERT's normalizer may have
    removed all characters of one, or a token may cover several.

    Args:
        ids: int32[tokens], marked by the words of `cut_unicode`; none is outside of a word.
        ends: int64[texts + 1] into ids.
        joins: bool[words], as `Joins` has them.
        counts: int64[texts], likewise.
        has_controls: bool[texts], likewise.

    Returns:
        The ids with their new marks; and bool[texts], whether it is not known which tokens of a
        text belong to which word.
    """
    marked, left, end = ids.copy(), np.zeros(len(counts), np.bool_), 0
    for text in range(len(counts)):
        word, end = end, end + counts[text]
        firsts = 0
        for token in range(ends[text], ends[text + 1]):
            firsts += 1 - (ids[token] & 1)
        left[text] = has_controls[text] or counts[text] != firsts
        if left[text]:
            continue
        for token in range(ends[text], ends[text + 1]):
            if ids[token] & 1:
                continue
            marked[token] |= joins[word]
            word += 1
    return marked, left


Spans = list[tuple[int, int]]
# Texts, uint8[bytes] of valid UTF-8 and int64[texts + 1] offsets into them, to joins.
FindJoins = Callable[..., Joins]

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
_HAN = r"\p{Script=Han}+"


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
            which belong to the one before, as `corpusmill.tokenization.words.words` does.
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
    import regex  # noqa: PLC0415

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
    import regex  # noqa: PLC0415  see `_compile_words`

    jieba = _load_dictionary()

    def cut(text: str) -> Spans:
        runs = (match.span() for match in regex.finditer(_HAN, text))
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


@cache
def _choose_cutter() -> FindPhrases:
    """Choose what finds phrases, which takes a third of a second, when there is a text."""
    return choose_cutter(partial(_load_dictionary().cut, hmm=True))


# Of our own, which are more than functions, it has the names alone.
WORDS: Plugins[Callable[[str], Spans]] = Plugins(
    "corpusmill.words",
    "words",
    dict.fromkeys(("jieba", "unicode", "wordpiece"), cut_unicode),
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
    if name == "unicode":
        return WordRule(name, f"regex {version('regex')}", cut_unicode, cuts_at_spaces=True)
    if name == "wordpiece":
        return WordRule(name, "", cut_unicode, is_of_pieces=True)
    if name == "jieba":
        cut, used = load_chinese(), f"rjieba {version('rjieba')}, regex {version('regex')}"
        return WordRule(name, used, cut, find_joins=find_joins)
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
