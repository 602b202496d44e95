"""Batches for models that predict the next token."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.reading.collate.causal_collators import (
    CausalLmCollator,
    PackedCollator,
    WindowCollator,
)
from corpusmill.reading.collate.collators import Padding, collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.token_windows import TOKENS
from tests.corpusmill.objectives.reference_gpt import windows
from tests.tools.batches_in_python import (
    lists_in,
    mark,
    pack,
    packed_batch,
    pad,
    pieces_of_rows,
    rows_of,
    tokens,
)


@given(st.lists(tokens, min_size=1, max_size=6))
def test_rows_of_their_own_have_labels_or_targets(rows: list[list[int]]) -> None:
    width = max(map(len, rows))
    stored = rows_of(input_ids=rows)
    batch = CausalLmCollator(Padding(pad_id=5))(stored)
    assert batch.keys() == {"input_ids", "attention_mask", "labels"}
    assert batch["input_ids"].tolist() == [pad(row, width, 5) for row in rows]
    assert batch["attention_mask"].tolist() == [mark(row, width) for row in rows]
    assert batch["labels"].tolist() == [pad(row, width, -100) for row in rows]
    shifted = CausalLmCollator(Padding(pad_id=5), "targets")(stored)
    assert shifted.keys() == {"input_ids", "attention_mask", "targets"}
    assert shifted["input_ids"].tolist() == batch["input_ids"].tolist()
    assert shifted["targets"].tolist() == [pad(row[1:], width, -100) for row in rows]


def test_windows_of_a_stream_see_one_array() -> None:
    rows = rows_of(**{TOKENS: [[1, 2, 3], [5, 6, 7], [7, 8, 9]]})[1:]
    shifted = WindowCollator("targets")(rows)
    assert shifted["input_ids"].tolist() == [[5, 6], [7, 8]]
    assert shifted["targets"].tolist() == [[6, 7], [8, 9]]
    assert np.shares_memory(shifted["input_ids"], shifted["targets"])
    labelled = WindowCollator()(rows)
    assert labelled.keys() == {"input_ids", "labels"}
    assert labelled["labels"].tolist() == labelled["input_ids"].tolist() == [[5, 6], [7, 8]]
    assert not np.shares_memory(labelled["input_ids"], labelled["labels"])


@given(pieces_of_rows, st.integers(1, 8), st.integers(0, 9))
def test_packed_rows_are_padded_one_by_one(
    rows: list[list[list[int]]], multiple: int, before: int
) -> None:
    longest = max(sum(map(len, pieces)) for pieces in rows)
    width = -(-longest // multiple) * multiple
    # Cut the rows from more rows.
    stored = pack([[[1]]] * before + rows)[before:]
    batch = PackedCollator(Padding(7, pad_to_multiple_of=multiple))(stored)
    assert lists_in(batch) == packed_batch(rows, width, 7)


@given(pieces_of_rows, st.integers(1, 8))
def test_packed_rows_are_flattened_into_one(rows: list[list[list[int]]], multiple: int) -> None:
    padding = Padding(7, pad_to_multiple_of=multiple)
    batch = PackedCollator(padding, "flattened")(pack(rows))
    assert lists_in(batch) == packed_batch(rows, None, 7, multiple)
    assert {name: array.dtype for name, array in batch.items() if array.dtype != np.int64} == {
        "seq_idx": np.int32,
        "cu_seq_lens_q": np.int32,
        "cu_seq_lens_k": np.int32,
    }


@given(pieces_of_rows, st.sampled_from(["rows", "flattened"]))
def test_targets_of_packed_rows_are_labels_one_on(rows: list[list[list[int]]], layout: str) -> None:
    padding = Padding(7, pad_to_multiple_of=4)
    labels = PackedCollator(padding, layout)(pack(rows))["labels"]  # type: ignore[arg-type]
    targets = PackedCollator(padding, layout, "targets")(pack(rows))["targets"]  # type: ignore[arg-type]
    assert targets.tolist() == [[*row[1:], -100] for row in labels.tolist()]


def test_a_data_set_of_packed_rows_is_whole_documents(
    gpt_pack: Path, gpt_stream: Path, cache_folder: Path
) -> None:
    """The pieces that cu_seq_lens bounds are the documents, cut where they are too long."""
    packed = DataSet(gpt_pack, cache_folder=cache_folder)
    collate = collator_for(packed, layout="flattened")
    batch = collate(packed.take(np.arange(len(packed))))
    ends = batch["cu_seq_lens_q"]
    pieces = [part.tolist() for part in np.split(batch["input_ids"][0], ends[1:-1])]
    stream = DataSet(gpt_stream, cache_folder=cache_folder)
    documents = [stream[number]["input_ids"].tolist() for number in range(len(stream))]
    expected = [piece for document in documents for piece in windows(document, 64, 0)]
    assert sorted(pieces) == sorted(expected)
    assert batch["max_length_q"] == max(map(len, pieces))


@pytest.mark.parametrize("batch_size", [1, 5])
def test_sliding_windows_are_the_articles(
    gpt_windows: Path, gpt_stream: Path, cache_folder: Path, batch_size: int
) -> None:
    """The batches hold the windows of each document, padded to the longest of a batch."""
    data_set = DataSet(gpt_windows, cache_folder=cache_folder)
    collate = collator_for(data_set)
    stream = DataSet(gpt_stream, cache_folder=cache_folder)
    documents = [stream[number]["input_ids"].tolist()[:-1] for number in range(len(stream))]
    expected = sorted(window for document in documents for window in windows(document, 48, 8))
    results = []
    for begin in range(0, len(data_set), batch_size):
        rows = data_set.take(np.arange(begin, min(begin + batch_size, len(data_set))))
        batch = collate(collate.prepare(rows))
        lengths = batch["attention_mask"].sum(axis=1)
        assert batch["input_ids"].shape == (len(rows), lengths.max())
        assert (batch["input_ids"][batch["attention_mask"] == 0] == 0).all()
        results += [
            row[:length].tolist() for row, length in zip(batch["input_ids"], lengths, strict=True)
        ]
    assert len(data_set) == len(expected)
    assert sorted(results) == expected
