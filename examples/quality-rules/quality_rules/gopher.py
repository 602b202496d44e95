"""The rules of MassiveText, the corpus of Gopher.

Rae et al. 2021, "Scaling Language Models: Methods, Analysis & Insights from Training Gopher",
https://arxiv.org/abs/2112.11446, appendix A.1.1: "Quality filtering" and "Repetition removal".
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from quality_rules.bounds import Measure, find_reason
from quality_rules.ngrams import find_recurring
from quality_rules.words import count_repeated, is_word, split_words

_ELLIPSES = ("...", "…")
_BLANK_LINES = re.compile(r"\n{2,}")
_LINE_ENDS = re.compile(r"\n+")


@dataclass(frozen=True)
class GopherQuality:
    """Words, symbols, bullets and stop words of a document ("Quality filtering")."""

    min_words: int | None = 50
    """"we remove any document that does not contain between 50 and 100,000 words"; marks of
    punctuation are not counted."""
    max_words: int | None = 100_000
    min_mean_length: float | None = 3
    """"or whose mean word length is outside the range of 3 to 10 characters"."""
    max_mean_length: float | None = 10
    max_symbols: float | None = 0.1
    """"a symbol-to-word ratio greater than 0.1 for either the hash symbol or the ellipsis"; of all
    words and marks."""
    max_bullets: float | None = 0.9
    """"any document with more than 90% of lines starting with a bullet point"."""
    max_ellipsis_lines: float | None = 0.3
    """"or more than 30% ending with an ellipsis"."""
    min_letters: float | None = 0.8
    """"80% of words in a document contain at least one alphabetic character"; of all words and
    marks."""
    min_stop_words: int | None = 2
    """"documents that do not contain at least two of the following English words"."""
    stop_words: frozenset[str] = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))

    def __call__(self, text: str, _metadata: Mapping[str, Any]) -> str | None:
        """Return why a document is left out."""
        return find_reason(chain(self._measure_words(text), self._measure_lines(text)))

    def _measure_words(self, text: str) -> Iterator[Measure]:
        # What is asked of a word is asked once of those that recur.
        counts = Counter(split_words(text))
        words = {word: count for word, count in counts.items() if is_word(word)}
        number, tokens = sum(words.values()), max(1, counts.total())
        yield "gopher-too-few-words", number, self.min_words, None
        yield "gopher-too-many-words", number, None, self.max_words
        length = sum(len(word) * count for word, count in words.items()) / max(1, number)
        yield "gopher-short-words", length, self.min_mean_length, None
        yield "gopher-long-words", length, None, self.max_mean_length
        yield "gopher-hashes", text.count("#") / tokens, None, self.max_symbols
        yield "gopher-ellipses", sum(map(text.count, _ELLIPSES)) / tokens, None, self.max_symbols
        letters = sum(count for word, count in words.items() if any(map(str.isalpha, word)))
        yield "gopher-few-letters", letters / tokens, self.min_letters, None
        stop_words = len(self.stop_words & counts.keys())
        yield "gopher-stop-words", stop_words, self.min_stop_words, None

    def _measure_lines(self, text: str) -> Iterator[Measure]:
        lines = [line.strip() for line in text.splitlines()] or [""]
        bullets = sum(line.startswith(("•", "-")) for line in lines)
        yield "gopher-bullets", bullets / len(lines), None, self.max_bullets
        ellipses = sum(line.endswith(_ELLIPSES) for line in lines)
        yield "gopher-ellipsis-lines", ellipses / len(lines), None, self.max_ellipsis_lines


@dataclass(frozen=True)
class GopherRepetition:
    """Repeated lines, paragraphs and n-grams of a document ("Repetition removal", table A1).

    Shares are those of the characters of the text, unless it is said of what else.
    """

    max_lines: float | None = 0.3
    """Lines that repeat one, of all lines."""
    max_paragraphs: float | None = 0.3
    """Paragraphs that repeat one, of all paragraphs."""
    max_line_characters: float | None = 0.2
    max_paragraph_characters: float | None = 0.2
    max_top: tuple[tuple[int, float], ...] = ((2, 0.2), (3, 0.18), (4, 0.16))
    """The n-gram that occurs most often, wherever it stands, by n."""
    max_repeated: tuple[tuple[int, float], ...] = (
        (5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.1),
    )  # fmt: skip
    """All n-grams that repeat one, by n; of those that overlap the first counts."""

    def __call__(self, text: str, _metadata: Mapping[str, Any]) -> str | None:
        """Return why a document is left out."""
        return find_reason(chain(self._measure_parts(text), self._measure_ngrams(text)))

    def _measure_parts(self, text: str) -> Iterator[Measure]:
        for name, parts, most, most_characters in (
            ("paragraphs", _BLANK_LINES.split(text.strip()), self.max_paragraphs,
             self.max_paragraph_characters),
            ("lines", _LINE_ENDS.split(text), self.max_lines, self.max_line_characters),
        ):  # fmt: skip
            repeated, characters = count_repeated(parts)
            yield f"repeated-{name}", repeated / len(parts), None, most
            share = characters / max(1, len(text))
            yield f"characters-of-repeated-{name}", share, None, most_characters

    def _measure_ngrams(self, text: str) -> Iterator[Measure]:
        most_of_top, most_repeated = dict(self.max_top), dict(self.max_repeated)
        longest = max((1, *most_of_top, *most_repeated))
        for ngrams in find_recurring(split_words(text), longest):
            size = max(1, len(text))
            top, repeated = ngrams.count_top() / size, ngrams.count_repeated() / size
            yield f"top-{ngrams.length}-gram", top, None, most_of_top.get(ngrams.length)
            yield (
                f"repeated-{ngrams.length}-grams",
                repeated,
                None,
                most_repeated.get(ngrams.length),
            )


quality = GopherQuality()
repetition = GopherRepetition()
