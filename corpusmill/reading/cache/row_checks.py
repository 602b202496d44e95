"""What rows must be like, so that no kernel reads or writes beside its arrays because of them.

A shard whose digest is right holds what the manifest's writer wrote, whoever that was. Compiled
loops use places and lengths without looking, so that they are looked at once, when a shard is
unpacked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from corpusmill.reading.rows import Lists, Values

# Columns that have a value for each token, and for each prediction.
_OF_TOKENS, _OF_PREDICTIONS = ("token_type_ids", "seg_labels"), ("masked_lm_ids",)

# The smallest and largest value of columns that embeddings and losses are indexed by.
_RANGES = {
    "token_type_ids": (0, 1),
    "seg_labels": (-1, 1),
    "next_sentence_label": (0, 1),
    "sentence_order_label": (0, 1),
}


def check_rows(rows: Mapping[str, Values], vocab_size: int, longest: int) -> None:
    """Refuse rows that their columns' meanings do not allow.

    Args:
        rows: columns by name.
        vocab_size: token ids are below it.
        longest: tokens of the longest row that may be there.

    Raises:
        ValueError: a row is longer, columns have other lengths than those that they belong to, or
            a value is out of its range.

    Example:
        input_ids [[2, 9, 3]] with masked_lm_positions [[5]] are refused: the row has no place 5.
    """
    tokens = rows.get("input_ids")
    if not isinstance(tokens, Lists):
        raise ValueError("it has no lists of input_ids")
    if len(tokens.offsets) > 1 and int(tokens.lengths.max()) > longest:
        raise ValueError(f"a row is longer than the {longest} tokens that the longest one has")
    for name in _OF_TOKENS:
        _check_offsets(rows, name, "input_ids")
    for name in _OF_PREDICTIONS:
        _check_offsets(rows, name, "masked_lm_positions")
    for name in ("input_ids", "masked_lm_ids"):
        _check_range(rows, name, 0, vocab_size - 1)
    for name, bounds in _RANGES.items():
        _check_range(rows, name, *bounds)
    _check_positions(rows, tokens)
    _check_boundaries(rows, tokens)


def _check_offsets(rows: Mapping[str, Values], name: str, other: str) -> None:
    column, of = rows.get(name), rows.get(other)
    if column is None:
        return
    alike = isinstance(column, Lists) and isinstance(of, Lists)
    if not alike or not np.array_equal(column.offsets, of.offsets):  # type: ignore[union-attr]
        raise ValueError(f"rows of {name} are not as long as those of {other}")


def _check_range(rows: Mapping[str, Values], name: str, least: int, most: int) -> None:
    column = rows.get(name)
    if column is None:
        return
    values: np.ndarray[Any, Any] = column.values if isinstance(column, Lists) else column
    if len(values) and not least <= int(values.min()) <= int(values.max()) <= most:
        raise ValueError(f"{name} has a value that is not from {least} to {most}")


def _check_positions(rows: Mapping[str, Values], tokens: Lists) -> None:
    positions = rows.get("masked_lm_positions")
    if not isinstance(positions, Lists):
        return
    lengths = np.repeat(tokens.lengths, positions.lengths)
    if (positions.values < 0).any() or (positions.values >= lengths).any():
        raise ValueError("masked_lm_positions has a place that its row does not have")


def _check_boundaries(rows: Mapping[str, Values], tokens: Lists) -> None:
    marks = rows.get("cu_seqlens")
    if not isinstance(marks, Lists):
        return
    firsts, lasts = marks.offsets[:-1], marks.offsets[1:] - 1
    fine = bool((marks.lengths > 0).all())
    if fine:
        steps = np.diff(marks.values.astype(np.int64))
        # Between the last mark of a row and the first one of the next it may go down.
        steps[lasts[:-1]] = 0
        fine = bool((marks.values[firsts] == 0).all() and (steps >= 0).all())
        fine = fine and np.array_equal(marks.values[lasts], tokens.lengths)
    if not fine:
        raise ValueError("cu_seqlens does not lead from 0 to its row's length")
