"""Merging that begins with characters or their first bytes gives the ids of merging bytes."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from corpusmill.tokenization.compiled.byte_level_bpe import (
    begin_with_characters,
    byte_tokens,
    compile_byte_level_bpe,
    find_whole_tokens,
    read_merges,
)
from corpusmill.tokenization.compiled.byte_level_pieces import (
    LONGEST_TOKEN,
    byte_alphabet,
    find_token,
)
from corpusmill.tokenization.compiled.units import MULTIPLIER
from tests.tools.token_rows import as_spans, plain_rows, refuse, rows

_NAMES = {byte: character for character, byte in byte_alphabet().items()}


def token_name(token: bytes) -> str:
    """The name of a token in the vocabulary."""
    return "".join(_NAMES[byte] for byte in token)


def make_tokenizer(merges: list[tuple[bytes, bytes]]) -> Tokenizer:
    """A tokenizer whose vocabulary is all bytes, and then the tokens of merges in their order."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [left + right for left, right in merges]
    vocabulary = {token_name(token): number for number, token in enumerate(dict.fromkeys(tokens))}
    pairs = [(token_name(left), token_name(right)) for left, right in merges]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def begun(merges: list[tuple[bytes, bytes]]) -> str:
    """The characters with which merging begins."""
    model = json.loads(make_tokenizer(merges).to_str())["model"]
    characters = begin_with_characters(read_merges(model), model, byte_tokens(model)).characters
    ids = characters[characters >= 0].tolist()
    tokens = {number: token for token, number in model["vocab"].items()}
    written = "".join(map(chr, np.flatnonzero(characters >= 0)))
    assert [tokens[number] for number in ids] == [token_name(one.encode()) for one in written]
    return written


MIDDLE = [(b"\xe4", b"\xb8"), (b"\xe4\xb8", b"\xad")]  # U+4E2D


@pytest.mark.parametrize(
    ("merges", "expected"),
    [
        (MIDDLE, "中"),
        (MIDDLE[:1], ""),
        # Afterwards nothing can come before; before that, its first or last byte is taken away.
        ([*MIDDLE, (b"x", b"\xe4"), (b"\xad", b"\xe4")], "中"),
        ([(b"\x81", b"\xe4"), *MIDDLE], ""),
        ([(b"\xad", b"\xe4"), *MIDDLE], ""),
        ([MIDDLE[0], (b"\x81", b"\xe4\xb8"), MIDDLE[1]], ""),
        # After ASCII, merging begins with bytes; and what ends or begins within one is not beside.
        ([(b"x", b"\xe4"), *MIDDLE], "中"),
        ([(b"\xad", b"\xad"), (b"\xe5", b"\xb8"), (b"\xe5\xb8", b"\xe4"), *MIDDLE], "中"),
        # The whole is joined to others before it is made, or it is not made in the order of ranks.
        ([(b"\xe4\xb8\xad", b"a"), *MIDDLE], ""),
        (MIDDLE[::-1], ""),
        ([MIDDLE[0], (b"\xb8", b"\xad"), MIDDLE[1]], "中"),
        # A pair may be joined within the character and across its edge: the leftmost comes first.
        ([(b"\xe4", b"\xb8"), (b"\xe4\xb8", b"\xb8")], "丸"),
        # A token elsewhere is made again after it has been joined to others.
        ([*MIDDLE, (b"a", b"b"), (b"ab", b"c"), (b"b", b"c"), (b"a", b"bc"), (b"abc", b"d")], "中"),
        ([(b"b", b"c"), (b"a", b"bc"), (b"abc", b"d"), (b"a", b"b"), (b"ab", b"c"), *MIDDLE], "中"),
    ],
)
def test_merging_begins_with_characters_that_nothing_breaks_up(
    merges: list[tuple[bytes, bytes]], expected: str
) -> None:
    assert begun(merges) == expected


def begun_blocks(merges: list[tuple[bytes, bytes]]) -> dict[int, bytes]:
    """The first bytes of characters with which merging begins, by the block of 64 code points."""
    model = json.loads(make_tokenizer(merges).to_str())["model"]
    prefixes = begin_with_characters(read_merges(model), model, byte_tokens(model)).prefixes
    tokens = {number: token for token, number in model["vocab"].items()}
    return {
        block: bytes(byte_alphabet()[character] for character in tokens[number])
        for block, number in enumerate(prefixes.tolist())
        if number >= 0
    }


THAI = (b"\xe0", b"\xb8")  # the first bytes of U+0E00 to U+0E3F


@pytest.mark.parametrize(
    ("merges", "expected"),
    [
        ([THAI], {0x0E00 >> 6: b"\xe0\xb8"}),
        # The end of a character joins the beginning of the next one, as in Thai; or its first byte.
        ([THAI, (b"\x81", b"\xe0\xb8")], {0x0E00 >> 6: b"\xe0\xb8"}),
        ([THAI, (b"\x81", b"\xe0")], {0x0E00 >> 6: b"\xe0\xb8"}),
        ([(b"\x81", b"\xe0"), THAI], {}),
        # The second byte joins the last one before.
        ([(b"\xb8", b"\x81"), THAI], {}),
        # Bytes with which no character begins, and a single one, which needs no merge.
        ([(b"\xb8", b"\x81"), (b"\xc3", b"\xa9"), (b"a", b"b")], {}),
        (
            [(b"\xf0", b"\x9f"), (b"\xf0\x9f", b"\x98"), (b"\x80", b"\xf0\x9f\x98")],
            {0x1F600 >> 6: b"\xf0\x9f\x98"},
        ),
    ],
)
def test_merging_begins_with_first_bytes_that_nothing_breaks_up(
    merges: list[tuple[bytes, bytes]], expected: dict[int, bytes]
) -> None:
    assert begun_blocks(merges) == expected


