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

from corpusmill.tokenization.training import merges as training
from corpusmill.tokenization.training.counted_words import CountedWords
from corpusmill.tokenization.training.merge_steps import EVERY_PAIR, learn_merges
from corpusmill.tokenization.training.merges import (
    byte_ids,
    character_ids,
    train_merges,
    write_symbols,
)
from corpusmill.tokenization.training.models import ALPHABET
from tests.tools.knobs import knobs

Trained = tuple[list[str], list[tuple[str, str]]]


def as_words(words: Mapping[str, int]) -> CountedWords:
    encoded = pa.array([word.encode() for word in words], pa.large_binary())
    return CountedWords(encoded, np.array(list(words.values()), np.int64))


def train(
    words: Mapping[str, int],
    special: Sequence[str] = (),
    size: int = 200,
    frequency: int = 1,
    prefix: str = "",
) -> Trained:
    tokens = [*special, *alphabet(words, prefix)]
    ids = character_ids(tokens, prefix)
    return train_merges(as_words(words), ids, tokens, size, frequency, prefix)


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
    expected = train(words, prefix=prefix)
    with knobs(few_places=1):
        assert train(words, prefix=prefix) == expected


@given(
    counted("ab", 60) | counted("abcdé東", 40) | counted("ab#", 30),
    st.integers(1, 60),
    st.integers(1, 3),
    st.sampled_from(["", "##", "#", "a"]),
)
# A pair that was too rare to be listed becomes frequent enough where its symbol is made again.
@example({"aab": 4, "baa": 4, "aaaa": 1, "aaaab": 4}, 8, 1, "")
def test_rare_pairs_are_left_out_without_effect(
    words: dict[str, int], size: int, frequency: int, prefix: str
) -> None:
    sizes = len(alphabet(words, prefix)) + size, frequency, prefix
    trained = []
    for listed_pairs in (1, 10**9):
        with knobs(listed_pairs=listed_pairs):
            trained.append(train(words, (), *sizes))
    assert trained[0] == trained[1]


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """How often a pair had to occur to be listed, and whether that was good, each time."""
    seen: list[tuple[int, bool]] = []

    def spy(*given: Any) -> Any:
        learned = learn_merges(*given)
        seen.append((given[5], learned[3]))
        return learned

    monkeypatch.setattr(training, "learn_merges", spy)
    return seen


def pairs_of_letters(count: int) -> dict[str, int]:
    """Words of pairs that occur 1, 2, 3, ... times."""
    letters = [chr(0x4E00 + number) for number in range(count + 1)]
    return {left + right: 1 + n for n, (left, right) in enumerate(pairwise(letters))}


@pytest.mark.parametrize(
    ("new", "frequency", "expected"),
    [
        (6, 1, [(25, True)]),  # 300 bytes are 25 for twice 6 tokens, and 26 pairs occur as often
        (6, 30, [(30, True)]),
        (3, 1, [(50, False), (EVERY_PAIR, True)]),  # one pair does
        (75, 1, [(2, False), (EVERY_PAIR, True)]),
        (75, 2, [(2, True)]),  # no rarer pair is merged
        (76, 2, [(EVERY_PAIR, True)]),
    ],
)
def test_pairs_are_listed_that_are_frequent_enough(
    new: int,
    frequency: int,
    expected: list[tuple[int, bool]],
    attempts: list[tuple[int, bool]],
) -> None:
    words = pairs_of_letters(50)
    with knobs(listed_pairs=2):
        trained = train(words, (), 51 + new, frequency)
    assert attempts == expected
    assert trained == train_by_library(words, (), 51 + new, frequency)


@pytest.mark.parametrize(("scans", "is_done"), [(32, True), (33, False)])
def test_symbols_that_are_made_again_too_often_list_every_pair(
    scans: int, is_done: bool, attempts: list[tuple[int, bool]]
) -> None:
    # "#a" is what "a" is after the first character of a word, and what "#" and this are joined to.
    words = {"#" + chr(0x4E00 + number): 10 + number for number in range(scans)}
    sizes = len(alphabet(words, "#")) + 20, 10, "#"
    with knobs(listed_pairs=1):
        trained = train(words, (), *sizes)
    assert [attempt[1] for attempt in attempts] == ([True] if is_done else [False, True])
    assert trained == train_by_library(words, (), *sizes)


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
    words, first = pa.array([b"x", b"ab", b"bc", b"bc"], pa.large_binary()), ["b", "a", "c"]
    part = CountedWords(words[1:], np.array([3, 1, 1]))
    tokens, _ = train_merges(part, character_ids(first), first, 4, 1)
    assert tokens == ["b", "a", "c", "ab"]
    nothing = CountedWords(words[:0], np.empty(0, np.int64))
    assert train_merges(nothing, character_ids(["b", "b"]), ["b", "b"], 4, 1) == (["b"], [])


@pytest.mark.parametrize(("tokens", "prefix"), [(["a"], ""), (["a", "b", "##a"], "##")])
def test_every_character_must_be_a_token(tokens: list[str], prefix: str) -> None:
    with pytest.raises(ValueError, match="not among the tokens"):
        write_symbols(as_words({"ab": 1}), character_ids(tokens, prefix))


def test_bytes_are_symbols_without_being_decoded() -> None:
    words, tokens = as_words({" 東é": 2, "東京": 3}), ["<s>", *ALPHABET]
    by_bytes = train_merges(words, byte_ids(tokens), tokens, 270, 1)
    written = {"ĠæĿ±Ã©": 2, "æĿ±äº¬": 3}
    ids = character_ids(tokens)
    assert by_bytes == train_merges(as_words(written), ids, tokens, 270, 1)


@pytest.mark.parametrize("pairs", [511, 512, 513, 1023, 1024, 1025])
def test_any_number_of_pairs_has_room(pairs: int) -> None:
    letters = [chr(0x4E00 + number) for number in range(pairs + 1)]
    words = {left + right: 2 for left, right in pairwise(letters)}
    tokens, merges = train(words, size=5000)
    assert len(merges) == pairs
    assert sorted(tokens[-pairs:]) == sorted(words)
