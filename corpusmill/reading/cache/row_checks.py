"""The checks without which a hostile row could make a kernel read or write outside its arrays.

A correct digest only shows that a shard is what the author of the manifest wrote, whoever that was.
Compiled loops trust positions and lengths, so these are checked once, when a shard is unpacked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corpusmill.arrays.columns import ANY_LENGTH, Column, Role, column_of
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
        ValueError: a column is not of its type, a row is too long, a column's lists are not as long
            as those they are aligned with, or a value is out of range.

    Example:
        input_ids [[2, 9, 3]] with masked_lm_positions [[5]] are refused: the row has no position 5.
    """
    for column in columns:
        _check_kind(rows[column.name], column)
    tokens = _lists(rows, columns[0].name)
    if len(tokens.offsets) > 1 and int(tokens.lengths.max()) > longest:
        raise ValueError(f"a row is longer than the {longest} tokens of the longest one")
    for column in columns:
        values = rows[column.name]
        if _count_rows(values) != len(tokens.offsets) - 1:
            raise ValueError(f"{column.name} has another number of rows")
        if column.role.aligned_with:
            _check_lengths(rows, column, column_of(columns, column.role.aligned_with))
        _check_range(values, column, vocab_size)
        if column.role is Role.POSITIONS:
            _check_positions(_lists(rows, column.name), column.name, tokens)
        if column.role is Role.BOUNDARIES:
            _check_boundaries(_lists(rows, column.name), column.name, tokens)


def _check_kind(values: Values, column: Column) -> None:
    """Refuse arrays of another type, and lists that are longer than others or than their values."""
    name = column.name
    if isinstance(values, Lists) != bool(column.width):
        raise ValueError(f"{name} does not have {'lists' if column.width else 'numbers'}")
    numbers = values.values if isinstance(values, Lists) else values
    if not isinstance(numbers, np.ndarray) or numbers.dtype != column.dtype or numbers.ndim != 1:
        raise ValueError(f"{name} does not have values of the type {column.dtype}")
    if isinstance(values, Lists):
        offsets = values.offsets
        if not len(offsets) or offsets[0] or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(f"{name} has offsets that do not ascend from 0")
        if offsets[-1] != len(numbers):
            raise ValueError(f"{name} has {len(numbers):,} values, its lists {offsets[-1]:,}")
        if column.width != ANY_LENGTH and values.lengths.max(initial=0) > column.width:
            raise ValueError(f"{name} has a list of more than {column.width:,} values")


def _count_rows(values: Values) -> int:
    return len(values.offsets) - 1 if isinstance(values, Lists) else len(values)


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
    if column.role in {Role.TOKEN_IDS, Role.PREDICTED_IDS, Role.TARGET_IDS}:
        largest = vocab_size - 1
    if largest is None:
        return
    numbers: np.ndarray[Any, Any] = values.values if isinstance(values, Lists) else values
    if len(numbers) and not column.smallest <= int(numbers.min()) <= int(numbers.max()) <= largest:
        bounds = f"{column.smallest} to {largest}"
        raise ValueError(f"{column.name} has a value that is not from {bounds}")


def _check_positions(positions: Lists, name: str, tokens: Lists) -> None:
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
