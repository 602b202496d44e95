"""Merging that begins with characters or their first bytes gives the ids of merging bytes."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.tokenization.compiled.byte_level_bpe import (
    begin_with_characters,
    compile_byte_level_bpe,
    read_merges,
)
from corpusmill.tokenization.compiled.byte_level_pieces import byte_alphabet
from tests.tools.byte_merges import make_tokenizer, token_name
from tests.tools.token_rows import as_spans, plain_rows, refuse, rows


def begun(merges: list[tuple[bytes, bytes]]) -> str:
    """The characters with which merging begins."""
    model = json.loads(make_tokenizer(merges).to_str())["model"]
    characters = begin_with_characters(read_merges(model), model).characters
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
        ([(b"x", b"\xe4"), *MIDDLE], ""),
        ([(b"\xad", b"\xe4"), *MIDDLE], ""),
        ([MIDDLE[0], (b"x", b"\xe4\xb8"), MIDDLE[1]], ""),
        ([MIDDLE[0], (b"\xb8", b"\xad"), MIDDLE[1]], "中"),
        # A pair may be joined within the character and across its edge: the leftmost comes first.
        ([(b"\xe4", b"\xb8"), (b"\xe4\xb8", b"\xb8")], "丸"),
        # The token of two bytes is made again after it has been joined to others.
        ([*MIDDLE, (b"a", b"b"), (b"ab", b"c"), (b"b", b"c"), (b"a", b"bc"), (b"abc", b"d")], "中"),
        ([(b"b", b"c"), (b"a", b"bc"), (b"abc", b"d"), (b"a", b"b"), (b"ab", b"c"), *MIDDLE], ""),
    ],
)
def test_merging_begins_with_characters_that_nothing_breaks_up(
    merges: list[tuple[bytes, bytes]], expected: str
) -> None:
    assert begun(merges) == expected


def begun_blocks(merges: list[tuple[bytes, bytes]]) -> dict[int, bytes]:
    """The first bytes of characters with which merging begins, by the block of 64 code points."""
    model = json.loads(make_tokenizer(merges).to_str())["model"]
    prefixes = begin_with_characters(read_merges(model), model).prefixes
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
    encode_spans = compile_byte_level_bpe(json.loads(tokenizer.to_str()), refuse)
    texts = [*sentences, *trained]
    assert rows(*encode_spans(*as_spans(texts))) == plain_rows(tokenizer, texts)
