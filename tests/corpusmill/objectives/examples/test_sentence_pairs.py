"""Pairs of segments by each rule: properties, defined answers, and equality with the references."""

import random
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.randomness import derive_keys
from corpusmill.objectives.examples.sentence_pairs import (
    DOCUMENT,
    FIRST_LENGTH,
    FIRST_START,
    INDEX,
    LABEL,
    SECOND_DOCUMENT,
    SECOND_LENGTH,
    SECOND_SOURCE,
    SECOND_START,
    PairRule,
    draw_front_cut,
    draw_pairs,
    draw_random_segment,
    find_in_pool,
    scan_to_target,
    truncate_lengths,
)
from corpusmill.objectives.random_documents import Pool
from corpusmill.objectives.tokenized_documents import Documents
from tests.corpusmill.objectives import reference_albert, reference_bert, reference_google
from tests.tools.builders import (
    Corpus,
    alike_corpus,
    corpora,
    flatten,
    index_of,
    numbered_corpus,
    offsets_of,
    pool_of,
    seeds,
)
from tests.tools.distributions import assert_counts, assert_same_distributions, assert_uniform
from tests.tools.lazily import LazyModule

NO_POOL = pool_of({})
LENGTHS = [FIRST_LENGTH, SECOND_LENGTH]
RULES: dict[str, dict[str, bool]] = {
    "article": {},
    "BERT's program": {"is_google": True},
    "ALBERT's program": {"is_google": True, "is_ordered": True},
    "sentence order": {"is_ordered": True},
}
any_rule = pytest.mark.parametrize("rule", RULES)


def pairs_of(
    corpus: Corpus,
    rule: str = "article",
    most: int = 509,
    short: float = 0.0,
    pool: Pool | None = None,
    seed: int = 1,
    repeat: int = 0,
) -> np.ndarray:
    """Draw pairs, by default with the corpus as its own pool, where the rule uses one."""
    pool = pool_of(corpus) if pool is None else pool
    candidates = pool.candidates(np.zeros(len(corpus), np.uint8)) * (rule != "sentence order")
    repeats = np.full(len(corpus), repeat, np.uint16)
    pairs: np.ndarray = draw_pairs(
        index_of(corpus), pool.index, candidates, np.uint64(seed), repeats,
        PairRule(most, short, **RULES[rule]),
    )  # fmt: skip
    return pairs


# Properties


@any_rule
@given(corpora, seeds, st.integers(2, 40), st.sampled_from([0.0, 0.5, 1.0]))
def test_segments_fit_and_lie_in_their_documents(
    rule: str, corpus: Corpus, seed: int, most: int, short: float
) -> None:
    pairs = pairs_of(corpus, rule, most, short, seed=seed)
    _, document_offsets, sentence_offsets, _ = flatten(corpus)
    starts = sentence_offsets[document_offsets]
    own, label, is_random = pairs[:, DOCUMENT], pairs[:, LABEL], pairs[:, SECOND_SOURCE] == 1
    others = np.where(is_random, pairs[:, SECOND_DOCUMENT], own)
    assert ((pairs[:, SECOND_DOCUMENT] == -1) == ~is_random).all()
    assert (others[is_random] != own[is_random]).all()
    assert (pairs[:, LENGTHS].sum(axis=1) <= most).all()
    assert (pairs[:, LENGTHS] >= [1, 0]).all()
    for document, start, length in (
        (own, FIRST_START, FIRST_LENGTH), (others, SECOND_START, SECOND_LENGTH),
    ):  # fmt: skip
        assert (starts[document] <= pairs[:, start]).all()
        assert (pairs[:, start] + pairs[:, length] <= starts[document + 1]).all()
    if rule == "sentence order":
        assert not is_random.any()
    if "is_ordered" not in RULES[rule]:
        assert (label == is_random).all()
    assert label[is_random].all()
    if "program" in rule and len(corpus) > 1:  # only a lonely document has an empty segment
        assert (pairs[:, SECOND_LENGTH] >= 1).all()
    for number in range(len(corpus)):
        indices = pairs[own == number, INDEX]
        assert len(indices)
        assert indices.tolist() == list(range(len(indices)))


