"""Windows of documents and examples of streams, against the article's programs."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.examples.windows import (
    count_windows,
    cut_windows,
)
from tests.corpusmill.objectives import reference_gpt
from tests.tools.builders import offsets_of

lengths_and_overlaps = st.integers(1, 12).flatmap(
    lambda length: st.tuples(st.just(length), st.integers(0, length - 1))
)


def cut(
    documents: list[list[int]],
    length: int,
    overlap: int,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Return the windows, and (document, index) of each."""
    tokens = np.array([token for document in documents for token in document], np.uint16)
    input_ids, offsets, owners, indices = cut_windows(
        tokens, offsets_of(map(len, documents)), length, overlap, before, after
    )
    assert input_ids.dtype == tokens.dtype
    rows = [part.tolist() for part in np.split(input_ids, offsets[1:-1])] if len(owners) else []
    return rows, list(zip(owners.tolist(), indices.tolist(), strict=True))


def number(lengths: list[int]) -> list[list[int]]:
    """Return documents in which no token occurs twice."""
    offsets = offsets_of(lengths).tolist()
    return [
        list(range(10 + begin, 10 + begin + length))
        for begin, length in zip(offsets, lengths, strict=False)
    ]


@given(st.lists(st.integers(0, 40), max_size=6), lengths_and_overlaps)
def test_windows_are_those_of_the_article(sizes: list[int], sizing: tuple[int, int]) -> None:
    documents = number(sizes)
    rows, places = cut(documents, *sizing)
    expected = [list(reference_gpt.windows(document, *sizing)) for document in documents]
    assert rows == [window for windows in expected for window in windows]
    assert places == [
        (document, index)
        for document, windows in enumerate(expected)
        for index in range(len(windows))
    ]
    assert [count_windows(size, *sizing) for size in sizes] == list(map(len, expected))


@given(
    st.lists(st.integers(0, 40), max_size=6),
    lengths_and_overlaps,
    *[st.lists(st.integers(1, 9), max_size=3)] * 2,
)
def test_what_is_put_around_a_document_is_cut_as_its_own_tokens_are(
    sizes: list[int], sizing: tuple[int, int], before: list[int], after: list[int]
) -> None:
    whole = [[*before, *document, *after] for document in number(sizes)]
    assert cut(number(sizes), *sizing, before, after) == cut(whole, *sizing)
