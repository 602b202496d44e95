"""Documents whose text a data set holds are found by its digests."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.document_facts import digests_of
from corpusmill.arrays.text_hashes import hash_lines
from corpusmill.corpus.filters.known_texts import KNOWN, drop_known, sort_digests

texts = st.lists(st.lists(st.text("abc \u00e9", min_size=1), min_size=1, max_size=3), max_size=12)


def batch_of(documents: list[list[str]]) -> pa.RecordBatch:
    columns = [
        pa.array(range(len(documents)), pa.uint64()),
        pa.array(documents, pa.list_(pa.string())),
    ]
    return pa.record_batch(columns, ["document", "sentences"])


def digests(documents: list[list[str]]) -> pa.FixedSizeBinaryArray:
    """The column of digests that a data set keeps of these documents."""
    sentences, offsets = ragged.from_arrow(batch_of(documents).column("sentences"))
    text, text_offsets = ragged.from_arrow(sentences)
    return digests_of(hash_lines(text, offsets, text_offsets))


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


def test_digests_with_one_half_in_common_are_told_apart() -> None:
    low, high = 7, 2**64 - 1
    pairs = np.array([[low, high], [low, 3], [high, low], [low, 3]], "<u8")
    column = pa.Array.from_buffers(pa.binary(16), 4, [None, pa.py_buffer(pairs.tobytes())])
    content = sort_digests([column])
    assert len(content) == 3 * 16
    assert np.frombuffer(content, "<u8").tolist() == [low, 3, low, high, high, low]
    [digest] = digests([["text"]]).to_pylist()
    halves = np.frombuffer(digest, "<u8").copy()
    for half in range(2):
        other = halves.copy()
        other[half] += np.uint64(1)
        assert drop_known(other.tobytes())(batch_of([["text"]]), "text") == [""]
    assert drop_known(halves.tobytes())(batch_of([["text"]]), "text") == [KNOWN]


def test_a_data_set_without_documents_holds_none() -> None:
    assert drop_known(sort_digests([]))(batch_of([["a"]]), "text") == [""]
