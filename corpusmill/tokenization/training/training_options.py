"""What all models have in common: options, a training, and the checks that several make."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import CheckedOptions, Range
from corpusmill.tokenization.tokenizer_file import MOST_TOKENS
from corpusmill.tokenization.training.counted_words import CountedWords, WordLimits
from corpusmill.tokenization.training.parts import NormalizerName
from corpusmill.tokenization.training.word_counters import WordCounter

# The trainers make room for all tokens before they begin, and end the process if they get none.
VOCAB_SIZES = Range(1, MOST_TOKENS)
FREQUENCIES = Range(1, 2**63 - 1)


@dataclass(frozen=True)
class TrainingOptions(CheckedOptions, ABC):
    """A model that can be trained: the options that all of them have, and the training.

    Attributes:
        files: the names of the files that the model itself is saved as.
    """

    files: ClassVar[tuple[str, ...]]

    vocab_size: Annotated[int | None, VOCAB_SIZES] = None
    """Most tokens in the vocabulary, special tokens included; None for no limit."""
    special_tokens: tuple[str, ...] = ()
    """Tokens that text is never split into, in the order of their ids."""
    normalizers: tuple[NormalizerName, ...] = ()
    """Normalizers applied to text before it is split, in this order."""
    max_distinct_words: Annotated[int, Range(1)] = 5_000_000
    """Most distinct words to train with. If a corpus has more, the rarest are left out: all that
    occur less often than some number, the smallest that leaves no more."""
    max_distinct_bytes: Annotated[int, Range(1)] = 48_000_000
    """Most bytes of distinct words to train with, which bounds the memory of training. If a corpus
    has more, as one without spaces between words, the rarest words are left out, and of those that
    occur equally often a sample is kept."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a tokenizer cannot be trained with a value.
        """
        super().__post_init__()
        _check_special_tokens(self.special_tokens)

    @property
    def word_limits(self) -> WordLimits:
        """How many distinct words are trained with."""
        return WordLimits(self.max_distinct_words, self.max_distinct_bytes)

    @abstractmethod
    def make_counter(self) -> WordCounter:
        """Return the counter of the model's words."""

    @abstractmethod
    def train(self, words: CountedWords) -> str:
        """Train a tokenizer; the same words and options give the same file.

        Args:
            words: what the counter has counted.

        Returns:
            The tokenizer.json.

        Raises:
            UserError: there are no words, or the options do not suit them.
        """

    def describe_limits(self, words: CountedWords) -> Iterator[str]:  # noqa: ARG002  most have none
        """Say what else a model makes of words that are more than it can train with."""
        yield from ()


def _check_special_tokens(tokens: Sequence[str]) -> None:
    value = option("special_tokens", tokens)
    if not all(tokens):
        raise UserError(value, "one of them is empty", "Give tokens of one character or more")
    if any(token != token.encode(errors="replace").decode() for token in tokens):
        raise UserError(value, "one of them is not UTF-8", "Give tokens of whole characters")
    repeated = [token for place, token in enumerate(tokens) if token in tokens[:place]]
    if repeated:
        raise UserError(value, f"{repeated[0]} is given twice", "Give each token once")


def check_vocab_size(vocab_size: int, least: int, contents: str) -> None:
    """Refuse a vocabulary without room for its necessary contents.

    Args:
        vocab_size: most tokens.
        least: the number of necessary tokens.
        contents: the necessary tokens, in words.

    Raises:
        UserError: there are more necessary tokens than room.
    """
    if vocab_size < least:
        cause = f"{contents} alone need {least}"
        raise UserError(option("vocab_size", vocab_size), cause, f"Give {least} or more")


def check_unknown_token(unk_token: str, special_tokens: Sequence[str]) -> None:
    """Refuse a token for unknown words that is not a special token.

    Raises:
        UserError: it is not one.
    """
    if unk_token not in special_tokens:
        cause = f"it is none of the special tokens, such as {' '.join(special_tokens[:4])}"
        cure = f"Name one of them, or add it to {option('special_tokens')}"
        raise UserError(option("unk_token", unk_token), cause, cure)