@any_rule
@given(corpora, seeds)
def test_nothing_of_a_document_is_lost_or_used_twice(rule: str, corpus: Corpus, seed: int) -> None:
    """With room for every pair the own segments tile the corpus."""
    largest = max(sum(map(len, document)) for document in corpus.values())
    pairs = pairs_of(corpus, rule, 2 * largest + 2, 0.5, seed=seed)
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


@any_rule
def test_half_of_the_pairs_have_the_label(rule: str) -> None:
    corpus, is_ordered = alike_corpus([3, 5], 20_000), "is_ordered" in RULES[rule]
    pairs = pairs_of(corpus, rule, pool=pool_of({1: [[10]], 2: [[11]]}))
    first = pairs[np.flatnonzero(np.diff(pairs[:, DOCUMENT], prepend=-1))]
    assert_uniform(np.bincount(first[:, LABEL]), "label")
    assert (first[:, SECOND_SOURCE] == (0 if is_ordered else first[:, LABEL])).all()
    if is_ordered:
        assert ((first[:, FIRST_START] > first[:, SECOND_START]) == first[:, LABEL]).all()
        assert ((first[:, FIRST_LENGTH] == 5) == first[:, LABEL]).all()
        assert len(pairs) == len(corpus)
    else:
        # A random pair puts the second sentence back; alone, it gets a random second segment.
        put_back = pairs[pairs[:, INDEX] == 1]
        assert len(put_back) == first[:, LABEL].sum()
        assert (put_back[:, [FIRST_LENGTH, LABEL]] == [5, 1]).all()


@pytest.mark.parametrize("rule", ["article", "sentence order"])
def test_the_split_is_uniform_between_sentences(rule: str) -> None:
    pairs = pairs_of(alike_corpus([2, 1, 3, 1, 2], 20_000), rule, pool=NO_POOL)
    front = np.where(pairs[:, LABEL] == 1, pairs[:, SECOND_LENGTH], pairs[:, FIRST_LENGTH])
    counts = np.bincount(front, minlength=9)
    assert counts[[2, 3, 6, 7]].sum() == 20_000
    assert_uniform(counts[[2, 3, 6, 7]], "sentences in the front segment")


def test_a_chunk_of_one_sentence_is_cut_at_any_token() -> None:
    pairs = pairs_of(alike_corpus([6], 20_000), "sentence order")
    assert (pairs[:, LENGTHS].sum(axis=1) == 6).all()
    front = np.where(pairs[:, LABEL] == 1, pairs[:, SECOND_LENGTH], pairs[:, FIRST_LENGTH])
    assert_uniform(np.bincount(front, minlength=6)[1:6], "tokens in the front segment")
    assert_uniform(np.bincount(pairs[:, LABEL]), "switched")


def test_a_chunk_ends_with_the_sentence_that_reaches_the_target() -> None:
    """With sentences of 4 and a target of 8, two are taken; the article takes a third."""
    corpus = alike_corpus([4] * 7, 1)
    albert = pairs_of(corpus, "ALBERT's program", 8, pool=pool_of({1: [[10]]}))
    assert albert[:, LENGTHS].tolist() == [[4, 4], [4, 4], [4, 4], [4, 1]]
    assert albert[-1, [SECOND_SOURCE, LABEL]].tolist() == [1, 1]
    alone = pairs_of(corpus, "BERT's program", 8, pool=NO_POOL)
    assert alone[:, [*LENGTHS, LABEL]].tolist() == [[4, 4, 0]] * 3 + [[4, 0, 0]]
    ordered = pairs_of(corpus, "sentence order", 8)
    assert ordered[:, LENGTHS].sum(axis=1).tolist() == [8, 8, 8, 4]


