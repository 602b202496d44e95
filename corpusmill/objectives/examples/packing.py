"""Rows filled with whole pieces of text, by best fit or by close fit.

Close-fit packing: Gupta and Ho 1999, "A new heuristic algorithm for the one-dimensional
bin-packing problem" (minimum bin slack), with the two changes of Fleszar and Hindi 2002, "New
heuristics for one-dimensional bin-packing": the longest piece begins a row, and a small gap is good
enough.

A row takes the longest piece, then the one piece that fits best if it leaves a small gap, and only
otherwise the pieces whose sum comes closest, found as a subset sum. Few short pieces are used up in
this way, so that they last until the end. Best-fit packing needs less time, but leaves gaps where a
row holds two or three pieces only: 0.7 % of rows of 8192 tokens on WikiText-2's articles.

Best-fit packing, which cuts nothing that fits: Ding et al. 2024, "Fewer Truncations Improve
Language Modeling" (arXiv 2404.10830), algorithm 1: pieces in order of decreasing length, each into
the row with the least sufficient room. A row's room is an integer between 0 and the row length, so
rows are grouped by their room, and a tree over all rooms finds the smallest one that fits in
O(log length), however many rows there are.

Pieces are built as rows of their own, and a part of a shard's sorted rows is packed at a time, so
that memory is bounded. A packed row says where its pieces begin, so that models can keep attention
and positions inside a piece.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import cut_rows
from corpusmill.knobs import knob
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.objectives.columns import SPANS
from corpusmill.objectives.examples.row_spans import join_lists


@njit
def order_by_length(lengths: np.ndarray, longest: int) -> np.ndarray:
    """Order pieces by decreasing length; pieces of equal length keep their order.

    Args:
        lengths: int64[pieces], each in [0, longest].
        longest: the upper bound of the lengths.

    Returns:
        int64[pieces].

    Example:
        lengths [3, 5, 3] give [1, 0, 2].
    """
    starts = np.zeros(longest + 2, np.int64)
    for length in lengths:
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
    for piece in order_by_length(lengths, max_seq_length):
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


@njit
def pack_best_fit(lengths: np.ndarray, max_seq_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Pack pieces into rows.

    Args:
        lengths: int64[pieces], each in [1, max_seq_length].
        max_seq_length: the most tokens of a row.

    Returns:
        pieces: int64[pieces], row after row; the pieces of a row keep their order.
        offsets: int64[rows + 1] into pieces.

    Example:
        lengths [2, 6, 3, 4, 1] and max_seq_length 8 give [0, 1, 2, 3, 4] and [0, 2, 5].
    """
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


# A gap of this share of a row is small.
_SMALL_GAP = 512

# Pieces of which several fit are taken one by one, until a subset sum has few terms.
_FEW = 4

# The most pieces among which a subset is searched; far fewer suffice.
_MOST_CANDIDATES = 512


