"""Compiled loops that move rows: from shards into a batch, and from lists into a matrix."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def measure_rows(
    offsets: np.ndarray, rows: np.ndarray, places: np.ndarray, lengths: np.ndarray
) -> None:
    """Write the lengths of some rows of a shard.

    Args:
        offsets: int64[rows of the shard + 1].
        rows: int64[n], which rows.
        places: int64[n], where each length goes.
        lengths: int64[any], filled at `places`.
    """
    for i in range(len(rows)):
        lengths[places[i]] = offsets[rows[i] + 1] - offsets[rows[i]]


@njit(cache=True, nogil=True)
def gather_lists(
    values: np.ndarray,
    offsets: np.ndarray,
    rows: np.ndarray,
    places: np.ndarray,
    gathered: np.ndarray,
    gathered_offsets: np.ndarray,
) -> None:
    """Copy some rows of a shard to their places among gathered ones.

    Args:
        values: any[total], the shard's.
        offsets: int64[rows of the shard + 1].
        rows: int64[n], which rows.
        places: int64[n], the place of each among the gathered rows.
        gathered: any[total of the gathered rows], filled.
        gathered_offsets: int64[gathered rows + 1].
    """
    for i in range(len(rows)):
        begin, end = offsets[rows[i]], offsets[rows[i] + 1]
        to = gathered_offsets[places[i]]
        # Places in slices count from 0, so that no negative one is looked for at each value: four
        # times as fast.
        source, target = values[begin:end], gathered[to : to + end - begin]
        for j in range(len(source)):
            target[j] = source[j]


@njit(cache=True, nogil=True)
def pad_lists(values: np.ndarray, offsets: np.ndarray, pad: int, matrix: np.ndarray) -> None:
    """Write lists as the rows of a matrix, filled up at their ends.

    Args:
        values: integers[total].
        offsets: int64[rows + 1].
        pad: what fills a row up.
        matrix: integers[rows, width], filled; what is longer than its width is an error of the
            caller's.

    Example:
        values [7, 8, 9], offsets [0, 2, 3] and pad 0 fill a matrix of width 3 with
        [[7, 8, 0], [9, 0, 0]].
    """
    width = matrix.shape[1]
    for i in range(len(offsets) - 1):
        begin = offsets[i]
        length = offsets[i + 1] - begin
        for j in range(length):
            matrix[i, j] = values[begin + j]
        for j in range(length, width):
            matrix[i, j] = pad


@njit(cache=True, nogil=True)
def mark_lists(offsets: np.ndarray, matrix: np.ndarray) -> None:
    """Write an attention mask: 1 where a list reaches, 0 behind it.

    Args:
        offsets: int64[rows + 1].
        matrix: integers[rows, width], filled.

    Example:
        offsets [0, 2, 3] fill a matrix of width 3 with [[1, 1, 0], [1, 0, 0]].
    """
    width = matrix.shape[1]
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        for j in range(width):
            matrix[i, j] = 1 if j < length else 0


@njit(cache=True, nogil=True)
def scatter_labels(
    positions: np.ndarray,
    position_offsets: np.ndarray,
    labels: np.ndarray,
    label_offsets: np.ndarray,
    matrix: np.ndarray,
) -> None:
    """Write labels of predictions into a matrix, -100 elsewhere.

    Args:
        positions: integers[predictions], columns of the matrix.
        position_offsets: int64[rows + 1].
        labels: integers[predictions].
        label_offsets: int64[rows + 1], of the same lengths.
        matrix: int64[rows, width], filled.

    Example:
        positions [1], labels [42] of a single row fill a matrix of width 3 with [[-100, 42, -100]].
    """
    for i in range(len(position_offsets) - 1):
        for j in range(matrix.shape[1]):
            matrix[i, j] = -100
        begin = position_offsets[i]
        for j in range(position_offsets[i + 1] - begin):
            matrix[i, positions[begin + j]] = labels[label_offsets[i] + j]
