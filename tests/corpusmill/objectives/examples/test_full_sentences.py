"""Whole sentences cut into pieces: exactly the reference's, without losing tokens."""

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.combined_rows import (
    DOCUMENT,
    INDEX,
    LENGTH,
    START,
    assemble_rows,
    cut_documents,
)
from tests.corpusmill.objectives import reference_roberta
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


@given(corpora, st.integers(1, 40))
def test_pieces_tile_the_corpus_and_fit(corpus: Corpus, room: int) -> None:
    pieces, _ = pieces_of(corpus, room)
    ends = pieces[:, START] + pieces[:, LENGTH]
    assert pieces[0, START] == 0
    assert (pieces[1:, START] == ends[:-1]).all()
    assert ends[-1] == len(flatten(corpus)[3])
    assert ((pieces[:, LENGTH] >= 1) & (pieces[:, LENGTH] <= room)).all()


@given(corpora, st.integers(1, 40))
def test_a_document_has_the_same_pieces_whatever_stands_beside_it(
    corpus: Corpus, room: int
) -> None:
    together, lengths = pieces_of(corpus, room)
    _, document_offsets, sentence_offsets, _ = flatten(corpus)
    for place, (document, sentences) in enumerate(corpus.items()):
        alone, own_lengths = pieces_of({document: sentences}, room)
        rows = np.flatnonzero(together[:, DOCUMENT] == place)
        shift = [-place, 0, -sentence_offsets[document_offsets[place]], 0]
        assert np.array_equal(alone, together[rows] + shift)
        assert own_lengths == [lengths[row] for row in rows]


def test_a_sentence_longer_than_the_room_is_cut_and_its_end_goes_on() -> None:
    pieces, lengths = pieces_of(numbered_corpus([[2, 12, 1]]), 5)
    assert pieces[:, [START, LENGTH]].tolist() == [[0, 2], [2, 5], [7, 5], [12, 3]]
    assert lengths == [[], [], [], [2, 1]]


def test_a_sentence_of_twice_the_room_leaves_nothing() -> None:
    pieces, lengths = pieces_of(numbered_corpus([[10]]), 5)
    assert pieces[:, [START, LENGTH]].tolist() == [[0, 5], [5, 5]]
    assert lengths == [[], [5]]


def test_no_documents_give_no_pieces() -> None:
    pieces, lengths = pieces_of({}, 5)
    assert pieces.shape == (0, 4)
    assert lengths == []


@given(corpora, st.integers(1, 40))
def test_rows_are_pieces_between_special_tokens(corpus: Corpus, room: int) -> None:
    pieces, _ = pieces_of(corpus, room)
    tokens = flatten(corpus)[3]
    spans, span_offsets = pieces[:, START:], np.arange(len(pieces) + 1)
    input_ids, offsets = assemble_rows(spans, span_offsets, tokens, 2, 3)
    assert input_ids.dtype == tokens.dtype
    for i, piece in enumerate(pieces):
        span = tokens[piece[START] :][: piece[LENGTH]].tolist()
        assert input_ids[offsets[i] : offsets[i + 1]].tolist() == [2, *span, 3]
    assert offsets[-1] == len(input_ids)
