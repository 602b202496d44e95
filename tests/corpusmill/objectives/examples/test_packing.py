"""Rows filled by best fit, as the algorithm written with lists does, and by close fit."""

from itertools import combinations, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.objectives.examples.packing import (
    assign_rows,
    mark_pieces,
    order_by_length,
    pack_best_fit,
    pack_close_fit,
    pack_pieces,
    pack_stream,
    packed_tokens,
)
from corpusmill.objectives.examples.windows import cut_windows
from tests.corpusmill.objectives import reference_gpt
from tests.tools.knobs import knobs

LONGEST = 24

pieces_of_lengths = st.lists(st.integers(1, LONGEST), max_size=80)


def pack(lengths: list[int], max_seq_length: int) -> list[list[int]]:
    pieces, offsets = pack_best_fit(np.array(lengths, np.int64), max_seq_length)
    return [row.tolist() for row in np.split(pieces, offsets[1:-1])] if lengths else []


@given(pieces_of_lengths)
def test_pieces_are_ordered_by_length(lengths: list[int]) -> None:
    order = order_by_length(np.array(lengths, np.int64), LONGEST).tolist()
    assert order == sorted(range(len(lengths)), key=lambda piece: -lengths[piece])


@given(pieces_of_lengths, st.integers(LONGEST, 3 * LONGEST))
def test_rows_are_those_of_best_fit(lengths: list[int], most: int) -> None:
    """The order of rows reveals nothing about lengths unless the order of pieces does."""
    rows = pack(lengths, most)
    used = sorted(sum(lengths[piece] for piece in row) for row in rows)
    assert used == reference_gpt.best_fit(lengths, most)
    assert sorted(piece for row in rows for piece in row) == list(range(len(lengths)))
    assert all(row == sorted(row) and row for row in rows)
    opened = [max(row, key=lambda piece: (lengths[piece], -piece)) for row in rows]
    assert opened == sorted(opened)


@pytest.mark.parametrize(
    ("lengths", "most", "rows"),
    [
        ([], 8, []),
        ([8], 8, [[0]]),
        ([2, 6, 3, 4, 1], 8, [[0, 1], [2, 3, 4]]),
        ([8, 8, 1], 8, [[0], [1], [2]]),
        # The piece goes to the fullest row with room: 3 to the 5, not to the 4.
        ([4, 5, 3], 8, [[0], [1, 2]]),
    ],
)
def test_small_packs(lengths: list[int], most: int, rows: list[list[int]]) -> None:
    assert pack(lengths, most) == rows


def test_of_rows_that_are_equally_full_the_last_one_takes_a_piece() -> None:
    rows, number = assign_rows(np.array([5, 3, 3, 5, 2], np.int64), 8)
    assert (rows.tolist(), number) == ([0, 1, 0, 1, 2], 3)


def test_the_longest_rows() -> None:
    pieces, offsets = pack_best_fit(np.array([2**20 - 1, 2, 1]), 2**20)
    assert pieces.tolist() == [0, 2, 1]
    assert offsets.tolist() == [0, 2, 3]


documents_of_lengths = st.lists(st.integers(0, 3 * LONGEST), max_size=40)


def read_packs(lengths: list[int], most: int, tokens: int) -> list[list[range]]:
    """Return the places in the stream of each row's pieces."""
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    begins, row_offsets = pack_stream(offsets, most, tokens)
    ends = [
        min(begin + most, next(end for end in offsets.tolist() if end > begin))
        for begin in begins.tolist()
    ]
    pieces = [range(*bounds) for bounds in zip(begins.tolist(), ends, strict=True)]
    return [pieces[first:end] for first, end in pairwise(row_offsets)]


@given(documents_of_lengths, st.integers(2, 2 * LONGEST), st.integers(2, 9 * LONGEST))
def test_the_packs_of_a_stream_are_the_rows_that_are_built_of_its_documents(
    lengths: list[int], most: int, tokens: int
) -> None:
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    # Each token is its place in the stream.
    places, piece_offsets, _, _ = cut_windows(np.arange(offsets[-1]), offsets, most)
    pieces = pa.record_batch(
        {
            "input_ids": ragged.to_arrow(places, piece_offsets),
            "cu_seqlens": mark_pieces(piece_offsets),
        }
    )
    with knobs(packed_tokens=tokens, most_packed_tokens=tokens):
        assert packed_tokens(most) == tokens
        built = [row for rows in pack_pieces([pieces], most) for row in rows.to_pylist()]
    packed = read_packs(lengths, most, tokens)
    assert [[place for piece in row for place in piece] for row in packed] == [
        row["input_ids"] for row in built
    ]
    assert [np.cumsum([0, *map(len, row)]).tolist() for row in packed] == [
        row["cu_seqlens"] for row in built
    ]


@pytest.mark.parametrize(
    ("most", "expected"),
    # 256 rows are packed at a time: as many tokens as the first number, or up to the second one.
    [(2, 1000), (3, 1000), (4, 1024), (7, 1792), (8, 2000), (10**6, 2000)],
)
def test_how_much_is_packed_at_a_time(most: int, expected: int) -> None:
    with knobs(packed_tokens=1000, most_packed_tokens=2000):
        assert packed_tokens(most) == expected


Rows = list[list[int]]


def pack_closely(lengths: list[int], max_seq_length: int, rest: int = 0) -> Rows:
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
    assert pack_closely(lengths, max_seq_length, rest) == rows


lists_of_lengths = st.lists(st.integers(1, 40), max_size=60)


@given(lists_of_lengths, st.integers(0, 600))
def test_a_piece_is_in_one_row_or_left(lengths: list[int], rest: int) -> None:
    rows = pack_closely(lengths, 40, rest)
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
    [row] = pack_closely(lengths, 100, sum(lengths) - 1)
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
