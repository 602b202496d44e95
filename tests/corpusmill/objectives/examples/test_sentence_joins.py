"""Ends of documents joined: exactly the reference's examples, however batches are cut."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.objectives.combined_rows import join_rows
from tests.corpusmill.objectives.reference_roberta import Piece, cut_document, join
from tests.tools.builders import corpora, numbered_corpus, offsets_of

CLS, SEP = 2, 3


def pieces_of(sentence_lengths: Sequence[Sequence[int]], max_seq_length: int) -> list[Piece]:
    """Return the pieces of a numbered corpus, document by document."""
    pieces: list[Piece] = []
    for document in numbered_corpus(sentence_lengths).values():
        cut = cut_document(document, max_seq_length - 2)
        for index, sentences in enumerate(cut):
            pieces.append(Piece(len(pieces), sentences, index == len(cut) - 1))
    return pieces


def batch_of(pieces: Sequence[Piece]) -> pa.RecordBatch:
    rows = [[CLS, *chain(*piece.sentences), SEP] for piece in pieces]
    lengths = [list(map(len, piece.sentences)) if piece.is_last else [] for piece in pieces]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([piece.name for piece in pieces], pa.uint32()),
            _lists(rows, np.int16),
            _lists(lengths, np.uint16),
        ],
        names=["index", "input_ids", "sentence_lengths"],
    )


def _lists(rows: list[list[int]], dtype: type) -> pa.ListArray:
    return ragged.to_arrow(np.array(list(chain(*rows)), dtype), offsets_of(map(len, rows)))


def joined(
    pieces: Sequence[Piece], max_seq_length: int, cuts: Sequence[int] = ()
) -> list[tuple[int, list[int], int, int]]:
    """Return first piece, ids, documents, pieces of each example, with batches cut at `cuts`."""
    starts = sorted({0, *(cut % (len(pieces) + 1) for cut in cuts)})
    batches = [
        batch_of(pieces[start:stop])
        for start, stop in zip(starts, [*starts[1:], len(pieces)], strict=True)
    ]
    joined_rows = []
    for rows in join_rows(iter(batches), max_seq_length, CLS, SEP):
        firsts = rows.first_rows.column("index").to_pylist()
        for i, first in enumerate(firsts):
            ids = rows.input_ids[rows.offsets[i] : rows.offsets[i + 1]].tolist()
            joined_rows.append((first, ids, int(rows.documents[i]), int(rows.pieces[i])))
    return joined_rows


shuffled_pieces = st.tuples(corpora, st.integers(5, 40)).flatmap(
    lambda drawn: st.tuples(
        st.permutations(
            pieces_of([list(map(len, sentences)) for sentences in drawn[0].values()], drawn[1])
        ),
        st.just(drawn[1]),
    )
)


@given(shuffled_pieces, st.lists(st.integers(0, 60), max_size=5))
def test_examples_are_the_references_wherever_batches_are_cut(
    drawn: tuple[list[Piece], int], cuts: list[int]
) -> None:
    pieces, max_seq_length = drawn
    expected = [
        (example.first, example.input_ids(CLS, SEP), len(example.documents), example.pieces)
        for example in join(pieces, max_seq_length)
    ]
    assert joined(pieces, max_seq_length, cuts) == expected


@given(shuffled_pieces)
def test_nothing_is_lost_and_examples_are_full(drawn: tuple[list[Piece], int]) -> None:
    pieces, max_seq_length = drawn
    examples = joined(pieces, max_seq_length)
    tokens = [token for _, ids, _, _ in examples for token in ids if token not in (CLS, SEP)]
    assert sorted(tokens) == sorted(chain(*chain(*(piece.sentences for piece in pieces))))
    assert sum(ended for _, _, _, ended in examples) == len(pieces)
    assert len({first for first, _, _, _ in examples}) == len(examples)
    assert all(len(ids) <= max_seq_length for _, ids, _, _ in examples)
    assert all(ended >= 1 for _, _, _, ended in examples)
    assert all(ids.count(SEP) == documents for _, ids, documents, _ in examples)
    # An example of joined pieces ends only when the next sentence does not fit.
    longest = max(len(sentence) for piece in pieces for sentence in piece.sentences)
    last = {piece.name for piece in pieces if piece.is_last}
    of_ends = [len(ids) for first, ids, _, _ in examples if first in last]
    assert all(length + 1 + longest > max_seq_length for length in of_ends[:-1])


def test_a_piece_that_does_not_fit_goes_on_in_the_next_example() -> None:
    pieces = pieces_of([[4], [3, 2], [1]], 11)
    assert joined(pieces, 11) == [
        (0, [2, 10, 11, 12, 13, 3, 14, 15, 16, 3], 2, 1),
        (1, [2, 17, 18, 3, 19, 3], 2, 2),
    ]


def test_full_pieces_overtake_an_open_example() -> None:
    pieces = pieces_of([[2], [3, 3]], 5)
    assert [first for first, _, _, _ in joined(pieces, 5)] == [1, 0, 2]


def test_no_rows_give_no_examples() -> None:
    assert joined([], 12) == []
    assert list(join_rows(iter(()), 12, CLS, SEP)) == []


def test_no_more_than_one_open_example_waits_for_the_next_batch() -> None:
    pieces = pieces_of([[1, 2]] * 400, 32)
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for start in range(0, 400, 10):
            read += 10
            yield batch_of(pieces[start : start + 10])

    given_back = 0
    for rows in join_rows(batches(), 32, CLS, SEP):
        given_back += int(rows.pieces.sum())
        assert read - given_back <= 32 // 4
    assert given_back == 400
