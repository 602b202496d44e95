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
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from corpusmill.knobs import knob
from corpusmill.tokenization.compiled.byte_level_pieces import byte_alphabet
from corpusmill.tokenization.training.counted_words import CountedWords
from corpusmill.tokenization.training.merge_pairs import (
    BLOCK_CELLS,
    LONGEST_WORD,
    UNKNOWN,
    CountedCells,
    write_cells,
)
from corpusmill.tokenization.training.merge_steps import (
    EVERY_PAIR,
    TokenTexts,
    index_tokens,
    learn_merges,
)

FEW_PLACES = knob("few_places", 2**26, test=64)
"""The places of pairs that a training lists, before it removes those of merged pairs."""
LISTED_PAIRS = knob("listed_pairs", 64, test=1)
"""A training lists a pair if it occurs once or more in the characters of all distinct words,
divided by this and by the number of new tokens."""

_CODE_POINTS = 0x110000
# Places are numbers of 32 bits.
_MOST_CELLS = 2**32 - 1


def write_symbols(words: CountedWords, ids: npt.NDArray[np.int32]) -> CountedCells:
    """Return the symbols of words.

    Args:
        words: distinct words, each with a count of 1 or more.
        ids: the symbols of characters (`character_ids`), or those of bytes (`byte_ids`).

    Raises:
        ValueError: a character has no symbol, or the words have too many characters.
    """
    order = np.argsort(words.counts, kind="stable")
    counts = words.counts[order]
    firsts = np.flatnonzero(np.diff(counts, prepend=0))
    array = words.words
    _, ends, content = array.buffers()
    offsets = np.frombuffer(ends, np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(content, np.uint8) if content else np.empty(0, np.uint8)
    # A kernel is compiled once for arrays that may be changed, and once for others.
    offsets.flags.writeable = text.flags.writeable = False
    size = int(offsets[-1] - offsets[0])
    # NumPy asks the system for large pages, unlike a kernel, and places are far apart.
    cells = np.empty(size + size // LONGEST_WORD + len(offsets), np.int32)
    starts = write_cells((text, offsets), order, firsts, ids, cells)
    cells = cells[: starts[-1]]
    if len(cells) > _MOST_CELLS:
        raise ValueError(f"the distinct words have more than {_MOST_CELLS} characters")
    if (cells == UNKNOWN).any():
        raise ValueError("a character of a word is not among the tokens")
    blocks = np.arange(0, len(cells), BLOCK_CELLS)
    groups = np.searchsorted(starts, blocks, side="right").astype(np.int32) - 1
    return CountedCells(cells, starts, counts[firsts], groups)


def train_merges(
    words: CountedWords,
    ids: npt.NDArray[np.int32],
    tokens: Sequence[str],
    vocab_size: int,
    min_frequency: int,
    prefix: str = "",
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learn the tokens that words are made of.

    It takes up to 16 bytes a character of the distinct words, from `FEW_PLACES` on about 10, and 70
    bytes or so for each distinct pair that is listed.

    Args:
        words: distinct words, each with a count of 1 or more.
        ids: as `write_symbols` takes them.
        tokens: the tokens with the first ids: special tokens and the alphabet. Each character of a
            word is among them; with a prefix, also each with the prefix that is not a word's first.
        vocab_size: most tokens.
        min_frequency: how often two neighbouring symbols must occur to be merged, 1 or more.
        prefix: what tokens begin with that continue a word.

    Returns:
        vocabulary: the tokens in the order of their ids.
        merges: the pairs of tokens in the order in which they were merged; of a pair that was
            merged several times, the last one.
    """
    first = list(dict.fromkeys(tokens))

    def learn(least: int) -> tuple[npt.NDArray[np.int64], TokenTexts, int, bool]:
        symbols = write_symbols(words, ids)
        cells = len(symbols.cells)
        # A new token takes a symbol or more out of the words.
        room = max(len(first), min(vocab_size, len(first) + cells))
        # Each merge of a pair leaves at most two new pairs, and one symbol less.
        places = np.empty(min(3 * cells, max(FEW_PLACES, cells + cells // 2)), np.uint32)
        texts = _first_texts(first, room, prefix)
        sizes = len(first), vocab_size, min_frequency, least
        return learn_merges(symbols, texts, *sizes, places)  # type: ignore[no-any-return]

    # In text of any kind, the last pair that is merged is several times as frequent.
    rare = words.text_bytes // (LISTED_PAIRS * max(1, vocab_size - len(first)))
    least = max(rare, min_frequency) if rare > 1 else EVERY_PAIR
    merges, texts, count, is_done = learn(least)
    if not is_done:
        merges, texts, count, _ = learn(EVERY_PAIR)
    text, ends = texts.texts.tobytes(), texts.ends[: count + 1].tolist()
    vocabulary = [text[ends[token] : ends[token + 1]].decode() for token in range(count)]
    # A pair that is merged again moves to the end.
    ordered = dict.fromkeys(reversed([tuple(pair) for pair in merges.tolist()]))
    pairs = [(vocabulary[left], vocabulary[right]) for left, right in reversed(ordered)]
    return vocabulary, pairs


def byte_ids(tokens: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return the ids of bytes, int32[2, 256], each by the character that GPT-2 writes for it."""
    ids = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    table = np.empty((2, 256), np.int32)
    for character, byte in byte_alphabet().items():
        table[:, byte] = ids[character]
    return table


def character_ids(tokens: Sequence[str], prefix: str = "") -> npt.NDArray[np.int32]:
    """Return the ids of characters at the start of a word, and of those after it.

    Args:
        tokens: as `train_merges` takes them.
        prefix: likewise.

    Returns:
        int32[2, code points], UNKNOWN for those without a token.
    """
    ids = np.full((2, _CODE_POINTS), UNKNOWN, np.int32)
    for number, token in enumerate(dict.fromkeys(tokens)):
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
