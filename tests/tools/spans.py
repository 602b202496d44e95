"""Rows compared with the documents that their spans name."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from tests.tools.builders import Corpus

# Document ids to their tokens.
Texts = Mapping[int, Sequence[int]]


def texts_of(*corpora: Corpus) -> Texts:
    """Return the tokens of each document of some corpora."""
    return {
        document: [*chain(*sentences)]
        for corpus in corpora
        for document, sentences in corpus.items()
    }


def assert_made_of(
    rows: Iterable[Sequence[int]], lists: Iterable[Sequence[int]], texts: Texts
) -> None:
    """Check that rows are the tokens of their spans, and that spans are as long as they can be.

    Args:
        rows: the tokens of rows, without special tokens and with masks undone.
        lists: the rows' values of SPANS.
        texts: the tokens of all documents, those of the pool included.
    """
    for row, spans in zip(rows, lists, strict=True):
        assert tokens_of(spans, texts) == [*row], spans


def tokens_of(spans: Sequence[int], texts: Texts) -> list[int]:
    """Return the tokens of a row's spans, which must be in their documents, not empty, and joined.

    Args:
        spans: a value of SPANS.
        texts: the tokens of all documents.
    """
    assert len(spans) % 3 == 0
    tokens: list[int] = []
    document, place = -1, 0
    for own, first, length in zip(spans[::3], spans[1::3], spans[2::3], strict=True):
        assert length > 0
        assert first + length <= len(texts[own])
        assert (own, first) != (document, place), "two spans that continue each other"
        tokens += texts[own][first : first + length]
        document, place = own, first + length
    return tokens
