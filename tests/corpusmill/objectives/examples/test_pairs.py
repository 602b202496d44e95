import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.randomness import derive_keys
from corpusmill.objectives.examples.sentence_pairs import (
    draw_front_cut,
    draw_random_segment,
    find_in_pool,
    scan_to_target,
    truncate_lengths,
)
from corpusmill.objectives.tokenized_documents import Documents
from tests.corpusmill.objectives import reference_bert
from tests.tools.builders import offsets_of
from tests.tools.distributions import assert_counts
from tests.tools.lazily import LazyModule

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
