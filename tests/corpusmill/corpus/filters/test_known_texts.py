"""Documents whose text a data set holds are found by its digests."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.text_hashes import digests_of
from corpusmill.corpus.filters.duplicates import (
    DIGEST_SCHEMA,
    HELD,
    KNOWN,
    DigestFilter,
    count_digests,
    drop_known,
    hold_digests,
    select_known,
    split_held,
)

texts = st.lists(st.lists(st.text("abc \u00e9", min_size=1), min_size=1, max_size=3), max_size=12)
digest_lists = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=30)


def batch_of(documents: list[list[str]]) -> pa.RecordBatch:
    columns = [
        pa.array(range(len(documents)), pa.uint64()),
        pa.array(documents, pa.list_(pa.string())),
    ]
    return pa.record_batch(columns, ["document", "sentences"])


def digests(documents: list[list[str]]) -> np.ndarray:
    """The digests that a data set keeps of these documents."""
    return digests_of(batch_of(documents))


def numbers(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


@given(texts, texts, st.integers(0, 12))
def test_those_and_only_those_are_dropped(
    known: list[list[str]], new: list[list[str]], cut: int
) -> None:
    held = digests(known[:cut]), digests([["other"], *known[cut:]])[1:]
    found = select_known(count_digests(digests(new + known), 5), held)
    assert drop_known([found])(batch_of(new + known), "text") == [
        KNOWN if document in known else "" for document in new + known
    ]


@given(digest_lists)
def test_each_digest_is_counted(values: list[int]) -> None:
    rows = count_digests(numbers(values), 3)
    assert rows.schema == DIGEST_SCHEMA
    assert rows.to_pylist() == [
        {"digest": one, "documents": values.count(one), "task": 3} for one in sorted({*values})
    ]


@given(digest_lists, digest_lists)
def test_known_digests_keep_their_tasks(new: list[int], held: list[int]) -> None:
    rows = pa.concat_batches([count_digests(numbers(new), task) for task in (4, 2)])
    found = select_known(rows, [numbers(held[:3]), numbers(held[3:])])
    assert found.to_pylist() == [row for row in rows.to_pylist() if row["digest"] in held]


def test_digests_are_compared_in_all_their_bits() -> None:
    [digest] = digests([["text"]]).tolist()
    for known, reason in ((digest, KNOWN), (digest ^ 1, ""), (digest ^ 2**63, "")):
        drop = drop_known([count_digests(numbers([known]), 0)])
        assert drop(batch_of([["text"]]), "text") == [reason]


def test_a_data_set_without_documents_holds_none() -> None:
    assert drop_known([])(batch_of([["a"]]), "text") == [""]


def test_what_a_data_set_holds_is_told_from_what_is_new() -> None:
    rows = pa.concat_batches([hold_digests(numbers([7, 1])), count_digests(numbers([5]), 2)])
    assert rows.column("task").to_pylist() == [HELD, HELD, 2]
    new, held = split_held(rows)
    assert (new.column("digest").to_pylist(), held.tolist()) == ([5], [7, 1])


@pytest.mark.parametrize("bits", [8, 1024])
@given(st.lists(digest_lists, max_size=3), digest_lists)
def test_a_filter_lets_all_pass_that_were_added(
    bits: int, added: list[list[int]], others: list[int]
) -> None:
    passing = DigestFilter(bits)
    for values in added:
        passing.add(numbers(values))
    places = {value % bits for values in added for value in values}
    again = DigestFilter(passing.encode())
    assert again.select(numbers(others)).tolist() == [
        value for value in others if value % bits in places
    ]
