"""Byte-level byte-pair encoding (Sennrich et al. 2016, Radford et al. 2019), as in seed 002.

The file is that of `ByteLevelBPETokenizer.train_from_iterator`, for a corpus of any length: the
trainer needs only the counts of words. It is determined: the alphabet of all 256 bytes is numbered
in order, pieces in the order in which they are joined, and pairs of equal count are joined in the
order of these numbers. The library's prefixes of inner pieces and suffixes of last pieces are not
offered, because its byte-level decoder does not remove them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import decoders, pre_tokenizers, processors
from tokenizers.models import BPE

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.errors import check_option
from corpusmill.tokenization.compiled.byte_level_patterns import byte_alphabet
from corpusmill.tokenization.training.counted_words import CountedWords, check_words, count_text
from corpusmill.tokenization.training.merges import train_merges, write_symbols
from corpusmill.tokenization.training.options import (
    TrainingOptions,
    check_min_frequency,
    check_vocab_size,
)
from corpusmill.tokenization.training.parts import make_normalizer, write_tokenizer_json
from corpusmill.tokenization.training.word_counters import ByteLevelCounter, WordCounter

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


def make_byte_level_counter(options: ByteLevelBpeOptions) -> WordCounter:
    """Return the counter of a model's words, as they stand in the text."""
    return ByteLevelCounter(options.normalizers, options.add_prefix_space)


def train_byte_level_bpe(batches: Iterable[list[str]], options: ByteLevelBpeOptions) -> str:
    """Train a byte-level BPE tokenizer. The same sentences and options give the same file.

    Args:
        batches: batches of sentences; only the counts of their words are kept.
        options: options of the training.

    Returns:
        As of `train_byte_level_bpe_on_words`.

    Raises:
        UserError: likewise.
    """
    words = count_text(batches, make_byte_level_counter(options), options.word_limits)
    return train_byte_level_bpe_on_words(words, options)


def train_byte_level_bpe_on_words(words: CountedWords, options: ByteLevelBpeOptions) -> str:
    """Train a byte-level BPE tokenizer.

    Args:
        words: what the counter of `make_byte_level_counter` has counted.
        options: options of the training.

    Returns:
        The tokenizer.json. The special tokens have the first ids, then the bytes, then the pieces
        in the order in which they were joined.

    Raises:
        UserError: there are no words.
    """
    check_words(words)
    first = [*options.special_tokens, *ALPHABET]
    tokens, merges = train_merges(
        *_write_symbols(words, first), first, options.vocab_size, options.min_frequency
    )
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return write_tokenizer_json(
        BPE(vocabulary, merges, dropout=options.dropout or None),
        make_normalizer(options.normalizers),
        pre_tokenizers.ByteLevel(add_prefix_space=options.add_prefix_space),
        decoders.ByteLevel(),
        options.special_tokens,
        processors.ByteLevel(trim_offsets=options.trim_offsets),
    )


def _write_symbols(
    words: CountedWords, tokens: Sequence[str]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the symbols of the words in the order of their characters, and the words' counts."""
    written = write_bytes(words).in_order()
    return write_symbols(written.words.cast(pa.large_string()), tokens), written.counts


def write_bytes(words: CountedWords) -> CountedWords:
    """Return words with each byte as the character that GPT-2 writes for it.

    Example:
        " caf\u00e9" becomes "\u0120caf\u00c3\u00a9".
    """
    text, offsets = ragged.from_arrow(words.words)
    characters, ends = _write_bytes(_characters_of_bytes(), text, offsets)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(characters)]
    written = pa.Array.from_buffers(pa.large_binary(), len(words.words), buffers)
    return CountedWords(written, words.counts)


@cache
def _characters_of_bytes() -> npt.NDArray[np.uint8]:
    """The size and the UTF-8 of each byte's character, uint8[256, 3]."""
    rows = np.zeros((256, 3), np.uint8)
    for character, byte in byte_alphabet().items():
        encoded = character.encode()
        rows[byte, 0], rows[byte, 1 : 1 + len(encoded)] = len(encoded), [*encoded]
    return rows


@njit
def _write_bytes(
    characters: np.ndarray, text: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    written, ends = np.empty(2 * (offsets[-1] - offsets[0]), np.uint8), np.zeros_like(offsets)
    size = 0
    for word in range(len(offsets) - 1):
        for place in range(offsets[word], offsets[word + 1]):
            row = characters[text[place]]
            written[size] = row[1]
            if row[0] == 2:
                written[size + 1] = row[2]
            size += row[0]
        ends[word + 1] = size
    return written[:size], ends
