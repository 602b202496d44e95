import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from corpusmill.pairs import (
    DOCUMENT,
    FIRST_LENGTH,
    FIRST_START,
    INDEX,
    IS_RANDOM,
    SECOND_LENGTH,
    SECOND_SOURCE,
    SECOND_START,
    draw_front_cut,
    draw_pairs,
    draw_random_segment,
    find_in_pool,
    scan_chunk,
    truncate_lengths,
)
from corpusmill.pool import Pool
from corpusmill.randomness import MAX_SEED, derive_keys
from tests.corpusmill import reference_bert
from tests.corpusmill.builders import Corpus, flatten, numbered_corpus, offsets_of, pool_of
from tests.corpusmill.distributions import assert_counts, assert_uniform

corpora = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=10), min_size=1, max_size=6).map(
    numbered_corpus
)
seeds = st.integers(0, MAX_SEED)
NO_POOL = pool_of({})


def pairs_of(
    corpus: Corpus,
    pool: Pool,
    max_num_tokens: int = 509,
    short_seq_prob: float = 0.0,
    seed: int = 1,
    repeat: int = 0,
) -> np.ndarray:
    documents, document_offsets, sentence_offsets, _ = flatten(corpus)
    candidates = pool.candidates(np.zeros(len(documents), np.uint8))
    found: np.ndarray = draw_pairs(
        sentence_offsets, document_offsets, documents, candidates, pool.sentence_offsets,
        pool.document_offsets, pool.documents, np.uint64(seed), repeat, max_num_tokens, short_seq_prob,
    )  # fmt: skip
    return found


def alike_corpus(sentence_lengths: list[int], documents: int) -> Corpus:
    """Many documents that differ in their ids alone: as many independent draws."""
    sentences = [[10] * length for length in sentence_lengths]
    return dict.fromkeys(range(1000, 1000 + documents), sentences)


# Truncation


def test_truncation_takes_tokens_one_by_one_from_the_longer_segment() -> None:
    """All lengths up to 24, against the article's loop."""
    rng = random.Random(0)
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
    counts = np.bincount([draw_front_cut(key, 3, removed)[0] for key in keys], minlength=removed + 1)
    assert_counts(counts, stats.binom.pmf(np.arange(removed + 1), removed, 0.5), f"{removed} tokens")


@pytest.mark.parametrize(("removed", "used"), [(0, 0), (1, 1), (64, 1), (65, 2), (640, 10)])
def test_a_cut_says_how_many_draws_it_used(removed: int, used: int) -> None:
    front, counter = draw_front_cut(np.uint64(9), 100, removed)
    assert counter == 100 + used
    assert 0 <= front <= removed


# Scanning


@pytest.mark.parametrize(
    ("lengths", "target", "taken"),
    [
        ([5], 3, 1),
        ([5, 5, 5], 4, 2),  # the sentence behind the one that reaches the target is taken too
        ([5, 5, 5], 5, 2),
        ([5, 5, 5], 6, 3),
        ([5, 5, 5], 100, 3),
        ([1, 1, 1, 1], 2, 3),
    ],
)
def test_scan_takes_one_sentence_more_than_the_target(lengths: list[int], target: int, taken: int) -> None:
    assert scan_chunk(offsets_of(lengths), 0, len(lengths), target) == taken


# Random documents


def test_find_in_pool_looks_in_its_stretch_alone() -> None:
    documents = np.array([3, 5, 9, 1, 5, 7, 2**64 - 1], np.uint64)
    found = [find_in_pool(documents, 0, 3, np.uint64(document)) for document in (3, 5, 9, 1, 4, 10)]
    assert found == [0, 1, 2, -1, -1, -1]
    found = [find_in_pool(documents, 3, 7, np.uint64(document)) for document in (1, 5, 7, 9, 2**64 - 1)]
    assert found == [3, 4, 5, -1, 6]
    assert find_in_pool(documents, 2, 2, np.uint64(9)) == -1