def test_a_first_segment_that_fills_the_target() -> None:
    """By the article its second one is empty, and by the programs it gets a random sentence."""
    pool = pool_of({1: [[10] * 3, [11] * 5]})
    pairs = pairs_of(alike_corpus([8], 100), "article", 8, pool=pool)
    assert (pairs[:, [SECOND_LENGTH, LABEL]] == [0, 1]).all()
    for rule in ("BERT's program", "ALBERT's program"):
        pairs = pairs_of(alike_corpus([8], 2000), rule, 8, pool=pool)
        assert (pairs[:, [SECOND_SOURCE, LABEL]] == 1).all()
        # A single one: cut to 8 tokens, 8 and 3 become 5 and 3, and 8 and 5 become 4 and 4.
        assert {tuple(pair) for pair in pairs[:, LENGTHS].tolist()} == {(5, 3), (4, 4)}
        assert_uniform(np.unique(pairs[:, SECOND_LENGTH], return_counts=True)[1], "sentences")


def test_short_targets_are_uniform_from_two_to_the_maximum() -> None:
    """With sentences of one token, target + 1 are taken, so that the pair shows the target."""
    pairs = pairs_of(alike_corpus([1] * 30, 20_000), "article", 12, 1.0, NO_POOL)
    lengths = np.bincount(pairs[pairs[:, INDEX] == 0][:, LENGTHS].sum(axis=1), minlength=13)
    assert lengths[:3].sum() == 0
    # The targets 11 and 12 both give 12 tokens: 13 are cut.
    assert_counts(lengths[3:], [1] * 9 + [2], "target length")


def test_corpora_of_few_documents_and_sentences() -> None:
    one = numbered_corpus([[3, 3, 3, 3]])
    pairs = pairs_of(one, "article", 6)
    assert (pairs[:, LABEL] == 0).all()
    assert (pairs[:-1, SECOND_LENGTH] > 0).all()
    lonely = numbered_corpus([[3]])
    for pool in (NO_POOL, pool_of(lonely)):
        assert pairs_of(lonely, pool=pool)[:, [*LENGTHS, LABEL]].tolist() == [[3, 0, 0]]
    pairs = pairs_of(numbered_corpus([[3], [4], [5]]))
    assert pairs[:, FIRST_LENGTH].tolist() == [3, 4, 5]
    assert (pairs[:, [SECOND_LENGTH, LABEL]] >= 1).all()
    # A token that stands alone counts as in order.
    pairs = pairs_of(alike_corpus([1], 500), "sentence order")
    assert (pairs[:, [FIRST_LENGTH, SECOND_LENGTH, LABEL]] == [1, 0, 0]).all()
    for rule in RULES:
        assert pairs_of({}, rule).shape == (0, 9)


def test_sentences_longer_than_the_maximum_and_the_smallest_maximum() -> None:
    for seed in range(20):
        for rule in ("article", "sentence order"):
            pairs = pairs_of(numbered_corpus([[50], [40, 60]]), rule, 9, seed=seed)
            assert (pairs[:, LENGTHS].sum(axis=1) == 9).all()
        for short in (0.0, 1.0):  # max_seq_length 5 leaves two tokens
            corpus = numbered_corpus([[1, 1, 1, 4], [9], [1]])
            pairs = pairs_of(corpus, "article", 2, short, seed=seed)
            assert set(pairs[:, LENGTHS].sum(axis=1).tolist()) <= {1, 2}


