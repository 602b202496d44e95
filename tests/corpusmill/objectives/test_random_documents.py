import io
import mmap
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.objectives.random_documents import (
    ARRAYS,
    Pool,
    PoolShape,
    candidate_limit,
    choose,
    keep_candidates,
    measure_documents,
    priorities,
    write_pool,
)
from tests.tools.builders import Corpus, batch_of, numbered_corpus, pool_of, write_and_open

corpora = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), max_size=6).map(
    numbered_corpus
)


def cut(batch: pa.RecordBatch, cuts: list[int]) -> Iterator[pa.RecordBatch]:
    edges = [0, *sorted(min(place, batch.num_rows) for place in cuts), batch.num_rows]
    for start, stop in pairwise(edges):
        yield batch.slice(start, stop - start)


def assert_equal_pools(pool: Pool, expected: Pool) -> None:
    for name in ARRAYS:
        one, other = getattr(pool, name), getattr(expected, name)
        assert one.dtype == other.dtype, name
        assert one.tolist() == other.tolist(), name


@given(corpora, st.lists(st.integers(0, 6), max_size=4), st.integers(0, 6))
def test_a_pool_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, corpus: Corpus, cuts: list[int], train: int
) -> None:
    """It does not depend on batches and slices."""
    items = list(corpus.items())
    train_corpus, validation_corpus = dict(items[:train]), dict(items[train:])
    batches = [*cut(batch_of(train_corpus), cuts), *cut(batch_of(validation_corpus), cuts)]
    pool = write_and_open(batches, train_corpus, validation_corpus, tmp_path_factory.mktemp("pool"))
    assert_equal_pools(pool, pool_of(train_corpus, validation_corpus))


def test_arrays_are_mapped_and_are_plain_arrays(tmp_path: Path) -> None:
    """For NumPy's memmap type, numba would compile every kernel a second time."""
    corpus = numbered_corpus([[3, 4], [5]])
    pool = write_and_open([batch_of(corpus)], corpus, {}, tmp_path)
    for name in ARRAYS:
        array = getattr(pool, name)
        assert type(array) is np.ndarray
        while isinstance(array, np.ndarray):
            array = array.base
        assert isinstance(array, mmap.mmap)


class KeptOpen(io.BytesIO):
    was_closed = False

    def close(self) -> None:
        self.was_closed = True


def test_files_are_npy_files_whose_streams_are_closed() -> None:
    shape, streams = PoolShape(2, 3, 6, 2, np.dtype(np.int16)), [KeptOpen() for _ in ARRAYS]
    write_pool([batch_of(numbered_corpus([[2, 1], [3]]))], shape, streams)
    arrays = [np.load(io.BytesIO(stream.getvalue())).tolist() for stream in streams]
    assert arrays == [[0, 1], [0, 2, 3], [0, 2, 3, 6], [10, 11, 12, 13, 14, 15], [0, 2, 2]]
    assert all(stream.was_closed for stream in streams)

    def broken() -> Iterator[pa.RecordBatch]:
        yield batch_of(numbered_corpus([[1]]))
        raise OSError("the disk is full")

    streams = [KeptOpen() for _ in ARRAYS]
    with pytest.raises(OSError, match="disk is full"):
        write_pool(broken(), shape, streams)
    assert all(stream.was_closed for stream in streams)


def test_candidates_are_those_of_the_documents_split() -> None:
    pool = pool_of(numbered_corpus([[1], [1], [1]]), numbered_corpus([[1], [1]], first_document=9))
    assert pool.candidates(np.array([0, 1, 0], np.uint8)).tolist() == [[0, 3], [3, 5], [0, 3]]
    assert pool.candidates(np.zeros(0, np.uint8)).shape == (0, 2)


