"""The documents of a data set that may enter the pool of text that is added to it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.random_documents import choose, priorities
from corpusmill.provenance.documents import documents_schema
from corpusmill.provenance.random_choice import choose_candidates

SEED = 7


def table_of(documents: dict[int, int]) -> pa.Table:
    """Return a table of documents and their tokens."""
    schema = documents_schema()
    none = [0] * len(documents)
    columns = (list(documents), none, list(documents.values()), none)
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema)


def pool_of(documents: dict[int, int], budget: int) -> set[int]:
    """Return the documents that the pool takes."""
    ids, tokens = np.array(list(documents), np.uint64), np.array(list(documents.values()))
    order = priorities(SEED, ids)
    limit = choose(order, ids, tokens, budget)
    return {*ids[order <= np.uint64(limit)].tolist()} if limit >= 0 else set()


corpora = st.dictionaries(st.integers(0, 2**41), st.integers(1, 20), min_size=5, max_size=40)


@given(corpora, corpora, st.integers(1, 60), st.integers(1, 50), st.integers(1, 7))
def test_with_any_other_documents_the_pool_is_that_of_all(
    earlier: dict[int, int], added: dict[int, int], budget: int, waiting: int, rows: int
) -> None:
    whole = table_of(earlier)
    tables = [whole.slice(begin, rows) for begin in range(0, max(1, len(earlier)), rows)]
    chosen, limit = choose_candidates(tables, SEED, budget, waiting)
    ids = chosen.column("document").to_pylist()
    assert ids == sorted(ids)
    added = {number: tokens for number, tokens in added.items() if number not in earlier}
    new = np.array(list(added), np.uint64)
    below = new[priorities(SEED, new) <= np.uint64(limit)].tolist()
    candidates = {number: earlier[number] for number in ids}
    candidates |= {number: added[number] for number in below}
    assert pool_of(candidates, budget) == pool_of(earlier | added, budget)


def test_no_more_is_chosen_than_fits() -> None:
    documents = dict.fromkeys(range(1000), 10)
    chosen, limit = choose_candidates([table_of(documents)], SEED, 205)
    ids = np.array(range(1000), np.uint64)
    order = np.argsort(priorities(SEED, ids))
    assert chosen.column("document").to_pylist() == sorted(order[:20].tolist())
    assert limit == priorities(SEED, ids).tolist()[order[20]]


@pytest.mark.parametrize("budget", [10, 1000])
def test_of_no_documents_none_is_chosen(budget: int) -> None:
    assert choose_candidates([], SEED, budget).documents.num_rows == 0
    assert choose_candidates([], SEED, budget).limit == 2**64 - 1


def test_documents_that_wait_are_few() -> None:
    # A table after another one is cut to what may still enter the pool.
    tables = [table_of(dict.fromkeys(range(n, n + 100), 10)) for n in range(0, 10_000, 100)]
    once = choose_candidates(tables, SEED, 205, most_waiting=10**6)
    often = choose_candidates(tables, SEED, 205, most_waiting=100)
    assert once.documents.equals(often.documents)
    assert once.limit == often.limit
