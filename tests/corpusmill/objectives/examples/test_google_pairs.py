"""Pairs by Google's rule: properties, defined answers, and equality with the reference."""

import random
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.examples.sentence_pairs import (
    DOCUMENT,
    FIRST_LENGTH,
    FIRST_START,
    LABEL,
    SECOND_LENGTH,
    SECOND_SOURCE,
    SECOND_START,
    PairRule,
    draw_pairs,
)
from corpusmill.objectives.random_documents import Pool
from tests.corpusmill.objectives import reference_google
from tests.tools.builders import (
    Corpus,
    alike_corpus,
    corpora,
    flatten,
    index_of,
    numbered_corpus,
    pool_of,
    seeds,
)
from tests.tools.distributions import assert_same_distributions, assert_uniform

NO_POOL = pool_of({})
LENGTHS = [FIRST_LENGTH, SECOND_LENGTH]
both_programs = pytest.mark.parametrize("is_albert", [False, True], ids=["BERT", "ALBERT"])


def pairs_of(
    corpus: Corpus,
    is_albert: bool,
    most: int = 509,
    short: float = 0.0,
    pool: Pool | None = None,
    seed: int = 1,
    repeat: int = 0,
) -> np.ndarray:
    pool = pool_of(corpus) if pool is None else pool
    candidates = pool.candidates(np.zeros(len(corpus), np.uint8))
    rule = PairRule(most, short, is_google=True, is_ordered=is_albert)
    pairs: np.ndarray = draw_pairs(
        index_of(corpus), pool.index, candidates, np.uint64(seed), repeat, rule
    )
    return pairs


# Properties


@both_programs
@given(corpora, seeds, st.integers(2, 40), st.sampled_from([0.0, 0.5, 1.0]))
def test_pairs_fit_and_only_a_lonely_document_has_an_empty_segment(
    is_albert: bool, corpus: Corpus, seed: int, most: int, short: float
) -> None:
    pairs = pairs_of(corpus, is_albert, most, short, seed=seed)
    _, document_offsets, sentence_offsets, _ = flatten(corpus)
    starts = sentence_offsets[document_offsets]
    assert (pairs[:, LENGTHS].sum(axis=1) <= most).all()
    assert (pairs[:, FIRST_LENGTH] >= 1).all()
    if len(corpus) > 1:
        assert (pairs[:, SECOND_LENGTH] >= 1).all()
    else:
        assert (pairs[:, SECOND_SOURCE] == 0).all()
        assert (pairs[pairs[:, SECOND_LENGTH] == 0, LABEL] == 0).all()
    is_random = pairs[:, SECOND_SOURCE] == 1
    assert (pairs[is_random, LABEL] == 1).all()
    owners = np.searchsorted(starts, pairs[:, [FIRST_START, SECOND_START]], side="right") - 1
    assert (owners[:, 0] == pairs[:, DOCUMENT]).all()
    assert (owners[is_random, 1] != pairs[is_random, DOCUMENT]).all()
    if not is_albert:
        assert (pairs[:, LABEL] == is_random).all()


@both_programs
@given(corpora, seeds)
def test_nothing_of_a_document_is_lost_or_used_twice(
    is_albert: bool, corpus: Corpus, seed: int
) -> None:
    """With room for every pair the own segments tile the corpus."""
    largest = max(sum(map(len, document)) for document in corpus.values())
    pairs = pairs_of(corpus, is_albert, 2 * largest + 2, 0.5, seed=seed)
    spans = [
        (start, start + length)
        for pair in pairs
        for start, length in sorted(
            [(pair[FIRST_START], pair[FIRST_LENGTH])]
            + [(pair[SECOND_START], pair[SECOND_LENGTH])] * bool(pair[SECOND_SOURCE] == 0)
        )
        if length
    ]
    assert [start for start, _ in spans] == [0, *(end for _, end in spans)][:-1]
    assert spans[-1][1] == flatten(corpus)[2][-1]


# Defined answers


def test_a_chunk_ends_with_the_sentence_that_reaches_the_target() -> None:
    """With sentences of 4 and a target of 8, two are taken; the article takes a third."""
    pairs = pairs_of(alike_corpus([4] * 7, 1), True, 8, pool=pool_of({1: [[10]]}))
    assert pairs[:, LENGTHS].tolist() == [[4, 4], [4, 4], [4, 4], [4, 1]]
    assert pairs[-1, [SECOND_SOURCE, LABEL]].tolist() == [1, 1]
    alone = pairs_of(alike_corpus([4] * 7, 1), False, 8, pool=NO_POOL)
    assert alone[:, [*LENGTHS, LABEL]].tolist() == [[4, 4, 0]] * 3 + [[4, 0, 0]]