# Equality in distribution with the references

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
            first token (-1 where empty), its length, label.
    """
    numbers, starts, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    chosen = pairs[starts + numbers // len(CORPUS) % counts]
    _, document, first, first_length, second, second_length, label = chosen.T
    owners = np.array([owner for owner in CORPUS for _ in chain(*CORPUS[owner])])
    others = owners[np.maximum(second, 10) - 10]
    is_own = (others == document) | (second < 0)
    return {
        "pairs in a pass, of a document": document * 1000 + counts,
        "label": label,
        "label, of a document": document * 2 + label,
        "own second segment, with the label": 2 * is_own + label,
        "length": first_length + second_length,
        "first segment's length": first_length,
        "second segment's length": second_length,
        "first segment": first * 1000 + first_length,
        "second segment": second * 1000 + second_length,
        "random document, of a document": np.where(is_own, -1, document * 9 + others),
        "tokens between the segments": np.where(is_own, second - first - first_length, 999),
    }


def reference_pairs(rule: str, most: int, short: float) -> Iterator[list[Any]]:
    rng = random.Random(8)  # noqa: S311 - no secret
    documents = list(CORPUS.values())
    for number in range(PASSES * len(CORPUS)):
        own = number % len(CORPUS)
        pairs: Iterable[tuple[list[int], list[int], bool]]
        if rule == "article":
            pairs = reference_bert.generate_fitting_pairs(own, documents, most, short, rng)
        elif rule == "sentence order":
            pairs = reference_albert.generate_pairs(documents[own], most, short, rng)
        else:
            is_albert = "is_ordered" in RULES[rule]
            pairs = reference_google.generate_pairs(own, documents, most, short, is_albert, rng)
        for first, second, label in pairs:
            begin = second[0] if second else -1
            yield [number, own, first[0], len(first), begin, len(second), label]


@any_rule
@pytest.mark.parametrize(("most", "short"), [(32, 0.1), (32, 1.0), (57, 0.0), (2, 0.5)])
def test_pairs_are_distributed_as_the_references(rule: str, most: int, short: float) -> None:
    tokens = flatten(CORPUS)[3]
    ours: list[Any] = []
    for repeat in range(PASSES):
        pairs = pairs_of(CORPUS, rule, most, short, seed=7, repeat=repeat)
        seconds = tokens[np.minimum(pairs[:, SECOND_START], len(tokens) - 1)]
        ours.append(
            np.column_stack(
                [
                    repeat * len(CORPUS) + pairs[:, DOCUMENT], pairs[:, DOCUMENT],
                    tokens[pairs[:, FIRST_START]], pairs[:, FIRST_LENGTH],
                    np.where(pairs[:, SECOND_LENGTH], seconds, -1), pairs[:, SECOND_LENGTH],
                    pairs[:, LABEL],
                ]
            )
        )  # fmt: skip
    theirs = np.array([*reference_pairs(rule, most, short)], np.int64)
    assert_same_distributions(observed(np.concatenate(ours)), observed(theirs))


stats = LazyModule("scipy.stats")

NO_IDS = np.empty(0, np.uint64)

# Truncation


def test_truncation_takes_tokens_one_by_one_from_the_longer_segment() -> None:
    """Compare all lengths up to 24 with the article's loop."""
    rng = random.Random(0)  # noqa: S311 - no secret
    for first in range(25):
        for second in range(25):
            for most in range(2, 50):
                segments = [0] * first, [0] * second
                reference_bert.truncate_pair(*segments, most, rng)
                assert truncate_lengths(first, second, most) == tuple(map(len, segments))


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(2, 65532))
def test_truncation_of_any_lengths(first: int, second: int, most: int) -> None:
    left = truncate_lengths(first, second, most)
    assert sum(left) == min(first + second, most)
    assert 0 <= left[0] <= first
    assert 0 <= left[1] <= second
    if left[0] < first and left[1] < second:
        assert left[0] - left[1] in {0, 1}


