from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.examples import electra_packs as packing
from tests.corpusmill.objectives.electra_examples import (
    corpora,
    kernel_packs,
    options,
    reference_packs,
)
from tests.tools.builders import Corpus, numbered_corpus, seeds

# Tables: sentences by their lengths, full targets, two segments unless noted otherwise. A pack
# is (sentences of the first segment, of the second, tokens trimmed of both).

TWO = ElectraOptions(max_seq_length=16, short_seq_prob=0, single_segment_prob=0)  # 6 in the first
ONE = ElectraOptions(max_seq_length=16, short_seq_prob=0, single_segment_prob=1)


@pytest.mark.parametrize(
    ("lengths", "given_options", "segments"),
    [
        # One sentence, however it is drawn, is a first segment.
        ([5], TWO, {((1, 2, 3, 4, 5), (), (0, 0))}),
        ([16], TWO, {(tuple(range(1, 15)), (), (2, 0))}),
        # The first sentence fills the first segment: the second gets the rest of 13.
        ([6, 10], TWO, {((1, 2, 3, 4, 5, 6), tuple(range(7, 14)), (0, 3))}),
        # 3 + 3 is not below 6: over half of the times, and else the second segment begins.
        (
            [3, 3, 10],
            TWO,
            {
                ((1, 2, 3), tuple(range(4, 14)), (0, 3)),
                ((1, 2, 3, 4, 5, 6), tuple(range(7, 14)), (0, 3)),
            },
        ),
        # After a sentence in the second segment, a short one goes to the first, 2 + 3 < 6.
        (
            [2, 8, 3, 4],
            TWO,
            {
                ((1, 2, 11, 12, 13), (3, 4, 5, 6, 7, 8, 9, 10), (0, 4)),
                (tuple(range(1, 11)), (11, 12, 13), (0, 4)),
            },
        ),
        # A first segment that fills the row leaves no room for the second.
        (
            [4, 13],
            TWO,
            {
                ((1, 2, 3, 4), tuple(range(5, 14)), (0, 4)),
                (tuple(range(1, 15)), (), (3, 0)),
            },
        ),
        # A single segment, as in classification tasks.
        ([4, 4, 9], ONE, {(tuple(range(1, 15)), (), (3, 0))}),
        ([4, 4], ONE, {(tuple(range(1, 9)), (), (0, 0))}),
    ],
)  # fmt: skip
def test_segments_of_one_example(
    lengths: list[int], given_options: ElectraOptions, segments: set[object]
) -> None:
    drawn = set()
    for seed in range(40):
        [pack] = kernel_packs(numbered_corpus([lengths]), given_options, seed)
        first, second = (
            tuple(token - 9 for token in segment) for segment in (pack.first, pack.second)
        )
        drawn.add((first, second, pack.trimmed))
    assert drawn == segments


def test_what_is_kept_goes_in_front_of_what_follows() -> None:
    kept = ElectraOptions(
        max_seq_length=16, short_seq_prob=0, single_segment_prob=0, overflow="keep"
    )
    packs = kernel_packs(numbered_corpus([[6, 10, 12]]), kept)
    # 7 of the 10 tokens fit; the other 3 and the 12 reach the target.
    segments = [
        ([token - 9 for token in pack.first], [token - 9 for token in pack.second])
        for pack in packs
    ]
    assert segments[0] == ([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13])
    assert segments[1] in (
        ([14, 15, 16], list(range(17, 27))),
        (list(range(14, 28)), []),
    )
    assert [pack.trimmed for pack in packs] == [(0, 0)] * len(packs)


def test_a_sentence_of_many_rows_is_kept_whole() -> None:
    kept = ElectraOptions(max_seq_length=5, short_seq_prob=0, overflow="keep")
    packs = kernel_packs(numbered_corpus([[1000, 1]]), kept)
    assert [token for pack in packs for token in pack.first + pack.second] == list(range(10, 1011))
    # All rows except the last are full: 1001 tokens in rows of 3, or of 2 with a second [SEP].
    assert all(len(pack.first) + len(pack.second) in {2, 3} for pack in packs[:-1])


def test_assembled_rows() -> None:
    packs = np.array(
        [
            [0, 0, 0, 2, 3, 0, 0, 9],  # two spans in the second segment
            [0, 1, 3, 1, 0, 0, 0, 9],  # one segment
            [1, 0, 4, 3, 1, 0, 0, 9],  # two spans in the first segment
        ]
    )
    spans = np.array([[0, 2], [2, 2], [5, 1], [4, 1], [6, 2], [9, 1], [8, 1]])
    tokens = np.arange(10, 20, dtype=np.uint16)
    input_ids, offsets = packing.assemble_packs(packs, spans, tokens, 2, 3)
    assert input_ids.dtype == np.uint16
    assert [input_ids[a:b].tolist() for a, b in pairwise(offsets)] == [
        [2, 10, 11, 3, 12, 13, 15, 3],
        [2, 14, 3],
        [2, 16, 17, 19, 3, 18, 3],
    ]


# Properties


@given(corpora, options, seeds, st.integers(0, 3))
def test_packs_are_the_references_with_the_same_draws(
    corpus: Corpus, given_options: ElectraOptions, seed: int, repeat: int
) -> None:
    expected = [
        (
            *(document, index, pack.first, pack.second),
            *(len(pack.first_trimmed), len(pack.second_trimmed), pack.target_length),
        )
        for document, examples in enumerate(reference_packs(corpus, given_options, seed, repeat))
        for index, pack in enumerate(examples)
    ]
    assert [
        (pack.document, pack.index, pack.first, pack.second, *pack.trimmed, pack.target_length)
        for pack in kernel_packs(corpus, given_options, seed, repeat)
    ] == expected


def test_the_passes_over_a_document_differ() -> None:
    corpus = numbered_corpus([[7, 9, 4, 6, 8, 5] * 4])
    mixed = ElectraOptions(max_seq_length=20, short_seq_prob=0.5)
    packs = {str(kernel_packs(corpus, mixed, seed=1, repeat=repeat)) for repeat in range(4)}
    assert len(packs) == 4
