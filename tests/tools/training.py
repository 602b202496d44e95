"""Tokenizers trained with sentences that are in memory."""

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from corpusmill.tokenization.training.counted_words import CountedWords, WordLimits, read_words
from corpusmill.tokenization.training.training_options import TrainingOptions
from corpusmill.tokenization.training.word_counters import WordCounter


def count_text(
    batches: Iterable[list[str]], counter: WordCounter, limits: WordLimits
) -> CountedWords:
    """Count the words of batches of sentences."""
    for batch in batches:
        counter.add(pa.array(batch, pa.large_string()))
    return read_words(counter, limits)


def counter_of(words: CountedWords) -> Counter[str]:
    """Return counted words as Python objects."""
    texts = words.words.cast(pa.large_string()).to_pylist()
    return Counter(dict(zip(texts, words.counts.tolist(), strict=True)))


def train(batches: Iterable[list[str]], options: TrainingOptions) -> str:
    """Train a tokenizer with batches of sentences; return its tokenizer.json."""
    words = count_text(batches, options.make_counter(), options.word_limits)
    return options.train(words)
