"""Words and repetitions of a text, as all rules count them."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

# As spaCy's rules for English have it, by which datatrove counts: each mark is a word, and so is
# what an apostrophe shortens; initials, numbers, dates, addresses, names as "@a", "COVID-19" and
# words with soft hyphens, rules of dashes, and WikiText's "@-@" stay whole.
_WORD = re.compile(
    r"""https?://\S+ | www\.\S+
    | ['\u2019](?:s|re|ve|ll|d|m|t)\b
    | (?<!\w)(?:[^\W\d_]\.)+
    | @?\w+(?:[.,:/]\d+ | (?<=[^\W\d])-\d\w* | \.[a-z]+ | \xad\w+)*
    | @[-.,]@ | [-.=|*]{2,} | [^\w\s]""",
    re.VERBOSE,
)


# The filters of a run see one text after the other.
@lru_cache(maxsize=1)
def split_words(text: str) -> Sequence[str]:
    """Split a text into words and punctuation marks."""
    return _WORD.findall(text)


def is_word(word: str) -> bool:
    """Whether it has a letter or a digit; punctuation marks have none."""
    return any(map(str.isalnum, word))


def count_repeated(parts: Iterable[str]) -> tuple[int, int]:
    """Count the parts that are equal to an earlier one, and their characters."""
    seen, repeated, characters = set[str](), 0, 0
    for part in parts:
        if part in seen:
            repeated += 1
            characters += len(part)
        seen.add(part)
    return repeated, characters