@pytest.mark.parametrize("own", [-1, 2, 3, 5])
def test_random_document_and_its_first_sentence_are_uniform_and_never_the_own(own: int) -> None:
    begin, end = 2, 6
    sentences = [1, 1, 3, 1, 2, 4, 5]  # a document; one token a sentence
    document_offsets = offsets_of(sentences)
    counts = np.zeros(sum(sentences), np.int64)
    for key in derive_keys(2, np.arange(20_000, dtype=np.uint64), 0, 1):
        start, length = draw_random_segment(
            key, 0, own, begin, end, offsets_of([1] * sum(sentences)), document_offsets, 1
        )
        assert length == 1
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
    sentence_offsets, document_offsets = offsets_of([7, 4, 2, 3, 8]), offsets_of([1, 3, 1])
    found = {
        draw_random_segment(key, 0, -1, 1, 2, sentence_offsets, document_offsets, wanted)
        for key in derive_keys(3, np.arange(100, dtype=np.uint64), 0, 1)
    }
    assert found == set(zip([7, 11, 13], lengths_from_each_start, strict=True))


# Pairs


@given(corpora, seeds, st.integers(2, 40), st.sampled_from([0.0, 0.5, 1.0]))
def test_spans_lie_in_one_document_and_fit(corpus: Corpus, seed: int, most: int, short: float) -> None:
    pool = pool_of(corpus)
    pairs = pairs_of(corpus, pool, most, short, seed)
    _, document_offsets, sentence_offsets, _ = flatten(corpus)
    starts = sentence_offsets[document_offsets]
    assert set(pairs[:, DOCUMENT]) == set(range(len(corpus)))
    for pair in pairs:
        own = pair[DOCUMENT]
        assert pair[FIRST_LENGTH] >= 1
        assert pair[SECOND_LENGTH] >= 0
        assert pair[FIRST_LENGTH] + pair[SECOND_LENGTH] <= most
        assert starts[own] <= pair[FIRST_START]
        assert pair[FIRST_START] + pair[FIRST_LENGTH] <= starts[own + 1]
        assert pair[SECOND_SOURCE] == pair[IS_RANDOM]
        begin, stop = pair[SECOND_START], pair[SECOND_START] + pair[SECOND_LENGTH]
        document = np.searchsorted(starts, begin, side="right") - 1
        if pair[IS_RANDOM]:
            assert document != own
            assert stop <= starts[document + 1]
        else:
            assert starts[own] <= begin <= stop <= starts[own + 1]
    for document in range(len(corpus)):
        indices = pairs[pairs[:, DOCUMENT] == document, INDEX]
        assert indices.tolist() == list(range(len(indices)))


@given(corpora, seeds)
def test_nothing_of_a_document_is_lost_or_used_twice(corpus: Corpus, seed: int) -> None:
    """With room for every pair, first segments and own second segments tile the document."""
    largest = max(sum(map(len, document)) for document in corpus.values())
    pairs = pairs_of(corpus, pool_of(corpus), 2 * largest + 2, 1.0, seed)
    _, document_offsets, sentence_offsets, _ = flatten(corpus)
    starts = sentence_offsets[document_offsets]
    for document in range(len(corpus)):
        reached = starts[document]
        for pair in pairs[pairs[:, DOCUMENT] == document]:
            assert pair[FIRST_START] == reached
            reached += pair[FIRST_LENGTH]
            if not pair[IS_RANDOM]:
                assert pair[SECOND_START] == reached
                reached += pair[SECOND_LENGTH]
        assert reached == starts[document + 1]


def test_split_point_is_uniform() -> None:
    pairs = pairs_of(alike_corpus([2, 1, 3, 1, 2], 20_000), NO_POOL)
    assert len(pairs) == 20_000
    counts = np.bincount(pairs[:, FIRST_LENGTH], minlength=9)
    assert counts[[2, 3, 6, 7]].sum() == 20_000
    assert_uniform(counts[[2, 3, 6, 7]], "sentences in the first segment")