@given(st.sets(st.integers(0, 2**64 - 1), max_size=50), st.sampled_from([0, 1, 2**63, MAX_SEED]))
def test_no_two_documents_have_the_same_priority(documents: set[int], seed: int) -> None:
    """A priority determines exactly which documents form the pool."""
    drawn = priorities(seed, np.array(sorted(documents), np.uint64))
    assert drawn.dtype == np.uint64
    assert len(set(drawn.tolist())) == len(documents)
    numbers = np.arange(99, dtype=np.uint64)
    orders = [np.argsort(priorities(own, numbers)) for own in (seed, seed ^ 1)]
    assert (orders[0] != orders[1]).any()


@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 50)),
        unique_by=lambda pair: pair[0],
        max_size=20,
    ),
    st.integers(1, 300),
    st.randoms(use_true_random=False),
)
def test_the_budget_is_filled_in_the_order_of_priorities(
    candidates: list[tuple[int, int]], budget: int, rng: Random
) -> None:
    ordered = sorted(candidates)
    totals = accumulate(tokens for _, tokens in ordered)
    chosen = [own for (own, _), total in zip(ordered, totals, strict=True) if total <= budget]
    rng.shuffle(candidates)
    largest = choose(
        np.array([priority for priority, _ in candidates], np.uint64),
        np.arange(len(candidates), dtype=np.uint64),
        np.array([tokens for _, tokens in candidates], np.int64),
        budget,
    )
    assert largest == max(chosen, default=-1)
    assert sorted(priority for priority, _ in candidates if priority <= largest) == chosen


def test_a_budget_that_is_met_exactly_is_used() -> None:
    ascending = np.array([1, 2, 3], np.uint64)
    for budget, expected in ((9, -1), (10, 1), (29, 1), (30, 2), (59, 2), (60, 3), (10**9, 3)):
        assert choose(ascending, ascending, np.array([10, 20, 30]), budget) == expected


@given(st.integers(1, 10**12), st.integers(0, 10**16))
def test_the_share_of_candidates_is_twice_the_budgets(pool_tokens: int, corpus_bytes: int) -> None:
    """A token counts as four bytes."""
    assert candidate_limit(1000, 0) == candidate_limit(1000, 8000) == 2**64 - 1
    limit = candidate_limit(pool_tokens, corpus_bytes)
    assert 0 <= limit <= 2**64 - 1
    if limit < 2**64 - 1:
        assert limit / 2**64 == pytest.approx(8 * pool_tokens / corpus_bytes)
    else:
        assert 8 * pool_tokens >= corpus_bytes * (1 - 1e-9)


def test_as_many_documents_pass_the_limit_as_expected() -> None:
    drawn = priorities(3, np.arange(20_000, dtype=np.uint64))
    passing = int((drawn <= np.uint64(candidate_limit(1000, 80_000))).sum())
    # Binomial(20000, 0.1): beyond 165 (3.9 standard deviations) for one seed of 10,000.
    assert abs(passing - 2000) < 165


@given(corpora, st.integers(0, MAX_SEED), st.integers(0, 2**64 - 1))
def test_candidates_are_the_documents_up_to_the_limit(
    corpus: Corpus, seed: int, limit: int
) -> None:
    documents = batch_of(corpus)
    expected = [
        row
        for row, priority in zip(
            documents.to_pylist(),
            priorities(seed, documents.column("document").to_numpy()).tolist(),
            strict=True,
        )
        if priority <= limit
    ]
    kept = keep_candidates(seed, documents, limit)
    assert kept.to_pylist() == expected
    assert kept.schema == documents.schema


@given(corpora, st.lists(st.integers(0, 6), max_size=2))
def test_documents_are_measured_one_by_one(corpus: Corpus, cuts: list[int]) -> None:
    """Slices are measured, too."""
    sizes = [measure_documents(part) for part in cut(batch_of(corpus), cuts)]
    assert [row for part in sizes for row in part.tolist()] == [
        [document, len(sentences), sum(map(len, sentences))]
        for document, sentences in corpus.items()
    ]
    assert all(part.nbytes == 24 * len(part) for part in sizes)
