"""The kernels that spans are made with."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.examples.fill_in_the_middle import (
    PLAIN,
    PSM,
    SPM,
    locate_parts,
    rearrange,
)
from corpusmill.objectives.examples.row_spans import (
    cut_lists,
    cut_spans,
    join_lists,
    join_spans,
    locate_stretches,
    single_spans,
    span_lists,
    spans_of,
)
from corpusmill.objectives.examples.sentence_pairs import locate_segments
from corpusmill.objectives.examples.windows import cut_windows, locate_windows
from corpusmill.objectives.tokenized_documents import Documents
from tests.tools.builders import offsets_of

BIG = 2**64 - 1
LISTS = pa.array([[7, 4, 2], [9, 0, 1], []], pa.list_(pa.uint64()))


def spans(*rows: tuple[int, int, int]) -> np.ndarray:
    return np.array(rows, np.uint64).reshape(-1, 3)


@pytest.mark.parametrize(
    ("parts", "offsets", "expected"),
    [
        ([(7, 4, 2), (7, 6, 1), (9, 0, 1)], [0, 2, 3], [[7, 4, 3], [9, 0, 1]]),
        ([(BIG, 0, 1), (BIG, 1, 2), (BIG, 3, 1)], [0, 3], [[BIG, 0, 4]]),
        # Not across rows, not of other documents, not backwards.
        ([(7, 0, 1), (7, 1, 1)], [0, 1, 2], [[7, 0, 1], [7, 1, 1]]),
        ([(7, 0, 1), (8, 1, 1)], [0, 2], [[7, 0, 1, 8, 1, 1]]),
        ([(7, 1, 1), (7, 0, 1)], [0, 2], [[7, 1, 1, 7, 0, 1]]),
        ([(7, 0, 2), (7, 1, 2)], [0, 2], [[7, 0, 2, 7, 1, 2]]),
        # Empty parts, also between two that continue each other.
        ([(7, 0, 0), (7, 0, 1), (8, 9, 0), (7, 1, 1), (7, 2, 0)], [0, 5], [[7, 0, 2]]),
        ([(7, 0, 0)], [0, 1, 1], [[], []]),
        ([], [0], []),
    ],
)
def test_parts_are_joined(
    parts: list[tuple[int, int, int]], offsets: list[int], expected: list[list[int]]
) -> None:
    lists = span_lists(spans(*parts), np.array(offsets))
    assert lists.type.value_type == pa.uint64()
    assert lists.to_pylist() == expected


def test_stretches_count_from_their_documents() -> None:
    documents = Documents(
        np.array([7, BIG], np.uint64), np.array([1, 3, 4]), offsets_of([9, 2, 3, 4])
    )
    numbers = (np.array(values) for values in ([0, 1, 1], [10, 14, 17], [4, 1, 1]))
    parts = locate_stretches(documents, *numbers)
    assert parts.tolist() == [[7, 1, 4], [BIG, 0, 1], [BIG, 3, 1]]
    assert single_spans(parts).to_pylist() == parts.tolist()


def test_segments_count_from_the_documents_of_batch_and_pool() -> None:
    batch = Documents(np.array([BIG, 5], np.uint64), np.array([0, 1, 3]), offsets_of([2, 3, 4]))
    pool = Documents(np.array([5, 6], np.uint64), np.array([0, 1, 2]), offsets_of([7, 8]))
    pairs = np.array([[1, 0, 3, 2, 5, 4, 0, 0, -1], [0, 0, 0, 1, 9, 6, 1, 1, 1]])
    parts = [[5, 1, 2], [5, 3, 4], [BIG, 0, 1], [6, 2, 6]]
    assert locate_segments(pairs, batch, pool).tolist() == parts


def test_lists_of_a_slice_and_of_joined_rows() -> None:
    values, offsets = spans_of(LISTS.slice(1))
    assert (values.tolist(), offsets.tolist()) == ([[9, 0, 1]], [0, 1, 1])
    joined = join_lists(LISTS, np.array([1, 0, 2]), np.array([0, 2, 3]))
    assert joined.to_pylist() == [[9, 0, 1, 7, 4, 2], []]
    joined = join_lists(LISTS.slice(1), np.array([1, 0]), np.array([0, 2]))
    assert joined.to_pylist() == [[9, 0, 1]]


def test_tokens_between_spans_belong_to_none() -> None:
    cuts = np.array([[0, 2], [2, 6], [3, 4], [0, 1], [5, 5], [6, 99]])
    parts, offsets = cut_spans(spans((7, 4, 2), (9, 0, 3)), np.array([1, 4]), cuts)
    assert span_lists(parts, offsets).to_pylist() == [
        [7, 4, 1], [7, 5, 1, 9, 0, 2], [], [], [], [9, 2, 1],
    ]  # fmt: skip


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=5), st.data())
def test_rows_cut_from_the_text_of_others(lengths: list[list[int]], data: st.DataObject) -> None:
    """The text of each of the others stands between two special tokens."""
    lists, begins, text, place = [], [], dict[int, tuple[int, int]](), 0
    for row, counts in enumerate(lengths):
        begins.append(place := place + 1)
        lists.append([(row * 10 + k, k, count) for k, count in enumerate(counts) if count])
        for document, first, count in lists[-1]:
            text |= {place + i: (document, first + i) for i in range(count)}
            place += count
        place += 1
    column = span_lists(spans(*chain(*lists)), offsets_of(map(len, lists)))
    bounds = st.tuples(st.integers(0, place), st.integers(0, place)).map(sorted)
    cuts = data.draw(st.lists(st.lists(bounds, max_size=3), max_size=4))
    stretches = np.array([*chain(*cuts)], np.int64).reshape(-1, 2)
    rows = cut_lists(column, np.array(begins, np.int64), stretches, offsets_of(map(len, cuts)))
    for row, stretches_of_row in zip(rows.to_pylist(), cuts, strict=True):
        tokens = [
            (document, first + i)
            for document, first, count in zip(row[::3], row[1::3], row[2::3], strict=True)
            for i in range(count)
        ]
        places = [i for begin, end in stretches_of_row for i in range(begin, end)]
        assert tokens == [text[i] for i in places if i in text]


@given(
    st.lists(st.tuples(st.sampled_from([PLAIN, PSM, SPM]), *[st.integers(0, 4)] * 3), max_size=6)
)
def test_parts_stand_where_middles_are_moved_to(
    documents: list[tuple[int, int, int, int]],
) -> None:
    lengths = np.array([lengths for _, *lengths in documents], np.int64).reshape(-1, 3)
    ends = offsets_of(lengths.sum(axis=1))
    bounds = ends[:-1, None] + np.pad(np.cumsum(lengths, axis=1), ((0, 0), (1, 0)))
    forms = np.array([form for form, *_ in documents], np.uint8)
    moved, _ = rearrange(np.arange(10, 10 + ends[-1]), bounds, forms, (1, 2, 3))
    parts, places = locate_parts(np.arange(len(forms), dtype=np.uint64), bounds, forms)
    seen = np.zeros(len(moved), np.bool_)
    for (document, first, length), place in zip(parts.astype(np.int64), places, strict=True):
        begin = 10 + ends[document] + first
        assert moved[place : place + length].tolist() == list(range(begin, begin + length))
        seen[place : place + length] = True
    assert (moved[~seen] < 10).all()
    assert (np.diff(places) >= 0).all()


@pytest.mark.parametrize("overlap", [0, 1, 3])
@given(st.lists(st.integers(0, 12), max_size=5), *[st.lists(st.integers(1, 9), max_size=3)] * 2)
def test_windows_are_located_as_they_are_cut(
    overlap: int, lengths: list[int], before: list[int], after: list[int]
) -> None:
    offsets = offsets_of(lengths)
    tokens = np.arange(100, 100 + offsets[-1])
    ids, ends, owners, indices = cut_windows(tokens, offsets, 4, overlap, before, after)
    located = locate_windows(offsets, owners, indices, 4, overlap, len(before))
    for number, (begin, end) in enumerate(located):
        window = ids[ends[number] : ends[number + 1]]
        assert window[window > 9].tolist() == tokens[begin:end].tolist()


def test_no_rows() -> None:
    joined, offsets = join_spans(spans(), np.zeros(1, np.int64))
    assert (joined.shape, offsets.tolist()) == ((0, 3), [0])
    parts, offsets = cut_spans(spans(), np.empty(0, np.int64), np.array([[0, 3]]))
    assert (parts.shape, offsets.tolist()) == ((0, 3), [0, 0])
