"""Words counted from a stream of text in bounded memory, and counts handed to a trainer.

Text is cut at ASCII spaces first, and what lies between two of them, a *unit*, is normalized and
cut into words once, not once an occurrence.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from operator import mul

from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from corpusmill.errors import UserError

CutWords = Callable[[str], list[str]]

# Characters a unit above which a sentence is cut into words at once: in scripts without spaces no
# unit comes again.
_LONG_UNITS = 32

# Text handed to the trainer at once.
_TRAINING_TEXT = 1 << 16

# The trainers of the tokenizers library count pairs in 32 bits with a sign, and do not notice more.
MOST_PAIRS = 2**31 - 1

_BEFORE_WORD = re.compile(r" (?=\S)")


def word_cutter(normalizer: Normalizer | None, pre_tokenizer: PreTokenizer) -> CutWords:
    """A function from text to the words that a tokenizer cuts it into."""

    def cut(text: str) -> list[str]:
        normalized = normalizer.normalize_str(text) if normalizer else text
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(normalized)]

    return cut


def split_at_spaces(sentence: str) -> list[str]:
    """The units of a sentence: "a  b" gives ["a", "", "b"]."""
    return sentence.split(" ")


def split_before_words(sentence: str) -> list[str]:
    r"""The units of a sentence where white space is of weight, and joins the word behind it.

    The pattern of byte-level BPE takes a run of white space as one word, but leaves the last space
    of it to the word that follows: only a space before a word is a place to cut at.

    Example:
        "a  b c" gives ["a ", "b", "c"].
    """
    words = sentence.split()
    return words if " ".join(words) == sentence else _BEFORE_WORD.split(sentence)


def count_words(
    sentences: Iterable[list[str]] | Iterable[str],
    cut_words: CutWords,
    most: int,
    split: Callable[[str], list[str]] = split_at_spaces,
) -> Counter[str]:
    """How often each word occurs.

    Args:
        sentences: sentences, or batches of them.
        cut_words: text to words. It is given the first unit of a sentence, the others each with
            a space before it, or a whole sentence.
        most: distinct units and words kept at a time; the rarest are dropped beyond it.
        split: a sentence to its units.

    Raises:
        UserError: there is no word.
    """
    first: Counter[str] = Counter()
    later: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for batch in sentences:
        gathered: list[str] = []
        for sentence in (batch,) if isinstance(batch, str) else batch:
            units = split(sentence)
            if len(sentence) > _LONG_UNITS * len(units):
                words.update(cut_words(sentence))
            elif sentence:
                first[units[0]] += 1
                gathered += units[1:]
        later.update(gathered)
        _drop_rarest((first, later, words), most)
    for before, units_of in (("", first), (" ", later)):
        for unit, count in units_of.items():
            for word in cut_words(before + unit) if before or unit else ():
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


def check_pair_counts(words: Counter[str]) -> None:
    """Refuse counts that a BPE trainer would not count right.

    Raises:
        UserError: two neighbouring characters occur more than `MOST_PAIRS` times.
    """
    if sum(map(mul, words.values(), map(len, words))) <= MOST_PAIRS:
        return
    pairs: Counter[tuple[str, str]] = Counter()
    for word, count in words.items():
        for pair in pairwise(word):
            pairs[pair] += count
    pair, count = max(pairs.items(), key=lambda counted: counted[1])
    if count > MOST_PAIRS:
        raise UserError(
            "--input",
            f"{''.join(pair)!r} occurs {count:,} times, and the trainer counts to {MOST_PAIRS:,}",
            f"Train on a sample: --sample {MOST_PAIRS / count * 0.95:.2g}",
        )


def repeat_words(words: Counter[str]) -> Iterator[str]:
    """Every word as often as it was counted, which is the one way to tell the trainer a count."""
    gathered: list[str] = []
    size = 0
    for word in sorted(words):
        left, chunk = words[word], max(1, _TRAINING_TEXT // (len(word) + 1))
        while left:
            repeated = (word + " ") * min(left, chunk)
            left -= min(left, chunk)
            gathered.append(repeated)
            size += len(repeated)
            if size >= _TRAINING_TEXT:
                yield "".join(gathered)
                gathered, size = [], 0
    yield "".join(gathered)
