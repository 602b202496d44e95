"""Merging that begins with characters gives the ids of merging that begins with bytes."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from corpusmill.tokenization.compiled.byte_level_bpe import compile_byte_level_bpe, read_merges
from corpusmill.tokenization.compiled.byte_level_characters import begin_with_characters
from corpusmill.tokenization.compiled.byte_level_patterns import byte_alphabet
from tests.tools.token_rows import as_spans, plain_rows, refuse, rows

NAMES = {byte: character for character, byte in byte_alphabet().items()}


def name(token: bytes) -> str:
    return "".join(NAMES[byte] for byte in token)


def make_tokenizer(merges: list[tuple[bytes, bytes]]) -> Tokenizer:
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [left + right for left, right in merges]
    vocabulary = {name(token): number for number, token in enumerate(dict.fromkeys(tokens))}
    pairs = [(name(left), name(right)) for left, right in merges]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def begun(merges: list[tuple[bytes, bytes]]) -> str:
    """The characters with which merging begins."""
    model = json.loads(make_tokenizer(merges).to_str())["model"]
    characters = begin_with_characters(read_merges(model), model).characters
    ids = characters[characters >= 0].tolist()
    tokens = {number: token for token, number in model["vocab"].items()}
    written = "".join(map(chr, np.flatnonzero(characters >= 0)))
    assert [tokens[number] for number in ids] == [name(one.encode()) for one in written]
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
    st.sampled_from("中丸丰\u4e38二亍äöü\u0e01\u0e02\U00020000\U00020001ab"), max_size=10
)


@settings(max_examples=200, deadline=None)
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