def test_half_of_the_pairs_are_random_where_both_are_possible() -> None:
    pairs = pairs_of(alike_corpus([3, 3], 20_000), pool_of({1: [[10]], 2: [[11]]}))
    first_pairs = pairs[pairs[:, INDEX] == 0]
    assert_uniform(np.bincount(first_pairs[:, IS_RANDOM]), "is random")
    # A random pair puts the second sentence back; alone, it can have none but a random one behind it.
    put_back = pairs[pairs[:, INDEX] == 1]
    assert len(put_back) == first_pairs[:, IS_RANDOM].sum()
    assert (put_back[:, IS_RANDOM] == 1).all()
    assert (put_back[:, FIRST_LENGTH] == 3).all()


def test_second_segment_is_empty_where_the_first_fills_the_target() -> None:
    """It still counts as random, as in the article."""
    pairs = pairs_of(alike_corpus([8], 100), pool_of({1: [[10]]}), max_num_tokens=8)
    assert (pairs[:, SECOND_LENGTH] == 0).all()
    assert (pairs[:, IS_RANDOM] == 1).all()


def test_short_targets_are_uniform_from_two_to_the_maximum() -> None:
    """Of one-token sentences target + 1 are taken, so that the pair tells the target."""
    corpus = alike_corpus([1] * 30, 20_000)
    pairs = pairs_of(corpus, NO_POOL, max_num_tokens=12, short_seq_prob=1.0)
    first = pairs[pairs[:, INDEX] == 0]
    lengths = np.bincount(first[:, FIRST_LENGTH] + first[:, SECOND_LENGTH], minlength=13)
    assert lengths[:3].sum() == 0
    # The targets 11 and 12 both give 12 tokens: 13 are cut.
    assert_counts(lengths[3:], [1] * 9 + [2], "target length")


def test_share_of_short_targets() -> None:
    pairs = pairs_of(alike_corpus([1] * 300, 20_000), NO_POOL, max_num_tokens=200, short_seq_prob=0.1)
    first = pairs[pairs[:, INDEX] == 0]
    short = int((first[:, FIRST_LENGTH] + first[:, SECOND_LENGTH] < 200).sum())
    # Of the 199 targets from 2 to 200, two (199 and 200) fill the pair.
    share = 0.1 * 197 / 199
    assert_counts(np.array([short, len(first) - short]), [share, 1 - share], "short targets")


@pytest.mark.parametrize("short_seq_prob", [0.0, 1.0])
def test_short_targets_never_and_always(short_seq_prob: float) -> None:
    pairs = pairs_of(alike_corpus([1] * 300, 2000), NO_POOL, 200, short_seq_prob)
    full = pairs[pairs[:, INDEX] == 0][:, [FIRST_LENGTH, SECOND_LENGTH]].sum(axis=1) == 200
    assert len(full) == 2000
    assert full.mean() < 0.05 if short_seq_prob else full.all()


def test_both_ends_of_both_segments_are_cut() -> None:
    """Two sentences of 20 tokens cut to 30: ten tokens of each end of each segment, in the mean half."""
    pairs = pairs_of(alike_corpus([20, 20], 20_000), NO_POOL, max_num_tokens=30)
    assert (pairs[:, [FIRST_LENGTH, SECOND_LENGTH]] == 15).all()
    document_starts = pairs[:, DOCUMENT] * 40
    binomial = stats.binom.pmf(np.arange(6), 5, 0.5)
    front = pairs[:, FIRST_START] - document_starts
    assert_counts(np.bincount(front, minlength=6), binomial, "first segment")
    second_front = pairs[:, SECOND_START] - document_starts - 20
    assert_counts(np.bincount(second_front, minlength=6), binomial, "second segment")
    joint = np.bincount(front * 6 + second_front, minlength=36)
    assert_counts(joint, np.outer(binomial, binomial).ravel(), "both segments")


# Defined answers


