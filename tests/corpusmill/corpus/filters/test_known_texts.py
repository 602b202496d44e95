"""Documents whose text a data set holds are found by its digests."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.document_facts import digests_of
from corpusmill.corpus.filters.known_texts import KNOWN, drop_known, sort_digests

texts = st.lists(st.lists(st.text("abc \u00e9", min_size=1), min_size=1, max_size=3), max_size=12)


def batch_of(documents: list[list[str]]) -> pa.RecordBatch:
    columns = [
        pa.array(range(len(documents)), pa.uint64()),
        pa.array(documents, pa.list_(pa.string())),
    ]
    return pa.record_batch(columns, ["document", "sentences"])


def digests(documents: list[list[str]]) -> pa.UInt64Array:
    """The column of digests that a data set keeps of these documents."""
    return pa.array(digests_of(batch_of(documents)))


@given(texts, texts, st.integers(0, 12))
def test_those_and_only_those_are_dropped(
    known: list[list[str]], new: list[list[str]], cut: int
) -> None:
    # Columns of several files, one of them a slice of a longer one.
    columns = [digests(known[:cut]), digests([["other"], *known[cut:]]).slice(1)]
    drop = drop_known(sort_digests(columns))
    assert drop(batch_of(new + known), "text") == [
        KNOWN if document in known else "" for document in new + known
    ]


def test_digests_are_sorted_and_compared_in_all_their_bits() -> None:
    content = sort_digests([pa.array([7, 2**64 - 1, 3, 7], pa.uint64())])
    assert np.frombuffer(content, "<u8").tolist() == [3, 7, 2**64 - 1]
    [digest] = digests([["text"]]).to_pylist()
    for known, reason in ((digest, KNOWN), (digest ^ 1, ""), (digest ^ 2**63, "")):
        drop = drop_known(sort_digests([pa.array([known], pa.uint64())]))
        assert drop(batch_of([["text"]]), "text") == [reason]


def test_a_data_set_without_documents_holds_none() -> None:
    assert drop_known(sort_digests([]))(batch_of([["a"]]), "text") == [""]
