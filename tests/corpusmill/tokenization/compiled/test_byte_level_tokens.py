"""Pieces that are tokens are found by their bytes, and have the ids of merging."""

import json

import numpy as np
import pytest

from corpusmill.tokenization.compiled.byte_level_bpe import (
    compile_byte_level_bpe,
    find_whole_tokens,
    read_merges,
)
from corpusmill.tokenization.compiled.byte_level_pieces import LONGEST_TOKEN, find_token
from corpusmill.tokenization.compiled.units import MULTIPLIER
from tests.tools.byte_merges import make_tokenizer, token_name
from tests.tools.token_rows import as_spans, plain_rows, refuse, rows


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
    tokens = find_whole_tokens(read_merges(model), model)
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
    encode_spans = compile_byte_level_bpe(json.loads(tokenizer.to_str()), refuse)
    texts = ["y", "uvw", "y uv", LONG.decode() * 2, "กขคง กข กขก", "." * LONGEST_TOKEN]
    assert rows(*encode_spans(*as_spans(texts))) == plain_rows(tokenizer, texts)
