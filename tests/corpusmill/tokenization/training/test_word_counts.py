"""Words counted in bounded memory."""

import pytest
from tokenizers import normalizers, pre_tokenizers

from corpusmill.tokenization.training.word_counts import (
    count_words,
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