def test_a_corpus_of_one_document_keeps_its_own_second_segments() -> None:
    corpus = numbered_corpus([[3, 3, 3, 3]])
    pairs = pairs_of(corpus, pool_of(corpus), max_num_tokens=6)
    assert (pairs[:, IS_RANDOM] == 0).all()
    assert (pairs[:-1, SECOND_LENGTH] > 0).all()


@pytest.mark.parametrize("pool_holds_the_document", [False, True])
def test_one_sentence_without_other_documents_has_an_empty_second_segment(
    pool_holds_the_document: bool,
) -> None:
    corpus = numbered_corpus([[3]])
    pairs = pairs_of(corpus, pool_of(corpus if pool_holds_the_document else {}))
    assert pairs[:, [FIRST_LENGTH, SECOND_LENGTH, IS_RANDOM]].tolist() == [[3, 0, 0]]


def test_documents_of_one_sentence_always_have_a_random_second_segment() -> None:
    corpus = numbered_corpus([[3], [4], [5]])
    pairs = pairs_of(corpus, pool_of(corpus))
    assert pairs[:, FIRST_LENGTH].tolist() == [3, 4, 5]
    assert (pairs[:, IS_RANDOM] == 1).all()
    assert (pairs[:, SECOND_LENGTH] > 0).all()


@given(seeds)
@settings(max_examples=20)
def test_a_sentence_longer_than_the_maximum_is_cut(seed: int) -> None:
    corpus = numbered_corpus([[50], [40, 60]])
    for pair in pairs_of(corpus, pool_of(corpus), max_num_tokens=9, seed=seed):
        assert pair[FIRST_LENGTH] + pair[SECOND_LENGTH] == 9


@given(seeds)
@settings(max_examples=20)
def test_the_smallest_maximum(seed: int) -> None:
    """max_seq_length 5 leaves two tokens."""
    corpus = numbered_corpus([[1, 1, 1, 4], [9], [1]])
    for short_seq_prob in (0.0, 1.0):
        pairs = pairs_of(corpus, pool_of(corpus), 2, short_seq_prob, seed)
        lengths = pairs[:, FIRST_LENGTH] + pairs[:, SECOND_LENGTH]
        assert ((lengths >= 1) & (lengths <= 2)).all()


def test_no_documents_give_no_pairs() -> None:
    assert pairs_of({}, NO_POOL).shape == (0, 8)


# Keys


@given(corpora, seeds, st.integers(0, 3))
def test_a_document_has_the_same_pairs_whatever_stands_beside_it(
    corpus: Corpus, seed: int, repeat: int
) -> None:
    pool = pool_of(corpus)
    together = pairs_of(corpus, pool, 20, 0.1, seed, repeat)
    documents, document_offsets, sentence_offsets, _ = flatten(corpus)
    for place, document in enumerate(documents.tolist()):
        alone = pairs_of({document: corpus[document]}, pool, 20, 0.1, seed, repeat)
        expected = together[together[:, DOCUMENT] == place]
        shift = sentence_offsets[document_offsets[place]]
        expected[:, FIRST_START] -= shift
        expected[expected[:, SECOND_SOURCE] == 0, SECOND_START] -= shift
        expected[:, DOCUMENT] = 0
        assert np.array_equal(alone, expected)


def test_seeds_repeats_and_documents_draw_differently() -> None:
    corpus = numbered_corpus([[1] * 200, [1] * 200])
    pool = pool_of(corpus)
    base = pairs_of(corpus, pool, 30, seed=0)
    assert np.array_equal(base, pairs_of(corpus, pool, 30, seed=0))
    assert not np.array_equal(base, pairs_of(corpus, pool, 30, seed=MAX_SEED))
    assert not np.array_equal(base, pairs_of(corpus, pool, 30, seed=0, repeat=1))
    lengths = [base[base[:, DOCUMENT] == document, FIRST_LENGTH].tolist() for document in (0, 1)]
    assert lengths[0] != lengths[1]
