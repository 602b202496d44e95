"""Merges learned from counted words: those of the tokenizers library's own trainer."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.trainers import BpeTrainer

from corpusmill.limits import LIMITS
from corpusmill.tokenization.compiled.units import allocate_table
from corpusmill.tokenization.training.merge_pairs import reserve
from corpusmill.tokenization.training.merges import train_merges, write_symbols

Trained = tuple[list[str], list[tuple[str, str]]]


def train(
    words: Mapping[str, int],
    special: Sequence[str] = (),
    size: int = 200,
    frequency: int = 1,
    prefix: str = "",
    few_places: int = LIMITS.training.few_places,
) -> Trained:
    counts = np.array(list(words.values()), np.int64)
    tokens = [*special, *alphabet(words, prefix)]
    symbols = write_symbols(pa.array(list(words), pa.large_string()), tokens, prefix)
    return train_merges(symbols, counts, tokens, size, frequency, prefix, few_places)


def train_by_library(
    words: Mapping[str, int],
    special: Sequence[str] = (),
    size: int = 200,
    frequency: int = 1,
    prefix: str = "",
) -> Trained:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = WhitespaceSplit()
    trainer = BpeTrainer(
        vocab_size=size,
        min_frequency=frequency,
        show_progress=False,
        # The library numbers characters with a prefix in the order of a hash table.
        special_tokens=[*special, *alphabet(words, prefix)],
        continuing_subword_prefix=prefix,
    )
    texts = (f"{word} " * count for word, count in words.items())
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [(left, right) for left, right in model["merges"]]
    return sorted(model["vocab"], key=model["vocab"].__getitem__), merges


def alphabet(words: Mapping[str, int], prefix: str) -> list[str]:
    inner = {prefix + character for word in words for character in word[1:]}
    return sorted(set().union(*words)) + sorted(inner)


def counted(characters: str, longest: int) -> st.SearchStrategy[dict[str, int]]:
    words = st.text(characters, min_size=1, max_size=longest)
    return st.dictionaries(words, st.integers(1, 4), min_size=1, max_size=12)


def check(words: Mapping[str, int], *options: Any) -> None:
    ours, theirs = train(words, *options), train_by_library(words, *options)
    if ours != theirs:
        # Where a pair is queued twice with the same count, the library itself leaves it to chance
        # which of the two it merges first.
        assert any(train_by_library(words, *options) != theirs for _ in range(200))


@given(counted("abé東", 12), st.integers(1, 40), st.integers(1, 4))
def test_merges_are_those_of_the_librarys_trainer(
    words: dict[str, int], size: int, frequency: int
) -> None:
    check(words, (), size, frequency)


@given(counted("ab", 60))
def test_repeats_are_merged_from_the_left(words: dict[str, int]) -> None:
    check(words)


@given(
    counted("ab#", 16),
    st.lists(st.text("ab#", min_size=1, max_size=4), max_size=4),
    st.integers(1, 2),
    st.sampled_from(["", "##", "#", "a"]),
)
# "#a#a" is a special token, and then a pair that is merged, twice.
@example({"#a": 2, "aa##": 4, "#a#": 3, "#aaa": 2}, ["#a#a"], 1, "#")
def test_pairs_of_the_same_text_become_the_same_token(
    words: dict[str, int], special: list[str], frequency: int, prefix: str
) -> None:
    check(words, special, 200, frequency, prefix)


@given(counted("ab", 60) | counted("abé東#", 40), st.sampled_from(["", "##"]))
def test_places_of_merged_pairs_are_removed_without_effect(
    words: dict[str, int], prefix: str
) -> None:
    assert train(words, prefix=prefix, few_places=1) == train(words, prefix=prefix)


def test_pairs_take_memory_in_proportion_to_their_number() -> None:
    table = allocate_table(1)
    for used in range(1, 5000):
        table = reserve(table, used, 1)
        assert 2 * (used + 1) <= len(table) <= max(16, 4 * (used + 1))


def test_pairs_are_merged_by_count_and_then_by_id() -> None:
    words = {"ab": 3, "cd": 2**40, "ef": 2**40, "eg": 2, "a": 1}
    tokens, merges = train(words, ["<s>", "cd"], frequency=3)
    assert tokens == ["<s>", "cd", *"abcdefg", "ef", "ab"]
    assert merges == [("c", "d"), ("e", "f"), ("a", "b")]


def test_a_word_of_more_than_1024_characters_counts_in_pieces() -> None:
    pieces = {"ab" * 512: 5, "c" + "ab" * 100: 2, "ba" * 512: 3}
    words = {"ab" * 512 + "c" + "ab" * 100: 2, "ab" * 512: 3, "ba" * 512: 3}
    assert train(words) == train(pieces)


def test_words_may_be_part_of_an_array() -> None:
    words = pa.array(["x", "ab", "bc", "bc"], pa.large_string())
    first = ["b", "a", "c"]
    tokens, _ = train_merges(write_symbols(words[1:], first), np.array([3, 1, 1]), first, 4, 1)
    assert tokens == ["b", "a", "c", "ab"]
    nothing = write_symbols(words[:0], ["b", "b"])
    assert train_merges(nothing, np.empty(0, np.int64), ["b", "b"], 4, 1) == (["b"], [])


@pytest.mark.parametrize(("tokens", "prefix"), [(["a"], ""), (["a", "b", "##a"], "##")])
def test_every_character_must_be_a_token(tokens: list[str], prefix: str) -> None:
    with pytest.raises(ValueError, match="not among the tokens"):
        write_symbols(pa.array(["ab"], pa.large_string()), tokens, prefix)


@pytest.mark.parametrize(("length", "pieces"), [(1023, 1), (1024, 1), (1025, 2)])
def test_a_word_of_up_to_1024_characters_is_one_piece(length: int, pieces: int) -> None:
    symbols = write_symbols(pa.array(["a" * length], pa.large_string()), ["a"])
    assert int((symbols >= 0).sum()) == length
    assert len(symbols) - length - 1 == pieces


@pytest.mark.parametrize("pairs", [511, 512, 513, 1023, 1024, 1025])
def test_any_number_of_pairs_has_room(pairs: int) -> None:
    letters = [chr(0x4E00 + number) for number in range(pairs + 1)]
    words = {left + right: 2 for left, right in pairwise(letters)}
    tokens, merges = train(words, size=5000)
    assert len(merges) == pairs
    assert sorted(tokens[-pairs:]) == sorted(words)
