"""Byte-level byte-pair encoding (Sennrich et al. 2016, Radford et al. 2019), as in seed 002.

The file is that of `ByteLevelBPETokenizer.train_from_iterator`, for a corpus of any length: the
trainer needs only the counts of words. It is determined: the alphabet of all 256 bytes is numbered
in order, pieces in the order in which they are joined, and pairs of equal count are joined in the
order of these numbers. The library's prefixes of inner pieces and suffixes of last pieces are not
offered, because its byte-level decoder does not remove them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.normalizers import Normalizer

from corpusmill.errors import check_option
from corpusmill.tokenization.training.options import (
    TrainingOptions,
    check_min_frequency,
    check_vocab_size,
)
from corpusmill.tokenization.training.parts import make_normalizer, write_tokenizer_json
from corpusmill.tokenization.training.word_counts import (
    count_words,
    split_before_words,
    train_on_counts,
    word_cutter,
)

ALPHABET = tuple(sorted(pre_tokenizers.ByteLevel.alphabet()))


@dataclass(frozen=True)
class ByteLevelBpeOptions(TrainingOptions):
    """How to train a byte-level BPE tokenizer."""

    special_tokens: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    """Have the first ids. With all 256 bytes, nothing is unknown, but models expect such a
    token."""
    vocab_size: int = 30000
    """Most tokens in the vocabulary, special tokens and the 256 bytes included."""
    min_frequency: int = 2
    """How often two neighbouring pieces must occur to be joined into one."""
    add_prefix_space: bool = False
    """Begin every text with a space, so that its first word is tokenized like any other."""
    trim_offsets: bool = False
    """Leave the space before a word out of its offsets."""
    dropout: float = 0.0
    """Share of joins left out at random when the tokenizer is used (Provilkov et al. 2020). It does
    not affect the training, and a build of a data set removes it."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a tokenizer cannot be trained with a value.
        """
        super().__post_init__()
        tokens = len({*ALPHABET, *self.special_tokens})
        check_vocab_size(self.vocab_size, tokens, "the 256 bytes and the special tokens")
        check_min_frequency(self.min_frequency)
        check_option("dropout", self.dropout, 0 <= self.dropout <= 1, "a share, such as 0.1")


def train_byte_level_bpe(batches: Iterable[list[str]], options: ByteLevelBpeOptions) -> str:
    """Train a byte-level BPE tokenizer. The same sentences and options give the same file.

    Args:
        batches: batches of sentences; only the counts of their words are kept.
        options: options of the training.

    Returns:
        The tokenizer.json. The special tokens have the first ids, then the bytes, then the pieces
        in the order in which they were joined.

    Raises:
        UserError: the sentences hold no words.
    """
    normalizer = make_normalizer(options.normalizers)
    pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=options.add_prefix_space)
    words = count_words(
        _normalize(batches, normalizer, "lowercase" in options.normalizers),
        word_cutter(None, pre_tokenizer),
        options.max_distinct_words,
        split_before_words,
    )
    tokens, merges = train_on_counts(
        words, [*options.special_tokens, *ALPHABET], options.vocab_size, options.min_frequency
    )
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return write_tokenizer_json(
        BPE(vocabulary, merges, dropout=options.dropout or None),
        normalizer,
        pre_tokenizer,
        decoders.ByteLevel(),
        options.special_tokens,
        processors.ByteLevel(trim_offsets=options.trim_offsets),
    )


def _normalize(
    batches: Iterable[list[str]], normalizer: Normalizer | None, lowercase: bool
) -> Iterable[list[str]]:
    """Normalize sentences before they are split: the result may contain new white space."""
    if normalizer is None:
        return batches

    def normalize(sentence: str) -> str:
        # The only normalizer that changes ASCII is the one of case.
        if sentence.isascii():
            return sentence.lower() if lowercase else sentence
        return str(normalizer.normalize_str(sentence))

    return ([normalize(sentence) for sentence in batch] for batch in batches)
