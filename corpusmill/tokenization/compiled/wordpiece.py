"""BERT's WordPiece tokenizer compiled from its tokenizer.json.

The tokenizer's own normalizer and pre-tokenizer are asked what they do with each character of the
scripts that are written with spaces, kana, wide forms and emoji; what it does with ideographs and
Hangul is known. A text with another character, or perhaps an added token, is left to the tokenizer
itself.

Text is normalized and broken like BERT's, and words are cut into pieces. A word is cut greedily,
the longest piece first (Devlin et al. 2019). The pieces are in a tree of their characters, so that
one walk along a word's characters finds the longest.
"""

import unicodedata
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import PreTokenizer

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.exactness import list_taken
from corpusmill.tokenization.compiled.units import (
    ONE,
    EncodeSpans,
    allocate_table,
    completed,
    find_slot,
    join_texts,
    may_have_token,
    read_character,
    token_starts,
)
from corpusmill.tokenization.tokenizer_file import Part, added_tokens

# Classes of characters.
IN_WORD, PUNCTUATION, BLANK, NOT_KNOWN = 0, 1, 2, 3
# The roots of the trees of pieces that begin words, and of pieces inside words.
FIRST, INNER = 0, 1
NO_TOKEN = -1
_CODE = np.uint64(21)


class Characters(NamedTuple):
    """What the normalizer turns each character into.

    Attributes:
        ends: int32[code points + 1]; parts[ends[c] : ends[c + 1]] is the normalized text of code
            point c: for each of its characters the size, the class and the bytes.
        parts: uint8[...].
        growth: most bytes that a byte of text becomes.
    """

    ends: np.ndarray
    parts: np.ndarray
    growth: int


class Pieces(NamedTuple):
    """The vocabulary as two trees, whose roots are the nodes FIRST and INNER.

    Attributes:
        edges: a hash table. A key is a node and a code point, as node << 21 | code; its value is
            the node that they lead to.
        tokens: int32[nodes], the token that ends at each node, or NO_TOKEN.
        unknown: the id of a word that cannot be spelt.
        most_characters: longer words are unknown.
    """

    edges: np.ndarray
    tokens: np.ndarray
    unknown: int
    most_characters: int


@njit
def find_edge(edges: np.ndarray, node: int, code: int) -> np.int64:
    """Return the slot of a node's edge, or the free one where it belongs."""
    slot: np.int64 = find_slot(edges, np.uint64(node) << _CODE | np.uint64(code))
    return slot


