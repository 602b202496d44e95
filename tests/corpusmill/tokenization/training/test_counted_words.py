"""Tables of words that grow, and counted words that are sorted and cut down."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.errors import UserError
from corpusmill.tokenization.training.counted_words import (
    CountedWords,
    WordLimits,
    choose_words,
    draw_documents,
    draw_pieces,
    find_characters,
    keep_alphabet,
)
from corpusmill.tokenization.training.word_counters import ByteLevelCounter
from corpusmill.tokenization.training.word_table import WordTable
from tests.tools.knobs import knobs
from tests.tools.training import count_text, counter_of

words_with_zeros = st.lists(
    st.text(st.sampled_from("ab\x00é東"), min_size=1, max_size=20).map(str.encode), unique=True
)


def counted(**counts: int) -> CountedWords:
    words = pa.array([word.encode() for word in counts], pa.large_binary())
    return CountedWords(words, np.array([*counts.values()], np.int64))


def keep_most_frequent(words: CountedWords, limits: WordLimits) -> CountedWords:
    return words.keep(choose_words(words.totals(), limits))


@given(words_with_zeros)
def test_words_are_sorted_by_their_bytes(words: list[bytes]) -> None:
    counts = np.array([len(word) for word in words], np.int64)
    ordered = CountedWords(pa.array(words, pa.large_binary()), counts).in_order()
    assert ordered.words.to_pylist() == sorted(words)
    assert ordered.counts.tolist() == [len(word) for word in sorted(words)]


@pytest.mark.parametrize("is_small", [False, True])
def test_a_table_grows_and_adds_up(is_small: bool) -> None:
    words = [f"word {number % 30_000}{'x' * (number % 23)}".encode() for number in range(70_000)]
    counts = np.arange(70_000)
    expected: dict[bytes, int] = {}
    for word, count in zip(words, counts.tolist(), strict=True):
        expected[word] = expected.get(word, 0) + count
    text, offsets = ragged.from_arrow(pa.array(words, pa.large_binary()))
    with knobs(is_small):
        table = WordTable()
        for _ in range(2):
            table.add_words(text, offsets, counts)
            numbers = table.numbers()
            names, totals = table.words(numbers).to_pylist(), table.counts(numbers).tolist()
            assert dict(zip(names, totals, strict=True)) == expected
            assert len(table) == len(expected)
            table.clear()


@pytest.mark.parametrize(
    ("many_slots", "words", "slots"), [(4, 4, 8), (5, 4, 16), (16, 13, 32), (17, 13, 64)]
)
def test_a_table_of_few_slots_grows_to_four_times_its_size_and_another_doubles(
    many_slots: int, words: int, slots: int
) -> None:
    texts = pa.array([b"%d" % number for number in range(words)], pa.large_binary())
    with knobs(first_slots=4, many_slots=many_slots):
        table = WordTable()
        table.add_words(*ragged.from_arrow(texts), np.ones(words, np.int64))
    assert (len(table), len(table.arrays.slots)) == (words, slots)


def test_words_of_equal_count_stay_together() -> None:
    words = counted(a=5, b=3, c=3, d=1, e=1)
    kept = [
        counter_of(keep_most_frequent(words, WordLimits(most, 100))) for most in range(5, 0, -1)
    ]
    assert [sorted(counter) for counter in kept] == [[*"abcde"], [*"abc"], [*"abc"], ["a"], ["a"]]
    with pytest.raises(UserError, match=r"--max-distinct-words 1: 2 words are equally frequent"):
        keep_most_frequent(counted(a=4, b=4), WordLimits(1, 100))


def test_the_bytes_of_words_are_bounded_by_a_sample_of_the_rarest() -> None:
    often = {f"often{number:03}": 2 + number % 3 for number in range(100)}
    once = {f"once{number:04}": 1 for number in range(2000)}
    words = counted(**often, **once)
    assert keep_most_frequent(words, WordLimits(10**6, 8 * 2100)) == words
    kept = counter_of(keep_most_frequent(words, WordLimits(10**6, 8 * 1100)))
    assert kept.items() >= often.items()
    assert 900 < len(kept) - len(often) < 1100
    backwards = counted(**dict(reversed([*often.items(), *once.items()])))
    assert counter_of(keep_most_frequent(backwards, WordLimits(10**6, 8 * 1100))) == kept
    twice_and_more = counter_of(keep_most_frequent(words, WordLimits(10**6, 8 * 50)))
    assert {3, 4} >= set(twice_and_more.values())
    assert 30 < len(twice_and_more) < 70


def test_a_counter_is_read_as_its_words_are_chosen() -> None:
    sentences = [chr(0x4E00 + n % 30) for n in range(90)] + [chr(0x5000 + n) for n in range(400)]
    for limits in (WordLimits(1000, 10**6), WordLimits(30, 10**6), WordLimits(1000, 600)):
        batches = [sentences[first : first + 7] for first in range(0, len(sentences), 7)]
        words = count_text(batches, ByteLevelCounter((), False), limits)
        distinct = counted(**Counter(sentences))
        is_small = distinct.text_bytes <= limits.bytes and len(distinct.counts) <= limits.words
        chosen = distinct if is_small else keep_most_frequent(distinct, limits)
        assert counter_of(words) == counter_of(chosen)


def test_characters_of_words() -> None:
    assert find_characters(counted(東b=1, aé=1)) == (["a", "東"], ["b", "é"])
    assert counter_of(keep_alphabet(counted(ab=2, ba=1, bc=2, c=1), 2)) == {"ab": 2, "ba": 1}


# Samples


IDS = np.arange(0, 2_000_000, 100, dtype=np.uint64)


def test_pieces_are_drawn_until_they_have_the_size() -> None:
    sizes = np.array([10, 10, 10, 10])
    drawn, share = draw_pieces(sizes, 15, 0)
    assert (len(drawn), share) == (2, 0.75)
    assert draw_pieces(sizes, 40, 0)[0].tolist() == [0, 1, 2, 3]
    assert draw_pieces(np.array([1000]), 10, 0)[1] == 0.01
    assert draw_pieces(np.array([0]), 5, 0)[1] == 1.0


def test_each_piece_has_the_same_chance_whatever_its_place() -> None:
    sizes = np.full(1000, 7)
    counts = np.zeros(1000)
    for seed in range(200):
        counts[draw_pieces(sizes, 2100, seed)[0]] += 1
    # Five standard deviations, for each tenth.
    for tenth in np.split(counts / 200, 10):
        assert abs(tenth.mean() - 0.3) < 5 * (0.21 / 20_000) ** 0.5


def test_each_document_has_the_same_chance() -> None:
    drawn = draw_documents(IDS, 0.3, 1)
    # Five standard deviations, for the whole corpus and for each tenth.
    for part in (drawn, *np.split(drawn, 10)):
        assert abs(part.mean() - 0.3) < 5 * (0.21 / len(part)) ** 0.5
    assert draw_documents(IDS, 1.0, 1).all()


def test_the_sample_is_the_same_however_the_corpus_is_read() -> None:
    whole = draw_documents(IDS, 0.3, 1)
    parts = [draw_documents(part, 0.3, 1) for part in np.array_split(IDS, 7)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert (whole[draw_documents(IDS, 0.1, 1)]).all()
    assert not np.array_equal(draw_documents(IDS, 0.3, 2), whole)
