"""Byte-pair merges learned from counted words (Gage 1994, Sennrich et al. 2016).

The most frequent pair of neighbouring symbols becomes a symbol, again and again; of pairs that are
equally frequent, the one with the lowest ids. The vocabulary and the merges are those of
`BpeTrainer` and `WordPieceTrainer` in the tokenizers library, which takes words one at a time and
not their counts. They include what the algorithm does not ask for, where two pairs have the same
text:

- Both become the same token, and the merges that follow do not tell them apart.
- A pair that occurs again after it was queued is queued again, with its new places and its new
  count; the old entry is merged separately, and only then gets the new count.
- What a merge itself removes is not subtracted from a pair's count.

A word of more than 1,024 characters is learned from in pieces.

Byte-level byte-pair encoding (Radford et al. 2019; seed 002) merges bytes. Its file is that of
`ByteLevelBPETokenizer.train_from_iterator`, for a corpus of any length. It is determined: the
alphabet of all 256 bytes is numbered in order, pieces in the order in which they are joined, and
pairs of equal count are joined in the order of these numbers. The library's prefixes of inner
pieces and suffixes of last pieces are not offered, because its byte-level decoder does not remove
them.
"""

from collections.abc import Sequence
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
from corpusmill.limits import LIMITS, TrainingLimits
from corpusmill.tokenization.compiled.byte_level_pieces import byte_alphabet
from corpusmill.tokenization.training.counted_words import CountedWords, check_words
from corpusmill.tokenization.training.merge_pairs import UNKNOWN, write_cells
from corpusmill.tokenization.training.merge_steps import TokenTexts, index_tokens, learn_merges
from corpusmill.tokenization.training.parts import make_normalizer, write_tokenizer_json
from corpusmill.tokenization.training.training_options import (
    TrainingOptions,
    check_min_frequency,
    check_vocab_size,
)
from corpusmill.tokenization.training.word_counters import ByteLevelCounter, WordCounter

_LONGEST_WORD = 1024
_CODE_POINTS = 0x110000
# Places are numbers of 32 bits.
_MOST_CELLS = 2**32 - 1


def write_symbols(
    words: pa.LargeStringArray, tokens: Sequence[str], prefix: str = ""
) -> npt.NDArray[np.int32]:
    """Return the symbols of words, which `train_merges` merges in place of the words.

    Args:
        words: distinct words.
        tokens: as `train_merges` takes them.
        prefix: likewise.

    Returns:
        int32[cells], see `merging.cells`: one for each character, and one for each word.

    Raises:
        ValueError: a character is not among the tokens, or the words have too many characters.
    """
    offsets, text = _buffers(words)
    ids = _character_ids(list(dict.fromkeys(tokens)), prefix)
    cells: npt.NDArray[np.int32] = write_cells(text, offsets, ids, _LONGEST_WORD)
    if len(cells) > _MOST_CELLS:
        raise ValueError(f"the distinct words have more than {_MOST_CELLS} characters")
    if (cells == UNKNOWN).any():
        raise ValueError("a character of a word is not among the tokens")
    return cells