@pytest.mark.parametrize("removed", [1, 2, 7, 63, 64, 65, 128, 200])
def test_tokens_cut_in_front_are_binomial(removed: int) -> None:
    keys = derive_keys(5, np.arange(10_000, dtype=np.uint64), 0, removed)
    counts = np.bincount(
        [draw_front_cut(key, 3, removed)[0] for key in keys], minlength=removed + 1
    )
    assert_counts(
        counts, stats.binom.pmf(np.arange(removed + 1), removed, 0.5), f"{removed} tokens"
    )


@pytest.mark.parametrize(("removed", "used"), [(0, 0), (1, 1), (64, 1), (65, 2), (640, 10)])
def test_a_cut_says_how_many_draws_it_used(removed: int, used: int) -> None:
    front, counter = draw_front_cut(np.uint64(9), 100, removed)
    assert counter == 100 + used
    assert 0 <= front <= removed


# Scanning


@pytest.mark.parametrize(
    ("lengths", "target", "count"),
    [
        ([5], 3, 1),
        ([5, 5, 5], 4, 1),
        ([5, 5, 5], 5, 1),
        ([5, 5, 5], 6, 2),
        ([5, 5, 5], 100, 3),
        ([1, 1, 1, 1], 2, 2),
    ],
)
def test_scan_stops_at_the_sentence_that_reaches_the_target(
    lengths: list[int], target: int, count: int
) -> None:
    assert scan_to_target(offsets_of(lengths), 0, len(lengths), target) == count


# Random documents


def test_find_in_pool_looks_in_its_stretch_alone() -> None:
    documents = np.array([3, 5, 9, 1, 5, 7, 2**64 - 1], np.uint64)
    for (begin, end), places in {
        (0, 3): {3: 0, 5: 1, 9: 2, 1: -1, 4: -1, 10: -1},
        (3, 7): {1: 3, 5: 4, 7: 5, 9: -1, 2**64 - 1: 6},
        (2, 2): {9: -1},
    }.items():
        for document, place in places.items():
            assert find_in_pool(documents, begin, end, np.uint64(document)) == place


@pytest.mark.parametrize("own", [-1, 2, 3, 5])
def test_random_document_and_its_first_sentence_are_uniform_and_never_the_own(own: int) -> None:
    begin, end = 2, 6
    sentences = [1, 1, 3, 1, 2, 4, 5]  # of each document; a sentence has one token
    pool = Documents(NO_IDS, offsets_of(sentences), offsets_of([1] * sum(sentences)))
    counts = np.zeros(sum(sentences), np.int64)
    for key in derive_keys(2, np.arange(20_000, dtype=np.uint64), 0, 1):
        document, start, length = draw_random_segment(key, 0, pool, begin, end, own, 1)
        assert length == 1
        assert pool.offsets[document] <= start < pool.offsets[document + 1]
        counts[start] += 1
    allowed = [document for document in range(begin, end) if document != own]
    shares = [
        1 / sentences[document] if document in allowed else 0
        for document in range(len(sentences))
        for _ in range(sentences[document])
    ]
    assert counts[np.array(shares) == 0].sum() == 0
    assert_counts(counts[np.array(shares) > 0], [share for share in shares if share], f"own {own}")


@pytest.mark.parametrize(
    ("wanted", "lengths_from_each_start"),
    [
        (-3, [0, 0, 0]),
        (0, [0, 0, 0]),
        (1, [4, 2, 3]),
        (4, [4, 5, 3]),
        (5, [6, 5, 3]),
        (100, [9, 5, 3]),
    ],
)
def test_random_segment_has_whole_sentences_up_to_what_is_wanted(
    wanted: int, lengths_from_each_start: list[int]
) -> None:
    pool = Documents(NO_IDS, offsets_of([1, 3, 1]), offsets_of([7, 4, 2, 3, 8]))
    segments = {
        draw_random_segment(key, 0, pool, 1, 2, -1, wanted)
        for key in derive_keys(3, np.arange(100, dtype=np.uint64), 0, 1)
    }
    assert segments == set(zip([1, 1, 1], [7, 11, 13], lengths_from_each_start, strict=True))
