"""Batches of packed rows for masked language models."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmill.objectives.columns import boundary_column, prediction_columns, token_column
from corpusmill.reading.collate.collators import Padding, collator_for
from corpusmill.reading.collate.masked_lm_collator import MaskedLmCollator
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.rows import Lists, Rows

COLUMNS = (
    token_column("int16", "tokens", 16, 0), boundary_column(16, 5),
    *prediction_columns("int16", 8, 16),
)  # fmt: skip
# [2, 5, 4, 3] and [2, 4, 3] with 6 and 7 masked; a row of one piece with 9 masked.
ROWS = {
    "input_ids": [[2, 5, 4, 3, 2, 4, 3], [2, 4, 8, 3]],
    "cu_seqlens": [[0, 4, 7], [0, 4]],
    "masked_lm_positions": [[2, 5], [1]],
    "masked_lm_ids": [[6, 7], [9]],
}


def rows_of(**changed: list[list[int]]) -> Rows:
    """Return rows whose lists do not begin at offset 0."""
    columns = {
        name: Lists(
            np.array([99, *(value for row in lists for value in row)], np.int16),
            np.cumsum([1, *map(len, lists)]),
        )
        for name, lists in (ROWS | changed).items()
    }
    return Rows(columns, np.arange(2), np.zeros(2, np.int64))


def collate(rows: Rows, layout: Any = "rows", **padding: Any) -> dict[str, Any]:
    batch = MaskedLmCollator(Padding(**padding), COLUMNS, layout=layout)(rows)
    assert {name: array.dtype.name for name, array in batch.items()} == {
        "input_ids": "int64", "position_ids": "int64", "labels": "int64", "cu_seq_lens_q": "int32",
        "cu_seq_lens_k": "int32", "seq_idx": "int32", "max_length_q": "int64",
        "max_length_k": "int64",
    }  # fmt: skip
    return {name: array.tolist() for name, array in batch.items()}


def test_padded_rows() -> None:
    batch = collate(rows_of(), pad_to_multiple_of=8)
    assert batch["input_ids"] == [[2, 5, 4, 3, 2, 4, 3, 0], [2, 4, 8, 3, 0, 0, 0, 0]]
    assert batch["position_ids"] == [[0, 1, 2, 3, 0, 1, 2, 0], [0, 1, 2, 3, 0, 1, 2, 3]]
    no = -100
    assert batch["labels"] == [[no, no, 6, no, no, 7, no, no], [no, 9, no, no, no, no, no, no]]
    assert batch["cu_seq_lens_q"] == batch["cu_seq_lens_k"] == [0, 4, 7, 8, 12, 16]
    assert batch["max_length_q"] == batch["max_length_k"] == 4


def test_flattened_rows() -> None:
    batch = collate(rows_of(), "flattened")
    assert batch["input_ids"] == [[2, 5, 4, 3, 2, 4, 3, 2, 4, 8, 3]]
    assert batch["position_ids"] == [[0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3]]
    no = -100
    assert batch["labels"] == [[no, no, 6, no, no, 7, no, no, 9, no, no]]
    assert batch["cu_seq_lens_q"] == [0, 4, 7, 11]


@pytest.mark.parametrize(
    "damaged",
    [
        {"cu_seqlens": [[0, 4, 6], [0, 4]]},
        {"masked_lm_ids": [[6], [9, 9]]},
        {"masked_lm_positions": [[2, 5], [12]]},
    ],
)
def test_damaged_rows_are_refused(damaged: dict[str, Any]) -> None:
    for layout in ("rows", "flattened"):
        with pytest.raises(ValueError, match="must"):
            collate(rows_of(**damaged), layout)


def test_masks_are_drawn_in_each_epoch(bert_packed: Path, cache_folder: Path) -> None:
    data_set = DataSet(bert_packed, cache_folder=cache_folder)
    plain = data_set.take(np.arange(9))
    both = [collator_for(data_set, layout=layout) for layout in ("rows", "flattened")]
    rows, flattened = (collator(collator.prepare(plain)) for collator in both)
    is_text = np.isin(rows["input_ids"], [0, 2, 3], invert=True)
    is_predicted = rows["labels"] != -100
    assert not (is_predicted & ~is_text & (rows["input_ids"] != 4)).any()
    lengths = plain.lists("input_ids").lengths
    texts = lengths - 2 * (plain.lists("cu_seqlens").lengths - 1)
    assert is_predicted.sum(1).tolist() == np.rint(texts * 0.3).tolist()
    # Both layouts have the same masks, and another epoch others.
    for name in ("input_ids", "labels", "position_ids"):
        same = [row[:length] for row, length in zip(rows[name], lengths, strict=True)]
        assert flattened[name][0].tolist() == np.concatenate(same).tolist()
    later = Rows(plain.columns, plain.samples, plain.epochs + 1)
    assert both[0](both[0].prepare(later))["labels"].tolist() != rows["labels"].tolist()
    # The original ids are the stored ones.
    original = np.where(flattened["labels"] == -100, flattened["input_ids"], flattened["labels"])
    stored = plain.lists("input_ids")
    assert original[0].tolist() == stored.values[stored.offsets[0] : stored.offsets[-1]].tolist()
    for begin, end in pairwise(flattened["cu_seq_lens_q"].tolist()):
        assert original[0, [begin, end - 1]].tolist() == [2, 3]
    assert "labels" not in collator_for(data_set, mask=False)(plain)
