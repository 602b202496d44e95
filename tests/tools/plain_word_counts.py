"""Words counted one by one in Python: the plain reference of the compiled counters."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from corpusmill.errors import UserError
from corpusmill.tokenization.training.word_counters import CutWords

# A sentence with more characters per unit is cut into words at once: in scripts without spaces,
# units do not recur.
_LONG_UNITS = 32

_BEFORE_WORD = re.compile(r" (?=\S)")


def split_at_spaces(sentence: str) -> list[str]:
    """Split a sentence into its units: "a  b" gives ["a", "", "b"]."""
    return sentence.split(" ")


def split_before_words(sentence: str) -> list[str]:
    r"""Split a sentence into units for a tokenizer that keeps white space and joins it to words.

    The pattern of byte-level BPE takes a run of white space as one word, but leaves its last space
    to the word that follows: text can be split only at a space before a word.

    Example:
        "a  b c" gives ["a ", "b", "c"].
    """
    words = sentence.split()
    return words if " ".join(words) == sentence else _BEFORE_WORD.split(sentence)


def count_words(
    batches: Iterable[list[str]],
    cut_words: CutWords,
    most: int,
    split: Callable[[str], list[str]] = split_at_spaces,
) -> Counter[str]:
    """Count how often each word occurs.

    Args:
        batches: batches of sentences.
        cut_words: cuts text into words. Its text is the first unit of a sentence, another unit with
            a space before it, or a whole sentence.
        most: most distinct units and words kept at a time; the rarest are dropped beyond it.
        split: splits a sentence into its units.

    Raises:
        UserError: there are no words.
    """
    first: Counter[str] = Counter()
    later: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for batch in batches:
        later_units: list[str] = []
        for sentence in batch:
            units = split(sentence)
            if len(sentence) > _LONG_UNITS * len(units):
                words.update(cut_words(sentence))
            elif sentence:
                first[units[0]] += 1
                later_units += units[1:]
        later.update(later_units)
        _drop_rarest((first, later, words), most)
    for space, counted in (("", first), (" ", later)):
        for unit, count in counted.items():
            for word in cut_words(space + unit) if space or unit else ():
                words[word] += count
    if not words:
        raise UserError("--input", "it holds no words to train with", "Give files with text")
    return words


def _drop_rarest(counters: tuple[Counter[str], ...], most: int) -> None:
    while sum(map(len, counters)) > most:
        rarest = min(min(counts.values()) for counts in counters if counts)
        for counts in counters:
            kept = {word: count for word, count in counts.items() if count > rarest}
            counts.clear()
            counts.update(kept)
