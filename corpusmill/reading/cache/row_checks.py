"""The checks without which a hostile row could make a kernel read or write outside its arrays.

A correct digest only shows that a shard is what the author of the manifest wrote, whoever that was.
Compiled loops trust positions and lengths, so these are checked once, when a shard is unpacked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.reading.rows import Lists, Values


def check_rows(
    rows: Mapping[str, Values], columns: Sequence[Column], vocab_size: int, longest: int
) -> None:
    """Refuse rows that contradict the roles of their columns.

    Args:
        rows: the columns by name.
        columns: their descriptions, the tokens first.
        vocab_size: the bound of token ids.
        longest: the most tokens of a row.

    Raises:
        ValueError: a row is too long, a column's lists are not as long as those they are aligned
            with, or a value is out of range.

    Example:
        input_ids [[2, 9, 3]] with masked_lm_positions [[5]] are refused: the row has no position 5.
    """
    tokens = _lists(rows, columns[0].name)
    if len(tokens.offsets) > 1 and int(tokens.lengths.max()) > longest:
        raise ValueError(f"a row is longer than the {longest} tokens of the longest one")
    for column in columns:
        values = rows.get(column.name)
        if values is None:
            continue
        if column.role.aligned_with:
            _check_lengths(rows, column, column_of(columns, column.role.aligned_with))
        _check_range(values, column, vocab_size)
        if column.role is Role.POSITIONS:
            _check_positions(_lists(rows, column.name), column.name, tokens)
        if column.role is Role.BOUNDARIES:
            _check_boundaries(_lists(rows, column.name), column.name, tokens)


def _lists(rows: Mapping[str, Values], name: str) -> Lists:
    lists = rows.get(name)
    if not isinstance(lists, Lists):
        raise ValueError(f"it has no lists of {name}")
    return lists


def _check_lengths(rows: Mapping[str, Values], column: Column, aligned: Column | None) -> None:
    name = aligned.name if aligned else str(column.role.aligned_with)
    values, others = rows[column.name], rows.get(name)
    if not (
        isinstance(values, Lists)
        and isinstance(others, Lists)
        and np.array_equal(values.offsets, others.offsets)
    ):
        raise ValueError(f"rows of {column.name} are not as long as those of {name}")


def _check_range(values: Values, column: Column, vocab_size: int) -> None:
    largest = column.largest
    if column.role in {Role.TOKEN_IDS, Role.PREDICTED_IDS}:
        largest = vocab_size - 1
    if largest is None:
        return
    numbers: np.ndarray[Any, Any] = values.values if isinstance(values, Lists) else values
    if len(numbers) and not column.smallest <= int(numbers.min()) <= int(numbers.max()) <= largest:
        bounds = f"{column.smallest} to {largest}"
        raise ValueError(f"{column.name} has a value that is not from {bounds}")


def _check_positions(positions: Lists, name: str, tokens: Lists) -> None:
    if len(positions.offsets) != len(tokens.offsets):
        raise ValueError(f"{name} has another number of rows")
    lengths = np.repeat(tokens.lengths, positions.lengths)
    if (positions.values < 0).any() or (positions.values >= lengths).any():
        raise ValueError(f"{name} has a place that its row does not have")


def _check_boundaries(boundaries: Lists, name: str, tokens: Lists) -> None:
    firsts, lasts = boundaries.offsets[:-1], boundaries.offsets[1:] - 1
    is_valid = bool((boundaries.lengths > 0).all())
    if is_valid:
        steps = np.diff(boundaries.values.astype(np.int64))
        # From the last boundary of a row to the first of the next, values may fall.
        steps[lasts[:-1]] = 0
        is_valid = bool((boundaries.values[firsts] == 0).all() and (steps >= 0).all())
        is_valid = is_valid and np.array_equal(boundaries.values[lasts], tokens.lengths)
    if not is_valid:
        raise ValueError(f"{name} does not lead from 0 to its row's length")