def train_at_random(text: list[str], count: int, draw: random.Random) -> list[tuple[bytes, bytes]]:
    """Merges of pairs that occur in texts, but not of the most frequent ones."""
    rows_of_tokens = [[bytes([byte]) for byte in piece.encode()] for piece in text]
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(count):
        pairs = [pair for row in rows_of_tokens for pair in pairwise(row)]
        if not pairs:
            break
        chosen = draw.choice(pairs)
        merges.append(chosen)
        for row in rows_of_tokens:
            place = 0
            while place < len(row) - 1:
                if (row[place], row[place + 1]) == chosen:
                    row[place : place + 2] = [row[place] + row[place + 1]]
                place += 1
    return merges


letters = st.text(
    st.sampled_from("中丸丰\u4e38二亍äöü\u0e01\u0e02\u0e40\u0e48\U00020000\U00020001ab"),
    max_size=10,
)


@settings(max_examples=60, deadline=None)
@given(
    trained=st.lists(letters, min_size=1, max_size=8),
    count=st.integers(0, 40),
    seed=st.integers(0, 2**16),
    shuffled=st.booleans(),
    sentences=st.lists(letters, min_size=1, max_size=8),
)
def test_ids_are_those_of_the_library_for_any_merges(
    trained: list[str], count: int, seed: int, shuffled: bool, sentences: list[str]
) -> None:
    draw = random.Random(seed)  # noqa: S311  no secret
    merges = [*dict.fromkeys(train_at_random(trained, count, draw))]
    if shuffled:  # they do not come in order
        draw.shuffle(merges)
    tokenizer = make_tokenizer(merges)
    encode_spans, _ = compile_byte_level_bpe(json.loads(tokenizer.to_str()), refuse)
    texts = [*sentences, *trained]
    assert rows(*encode_spans(*as_spans(texts))) == plain_rows(tokenizer, texts)


# Pieces that are tokens are found by their bytes, and have the ids of merging


def spelled(word: bytes) -> list[tuple[bytes, bytes]]:
    """Merges that make a word of its bytes from left to right."""
    return [(word[:end], word[end : end + 1]) for end in range(1, len(word))]


LONG = b"abcdefghijklmnopqrstuvwxyzABCDEFG"  # 33 bytes
MERGES = [*spelled(LONG), *spelled("ก".encode()), (b"\xe0\xb8\x81", b"\xe0\xb8"), (b"y", b"\xff")]
MERGES += [("ก".encode() + b"\xe0\xb8", b"\x82")]
# No bytes are merged to the token "uvw": "uv" comes before "vw".
MERGES += [(b"u", b"v"), (b"v", b"w"), (b"u", b"vw")]


def found(piece: bytes, after: bytes) -> int:
    """The id that is found for a piece before other bytes; -1 if none is."""
    model = json.loads(make_tokenizer(MERGES).to_str())["model"]
    text = np.frombuffer(piece + after, np.uint8)
    tokens = find_whole_tokens(read_merges(model), model, byte_tokens(model))
    return int(find_token(tokens, text, 0, len(piece)))


@pytest.mark.parametrize(
    "piece",
    [
        b"a", LONG[:2], LONG[:7], LONG[:8], LONG[:9], LONG[:15], LONG[:16], LONG[:17], LONG[:23],
        LONG[:24], LONG[:25], LONG[:31], LONG[:32], "กข".encode(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("after", [b"." * LONGEST_TOKEN, LONG])
def test_tokens_are_found_whatever_comes_after_them(piece: bytes, after: bytes) -> None:
    vocabulary = make_tokenizer(MERGES).get_vocab()
    assert found(piece, after) == vocabulary[token_name(piece)]


@pytest.mark.parametrize(
    "piece",
    [
        LONG, LONG[1:8], LONG[:8] + b"z", LONG[:9] + b"z", LONG[:8] + LONG[:8], LONG[:16] + b"z",
        LONG[:16] + LONG[:8], LONG[:24] + b"z", LONG[:31] + b"z", LONG[8:32], b"uvw",
    ],
)  # fmt: skip
def test_other_pieces_are_not_found(piece: bytes) -> None:
    assert found(piece, b"." * LONGEST_TOKEN) == -1


def test_a_short_piece_is_not_taken_for_a_long_token_with_the_same_numbers() -> None:
    long = np.frombuffer(LONG[:32], "<u8")
    with np.errstate(over="ignore"):
        mixed = long[:2] ^ long[2:] * MULTIPLIER
    assert found(mixed.tobytes(), b"." * LONGEST_TOKEN) == -1


def test_bytes_after_the_text_are_not_read() -> None:
    assert found(b"ab", b"." * (LONGEST_TOKEN - 3)) == -1
    assert found(b"ab", b"." * (LONGEST_TOKEN - 2)) >= 0


def test_a_token_with_a_byte_that_fills_up_words_is_not_taken_for_another() -> None:
    tokenizer = make_tokenizer(MERGES)
    encode_spans, _ = compile_byte_level_bpe(json.loads(tokenizer.to_str()), refuse)
    texts = ["y", "uvw", "y uv", LONG.decode() * 2, "กขคง กข กขก", "." * LONGEST_TOKEN]
    assert rows(*encode_spans(*as_spans(texts))) == plain_rows(tokenizer, texts)
