"""Sentence-order pairs: properties, defined answers, and equality with the reference."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.objectives.examples.sentence_pairs import (
    DOCUMENT,
    FIRST_LENGTH,
    FIRST_START,
    INDEX,
    LABEL,
    SECOND_LENGTH,
    SECOND_SOURCE,
    SECOND_START,
    PairRule,
    draw_pairs,
)
from tests.corpusmill.objectives import reference_albert
from tests.tools.builders import (
    Corpus,
    alike_corpus,
    corpora,
    flatten,
    index_of,
    numbered_corpus,
    seeds,
)
from tests.tools.distributions import assert_same_distributions, assert_uniform

LENGTHS = [FIRST_LENGTH, SECOND_LENGTH]


def pairs_of(
    corpus: Corpus,
    max_num_tokens: int = 509,
    short_seq_prob: float = 0.0,
    seed: int = 1,
    repeat: int = 0,
) -> np.ndarray:
    rule = PairRule(max_num_tokens, short_seq_prob, is_ordered=True)
    documents, nothing = index_of(corpus), np.zeros((len(corpus), 2), np.int64)
    pairs: np.ndarray = draw_pairs(documents, documents, nothing, np.uint64(seed), repeat, rule)
    return pairs


def in_document_order(pairs: np.ndarray) -> np.ndarray:
    """Return start and length of the earlier segment, then of the later one: int64[pairs, 4]."""
    spans = pairs[:, [FIRST_START, FIRST_LENGTH, SECOND_START, SECOND_LENGTH]]
    return np.where(pairs[:, [LABEL]] == 1, spans[:, [2, 3, 0, 1]], spans)


# Properties


@given(corpora, seeds, st.integers(2, 40), st.sampled_from([0.0, 0.5, 1.0]))
def test_segments_are_neighbours_of_one_document_and_fit(
    corpus: Corpus, seed: int, most: int, short: float
) -> None:
    pairs = pairs_of(corpus, most, short, seed)
    _, document_offsets, sentence_offsets, _ = flatten(corpus)
    starts = sentence_offsets[document_offsets]
    front_start, front, back_start, back = in_document_order(pairs).T
    assert (pairs[:, LENGTHS].sum(axis=1) <= most).all()
    assert (front >= 1).all()
    assert (front_start >= starts[pairs[:, DOCUMENT]]).all()
    assert (front_start + front <= back_start).all()
    assert (back_start + back <= starts[pairs[:, DOCUMENT] + 1]).all()
    assert (pairs[:, SECOND_SOURCE] == 0).all()
    for document in range(len(corpus)):
        indices = pairs[pairs[:, DOCUMENT] == document, INDEX]
        assert indices.tolist() == list(range(len(indices)))


@given(corpora, seeds)
def test_nothing_of_a_document_is_lost_or_used_twice(corpus: Corpus, seed: int) -> None:
    """With room for every pair the segments tile the corpus."""
    largest = max(sum(map(len, document)) for document in corpus.values())
    pairs = pairs_of(corpus, 2 * largest + 2, 0.5, seed)
    front_start, front, back_start, back = in_document_order(pairs).T
    _, _, sentence_offsets, _ = flatten(corpus)
    assert (front_start + front == back_start).all()
    assert front_start.tolist() == [0, *(back_start + back).tolist()][:-1]
    assert back_start[-1] + back[-1] == sentence_offsets[-1]


@given(corpora, seeds, st.integers(2, 40))
def test_only_an_overlong_pair_loses_tokens(corpus: Corpus, seed: int, most: int) -> None:
    pairs = pairs_of(corpus, most, 0.5, seed)
    spans = in_document_order(pairs)
    _, document_offsets, sentence_offsets, _ = flatten(corpus)
    stops = sentence_offsets[document_offsets[1:]]
    for pair, span, following in zip(pairs, spans, [*spans[1:], None], strict=True):
        if pair[LENGTHS].sum() < most:
            assert span[0] + span[1] == span[2]
            own_stop = stops[pair[DOCUMENT]]
            assert span[2] + span[3] <= own_stop
            if following is None or following[0] >= own_stop:
                assert span[2] + span[3] == own_stop


@given(corpora, seeds, st.integers(0, 3))
def test_a_document_has_the_same_pairs_whatever_stands_beside_it(
    corpus: Corpus, seed: int, repeat: int
) -> None:
    together = pairs_of(corpus, 20, 0.1, seed, repeat)
    documents, document_offsets, sentence_offsets, _ = flatten(corpus)
    for place, document in enumerate(documents.tolist()):
        alone = pairs_of({document: corpus[document]}, 20, 0.1, seed, repeat)
        expected = together[together[:, DOCUMENT] == place]
        expected[:, [FIRST_START, SECOND_START]] -= sentence_offsets[document_offsets[place]]
        expected[:, DOCUMENT] = 0
        assert np.array_equal(alone, expected)


# Defined answers


def test_half_of_the_pairs_are_switched() -> None:
    pairs = pairs_of(alike_corpus([3, 5], 20_000))
    assert len(pairs) == 20_000
    assert_uniform(np.bincount(pairs[:, LABEL]), "switched")
    # The row shows the switch: the shorter sentence is the document's first.
    assert ((pairs[:, FIRST_LENGTH] == 5) == (pairs[:, LABEL] == 1)).all()
    assert ((pairs[:, FIRST_START] > pairs[:, SECOND_START]) == (pairs[:, LABEL] == 1)).all()


def test_the_split_is_uniform_between_sentences() -> None:
    front = in_document_order(pairs_of(alike_corpus([2, 1, 3, 1, 2], 20_000)))[:, 1]
    counts = np.bincount(front, minlength=9)
    assert counts[[2, 3, 6, 7]].sum() == 20_000
    assert_uniform(counts[[2, 3, 6, 7]], "sentences in the front segment")


def test_a_chunk_of_one_sentence_is_cut_at_any_token() -> None:
    pairs = pairs_of(alike_corpus([6], 20_000))
    assert (pairs[:, LENGTHS].sum(axis=1) == 6).all()
    front = in_document_order(pairs)[:, 1]
    assert_uniform(np.bincount(front, minlength=6)[1:6], "tokens in the front segment")
    assert_uniform(np.bincount(pairs[:, LABEL]), "switched")


def test_a_chunk_ends_with_the_sentence_that_reaches_the_target() -> None:
    """With sentences of 4 and a target of 8, two are taken; the article takes a third."""
    pairs = pairs_of(alike_corpus([4] * 7, 1), max_num_tokens=8)
    assert pairs[:, LENGTHS].sum(axis=1).tolist() == [8, 8, 8, 4]


def test_a_token_that_stands_alone_has_an_empty_second_segment_and_is_in_order() -> None:
    pairs = pairs_of(alike_corpus([1], 500))
    assert (pairs[:, [FIRST_LENGTH, SECOND_LENGTH, LABEL]] == [1, 0, 0]).all()


@given(seeds)
@settings(max_examples=20)
def test_a_sentence_longer_than_the_maximum_is_cut(seed: int) -> None:
    pairs = pairs_of(numbered_corpus([[50], [40, 60]]), 9, seed=seed)
    assert (pairs[:, LENGTHS].sum(axis=1) == 9).all()
    assert (pairs[:, LENGTHS] >= 1).all()


def test_no_documents_give_no_pairs() -> None:
    assert pairs_of({}).shape == (0, 9)


def test_seeds_repeats_and_documents_draw_differently() -> None:
    corpus = numbered_corpus([[1] * 200, [1] * 200])
    base = pairs_of(corpus, 30, seed=0)
    assert np.array_equal(base, pairs_of(corpus, 30, seed=0))
    assert not np.array_equal(base, pairs_of(corpus, 30, seed=MAX_SEED))
    assert not np.array_equal(base, pairs_of(corpus, 30, seed=0, repeat=1))
    lengths = [base[base[:, DOCUMENT] == document, FIRST_LENGTH].tolist() for document in (0, 1)]
    assert lengths[0] != lengths[1]


# Equality in distribution with the reference

PASSES = 1000
# Documents of 1 to 9 sentences, of 1 to 17 tokens and sometimes 40.
CORPUS = numbered_corpus(
    [
        [40 if (document + place) % 7 == 6 else 1 + (3 * document + 5 * place) % 17
         for place in range(1 + document * 5 % 9)]
        for document in range(9)
    ]
)  # fmt: skip


def observed(pairs: np.ndarray) -> dict[str, np.ndarray]:
    """One pair of each pass, by turns.

    Args:
        pairs: int64[pairs, 7], sorted: pass, document, and the spans as tokens: first's first
            token, its length, second's first token (-1 where empty), its length, switched.
    """
    numbers, starts, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    chosen = pairs[starts + numbers // len(CORPUS) % counts]
    _, document, first, first_length, second, second_length, switched = chosen.T
    return {
        "pairs in a pass, of a document": document * 1000 + counts,
        "switched": switched,
        "switched, of a document": document * 2 + switched,
        "length": first_length + second_length,
        "first segment's length": first_length,
        "second segment's length": second_length,
        "first segment's first token": first,
        "second segment's first token": second,
        "first segment": first * 1000 + first_length,
        "second segment": second * 1000 + second_length,
        "tokens between the segments": np.where(
            switched, first - second - second_length, second - first - first_length
        ),
    }


@pytest.mark.parametrize(("most", "short"), [(32, 0.1), (32, 1.0), (57, 0.0), (2, 0.5)])
def test_pairs_are_distributed_as_the_references(most: int, short: float) -> None:
    ours = []
    for repeat in range(PASSES):
        pairs = pairs_of(CORPUS, most, short, seed=7, repeat=repeat)
        empty = pairs[:, SECOND_LENGTH] == 0
        ours.append(
            np.column_stack(
                [
                    repeat * len(CORPUS) + pairs[:, DOCUMENT], pairs[:, DOCUMENT],
                    pairs[:, FIRST_START] + 10, pairs[:, FIRST_LENGTH],
                    np.where(empty, -1, pairs[:, SECOND_START] + 10), pairs[:, SECOND_LENGTH],
                    pairs[:, LABEL],
                ]
            )
        )  # fmt: skip
    rng = random.Random(8)  # noqa: S311 - no secret
    theirs = [
        [
            repeat * len(CORPUS) + document, document, first[0], len(first),
            second[0] if second else -1, len(second), switched,
        ]
        for repeat in range(PASSES)
        for document, sentences in CORPUS.items()
        for first, second, switched in reference_albert.generate_pairs(sentences, most, short, rng)
    ]  # fmt: skip
    assert_same_distributions(observed(np.concatenate(ours)), observed(np.array(theirs, np.int64)))
