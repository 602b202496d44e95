"""WordPiece in compiled loops: text normalized and broken as BERT does, words cut into pieces.

A word is cut greedily, the longest piece first (Devlin et al. 2019). The pieces are found in a tree
of their bytes, so that one walk along a word's bytes finds the longest.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.byte_level_kernels import read_character

# Classes of characters.
IN_WORD, PUNCTUATION, BLANK = 0, 1, 2
# The trees of pieces that begin words, and of those that go on.
FIRST, INNER = 0, 1
NO_TOKEN = -1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio
_BYTE, _HALF, _ONE = np.uint64(8), np.uint64(32), np.uint64(1)


class Characters(NamedTuple):
    """What becomes of each character.

    Attributes:
        ends: int32[code points + 1]; parts[ends[c] : ends[c + 1]] are the bytes that code point c
            is normalized to, each of their characters behind its size and class.
        parts: uint8[...].
    """

    ends: np.ndarray
    parts: np.ndarray


class Pieces(NamedTuple):
    """The vocabulary as two trees, of which the roots are nodes FIRST and INNER.

    Attributes:
        edges: uint64[a power of two, 2]; a node and a byte, as node << 8 | byte, plus 1, and the
            node that they lead to; 0 where there is none.
        tokens: int32[nodes], the token that ends at each, or NO_TOKEN.
        unknown: the id of a word that cannot be spelt.
        most_characters: longer words are unknown.
    """

    edges: np.ndarray
    tokens: np.ndarray
    unknown: int
    most_characters: int


@njit
def find_edge(edges: np.ndarray, node: int, byte: int) -> np.int64:
    """The slot of a node's edge, or the free one where it belongs."""
    last = np.uint64(len(edges) - 1)
    key = (np.uint64(node) << _BYTE | np.uint64(byte)) + _ONE
    slot = ((key * _MULTIPLIER) >> _HALF) & last
    while edges[slot, 0] and edges[slot, 0] != key:
        slot = (slot + _ONE) & last
    return np.int64(slot)


@njit
def plant_tokens(
    text: np.ndarray, ends: np.ndarray, inner: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Make the two trees.

    Args:
        text: uint8[bytes], the tokens one behind the other, those of INNER without their prefix.
        ends: int64[tokens + 1] into text.
        inner: bool[tokens], whether each goes on in a word.
        numbers: int32[tokens], their ids.

    Returns:
        `edges` and `tokens` of Pieces.
    """
    size = 16
    while size < 2 * len(text):
        size *= 2
    edges, tokens = np.zeros((size, 2), np.uint64), np.full(len(text) + 2, NO_TOKEN, np.int32)
    nodes = 2
    for token in range(len(numbers)):
        node = np.int64(INNER if inner[token] else FIRST)
        for place in range(ends[token], ends[token + 1]):
            slot = find_edge(edges, node, text[place])
            if not edges[slot, 0]:
                edges[slot, 0] = (np.uint64(node) << _BYTE | np.uint64(text[place])) + _ONE
                edges[slot, 1] = nodes
                nodes += 1
            node = np.int64(edges[slot, 1])
        tokens[node] = numbers[token]
    return edges, tokens[:nodes]


@njit
def cut_word(
    pieces: Pieces, word: np.ndarray, size: int, characters: int, ids: np.ndarray, written: int
) -> int:
    """Write the ids of a word behind those written, and give their new number.

    Args:
        pieces: the vocabulary.
        word: uint8[size at least], its bytes.
        size: how many they are; without any there is no id.
        characters: how many characters they are.
        ids: int32[written + size at least].
        written: ids there are.
    """
    if size == 0:
        return written
    start, at, root = 0, written, FIRST
    while start < size and characters <= pieces.most_characters:
        node, place = np.int64(root), start
        token, end = NO_TOKEN, start
        while place < size:
            slot = find_edge(pieces.edges, node, word[place])
            if not pieces.edges[slot, 0]:
                break
            node, place = np.int64(pieces.edges[slot, 1]), place + 1
            if pieces.tokens[node] != NO_TOKEN:
                token, end = pieces.tokens[node], place
        if token == NO_TOKEN:
            break
        ids[at] = token
        at, start, root = at + 1, end, INNER
    if start < size:
        ids[written] = pieces.unknown
        return written + 1
    return at


@njit
def encode_text(
    characters: Characters, pieces: Pieces, text: np.ndarray, word: np.ndarray, ids: np.ndarray
) -> int:
    """The ids of a text.

    Args:
        characters: what becomes of each.
        pieces: the vocabulary.
        text: uint8[bytes], valid UTF-8.
        word: uint8[as many as the text's characters may become], for the words.
        ids: int32[likewise], written from its beginning.

    Returns:
        Their number; -1 where the text holds a character of which nothing is known.
    """
    place = size = in_word = written = 0
    while place < len(text):
        code, step = read_character(text, place)
        place += step
        if code + 1 >= len(characters.ends):
            return -1
        at, stop = characters.ends[code], characters.ends[code + 1]
        while at < stop:
            width, of = characters.parts[at], characters.parts[at + 1]
            if of != IN_WORD:
                written = cut_word(pieces, word, size, in_word, ids, written)
                size = in_word = 0
            if of != BLANK:
                for byte in range(width):
                    word[size + byte] = characters.parts[at + 2 + byte]
                size, in_word = size + width, in_word + 1
            if of == PUNCTUATION:
                written = cut_word(pieces, word, size, in_word, ids, written)
                size = in_word = 0
            at += 2 + width
    written = cut_word(pieces, word, size, in_word, ids, written)
    return int(written)


@njit
def encode_spans(
    characters: Characters,
    pieces: Pieces,
    growth: int,
    token_starts: np.ndarray,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ids of stretches of text, each taken as a text of its own.

    Args:
        characters: what becomes of each.
        pieces: the vocabulary.
        growth: bytes that a byte of text becomes at most.
        token_starts: bool[256], bytes with which added tokens begin.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each.

    Returns:
        As `corpusmill.tokenization.compiled.byte_level_kernels.encode_spans`.
    """
    ids = np.empty(growth * (spans[:, 1] - spans[:, 0]).sum(), np.int32)
    ends, left = np.zeros(len(spans) + 1, np.int64), np.zeros(len(spans), np.bool_)
    longest = 0
    for span in range(len(spans)):
        longest = max(longest, spans[span, 1] - spans[span, 0])
    word, own = np.empty(growth * longest, np.uint8), np.empty(growth * longest, np.int32)
    for span in range(len(spans)):
        start, stop = spans[span]
        for at in range(start, stop):
            left[span] |= token_starts[text[at]]
        count = -1
        if not left[span]:
            count = encode_text(characters, pieces, text[start:stop], word, own)
        left[span] = count < 0
        ends[span + 1] = ends[span] + max(count, 0)
        ids[ends[span] : ends[span + 1]] = own[: max(count, 0)]
    return ids[: ends[-1]], ends, left
