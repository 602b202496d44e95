"""Equal documents, by hashes of their texts."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.text_hashes import hash_lines
from corpusmill.corpus.batches import TEXT_SCHEMA
from corpusmill.corpus.filters.duplicates import (
    HASH_SCHEMA,
    REPEAT_SCHEMA,
    drop_listed,
    hash_documents,
    split_repeats,
)


def to_documents(sentences: list[list[str]]) -> pa.RecordBatch:
    columns = {"document": range(len(sentences)), "sentences": sentences}
    return pa.RecordBatch.from_pydict(columns, schema=TEXT_SCHEMA)


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        (b"", "00000000000000000000000000000000"),
        (b"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"),
        (b"The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347"),
    ],
)
def test_hashes_are_those_of_the_original(text: bytes, hashed: str) -> None:
    content = np.frombuffer(b"x" + text, np.uint8)
    [[first, second]] = hash_lines(content, np.arange(2), np.array([1, 1 + len(text)])).tolist()
    assert f"{first:016x}{second:016x}" == hashed


@given(st.lists(st.lists(st.text("ab\n", max_size=20), max_size=3), max_size=12), st.data())
def test_hashes_are_equal_where_texts_are(sentences: list[list[str]], data: st.DataObject) -> None:
    documents = to_documents(sentences)
    begin = data.draw(st.integers(0, len(sentences)))
    hashed = hash_documents(documents.slice(begin), 7)
    assert hashed.schema == HASH_SCHEMA
    assert hashed.column("document").to_pylist() == list(range(begin, len(sentences)))
    assert set(hashed.column("task").to_pylist()) <= {7}
    texts = ["\n".join(lines) for lines in sentences[begin:]]
    hashes = [(row["first"], row["second"]) for row in hashed.to_pylist()]
    # Two of these texts have the same hash by chance in one of 10**36 runs.
    assert len(set(zip(texts, hashes, strict=True))) == len(set(texts)) == len(set(hashes))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30), st.randoms())
def test_the_first_by_id_is_kept(hashes: list[tuple[int, int]], random: Random) -> None:
    rows = [(*pair, number * 10, number // 4) for number, pair in enumerate(hashes)]
    random.shuffle(rows)
    named = [dict(zip(HASH_SCHEMA.names, row, strict=True)) for row in rows]
    kept, repeats = split_repeats(pa.RecordBatch.from_pylist(named, schema=HASH_SCHEMA))
    firsts = {pair: number * 10 for number, pair in reversed(list(enumerate(hashes)))}
    assert kept.schema == HASH_SCHEMA
    assert {(row["first"], row["second"]): row["document"] for row in kept.to_pylist()} == firsts
    others = {(row[2], row[3]) for row in rows} - {(one, one // 40) for one in firsts.values()}
    assert repeats.schema == REPEAT_SCHEMA
    assert {(row["document"], row["task"]) for row in repeats.to_pylist()} == others
    assert kept.num_rows + repeats.num_rows == len(rows)


@given(st.sets(st.integers(0, 40)), st.integers(0, 30), st.integers(0, 10))
def test_listed_documents_are_dropped(listed: set[int], begin: int, number: int) -> None:
    parts = [sorted(listed)[::2], sorted(listed)[1::2]]
    repeats = [
        pa.RecordBatch.from_pydict({"document": ids, "task": [0] * len(ids)}, REPEAT_SCHEMA)
        for ids in parts
    ]
    ids = range(begin, begin + number)
    documents = pa.RecordBatch.from_pydict(
        {"document": ids, "sentences": [["a"]] * number}, TEXT_SCHEMA
    )
    expected = ["duplicate" if one in listed else "" for one in ids]
    assert drop_listed(repeats)(documents, "") == expected
