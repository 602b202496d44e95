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
import pyarrow as pa

from corpusmill.tokenization.training.merging.cells import UNKNOWN, write_cells
from corpusmill.tokenization.training.merging.pairs import FEW_PLACES
from corpusmill.tokenization.training.merging.steps import learn_merges
from corpusmill.tokenization.training.merging.token_texts import TokenTexts, index_tokens

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
    few_places: int = FEW_PLACES,
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
