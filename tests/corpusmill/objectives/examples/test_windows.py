"""Windows of documents and examples of streams, against the article's programs."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.examples.windows import (
    count_examples,
    count_shard_examples,
    count_windows,
    cut_windows,
    locate_in_shards,
)
from tests.corpusmill.objectives import reference_gpt
from tests.corpusmill.objectives.reference_gpt import FileDataset, MemoryDataset, locate_in_stream
from tests.tools.builders import offsets_of

END = 9

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


def test_a_document_without_a_length_is_one_row() -> None:
    assert cut(number([3, 0, 2]), 2**62, 0, (), [END]) == (
        [[10, 11, 12, 9], [9], [13, 14, 9]],
        [(0, 0), (1, 0), (2, 0)],
    )


def test_windows_stop_once_the_document_is_covered() -> None:
    for tokens, length, overlap, windows in (
        (0, 4, 0, 0), (1, 4, 0, 1), (4, 4, 3, 1), (5, 4, 3, 2), (8, 4, 0, 2), (9, 4, 0, 3),
        (10, 4, 1, 3),
    ):  # fmt: skip
        assert count_windows(tokens, length, overlap) == windows


END_OF_FILE = -1

files_of_tokens = st.lists(st.integers(0, 20), min_size=1, max_size=6).map(
    lambda sizes: [[100 * file + place for place in range(size)] for file, size in enumerate(sizes)]
)
shards_of_files = st.lists(files_of_tokens, min_size=1, max_size=4)
lengths = st.integers(1, 12)


def flatten(files: list[list[int]]) -> list[int]:
    return [token for file in files for token in (*file, END_OF_FILE)]


@given(shards_of_files, lengths, lengths)
def test_examples_of_a_stream_over_shards_are_the_articles(
    shards: list[list[list[int]]], context_len: int, stride: int
) -> None:
    """Compare with both data sets of the article, if they have examples."""
    streams = [flatten(files) for files in shards]
    sizes = [len(stream) for stream in streams]
    number = count_examples(sum(sizes), context_len, stride)
    every_file = [file for files in shards for file in files]
    for dataset in (FileDataset, MemoryDataset):
        expected = dataset(every_file, END_OF_FILE, context_len, stride)
        samples = (sum(sizes) - context_len - 1) // stride + 1
        assert number == max(0, samples)
        for example in range(number):
            sample: list[int] = []
            for shard, begin, end in locate_in_stream(example, sizes, context_len, stride):
                assert begin < end
                sample += streams[shard][begin:end]
            assert (sample[:-1], sample[1:]) == expected[example]
    with pytest.raises(IndexError, match=f"the stream has {number}"):
        locate_in_stream(number, sizes, context_len, stride)


@given(shards_of_files, lengths, lengths)
def test_examples_of_shards_that_are_streams_themselves(
    shards: list[list[list[int]]], context_len: int, stride: int
) -> None:
    sizes = [len(flatten(files)) for files in shards]
    expected = [
        (shard, example * stride)
        for shard, files in enumerate(shards)
        for example in range(max(0, len_of(MemoryDataset(files, END_OF_FILE, context_len, stride))))
    ]
    counts = count_shard_examples(sizes, context_len, stride)
    assert counts.tolist() == [
        sum(shard == number for shard, _ in expected) for number in range(len(sizes))
    ]
    places = locate_in_shards(np.arange(len(expected)), sizes, context_len, stride)
    assert list(zip(*(place.tolist() for place in places), strict=True)) == expected
    with pytest.raises(IndexError, match=f"there are {len(expected)} examples"):
        locate_in_shards(np.array([len(expected)]), sizes, context_len, stride)


def len_of(dataset: MemoryDataset) -> int:
    """`len` refuses the negative numbers that the article's formula gives for short streams."""
    return dataset.__len__()
