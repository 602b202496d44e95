"""Words counted in bounded memory, and counts handed to a trainer."""

from collections import Counter

import pytest
from tokenizers import normalizers, pre_tokenizers

from corpusmill.errors import UserError
from corpusmill.tokenization.training.word_counts import (
    MOST_PAIRS,
    check_pair_counts,
    count_words,
    cut_long,
    repeat_words,
    split_before_words,
    word_cutter,
)


@pytest.mark.parametrize(
    ("sentence", "units"),
    [
        ("a b c", ["a", "b", "c"]),
        ("a  b c", ["a ", "b", "c"]),
        (" a", ["", "a"]),
        ("a\t b \u3000c", ["a\t", "b \u3000c"]),
        ("a ", ["a "]),
    ],
)
def test_text_is_split_before_words(sentence: str, units: list[str]) -> None:
    assert split_before_words(sentence) == units


def test_the_number_of_units_is_bounded() -> None:
    kept: list[int] = []

    def cut(text: str) -> list[str]:
        kept.append(1)
        return [text.strip()]

    batches = [[f"{number} common"] for number in range(100)]
    assert count_words(batches, cut, most=10) == {"common": 100}
    assert len(kept) <= 10


def test_text_without_spaces_is_counted_by_words_and_not_by_lines() -> None:
    lines = ["東京" * (20 + number) for number in range(100)]
    cut = word_cutter(normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())
    times = sum(20 + number for number in range(100))
    assert count_words([lines], cut, most=10) == {"東": times, "京": times}


def test_words_are_repeated_as_often_as_counted() -> None:
    counts = Counter({"a": 3, "long" * 30: 700, "b": 100_000})
    texts = list(repeat_words(counts))
    assert Counter(" ".join(texts).split()) == counts
    assert max(map(len, texts)) < 2**18


def test_long_words_are_trained_on_in_pieces() -> None:
    """A trainer takes time in the square of a word's length."""
    words = Counter({"a" * 2500: 3, "ab" * 512: 2, "c": 1})
    pieces = {"a" * 1024: 6, "a" * 452: 3, "ab" * 512: 2, "c": 1}
    assert cut_long(words) == pieces
    assert cut_long(Counter(pieces)) == pieces


def test_pairs_too_frequent_for_the_trainer_are_refused() -> None:
    check_pair_counts(Counter({"ab": MOST_PAIRS}))
    check_pair_counts(Counter({"ab": MOST_PAIRS, "bc": MOST_PAIRS, "x": MOST_PAIRS * 2}))
    with pytest.raises(UserError, match=r"'ab' occurs 2,147,483,648 times.*--sample 0\.95"):
        check_pair_counts(Counter({"ab": MOST_PAIRS, "aab": 1}))
