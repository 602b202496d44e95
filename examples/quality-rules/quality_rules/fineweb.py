"""The rules that FineWeb adds to those of Gopher and C4.

Penedo et al. 2024, "The FineWeb Datasets: Decanting the Web for the Finest Text Data at Scale",
https://arxiv.org/abs/2406.17557, section 3: filters that were found by comparing data sets. The
article has 0.1 for the characters of repeated lines, and no bound of newlines; the program that
made the data set has 0.01 and 0.3, as here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import regex

from quality_rules.bounds import Measure, find_reason
from quality_rules.words import count_repeated, split_words

_SENTENCE_END = regex.compile(r"\p{Sentence_Terminal}")


@dataclass(frozen=True)
class FineWeb:
    """Ends, lengths and repetitions of the lines of a document that are not blank."""

    min_line_ends: float | None = 0.12
    """The share of lines that end in a mark that ends sentences, of any script."""
    max_short_lines: float | None = 0.67
    """The share of lines of `short_line` characters or fewer."""
    short_line: int = 30
    max_repeated_characters: float | None = 0.01
    """The share of the characters that stand in lines that repeat one."""
    max_newlines: float | None = 0.3
    """Newlines for each word or mark: of lists there are many."""

    def __call__(self, text: str, _metadata: Mapping[str, Any]) -> str | None:
        """Return why a document is left out."""
        return find_reason(self._measure(text))

    def _measure(self, text: str) -> Iterator[Measure]:
        lines = [line for line in text.split("\n") if line.strip()]
        number, newlines = len(lines), text.count("\n")
        yield "fineweb-empty", number, 1, None
        ends = sum(_SENTENCE_END.match(line.rstrip()[-1]) is not None for line in lines)
        yield "fineweb-line-ends", ends / number, self.min_line_ends, None
        short = sum(len(line) <= self.short_line for line in lines)
        yield "fineweb-short-lines", short / number, None, self.max_short_lines
        repeated = count_repeated(lines)[1] / (len(text) - newlines)
        yield "fineweb-repeated-lines", repeated, None, self.max_repeated_characters
        yield "fineweb-lists", newlines / len(split_words(text)), None, self.max_newlines


lines = FineWeb()
