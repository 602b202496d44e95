"""Rows filled one after another, almost without a gap."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.examples.packing import pack_best_fit, pack_close_fit

Rows = list[list[int]]


def pack(lengths: list[int], max_seq_length: int, rest: int = 0) -> Rows:
    """Return the pieces of each row."""
    pieces, offsets = pack_close_fit(np.array(lengths, np.int64), max_seq_length, rest)
    return [row.tolist() for row in np.split(pieces, offsets[1:-1])] if len(offsets) > 1 else []


@pytest.mark.parametrize(
    ("lengths", "max_seq_length", "rest", "rows"),
    [
        ([], 8, 0, []),
        ([8], 8, 0, [[0]]),
        ([6, 5, 3, 2, 2], 8, 0, [[0, 3], [1, 2], [4]]),
        ([6, 5, 3, 2, 2], 8, 4, [[0, 3], [1, 2]]),
        ([6, 5, 3, 2, 2], 8, 18, []),
        # 7 leaves a gap of 3 at best by one piece, and none by 2 and 1.
        ([7, 2, 1, 5, 5], 10, 0, [[0, 1, 2], [3, 4]]),
        # A gap of one token in 512 is small, so that 1 is kept.
        ([400, 111, 1], 512, 0, [[0, 1, 2]]),
        ([400, 300, 212, 111, 1], 512, 0, [[0, 3, 4], [1, 2]]),
        # Rows have the order of their longest pieces, and pieces that of the shard.
        ([1, 3, 2, 4], 4, 0, [[0, 1], [2], [3]]),
    ],
)
def test_rows(lengths: list[int], max_seq_length: int, rest: int, rows: Rows) -> None:
    assert pack(lengths, max_seq_length, rest) == rows


lists_of_lengths = st.lists(st.integers(1, 40), max_size=60)


@given(lists_of_lengths, st.integers(0, 600))
def test_a_piece_is_in_one_row_or_left(lengths: list[int], rest: int) -> None:
    rows = pack(lengths, 40, rest)
    packed = [piece for row in rows for piece in row]
    assert len(set(packed)) == len(packed)
    assert all(row == sorted(row) for row in rows)
    totals = [sum(lengths[piece] for piece in row) for row in rows]
    assert max(totals, default=0) <= 40
    left = sum(lengths) - sum(totals)
    # The last row that was begun reached the rest.
    assert left <= rest if rows else left == sum(lengths)
    assert not rest or not rows or left + max(totals) > rest
    openers = [max(row, key=lambda piece: (lengths[piece], -piece)) for row in rows]
    assert openers == sorted(openers)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=9))
def test_the_first_row_is_as_full_as_it_can_be(lengths: list[int]) -> None:
    """It begins with the longest piece; a row below 512 tokens has no small gap but none."""
    [row] = pack(lengths, 100, sum(lengths) - 1)
    longest = lengths.index(max(lengths))
    others = [length for piece, length in enumerate(lengths) if piece != longest]
    sums = {sum(chosen) for size in range(len(others) + 1) for chosen in combinations(others, size)}
    best = max(total for total in sums if total + lengths[longest] <= 100)
    room, total = 100 - lengths[longest], sum(lengths[piece] for piece in row) - lengths[longest]
    assert longest in row
    # Of many short pieces, some are taken before the sum is searched.
    if not any(length * 4 <= room for length in others):
        assert total == best
    assert total <= best


def test_rows_of_few_pieces_are_fuller_than_by_best_fit() -> None:
    lengths = np.random.default_rng(1).integers(500, 5000, 2000)
    close, best = (len(packed(lengths, 8192)[1]) - 1 for packed in (pack_close_fit, pack_best_fit))
    least = -(-int(lengths.sum()) // 8192)
    assert least <= close <= least * 1.002
    assert best > least * 1.005


def test_long_rows_of_short_pieces_are_full() -> None:
    lengths = np.random.default_rng(1).integers(3, 40, 20_000)
    pieces, offsets = pack_close_fit(lengths, 65535)
    assert sorted(pieces.tolist()) == list(range(20_000))
    totals = np.sort(np.add.reduceat(lengths[pieces], offsets[:-1]))
    assert totals[1:].min() >= 65535 - 128


@pytest.mark.parametrize("lengths", [[0], [9], [-1]])
def test_lengths_out_of_range_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="lengths must be from 1 to max_seq_length"):
        pack_close_fit(np.array(lengths), 8)
    with pytest.raises(TypeError, match="lengths"):
        pack_close_fit(np.array([1.5]), 8)
