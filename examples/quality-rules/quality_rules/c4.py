"""The rules of C4, the corpus of T5.

Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", https://jmlr.org/papers/v21/20-074.html, section 2.2, with what is in the program
that made the corpus alone: words of more than 1,000 characters, and lines about cookies and terms.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
_SENTENCE_END = re.compile(r"[.!?…]+[^\w\s]*(?=\s|$)")
_POLICIES = (
    "terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies",
    "use cookies",
)  # fmt: skip


@dataclass(frozen=True)
class C4:
    """Lines that are sentences, and pages that have some.

    A filter keeps or leaves out a document, and does not change it: lines that the rules remove
    are not counted, and stay. `clean` returns what C4 has of a page.
    """

    min_sentences: int = 5
    """The first version of the article has "fewer than 5 sentences" and "at least 3 words", as
    datatrove and FineWeb have it; the program that made the corpus has 3 sentences and 5 words."""
    min_words: int = 3
    max_word_length: int = 1000
    end_marks: tuple[str, ...] | None = (".", "?", "!", '"', "'")
    """"lines that ended in a terminal punctuation mark (i.e. a period, exclamation mark, question
    mark, or end quotation mark)"; None for any line, as FineWeb has it."""

    def __call__(self, text: str, _metadata: Mapping[str, Any]) -> str | None:
        """Return why a document is left out."""
        return self._read(text)[1]

    def clean(self, text: str) -> str | None:
        """Return the lines of a page that C4 has, without citations; None if it has none."""
        lines, reason = self._read(text)
        return None if reason else "\n".join(lines)

    def _read(self, text: str) -> tuple[list[str], str | None]:
        kept, sentences = list[str](), 0
        for raw in text.splitlines():
            line = _CITATION.sub("", raw.strip())
            lowered = line.lower()
            if not self._is_sentence(raw, line):
                continue
            if "lorem ipsum" in lowered:
                return kept, "c4-lorem-ipsum"
            if "javascript" in lowered:
                continue
            if "{" in line:
                return kept, "c4-curly-bracket"
            if any(policy in lowered for policy in _POLICIES):
                continue
            kept.append(line)
            sentences += max(1, len(_SENTENCE_END.findall(line)))
        return kept, "c4-too-few-sentences" if sentences < self.min_sentences else None

    def _is_sentence(self, raw: str, line: str) -> bool:
        """Whether a line ends as sentences do, and has some words, none of which is too long."""
        words = raw.split()
        return (
            len(words) >= self.min_words
            and max(map(len, words), default=0) <= self.max_word_length
            and (
                self.end_marks is None
                or (line.endswith(self.end_marks) and not line.endswith("..."))
            )
        )


pages = C4()
pages_of_any_lines = C4(end_marks=None)
