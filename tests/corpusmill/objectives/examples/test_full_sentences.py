"""Whole sentences cut into pieces, and their ends joined: exactly as the reference does."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.combined_rows import (
    DOCUMENT,
    INDEX,
    LENGTH,
    START,
    cut_documents,
    join_documents,
)
from tests.corpusmill.objectives import reference_roberta
from tests.corpusmill.objectives.reference_roberta import Piece, cut_document, join
from tests.tools.builders import Corpus, corpora, flatten, index_of, numbered_corpus


def pieces_of(corpus: Corpus, room: int) -> tuple[np.ndarray, list[list[int]]]:
    """Return the pieces, and the sentence lengths of each."""
    pieces, lengths, ends = cut_documents(index_of(corpus), room)
    assert len(ends) == len(pieces) + 1
    assert ends[-1] == len(lengths)
    return pieces, [lengths[ends[i] : ends[i + 1]].tolist() for i in range(len(pieces))]


@given(corpora, st.integers(1, 40))
def test_pieces_are_the_references(corpus: Corpus, room: int) -> None:
    pieces, lengths = pieces_of(corpus, room)
    tokens = flatten(corpus)[3]
    place = 0
    for document, sentences in enumerate(corpus.values()):
        expected = reference_roberta.cut_document(list(map(list, sentences)), room)
        for index, piece in enumerate(expected):
            assert pieces[place, [DOCUMENT, INDEX]].tolist() == [document, index]
            span = tokens[pieces[place, START] :][: pieces[place, LENGTH]]
            assert span.tolist() == list(chain(*piece))
            is_last = index == len(expected) - 1
            assert lengths[place] == ([len(sentence) for sentence in piece] if is_last else [])
            place += 1
    assert place == len(pieces)


def test_no_documents_give_no_pieces() -> None:
    pieces, lengths = pieces_of({}, 5)
    assert pieces.shape == (0, 4)
    assert lengths == []


CLS, SEP = 2, 3


def numbered_pieces(sentence_lengths: Sequence[Sequence[int]], max_seq_length: int) -> list[Piece]:
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
    ones = pa.array([1] * len(pieces), pa.uint16())
    return pa.RecordBatch.from_pydict({
        "index": pa.array([piece.name for piece in pieces], pa.uint32()),
        "input_ids": pa.array(rows, pa.list_(pa.int16())),
        "sentence_lengths": pa.array(lengths, pa.list_(pa.uint16())),
        "documents": ones,
        "pieces": ones,
    })  # fmt: skip


def joined(
    pieces: Sequence[Piece], max_seq_length: int, cuts: Sequence[int] = ()
) -> list[tuple[Any, ...]]:
    """Return first piece, ids, documents, pieces of each example, with batches cut at `cuts`."""
    starts = sorted({0, *(cut % (len(pieces) + 1) for cut in cuts)})
    batches = [
        batch_of(pieces[start:stop])
        for start, stop in zip(starts, [*starts[1:], len(pieces)], strict=True)
    ]
    columns = "index", "input_ids", "documents", "pieces"
    return [
        tuple(row[name] for name in columns)
        for rows in join_documents(iter(batches), max_seq_length, (CLS, SEP))
        for row in rows.to_pylist()
    ]


shuffled_pieces = st.tuples(corpora, st.integers(5, 40)).flatmap(
    lambda drawn: st.tuples(
        st.permutations(
            numbered_pieces(
                [list(map(len, sentences)) for sentences in drawn[0].values()], drawn[1]
            )
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
    examples = joined(pieces, max_seq_length, cuts)
    assert examples == expected
    # An example of joined pieces ends only when the next sentence does not fit.
    longest = max(len(sentence) for piece in pieces for sentence in piece.sentences)
    last = {piece.name for piece in pieces if piece.is_last}
    of_ends = [len(ids) for first, ids, _, _ in examples if first in last]
    assert all(length + 1 + longest > max_seq_length for length in of_ends[:-1])


def test_a_piece_that_does_not_fit_goes_on_in_the_next_example() -> None:
    pieces = numbered_pieces([[4], [3, 2], [1]], 11)
    assert joined(pieces, 11) == [
        (0, [2, 10, 11, 12, 13, 3, 14, 15, 16, 3], 2, 1),
        (1, [2, 17, 18, 3, 19, 3], 2, 2),
    ]
    # Full pieces overtake an open example.
    assert [first for first, *_ in joined(numbered_pieces([[2], [3, 3]], 5), 5)] == [1, 0, 2]
    assert joined([], 12) == []


def test_no_more_than_one_open_example_waits_for_the_next_batch() -> None:
    pieces = numbered_pieces([[1, 2]] * 400, 32)
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for start in range(0, 400, 10):
            read += 10
            yield batch_of(pieces[start : start + 10])

    given_back = 0
    for rows in join_documents(batches(), 32, (CLS, SEP)):
        given_back += sum(rows.column("pieces").to_pylist())
        assert read - given_back <= 32 // 4
    assert given_back == 400
