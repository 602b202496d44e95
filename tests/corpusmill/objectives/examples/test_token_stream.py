"""Examples of a stream against the article's two data sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.examples.windows import (
    count_examples,
    count_shard_examples,
    locate_in_shards,
)
from tests.corpusmill.objectives.reference_gpt import FileDataset, MemoryDataset, locate_in_stream

END = -1

files_of_tokens = st.lists(st.integers(0, 20), min_size=1, max_size=6).map(
    lambda sizes: [[100 * file + place for place in range(size)] for file, size in enumerate(sizes)]
)
shards_of_files = st.lists(files_of_tokens, min_size=1, max_size=4)
lengths = st.integers(1, 12)


def flatten(files: list[list[int]]) -> list[int]:
    return [token for file in files for token in (*file, END)]


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
        expected = dataset(every_file, END, context_len, stride)
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
        for example in range(max(0, len_of(MemoryDataset(files, END, context_len, stride))))
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