@njit
def plant_tokens(
    text: np.ndarray, ends: np.ndarray, is_inner: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Make the two trees.

    Args:
        text: uint8[bytes], the tokens one after the other, those of INNER without their prefix.
        ends: int64[tokens + 1] into text.
        is_inner: bool[tokens], whether each belongs inside words.
        numbers: int32[tokens], their ids.

    Returns:
        `edges` and `tokens` of Pieces.
    """
    edges, tokens = allocate_table(len(text)), np.full(len(text) + 2, NO_TOKEN, np.int32)
    nodes = 2
    for token in range(len(numbers)):
        node = np.int64(INNER if is_inner[token] else FIRST)
        place = ends[token]
        while place < ends[token + 1]:
            code, size = read_character(text, place)
            place += size
            slot = find_edge(edges, node, code)
            if not edges[slot, 0]:
                edges[slot, 0] = (np.uint64(node) << _CODE | np.uint64(code)) + ONE
                edges[slot, 1] = nodes
                nodes += 1
            node = np.int64(edges[slot, 1])
        tokens[node] = numbers[token]
    return edges, tokens[:nodes]


@njit
def cut_word(
    pieces: Pieces, word: np.ndarray, size: int, characters: int, ids: np.ndarray, written: int
) -> int:
    """Append the ids of a word to those written, and return their new number.

    Args:
        pieces: the vocabulary.
        word: uint8[at least size], its bytes.
        size: their number; an empty word has no id.
        characters: the number of its characters.
        ids: int32[at least written + size].
        written: the number of ids so far.
    """
    if size == 0:
        return written
    start, count, root = 0, written, FIRST
    while start < size and characters <= pieces.most_characters:
        node, place = np.int64(root), start
        token, end = NO_TOKEN, start
        while place < size:
            code, step = read_character(word, place)
            slot = find_edge(pieces.edges, node, code)
            if not pieces.edges[slot, 0]:
                break
            node, place = np.int64(pieces.edges[slot, 1]), place + step
            if pieces.tokens[node] != NO_TOKEN:
                token, end = pieces.tokens[node], place
        if token == NO_TOKEN:
            break
        ids[count] = token
        count, start, root = count + 1, end, INNER
    if start < size:
        ids[written] = pieces.unknown
        return written + 1
    return count


@njit
def encode_text(
    characters: Characters, pieces: Pieces, text: np.ndarray, word: np.ndarray, ids: np.ndarray
) -> int:
    """Write the ids of a text, and return their number; -1 if a character is not known.

    Args:
        characters: what each character is turned into.
        pieces: the vocabulary.
        text: uint8[bytes], valid UTF-8.
        word: uint8[at least growth * bytes], a workspace for words.
        ids: int32[likewise], written from its beginning.
    """
    place = size = in_word = written = 0
    while place < len(text):
        code, step = read_character(text, place)
        place += step
        if code + 1 >= len(characters.ends):
            return -1
        part, stop = characters.ends[code], characters.ends[code + 1]
        while part < stop:
            width, kind = characters.parts[part], characters.parts[part + 1]
            if kind == NOT_KNOWN:
                return -1
            if kind != IN_WORD:
                written = cut_word(pieces, word, size, in_word, ids, written)
                size = in_word = 0
            if kind != BLANK:
                for byte in range(width):
                    word[size + byte] = characters.parts[part + 2 + byte]
                size, in_word = size + width, in_word + 1
            if kind == PUNCTUATION:
                written = cut_word(pieces, word, size, in_word, ids, written)
                size = in_word = 0
            part += 2 + width
    written = cut_word(pieces, word, size, in_word, ids, written)
    return int(written)


@njit
def encode_spans(
    characters: Characters,
    pieces: Pieces,
    starts: np.ndarray,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of stretches of text, each tokenized as a text of its own.

    Args:
        characters: what each character is turned into.
        pieces: the vocabulary.
        starts: the table of `token_starts`.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each stretch.

    Returns:
        ids: int32[...], one stretch's after another's.
        ends: int64[n + 1] into the ids.
        left: bool[n], stretches that are left to the tokenizer and have no ids here.
    """
    growth = characters.growth
    ids = np.empty(growth * (spans[:, 1] - spans[:, 0]).sum(), np.int32)
    ends, left = np.zeros(len(spans) + 1, np.int64), np.zeros(len(spans), np.bool_)
    longest = 0
    for span in range(len(spans)):
        longest = max(longest, spans[span, 1] - spans[span, 0])
    word = np.empty(growth * longest, np.uint8)
    for span in range(len(spans)):
        start, stop = spans[span]
        count = -1
        if not may_have_token(starts, text, start, stop):
            count = encode_text(characters, pieces, text[start:stop], word, ids[ends[span] :])
        left[span] = count < 0
        ends[span + 1] = ends[span] + max(count, 0)
    return ids[: ends[-1]], ends, left


# Nearly all scripts that have spaces between words, kana, wide forms and emoji, but for two marks
# that are no accents, and may be moved.
_CODES = (
    *range(0x302E), *range(0x3030, 0x3400), *range(0xF900, 0x10000), *range(0x1F300, 0x1FB00),
)  # fmt: skip
# Of these, what becomes of them is known: Hangul is decomposed where accents are stripped, and
# ideographs stay as they are, but each may be a word.
_HANGUL, _IDEOGRAPHS = range(0xAC00, 0xD7A4), range(0x4E00, 0x9FA6)
# A letter above them that is turned into itself.
_SEPARATOR = "\U00010000"


def compile_wordpiece(
    tokenizer_json: Part, tokenizer: Tokenizer, encode_plainly: EncodeSpans
) -> EncodeSpans:
    """Compile a tokenizer.

    Args:
        tokenizer_json: the parsed tokenizer.json of a tokenizer that `is_known`.
        tokenizer: the same, loaded.
        encode_plainly: the same, for stretches that the compiled one leaves.
    """
    characters = read_characters(tokenizer, tokenizer_json["normalizer"])
    pieces = read_pieces(tokenizer_json["model"])
    firsts = token_starts(list_taken(tokenizer_json, tokenizer))
    known = partial(encode_spans, characters, pieces, firsts)
    return completed(known, encode_plainly)


def is_known(tokenizer_json: Part) -> bool:
    """Whether a tokenizer to which `choose_unit_rule` has no objection can be compiled."""
    model = tokenizer_json["model"]
    return (
        (tokenizer_json.get("normalizer") or {}).get("type") == "BertNormalizer"
        and (tokenizer_json.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
        and model["type"] == "WordPiece"
        and bool(model["continuing_subword_prefix"])
        and not any(token["normalized"] for token in added_tokens(tokenizer_json))
    )


def read_characters(tokenizer: Tokenizer, normalizer: Part) -> Characters:
    """Find out what a tokenizer turns each character into.

    Args:
        tokenizer: with BERT's normalizer and pre-tokenizer. The normalizer maps characters one by
            one: it also decomposes them and reorders combining marks, but drops all that it moved.
        normalizer: that of its tokenizer.json.
    """
    # In a single call, as there are many; the character between them is itself above the limit.
    asked, between = list(map(chr, _CODES)), _SEPARATOR
    normalized = tokenizer.normalizer.normalize_str(between.join(asked)).split(between)
    parts = {
        character: bytes([len(character.encode()), kind]) + character.encode()
        for character, kind in classify(tokenizer.pre_tokenizer, "".join(normalized)).items()
    }
    encoded = [bytes([0, NOT_KNOWN])] * (_CODES[-1] + 1)
    for code, text in zip(_CODES, normalized, strict=True):
        encoded[code] = b"".join(map(parts.__getitem__, text))
    strips, hangul = normalizer["strip_accents"], "\n".join(map(chr, _HANGUL))
    if normalizer["lowercase"] if strips is None else strips:
        hangul = unicodedata.normalize("NFD", hangul)
    begin = bytes([3, PUNCTUATION if normalizer["handle_chinese_chars"] else IN_WORD])
    for code in _IDEOGRAPHS:
        encoded[code] = begin + chr(code).encode()
    images = dict(zip(map(chr, _HANGUL), hangul.split("\n"), strict=True))
    for character, image in images.items():
        encoded[ord(character)] = b"".join(bytes([3, IN_WORD]) + part.encode() for part in image)
    return join_parts(encoded, [*zip(asked, normalized, strict=True), *images.items()])


def join_parts(parts: Iterable[bytes], images: Iterable[tuple[str, str]]) -> Characters:
    """Return what characters are turned into, from the part of each and some with their images."""
    growth = max(-(-len(image.encode()) // len(one.encode())) for one, image in images)
    joined, ends = join_texts(parts)
    return Characters(ends.astype(np.int32), joined, growth)


def classify(pre_tokenizer: PreTokenizer, text: str) -> dict[str, int]:
    """Find the class of each character of a text by how it is broken from letters around it."""
    characters = sorted(set(text))
    text = "".join(f"a{character}" for character in characters) + "a"
    classes = np.full(len(text), BLANK)
    for _, (start, end) in pre_tokenizer.pre_tokenize_str(text):
        classes[start:end] = IN_WORD if end - start > 1 else PUNCTUATION
    return dict(zip(characters, classes[1::2].tolist(), strict=True))


def read_pieces(model: Part) -> Pieces:
    """Read the trees of a WordPiece model of a tokenizer.json."""
    prefix, vocabulary = model["continuing_subword_prefix"], model["vocab"]
    tokens = [(token, False, number) for token, number in vocabulary.items() if token]
    tokens += [
        (token.removeprefix(prefix), True, number)
        for token, number in vocabulary.items()
        if token.startswith(prefix) and token != prefix
    ]
    edges, token_of_node = plant_tokens(
        *join_texts(token.encode() for token, _, _ in tokens),
        np.array([is_inner for _, is_inner, _ in tokens]),
        np.array([number for *_, number in tokens], np.int32),
    )
    unknown = vocabulary[model["unk_token"]]
    return Pieces(edges, token_of_node, unknown, model["max_input_chars_per_word"])
