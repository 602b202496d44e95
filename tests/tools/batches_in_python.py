"""Collators in plain Python, with which tests compare the compiled ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from corpusmill.reading.rows import Batch, Lists, Rows

Row = Sequence[int]

tokens = st.lists(st.integers(1, 300), min_size=1, max_size=9)
pieces_of_rows = st.lists(st.lists(tokens, min_size=1, max_size=5), min_size=1, max_size=5)


def lists_of(rows: Sequence[Row], dtype: str = "int16") -> Lists:
    """Return rows as a column."""
    values = np.array([value for row in rows for value in row], dtype)
    return Lists(values, np.cumsum([0, *map(len, rows)], dtype=np.int64))


def rows_of(**columns: Sequence[Any]) -> Rows:
    """Return rows from columns of lists or numbers."""
    number = len(next(iter(columns.values())))
    arrays = {
        name: lists_of(column) if isinstance(column[0], Sequence) else np.array(column, np.int8)
        for name, column in columns.items()
    }
    return Rows(arrays, np.arange(number), np.zeros(number, np.int64))


def pack(rows: Sequence[Sequence[Row]]) -> Rows:
    """Return rows of pieces as `gpt --mode pack` stores them."""
    return rows_of(
        input_ids=[[token for piece in pieces for token in piece] for pieces in rows],
        cu_seqlens=[np.cumsum([0, *map(len, pieces)]).tolist() for pieces in rows],
    )


def lists_in(batch: Batch) -> dict[str, Any]:
    """Return the arrays of a batch as nested lists."""
    return {name: array.tolist() for name, array in batch.items()}


def pad(row: Row, width: int, fill: int) -> list[int]:
    return [*row, *[fill] * (width - len(row))]


def mark(row: Row, width: int) -> list[int]:
    return pad([1] * len(row), width, 0)


def label(positions: Row, originals: Row, width: int) -> list[int]:
    labels = [-100] * width
    for place, token in zip(positions, originals, strict=True):
        labels[place] = token
    return labels


def masked_batch(examples: Sequence[dict[str, Any]], width: int, pad_id: int) -> dict[str, Any]:
    """Return the batch of masked examples, as nested lists."""
    lists = [
        {name: np.asarray(value).tolist() for name, value in example.items()}
        for example in examples
    ]
    batch: dict[str, Any] = {
        "input_ids": [pad(row["input_ids"], width, pad_id) for row in lists],
        "attention_mask": [mark(row["input_ids"], width) for row in lists],
        "token_type_ids": [pad(row["token_type_ids"], width, 0) for row in lists],
        "labels": [label(row["masked_lm_positions"], row["masked_lm_ids"], width) for row in lists],
    }
    if "next_sentence_label" in lists[0]:
        batch["next_sentence_label"] = [row["next_sentence_label"] for row in lists]
    return batch


def packed_batch(
    rows: Sequence[Sequence[Row]], width: int | None, pad_id: int, multiple: int = 1
) -> dict[str, Any]:
    """Return the batch of packed rows; width None puts all into one row, padded to a multiple."""
    layout = [[list(piece) for piece in pieces] for pieces in rows]
    filled = [sum(map(len, pieces)) for pieces in layout]
    if width is None:
        layout, filled = [[piece for pieces in layout for piece in pieces]], [sum(filled)]
        width = -(-filled[0] // multiple) * multiple
    input_ids, labels, position_ids, seq_idx, ends, longest = [], [], [], [], [0], 0
    for pieces, used in zip(layout, filled, strict=True):
        fill = [pad_id] * (width - used)
        input_ids.append([token for piece in [*pieces, fill] for token in piece])
        labels.append([token for piece in pieces for token in [-100, *piece[1:]]])
        labels[-1] += [-100] * len(fill)
        position_ids.append([place for piece in [*pieces, fill] for place in range(len(piece))])
        numbers = enumerate([*pieces, fill])
        seq_idx.append([number for number, piece in numbers for _ in piece])
        for piece in [*pieces, fill] if fill else pieces:
            ends.append(ends[-1] + len(piece))
            longest = max(longest, len(piece))
    return {
        "input_ids": input_ids,
        "labels": labels,
        "position_ids": position_ids,
        "seq_idx": seq_idx,
        "cu_seq_lens_q": ends,
        "cu_seq_lens_k": ends,
        "max_length_q": longest,
        "max_length_k": longest,
    }
