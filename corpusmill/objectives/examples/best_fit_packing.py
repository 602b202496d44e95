"""Best-fit packing: pieces of documents into rows of one length, so that nothing is cut that fits.

Source: Ding et al. 2024, "Fewer Truncations Improve Language Modeling" (arXiv 2404.10830),
algorithm 1: pieces in order of decreasing length, each into the row with the least sufficient room.
A row's room is an integer between 0 and the row length, so rows are grouped by their room, and a
tree over all rooms finds the smallest one that fits in O(log length), however many rows there are.
"""

from operator import index

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import check_integers

# The tree has a place for each number of tokens.
_MOST_TOKENS = 2**24


def order_by_length(lengths: np.ndarray, longest: int) -> np.ndarray:
    """Order pieces by decreasing length; pieces of equal length keep their order.

    Args:
        lengths: int64[pieces], each in [0, longest].
        longest: the upper bound of the lengths.

    Returns:
        int64[pieces].

    Raises:
        TypeError: the lengths are not a flat array of integers.
        ValueError: a length is out of range.

    Example:
        lengths [3, 5, 3] give [1, 0, 2].
    """
    check_integers(lengths=lengths)
    numbers = lengths.astype(np.int64, copy=False)
    if index(longest) > _MOST_TOKENS:
        longest = max(0, min(longest, int(numbers.max(initial=0))))
    if longest > _MOST_TOKENS:
        if numbers.min() < 0:
            raise ValueError("lengths must be from 0 to longest")
        return np.argsort(-numbers, kind="stable")
    order: np.ndarray = _order_by_length(numbers, longest)
    return order


@njit
def _order_by_length(lengths: np.ndarray, longest: int) -> np.ndarray:
    """Order pieces, as `order_by_length` describes."""
    starts = np.zeros(max(0, longest) + 2, np.int64)
    for length in lengths:
        if not 0 <= length <= longest:
            raise ValueError("lengths must be from 0 to longest")
        starts[longest - length + 1] += 1
    for i in range(longest + 1):
        starts[i + 1] += starts[i]
    order = np.empty(len(lengths), np.int64)
    for piece in range(len(lengths)):
        rank = longest - lengths[piece]
        order[starts[rank]] = piece
        starts[rank] += 1
    return order


@njit
def mark(tree: np.ndarray, room: int, present: bool) -> None:
    """Note whether a row has this room, up to the root; the children of node i are 2i, 2i + 1."""
    node = (len(tree) >> 1) + room
    tree[node] = present
    while node > 1:
        node >>= 1
        either = tree[2 * node] or tree[2 * node + 1]
        if tree[node] == either:
            return
        tree[node] = either


@njit
def find_room(tree: np.ndarray, least: int) -> int:
    """Return the smallest room of at least `least` that a row has, or -1."""
    leaves = len(tree) >> 1
    node = leaves + least
    if tree[node]:
        return least
    # Ascend until a subtree of larger rooms holds a row.
    while node > 1 and (node & 1 or not tree[node + 1]):
        node >>= 1
    if node <= 1:
        return -1
    node += 1
    while node < leaves:
        node = 2 * node if tree[2 * node] else 2 * node + 1
    return node - leaves


@njit
def assign_rows(lengths: np.ndarray, max_seq_length: int) -> tuple[np.ndarray, int]:
    """Assign pieces to rows by best-fit decreasing.

    Args:
        lengths: int64[pieces], each in [1, max_seq_length].
        max_seq_length: the most tokens of a row.

    Returns:
        rows: int64[pieces], the row of each piece. Rows are numbered in the order of their longest
            pieces, so that they reveal nothing about lengths unless the order of pieces does.
        num_rows: the number of rows.

    Example:
        lengths [2, 6, 3, 4, 1] and max_seq_length 8 give [0, 0, 1, 1, 1]: 2 + 6 and 3 + 4 + 1.
    """
    leaves = 1
    while leaves <= max_seq_length:
        leaves *= 2
    tree = np.zeros(2 * leaves, np.bool_)
    # Rows with the same room form a stack: `tops` holds its top, `below` the row under each row.
    tops, below = np.full(max_seq_length + 1, -1, np.int64), np.empty(len(lengths), np.int64)
    # A row is identified by its longest piece, which opened it.
    openers = np.empty(len(lengths), np.int64)
    for piece in _order_by_length(lengths, max_seq_length):
        room = find_room(tree, lengths[piece])
        opener = piece
        if room < 0:
            room = max_seq_length
        else:
            opener = tops[room]
            tops[room] = below[opener]
            if tops[room] < 0:
                mark(tree, room, False)
        openers[piece] = opener
        room -= lengths[piece]
        below[opener] = tops[room]
        if tops[room] < 0 and room > 0:
            mark(tree, room, True)
        tops[room] = opener
    rows, num_rows = np.empty(len(lengths), np.int64), 0
    for piece in range(len(lengths)):
        if openers[piece] == piece:
            below[piece] = num_rows
            num_rows += 1
    for piece in range(len(lengths)):
        rows[piece] = below[openers[piece]]
    return rows, num_rows


def pack_best_fit(lengths: np.ndarray, max_seq_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Pack pieces into rows.

    Args:
        lengths: int64[pieces], each in [1, max_seq_length].
        max_seq_length: the most tokens of a row, up to 2**24.

    Returns:
        pieces: int64[pieces], row after row; the pieces of a row keep their order.
        offsets: int64[rows + 1] into pieces.

    Raises:
        TypeError: the lengths are not a flat array of integers.
        ValueError: a length or `max_seq_length` is out of range.

    Example:
        lengths [2, 6, 3, 4, 1] and max_seq_length 8 give [0, 1, 2, 3, 4] and [0, 2, 5].
    """
    if not 1 <= max_seq_length <= _MOST_TOKENS:
        raise ValueError(f"max_seq_length must be from 1 to {_MOST_TOKENS}")
    check_integers(lengths=lengths)
    packed: tuple[np.ndarray, np.ndarray] = _pack_best_fit(
        lengths.astype(np.int64, copy=False), index(max_seq_length)
    )
    return packed


@njit
def _pack_best_fit(lengths: np.ndarray, max_seq_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Pack pieces, as `pack_best_fit` describes."""
    rows, num_rows = assign_rows(lengths, max_seq_length)
    offsets = np.zeros(num_rows + 1, np.int64)
    for row in rows:
        offsets[row + 1] += 1
    for row in range(num_rows):
        offsets[row + 1] += offsets[row]
    places, pieces = offsets[:-1].copy(), np.empty(len(lengths), np.int64)
    for piece in range(len(lengths)):
        pieces[places[rows[piece]]] = piece
        places[rows[piece]] += 1
    return pieces, offsets
