"""Words counted from a stream of text in bounded memory, and counts handed to a trainer.

Text is split at ASCII spaces first. What lies between two of them, a *unit*, is normalized and cut
into words once, not at each occurrence.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from operator import mul
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from corpusmill.errors import UserError

CutWords = Callable[[str], list[str]]

# A sentence with more characters per unit is cut into words at once: in scripts without spaces,
# units do not recur.
_LONG_UNITS = 32

# Characters handed to the trainer at once.
_TRAINING_TEXT = 1 << 16

# The trainers of the tokenizers library count pairs in signed 32-bit integers, which may overflow
# without notice.
MOST_PAIRS = 2**31 - 1

# Longer words are trained on in pieces: trainers take time in the square of a word's length, a
# minute for 200,000 letters.
_LONGEST_WORD = 1024

_BEFORE_WORD = re.compile(r" (?=\S)")


def word_cutter(normalizer: Normalizer | None, pre_tokenizer: PreTokenizer) -> CutWords:
    """Return the function that cuts text into words like a tokenizer with these parts."""

    def cut(text: str) -> list[str]:
        normalized = normalizer.normalize_str(text) if normalizer else text
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(normalized)]

    return cut


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


def train_on_counts(
    model: models.Model, trainer: trainers.Trainer, words: Counter[str]
) -> dict[str, Any]:
    """Train a model of the tokenizers library that merges pairs.

    Args:
        model: the model, untrained.
        trainer: its trainer.
        words: counted words.

    Returns:
        The trained model's part of a tokenizer.json.

    Raises:
        UserError: a pair of characters occurs too often for the trainer's counts.
    """
    words = cut_long(words)
    check_pair_counts(words)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(repeat_words(words), trainer)
    trained: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    return trained


def cut_long(words: Counter[str]) -> Counter[str]:
    """Return words of at most `_LONGEST_WORD` characters, the pieces of others among them."""
    if max(map(len, words), default=0) <= _LONGEST_WORD:
        return words
    pieces: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(0, len(word), _LONGEST_WORD):
            pieces[word[start : start + _LONGEST_WORD]] += count
    return pieces


def check_pair_counts(words: Counter[str]) -> None:
    """Refuse counts that overflow a BPE trainer's.

    Raises:
        UserError: two neighbouring characters occur more than `MOST_PAIRS` times.
    """
    if sum(map(mul, words.values(), map(len, words))) <= MOST_PAIRS:
        return
    pairs: Counter[tuple[str, str]] = Counter()
    for word, count in words.items():
        for pair in pairwise(word):
            pairs[pair] += count
    [(pair, count)] = pairs.most_common(1)
    if count > MOST_PAIRS:
        raise UserError(
            "--input",
            f"{''.join(pair)!r} occurs {count:,} times, and the trainer counts to {MOST_PAIRS:,}",
            f"Train on a sample: --sample {MOST_PAIRS / count * 0.95:.2g}",
        )


def repeat_words(words: Counter[str]) -> Iterator[str]:
    """Yield texts with each word as often as it was counted: the trainer accepts no counts."""
    texts: list[str] = []
    size = 0
    for word in sorted(words):
        left, chunk = words[word], max(1, _TRAINING_TEXT // (len(word) + 1))
        while left:
            repeated = (word + " ") * min(left, chunk)
            left -= min(left, chunk)
            texts.append(repeated)
            size += len(repeated)
            if size >= _TRAINING_TEXT:
                yield "".join(texts)
                texts, size = [], 0
    yield "".join(texts)