def pack_close_fit(
    lengths: np.ndarray, max_seq_length: int, rest: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Pack pieces into rows, until few are left.

    Args:
        lengths: int64[pieces], each in [1, max_seq_length].
        max_seq_length: the most tokens of a row.
        rest: no row is begun when at most this number of tokens is left.

    Returns:
        pieces: int64[packed pieces], row after row; the pieces of a row keep their order. Rows are
            in the order of their longest pieces, so that they reveal nothing about lengths unless
            the order of pieces does.
        offsets: int64[rows + 1] into pieces.

    Example:
        lengths [6, 5, 3, 2, 2] and max_seq_length 8 give [0, 3, 1, 2, 4] and [0, 2, 4, 5]; with
        rest 4, the last row is not begun.
    """
    rows, openers = _fill_rows(lengths, max_seq_length, rest)
    # Rows are renumbered by the places of the pieces that begin them.
    numbers = np.empty(len(openers) + 1, np.int64)
    numbers[np.argsort(openers)] = np.arange(len(openers))
    numbers[-1] = len(openers)  # of the pieces that are left, whose row is -1
    pieces = np.argsort(numbers[rows], kind="stable")[: np.count_nonzero(rows >= 0)]
    counts = np.bincount(numbers[rows[pieces]], minlength=len(openers))
    return pieces, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@njit
def _take(stacks: tuple[np.ndarray, np.ndarray, np.ndarray], length: int) -> int:
    """Take the first piece of a length from the stock."""
    tree, tops, below = stacks
    piece: int = tops[length]
    tops[length] = below[piece]
    if tops[length] < 0:
        mark(tree, len(tops) - 1 - length, False)
    return piece


@njit
def _choose_lengths(
    stacks: tuple[np.ndarray, np.ndarray, np.ndarray], room: int, reached: np.ndarray
) -> np.ndarray:
    """Choose pieces of the stock whose sum is as close to a room as possible, the longer first.

    Args:
        stacks: the stock.
        room: the most tokens.
        reached: int64[room + 1 or more], changed.

    Returns:
        int64[chosen], their lengths.
    """
    tree, tops, below = stacks
    longest = len(tops) - 1
    candidates = np.empty(_MOST_CANDIDATES, np.int64)
    # The candidate that first gave each sum, with candidates before it.
    reached[: room + 1] = -1
    reached[0] = highest = number = 0
    place = find_room(tree, longest - room)
    while place >= 0 and number < _MOST_CANDIDATES and reached[room] < 0:
        length = longest - place
        piece, copies = tops[length], room // length
        while piece >= 0 and copies and number < _MOST_CANDIDATES and reached[room] < 0:
            candidates[number] = length
            for total in range(min(room, highest + length), length - 1, -1):
                if reached[total] < 0 and reached[total - length] >= 0:
                    reached[total] = number
                    highest = max(highest, total)
            number += 1
            piece, copies = below[piece], copies - 1
        place = find_room(tree, place + 1)
    lengths, chosen = np.empty(number, np.int64), 0
    while highest:
        lengths[chosen] = candidates[reached[highest]]
        highest -= lengths[chosen]
        chosen += 1
    return lengths[:chosen]


@njit
def _fill_rows(
    lengths: np.ndarray, max_seq_length: int, rest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fill rows, as `pack_close_fit` describes.

    Returns:
        rows: int64[pieces], the row of each piece, in the order in which rows are filled; -1 for
            those that are left.
        openers: int64[rows], the piece that begins each row.
    """
    leaves = 1
    while leaves <= max_seq_length:
        leaves *= 2
    # The stock: for each length a stack of pieces, and a tree that finds the longest piece that
    # fits; there a length has the place of the room that it leaves.
    tree = np.zeros(2 * leaves, np.bool_)
    tops, below = np.full(max_seq_length + 1, -1, np.int64), np.empty(len(lengths), np.int64)
    for piece in range(len(lengths) - 1, -1, -1):
        below[piece] = tops[lengths[piece]]
        if below[piece] < 0:
            mark(tree, max_seq_length - lengths[piece], True)
        tops[lengths[piece]] = piece
    stacks = (tree, tops, below)
    rows, openers = np.full(len(lengths), -1, np.int64), np.empty(len(lengths), np.int64)
    reached = np.empty(max_seq_length + 1, np.int64)
    tokens, row, small_gap = lengths.sum(), 0, max_seq_length // _SMALL_GAP
    while tokens > rest:
        length = max_seq_length - find_room(tree, 0)
        openers[row] = _take(stacks, length)
        rows[openers[row]] = row
        room = max_seq_length - length
        place = find_room(tree, max_seq_length - room)
        while place >= 0:
            length = max_seq_length - place
            if room - length <= small_gap or length * _FEW <= room:
                rows[_take(stacks, length)] = row
                room -= length
            else:
                for chosen in _choose_lengths(stacks, room, reached):
                    rows[_take(stacks, chosen)] = row
                    room -= chosen
                break
            place = find_room(tree, max_seq_length - room)
        tokens -= max_seq_length - room
        row += 1
    return rows, openers[:row]


# How much is packed at a time: on WikiText-2, with 512 to 8192 tokens per row, four times as much
# saves at most 0.2 per mille of padding, and a quarter costs up to 0.6 % (rows of 8192 tokens).
_PACKED_ROWS = 256

# The most pieces in memory for close fit: on WikiText-2's articles, repeated to 98 MB, rows of 8192
# tokens have 0.09 % of padding with 2**24 tokens, and 0.13 % with 2**22.
_STOCKED_ROWS = 2048


def mark_pieces(offsets: np.ndarray) -> pa.ListArray:
    """Return the boundaries of rows that are one piece each, which begins at 0.

    Args:
        offsets: integers[rows + 1] into the rows' tokens.

    Example:
        offsets [0, 2, 5] give [[0, 2], [0, 3]].
    """
    return ragged.to_arrow(*cumulate(np.diff(offsets), np.arange(len(offsets))))


PACKED_TOKENS = knob("packed_tokens", 2**22)
"""The tokens of pieces, 2 or more, that are packed at a time, where rows are short."""
MOST_PACKED_TOKENS = knob("most_packed_tokens", 2**25)
"""The most tokens of pieces that are packed at a time by best fit, where rows are long."""
MOST_STOCKED_TOKENS = knob("most_stocked_tokens", 2**24)
"""The most tokens of pieces from which close fit takes, where rows are long."""


def pack_pieces(rows: Iterable[pa.RecordBatch], max_seq_length: int) -> Iterator[pa.RecordBatch]:
    """Pack pieces into rows by best fit; rows do not depend on how pieces are batched.

    Args:
        rows: pieces in their final order, each at most `max_seq_length` tokens, with the columns
            `input_ids` and `cu_seqlens` (`mark_pieces`), and any others.
        max_seq_length: the longest row.

    Yields:
        Rows of the same columns. A row has the tokens of its pieces in their order, their
        boundaries, their spans if there is the column SPANS, all other lists as those of its
        tokens, and everything else of its first piece.
    """
    tokens = packed_tokens(max_seq_length)
    for window in cut_into_groups(rows, "input_ids", tokens, tokens):
        yield _combine(window, *pack_best_fit(_lengths_of(window), max_seq_length))


def packed_tokens(max_seq_length: int) -> int:
    """Return how many tokens of pieces are packed at a time by best fit."""
    return max(PACKED_TOKENS, min(_PACKED_ROWS * max_seq_length, MOST_PACKED_TOKENS))


def pack_stream(
    offsets: np.ndarray, max_seq_length: int, tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pack the documents of a stream as `pack_pieces` does, without looking at their tokens.

    Args:
        offsets: int64[documents + 1] into the stream.
        max_seq_length: the longest row. Longer documents are cut into pieces of this length, of
            which the last may be shorter.
        tokens: how many are packed at a time (`packed_tokens`).

    Returns:
        begins: int64[pieces], where the pieces begin in the stream, row after row; a piece ends
            with its document, or after `max_seq_length` tokens.
        row_offsets: int64[rows + 1] into begins.

    Example:
        offsets [0, 3, 5, 7], max_seq_length 5 and many tokens give [0, 3, 5] and [0, 2, 3].
    """
    bounds = cut_rows(offsets, max_seq_length)
    begins, row_offsets, begin = [bounds[:0]], [np.zeros(1, np.int64)], 0
    while begin < len(bounds) - 1:
        # As `cut_into_groups` does: the piece that makes it reach the number is still in a group.
        end = int(np.searchsorted(bounds, bounds[begin] + tokens))
        group = bounds[begin : end + 1]
        pieces, places = pack_best_fit(np.diff(group), max_seq_length)
        begins.append(group[pieces])
        row_offsets.append(begin + places[1:])
        begin = end
    return np.concatenate(begins), np.concatenate(row_offsets)


def pack_pieces_closely(
    rows: Iterable[pa.RecordBatch], max_seq_length: int
) -> Iterator[pa.RecordBatch]:
    """Pack pieces into rows by close fit; for all else see `pack_pieces`.

    Half of the pieces in memory are left for later, so that there is always a piece that fits.
    """
    tokens = max(PACKED_TOKENS, min(_STOCKED_ROWS * max_seq_length, MOST_STOCKED_TOKENS)) // 2
    stock: pa.RecordBatch | None = None
    for added in cut_into_groups(rows, "input_ids", tokens, tokens):
        stock = added if stock is None else pa.concat_batches([stock, added])
        pieces, row_offsets = pack_close_fit(_lengths_of(stock), max_seq_length, tokens)
        if len(pieces):
            yield _combine(stock, pieces, row_offsets)
            stock = ragged.take_rows(stock, np.delete(np.arange(stock.num_rows), pieces))
    if stock is not None and stock.num_rows:
        yield _combine(stock, *pack_close_fit(_lengths_of(stock), max_seq_length))


def _lengths_of(rows: pa.RecordBatch) -> np.ndarray:
    lengths: np.ndarray = np.diff(ragged.from_arrow(rows.column("input_ids"))[1]).astype(np.int64)
    return lengths


def _combine(rows: pa.RecordBatch, pieces: np.ndarray, row_offsets: np.ndarray) -> pa.RecordBatch:
    """Combine pieces, int64[pieces], into rows, which begin at `row_offsets` among them."""
    token_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    token_ids, offsets = ragged.take(token_ids, offsets, pieces)
    columns: dict[str, pa.Array] = {
        "input_ids": ragged.to_arrow(token_ids, offsets[row_offsets]),
        "cu_seqlens": ragged.to_arrow(*cumulate(np.diff(offsets).astype(np.int64), row_offsets)),
    }
    if SPANS.name in rows.schema.names:
        columns[SPANS.name] = join_lists(rows.column(SPANS.name), pieces, row_offsets)
    for field in rows.schema:
        if pa.types.is_list(field.type) and field.name not in columns:
            values, ends = ragged.take(*ragged.from_arrow(rows.column(field.name)), pieces)
            columns[field.name] = ragged.to_arrow(values, ends[row_offsets])
    others = rows.select([name for name in rows.schema.names if name not in columns])
    firsts = ragged.take_rows(others, pieces[row_offsets[:-1]])
    columns |= dict(zip(firsts.schema.names, firsts.columns, strict=True))
    return ragged.to_batch([columns[name] for name in rows.schema.names], rows.schema)


def cumulate(lengths: np.ndarray, row_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the pieces of each row begin, and where the last one ends.

    Args:
        lengths: int64[pieces], the tokens of each piece, row after row.
        row_offsets: int64[rows + 1] into the pieces.

    Returns:
        marks: int64[pieces + rows]: for each row, [0, ..., the row's length].
        offsets: int64[rows + 1] into marks.

    Example:
        lengths [2, 6, 3], row_offsets [0, 2, 3] give [0, 2, 8, 0, 3] and [0, 3, 5].
    """
    sums = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(len(row_offsets) - 1), np.diff(row_offsets) + 1)
    # The last mark of a row and the first one of the next row are the same sum.
    marks = sums[np.arange(len(rows)) - rows] - sums[row_offsets[rows]]
    return marks, row_offsets + np.arange(len(row_offsets))