def train_merges(
    cells: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int64],
    tokens: Sequence[str],
    vocab_size: int,
    min_frequency: int,
    prefix: str = "",
    few_places: int = LIMITS.training.few_places,
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learn the tokens that words are made of.

    It takes up to 16 bytes a character of the distinct words, from `few_places` on about 9, and 70
    bytes or so for each distinct pair.

    Args:
        cells: the symbols of distinct words (`write_symbols`), which are merged in place.
        counts: int64[words], how often each word occurs, 1 or more.
        tokens: the tokens with the first ids: special tokens and the alphabet. Each character of a
            word is among them; with a prefix, also each with the prefix that is not a word's first.
        vocab_size: most tokens.
        min_frequency: how often two neighbouring symbols must occur to be merged, 1 or more.
        prefix: what tokens begin with that continue a word.
        few_places: the places of pairs that are listed before those of merged pairs are removed.

    Returns:
        vocabulary: the tokens in the order of their ids.
        merges: the pairs of tokens in the order in which they were merged; of a pair that was
            merged several times, the last one.
    """
    first = list(dict.fromkeys(tokens))
    # A new token takes a symbol or more out of the words.
    room = max(len(first), min(vocab_size, len(first) + len(cells)))
    merges, texts, count = learn_merges(
        cells,
        np.array(counts, np.int64),  # a copy, which no caller has made read-only
        _first_texts(first, room, prefix),
        len(first),
        vocab_size,
        min_frequency,
        few_places,
    )
    vocabulary = _read_texts(texts, count)
    # A pair that is merged again moves to the end.
    ordered = dict.fromkeys(reversed([tuple(pair) for pair in merges.tolist()]))
    pairs = [(vocabulary[left], vocabulary[right]) for left, right in reversed(ordered)]
    return vocabulary, pairs


def _buffers(words: pa.LargeStringArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return where each word begins, and the UTF-8 of all."""
    _, offsets, text = words.buffers()
    starts = np.frombuffer(offsets, np.int64)[words.offset : words.offset + len(words) + 1]
    content = np.frombuffer(text, np.uint8) if text else np.empty(0, np.uint8)
    # A kernel is compiled once for arrays that may be changed, and once for others.
    starts.flags.writeable = content.flags.writeable = False
    return starts, content


def _character_ids(tokens: Sequence[str], prefix: str) -> npt.NDArray[np.int32]:
    """Return the ids of characters at the start of a word, and of those after it."""
    ids = np.full((2, _CODE_POINTS), UNKNOWN, np.int32)
    for number, token in enumerate(tokens):
        if len(token) == 1:
            ids[0, ord(token)] = number
        if len(token) == len(prefix) + 1 and token.startswith(prefix):
            ids[1, ord(token[-1])] = number
    return ids


def _first_texts(tokens: Sequence[str], room: int, prefix: str) -> TokenTexts:
    """Return the texts of tokens, with room for a number of tokens."""
    encoded = [token.encode() for token in tokens]
    ends = np.zeros(room + 1, np.int64)
    ends[1 : len(tokens) + 1] = np.cumsum([len(text) for text in encoded])
    texts = TokenTexts(
        np.frombuffer(bytearray(b"".join(encoded)), np.uint8),
        ends,
        np.zeros(2 ** (2 * room).bit_length(), np.int32),
        np.frombuffer(bytearray(prefix.encode()), np.uint8),
    )
    index_tokens(texts, len(tokens))
    return texts


def _read_texts(tokens: TokenTexts, count: int) -> list[str]:
    text, ends = tokens.texts.tobytes(), tokens.ends[: count + 1].tolist()
    return [text[ends[token] : ends[token + 1]].decode() for token in range(count)]


ALPHABET = tuple(sorted(pre_tokenizers.ByteLevel.alphabet()))


@dataclass(frozen=True)
class ByteLevelBpeOptions(TrainingOptions):
    """How to train a byte-level BPE tokenizer."""

    files = ("vocab.json", "merges.txt")

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

    def make_counter(self, limits: TrainingLimits) -> WordCounter:
        """Return the counter of the model's words, as they stand in the text."""
        return ByteLevelCounter(limits, self.normalizers, self.add_prefix_space)

    def train(self, words: CountedWords, limits: TrainingLimits) -> str:
        """Train a byte-level BPE tokenizer.

        The special tokens have the first ids, then the bytes, then the pieces in the order in which
        they were joined.

        Raises:
            UserError: there are no words.
        """
        check_words(words)
        first = [*self.special_tokens, *ALPHABET]
        tokens, merges = train_merges(
            *_write_symbols(words, first), first, self.vocab_size, self.min_frequency,
            few_places=limits.few_places,
        )  # fmt: skip
        vocabulary = {token: number for number, token in enumerate(tokens)}
        return write_tokenizer_json(
            BPE(vocabulary, merges, dropout=self.dropout or None),
            make_normalizer(self.normalizers),
            pre_tokenizers.ByteLevel(add_prefix_space=self.add_prefix_space),
            decoders.ByteLevel(),
            self.special_tokens,
            processors.ByteLevel(trim_offsets=self.trim_offsets),
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
