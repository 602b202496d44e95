r"""Whole words as tokens, split as in seed 004: at white space and at `,.?_!"()'`.

White space is dropped, and each of these marks is a word. The sorted words have the first ids, then
the special tokens, so that nothing is left to chance.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Regex, decoders, pre_tokenizers
from tokenizers.models import WordLevel

from corpusmill.errors import UserError
from corpusmill.tokenization.training.counted_words import CountedWords, check_words, count_text
from corpusmill.tokenization.training.options import (
    TrainingOptions,
    check_min_frequency,
    check_unknown_token,
    check_vocab_size,
)
from corpusmill.tokenization.training.parts import make_normalizer, write_tokenizer_json
from corpusmill.tokenization.training.word_counters import UnitCounter, WordCounter

# What `\s` matches in Python's re, which the seed uses; other engines exclude U+001C to U+001F.
_WHITE_SPACE = r"[\s\x{1c}-\x{1f}\x{85}]"
_MARKS = r"""[,.?_!"()']"""
# The seed's decoder keeps the space before "_".
_SPACE_BEFORE_MARK = r"""\s+(?=[,.?!"()'])"""


@dataclass(frozen=True)
class WordLevelOptions(TrainingOptions):
    """How to make a tokenizer of whole words."""

    special_tokens: tuple[str, ...] = ("<|unk|>", "<|endoftext|>")
    """Have the last ids, as in the seed."""
    unk_token: str = "<|unk|>"  # noqa: S105 - not a password
    """The special token for words outside the vocabulary."""
    vocab_size: int | None = None
    """Most tokens in the vocabulary, special tokens included; None for all words. The most frequent
    words are kept; of equally frequent ones, those that sort first."""
    min_frequency: int = 1
    """How often a word must occur."""
    max_distinct_bytes: int = 64_000_000
    """As of all models: by default all words are kept in the vocabulary."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a tokenizer cannot be made with a value.
        """
        super().__post_init__()
        check_unknown_token(self.unk_token, self.special_tokens)
        check_min_frequency(self.min_frequency)
        if self.vocab_size is not None:
            least = len(self.special_tokens) + 1
            check_vocab_size(self.vocab_size, least, "the special tokens and one word")


def train_word_level(batches: Iterable[list[str]], options: WordLevelOptions) -> str:
    """Make a tokenizer of whole words. The same sentences and options give the same file.

    It finds special tokens anywhere in a text, the seed only between spaces.

    Args:
        batches: batches of sentences; only the counts of their words are kept.
        options: options of the training.

    Returns:
        The tokenizer.json.

    Raises:
        UserError: the sentences hold no words, or none often enough.
    """
    words = count_text(batches, make_word_level_counter(options), options.word_limits)
    return train_word_level_on_words(words, options)


def make_word_level_counter(options: WordLevelOptions) -> WordCounter:
    """Return the counter of a model's words."""
    return UnitCounter(make_normalizer(options.normalizers), _pre_tokenizer())


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WHITE_SPACE), "removed"),
            pre_tokenizers.Split(Regex(_MARKS), "isolated"),
        ]
    )


def train_word_level_on_words(counted: CountedWords, options: WordLevelOptions) -> str:
    """Make a tokenizer of counted words; the rest is as of `train_word_level`.

    Raises:
        UserError: there are no words, or none often enough.
    """
    check_words(counted)
    tokens = [*_choose(counted, options), *options.special_tokens]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    # WordPiece's decoder puts a space before each token without the prefix, and no word begins with
    # white space.
    decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix="\n", cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(_SPACE_BEFORE_MARK), ""),
        ]
    )
    model = WordLevel(vocabulary, unk_token=options.unk_token)
    normalizer = make_normalizer(options.normalizers)
    return write_tokenizer_json(
        model, normalizer, _pre_tokenizer(), decoder, options.special_tokens
    )


def _choose(counted: CountedWords, options: WordLevelOptions) -> list[str]:
    """Return the words of the vocabulary, sorted."""
    special = pa.array([token.encode() for token in options.special_tokens], pa.large_binary())
    frequent = pc.invert(pc.is_in(counted.words, special)).to_numpy(zero_copy_only=False)
    frequent &= counted.counts >= options.min_frequency
    if not frequent.any():
        raise UserError(
            f"--min-frequency {options.min_frequency}",
            "no word occurs this often",
            "Give a smaller number",
        )
    words = CountedWords(counted.words.filter(pa.array(frequent)), counted.counts[frequent])
    words, room = words.in_order(), len(words.counts)
    if options.vocab_size is not None:
        room = options.vocab_size - len(special)
    chosen = np.sort(np.argsort(-words.counts, kind="stable")[:room])
    tokens: list[str] = words.words.take(pa.array(chosen)).cast(pa.large_string()).to_pylist()
    return tokens
