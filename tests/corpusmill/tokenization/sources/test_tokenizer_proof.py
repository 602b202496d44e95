"""Two tokenizers compared on hard texts."""

import pytest

from corpusmill.tokenization.sources.proof import (
    HARD_TEXTS,
    Difference,
    find_difference,
    hard_texts,
)

Ids = list[list[int]]


def lengths(texts: list[str]) -> Ids:
    return [[len(text)] for text in texts]


def without_long_ones(texts: list[str]) -> Ids:
    return [[len(text)] if len(text) < 4 else [3, 4] for text in texts]


def test_the_shortest_text_that_differs_is_found() -> None:
    assert find_difference(lengths, lengths, ["a", "", "abc"]) is None
    assert find_difference(lengths, without_long_ones, []) is None
    difference = find_difference(lengths, without_long_ones, ["a", "abcdef", "abcd", "abcdefgh"])
    assert difference == Difference("abcd", (4,), (3, 4))


@pytest.mark.parametrize(
    ("ids", "others", "shown"),
    [
        ((1, 2, 3), (1, 2, 4), "from token 0 on, [1, 2, 3] and [1, 2, 4]"),
        (tuple(range(20)), (*range(10), 99), "from token 7 on, [7, 8, 9, 10"),
        ((1, 2), (1, 2, 3), "from token 0 on, [1, 2] and [1, 2, 3]"),
    ],
)
def test_a_difference_is_shown_where_it_begins(
    ids: tuple[int, ...], others: tuple[int, ...], shown: str
) -> None:
    assert shown in str(Difference("a" * 100, ids, others))
    assert str(Difference("a" * 100, ids, others)).startswith(f"'{'a' * 60}...' gives")


def test_hard_texts_hold_every_special_token_and_all_kinds_of_white_space() -> None:
    texts = hard_texts([f"<{number}>" for number in range(100)])
    assert set(HARD_TEXTS) < set(texts)
    assert {"<0>", "a <0> b", "x<0>y<0><0> "} < set(texts)
    assert len(texts) < 200
    spaces = {character for text in texts for character in text if character.isspace()}
    assert len(spaces) >= 14