@both_programs
def test_a_first_segment_that_fills_the_target_gets_a_random_sentence(is_albert: bool) -> None:
    pool = pool_of({1: [[10] * 3, [11] * 5]})
    pairs = pairs_of(alike_corpus([8], 2000), is_albert, 8, pool=pool)
    assert (pairs[:, [SECOND_SOURCE, LABEL]] == 1).all()
    # A single one: cut to 8 tokens, 8 and 3 become 5 and 3, and 8 and 5 become 4 and 4.
    assert {tuple(pair) for pair in pairs[:, LENGTHS].tolist()} == {(5, 3), (4, 4)}
    assert_uniform(np.unique(pairs[:, SECOND_LENGTH], return_counts=True)[1], "sentences")


@both_programs
def test_half_of_the_pairs_have_the_label(is_albert: bool) -> None:
    corpus = alike_corpus([3, 5], 20_000)
    pairs = pairs_of(corpus, is_albert, pool=pool_of({1: [[10]], 2: [[11]]}))
    first = pairs[np.flatnonzero(np.diff(pairs[:, DOCUMENT], prepend=-1))]
    assert_uniform(np.bincount(first[:, LABEL]), "label")
    # ALBERT's keep their own segments, switched.
    assert (first[:, SECOND_SOURCE] == (0 if is_albert else first[:, LABEL])).all()
    switched = first[:, FIRST_START] > first[:, SECOND_START]
    if is_albert:
        assert (switched == first[:, LABEL]).all()
        assert len(pairs) == len(corpus)
    else:
        # The second sentence is put back.
        assert len(pairs) == len(corpus) + first[:, LABEL].sum()


def test_no_documents_give_no_pairs() -> None:
    assert pairs_of({}, True).shape == (0, 9)


@given(corpora, seeds, st.integers(0, 3))
def test_a_document_has_the_same_pairs_whatever_stands_beside_it(
    corpus: Corpus, seed: int, repeat: int
) -> None:
    pool = pool_of(corpus)
    together = pairs_of(corpus, False, 20, 0.1, pool, seed, repeat)
    _, document_offsets, sentence_offsets, _ = flatten(corpus)
    for place, document in enumerate(corpus):
        alone = pairs_of({document: corpus[document]}, False, 20, 0.1, pool, seed, repeat)
        expected = together[together[:, DOCUMENT] == place]
        begin = sentence_offsets[document_offsets[place]]
        expected[:, FIRST_START] -= begin
        expected[:, SECOND_START] -= np.where(expected[:, SECOND_SOURCE] == 1, 0, begin)
        expected[:, DOCUMENT] = 0
        assert np.array_equal(alone, expected)


# Equality in distribution with the reference

PASSES = 700
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
        pairs: int64[pairs, 7], sorted: pass, document, first's first token, its length, second's
            first token, its length, label.
    """
    numbers, starts, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    chosen = pairs[starts + numbers // len(CORPUS) % counts]
    _, document, first, first_length, second, second_length, label = chosen.T
    owners = np.array([owner for owner in CORPUS for _ in chain(*CORPUS[owner])])
    is_own = owners[second - 10] == document
    return {
        "pairs in a pass, of a document": document * 1000 + counts,
        "label, of a document": document * 2 + label,
        "own second segment, with the label": 2 * is_own + label,
        "length": first_length + second_length,
        "first segment's length": first_length,
        "second segment's length": second_length,
        "first segment": first * 1000 + first_length,
        "second segment": second * 1000 + second_length,
        "random document, of a document": np.where(is_own, -1, document * 9 + owners[second - 10]),
        "tokens between the segments": np.where(is_own, second - first - first_length, 999),
    }


@both_programs
@pytest.mark.parametrize(("most", "short"), [(32, 0.1), (32, 1.0), (57, 0.0), (2, 0.5)])
def test_pairs_are_distributed_as_the_references(is_albert: bool, most: int, short: float) -> None:
    tokens = flatten(CORPUS)[3]
    ours: list[Any] = []
    for repeat in range(PASSES):
        pairs = pairs_of(CORPUS, is_albert, most, short, seed=7, repeat=repeat)
        ours.append(
            np.column_stack(
                [
                    repeat * len(CORPUS) + pairs[:, DOCUMENT], pairs[:, DOCUMENT],
                    tokens[pairs[:, FIRST_START]], pairs[:, FIRST_LENGTH],
                    tokens[pairs[:, SECOND_START]], pairs[:, SECOND_LENGTH], pairs[:, LABEL],
                ]
            )
        )  # fmt: skip
    rng = random.Random(8)  # noqa: S311 - no secret
    documents = list(CORPUS.values())
    theirs = [
        [
            repeat * len(CORPUS) + own, own, first[0], len(first), second[0], len(second), label,
        ]
        for repeat in range(PASSES)
        for own in CORPUS
        for first, second, label in reference_google.generate_pairs(
            own, documents, most, short, is_albert, rng
        )
    ]  # fmt: skip
    assert_same_distributions(observed(np.concatenate(ours)), observed(np.array(theirs, np.int64)))
