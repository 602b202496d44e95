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
    SECOND_DOCUMENT,
    SECOND_LENGTH,
    SECOND_SOURCE,
    SECOND_START,
    PairRule,
    draw_pairs,
)
from corpusmill.objectives.random_documents import Pool
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
from tests.tools.distributions import assert_counts, assert_uniform
from tests.tools.lazily import LazyModule

stats = LazyModule("scipy.stats")

NO_POOL = pool_of({})


def pairs_of(
    corpus: Corpus,
    pool: Pool,
    max_num_tokens: int = 509,
    short_seq_prob: float = 0.0,
    seed: int = 1,
    repeat: int = 0,
) -> np.ndarray:
    candidates = pool.candidates(np.zeros(len(corpus), np.uint8))
    rule = PairRule(max_num_tokens, short_seq_prob)
    pairs: np.ndarray = draw_pairs(
        index_of(corpus), pool.index, candidates, np.uint64(seed), repeat, rule
    )
    return pairs


@given(corpora, seeds, st.integers(2, 40), st.sampled_from([0.0, 0.5, 1.0]))
def test_spans_lie_in_one_document_and_fit(
    corpus: Corpus, seed: int, most: int, short: float
) -> None:
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
        assert pair[SECOND_SOURCE] == pair[LABEL]
        begin, stop = pair[SECOND_START], pair[SECOND_START] + pair[SECOND_LENGTH]
        document = np.searchsorted(starts, begin, side="right") - 1
        assert pair[SECOND_DOCUMENT] == (document if pair[LABEL] else -1)
        if pair[LABEL]:
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
            if not pair[LABEL]:
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
    assert_uniform(np.bincount(first_pairs[:, LABEL]), "is random")
    # A random pair puts the second sentence back; alone, it must get a random second segment.
    put_back = pairs[pairs[:, INDEX] == 1]
    assert len(put_back) == first_pairs[:, LABEL].sum()
    assert (put_back[:, LABEL] == 1).all()
    assert (put_back[:, FIRST_LENGTH] == 3).all()


def test_second_segment_is_empty_where_the_first_fills_the_target() -> None:
    """The pair still counts as random, as in the article."""
    pairs = pairs_of(alike_corpus([8], 100), pool_of({1: [[10]]}), max_num_tokens=8)
    assert (pairs[:, SECOND_LENGTH] == 0).all()
    assert (pairs[:, LABEL] == 1).all()


def test_short_targets_are_uniform_from_two_to_the_maximum() -> None:
    """With sentences of one token, target + 1 are taken, so that the pair shows the target."""
    corpus = alike_corpus([1] * 30, 20_000)
    pairs = pairs_of(corpus, NO_POOL, max_num_tokens=12, short_seq_prob=1.0)
    first = pairs[pairs[:, INDEX] == 0]
    lengths = np.bincount(first[:, FIRST_LENGTH] + first[:, SECOND_LENGTH], minlength=13)
    assert lengths[:3].sum() == 0
    # The targets 11 and 12 both give 12 tokens: 13 are cut.
    assert_counts(lengths[3:], [1] * 9 + [2], "target length")


def test_share_of_short_targets() -> None:
    pairs = pairs_of(
        alike_corpus([1] * 300, 5_000), NO_POOL, max_num_tokens=200, short_seq_prob=0.1
    )
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
    """Two sentences of 20 tokens cut to 30: five tokens of each segment, of either end."""
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
    assert (pairs[:, LABEL] == 0).all()
    assert (pairs[:-1, SECOND_LENGTH] > 0).all()


@pytest.mark.parametrize("pool_holds_the_document", [False, True])
def test_one_sentence_without_other_documents_has_an_empty_second_segment(
    pool_holds_the_document: bool,
) -> None:
    corpus = numbered_corpus([[3]])
    pairs = pairs_of(corpus, pool_of(corpus if pool_holds_the_document else {}))
    assert pairs[:, [FIRST_LENGTH, SECOND_LENGTH, LABEL]].tolist() == [[3, 0, 0]]


def test_documents_of_one_sentence_always_have_a_random_second_segment() -> None:
    corpus = numbered_corpus([[3], [4], [5]])
    pairs = pairs_of(corpus, pool_of(corpus))
    assert pairs[:, FIRST_LENGTH].tolist() == [3, 4, 5]
    assert (pairs[:, LABEL] == 1).all()
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
    assert pairs_of({}, NO_POOL).shape == (0, 9)


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
