"""The sample: its size, and that it depends on the ids alone."""

import numpy as np

from corpusmill.tokenization.training.counted_words import draw_documents, draw_pieces

IDS = np.arange(0, 2_000_000, 100, dtype=np.uint64)


def test_pieces_are_drawn_until_they_have_the_size() -> None:
    sizes = np.array([10, 10, 10, 10])
    drawn, share = draw_pieces(sizes, 15, 0)
    assert (len(drawn), share) == (2, 0.75)
    assert draw_pieces(sizes, 40, 0)[0].tolist() == [0, 1, 2, 3]
    assert draw_pieces(np.array([1000]), 10, 0)[1] == 0.01
    assert draw_pieces(np.array([0]), 5, 0)[1] == 1.0


def test_each_piece_has_the_same_chance_whatever_its_place() -> None:
    sizes = np.full(1000, 7)
    counts = np.zeros(1000)
    for seed in range(200):
        counts[draw_pieces(sizes, 2100, seed)[0]] += 1
    # Five standard deviations, for each tenth.
    for tenth in np.split(counts / 200, 10):
        assert abs(tenth.mean() - 0.3) < 5 * (0.21 / 20_000) ** 0.5


def test_each_document_has_the_same_chance() -> None:
    drawn = draw_documents(IDS, 0.3, 1)
    # Five standard deviations, for the whole corpus and for each tenth.
    for part in (drawn, *np.split(drawn, 10)):
        assert abs(part.mean() - 0.3) < 5 * (0.21 / len(part)) ** 0.5
    assert draw_documents(IDS, 1.0, 1).all()


def test_the_sample_is_the_same_however_the_corpus_is_read() -> None:
    whole = draw_documents(IDS, 0.3, 1)
    parts = [draw_documents(part, 0.3, 1) for part in np.array_split(IDS, 7)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert (whole[draw_documents(IDS, 0.1, 1)]).all()
    assert not np.array_equal(draw_documents(IDS, 0.3, 2), whole)
