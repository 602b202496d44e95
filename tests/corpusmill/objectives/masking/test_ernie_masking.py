"""ERNIE's masking of sequences, which has the distribution of the reference's."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.ernie import ErnieMasker
from corpusmill.objectives.masking.tokens import row_keys
from tests.corpusmill.objectives import reference_ernie
from tests.tools.builders import offsets_of
from tests.tools.distributions import assert_same_distributions

MASK, VOCAB_SIZE = 4, 40
# Text has ids from here on, so that random ids and unchanged ones differ.
FIRST_TEXT_ID = 100

Sequence = list[int]  # seg_labels


@st.composite
def sequences(draw: st.DrawFn) -> Sequence:
    """Generate seg_labels of one or two segments of words of one to five tokens."""
    word = st.integers(1, 5).map(lambda length: [0] + [1] * (length - 1))
    labels = [-1]
    for _ in range(draw(st.integers(1, 2))):
        labels += [label for part in draw(st.lists(word, max_size=8)) for label in part]
        labels.append(-1)
    return labels


def numbered(batch: list[Sequence]) -> np.ndarray:
    """Return each sequence with ids that show places, [CLS] as 2 and [SEP] as 3."""
    return np.array(
        [
            FIRST_TEXT_ID + place if label >= 0 else 3 if place else 2
            for labels in batch
            for place, label in enumerate(labels)
        ],
        np.int16,
    )


def mask_sequences(
    ids: np.ndarray, words: np.ndarray, offsets: np.ndarray, keys: np.ndarray, share: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return masked ids, and what `ErnieMasker.mask` returns."""
    masked = ids.copy()
    return masked, *ErnieMasker(share, MASK, VOCAB_SIZE).mask(masked, words, offsets, keys)


def mask(
    batch: list[Sequence], keys: np.ndarray, mask_word_prob: float
) -> tuple[np.ndarray, list[list[int]], list[list[int]]]:
    """Return masked ids, and positions and labels of each sequence."""
    flat = np.array([label for labels in batch for label in labels], np.int8)
    masked, positions, labels, ends = mask_sequences(
        numbered(batch), flat, offsets_of(map(len, batch)), keys, mask_word_prob
    )
    assert masked.dtype == labels.dtype == np.int16
    assert positions.dtype == np.int32
    places, originals = (
        [part.tolist() for part in np.split(values, ends[1:-1])] for values in (positions, labels)
    )
    return masked, places, originals


def keys_of(count: int, epoch: int = 0, seed: int = 1) -> np.ndarray:
    shards, rows = np.zeros(count, np.uint64), np.arange(count)
    keys: np.ndarray = row_keys(np.uint64(seed), shards, epoch, rows)
    return keys


@given(st.lists(sequences(), min_size=1, max_size=6), st.floats(0, 1), st.integers(0, 50))
def test_only_predicted_places_change_and_their_labels_stood_there(
    batch: list[Sequence], share: float, epoch: int
) -> None:
    masked, positions, labels = mask(batch, keys_of(len(batch), epoch), share)
    for segs, row, places, originals in zip(
        batch, np.split(masked, offsets_of(map(len, batch))[1:-1]), positions, labels, strict=True
    ):
        original = numbered([segs])
        assert places == sorted(set(places))
        assert originals == original[places].tolist()
        assert all(segs[place] >= 0 for place in places)
        for place, (now, before) in enumerate(zip(row.tolist(), original.tolist(), strict=True)):
            allowed = {before, MASK, *range(1, VOCAB_SIZE)} if place in places else {before}
            assert now in allowed


@given(st.lists(sequences(), min_size=1, max_size=6), st.integers(0, 200))
def test_by_words_a_word_is_predicted_whole_or_not_at_all(
    batch: list[Sequence], epoch: int
) -> None:
    _, positions, _ = mask(batch, keys_of(len(batch), epoch), 1.0)
    for segs, places in zip(batch, positions, strict=True):
        for place, label in enumerate(segs):
            if label == 1:
                assert (place in places) == (place - 1 in places)


def test_a_slice_of_longer_arrays_is_masked_as_the_slice() -> None:
    # Offsets need not begin at 0.
    segs = [-1, *([0, 1, 1] * 20), -1]
    ids, labels = numbered([segs, segs]), np.array(segs * 2, np.int8)
    keys = keys_of(2)
    masked, positions, originals, ends = mask_sequences(
        ids, labels, np.array([62, 124]), keys[1:], 1.0
    )
    alone = mask([segs], keys[1:], 1.0)
    assert masked[62:].tolist() == alone[0].tolist()
    assert masked[:62].tolist() == ids[:62].tolist()
    assert ([positions.tolist()], [originals.tolist()], ends[0]) == (alone[1], alone[2], 0)


def test_no_sequence_and_one_without_words() -> None:
    empty = mask_sequences(
        np.zeros(0, np.int16), np.zeros(0, np.int8), np.array([0]), keys_of(0), 1.0
    )
    assert [part.tolist() for part in empty] == [[], [], [], [0]]
    masked, positions, labels = mask([[-1, -1, -1]], keys_of(1), 1.0)
    assert (masked.tolist(), positions, labels) == ([2, 3, 3], [[]], [[]])


def test_a_word_whose_beginning_is_missing_is_never_chosen_by_words() -> None:
    # The library never makes such a sequence; the original skips such a token.
    segs = [-1, 1, 1, 0, -1, 1, 0, -1]
    _, positions, _ = mask([segs] * 500, keys_of(500), 1.0)
    assert {place for places in positions for place in places} == {3, 6}


def test_there_is_no_cap() -> None:
    segs = [-1, *([0] * 509), -1]
    _, positions, _ = mask([segs] * 200, keys_of(200), 0.0)
    counts = [len(places) for places in positions]
    assert max(counts) > 90  # 509 draws of 0.15: mean 76, standard deviation 8
    assert min(counts) < 62


OBSERVATIONS = 5_000

SEQUENCES = {
    "words of 1 to 4 tokens": [-1, 0, 0, 1, 0, 1, 1, -1, 0, 1, 1, 1, 0, -1],
    "single tokens": [-1, 0, 0, 0, -1, 0, 0, -1],
    "an empty second segment": [-1, 0, 1, 0, -1, -1],
    "one word, and a word cut in front": [-1, 1, 0, 1, 1, 1, 1, -1],
}


def code_of(masked: np.ndarray, original: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return each token's outcome; a random id can be that of [MASK] by chance."""
    kinds = np.select([masked == original, masked == MASK], [3, 1], 2)
    return np.where(predicted, kinds, 0)


def ours(seg_labels: list[int], share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and masked ids, each [OBSERVATIONS, length]."""
    length = len(seg_labels)
    ids = original_of(seg_labels)
    rows = np.arange(OBSERVATIONS)
    keys = row_keys(np.uint64(3), np.zeros(OBSERVATIONS, np.uint64), 0, rows)
    words, offsets = np.array(seg_labels, np.int8), np.arange(OBSERVATIONS + 1) * length
    masked, positions, labels, ends = mask_sequences(
        np.tile(ids, OBSERVATIONS), np.tile(words, OBSERVATIONS), offsets, keys, share
    )
    predicted = np.zeros((OBSERVATIONS, length), np.bool_)
    rows = np.repeat(np.arange(OBSERVATIONS), np.diff(ends))
    predicted[rows, positions] = True
    assert (ids[positions] == labels).all()
    masked = masked.reshape(OBSERVATIONS, length)
    return code_of(masked, ids, predicted), masked


def reference(seg_labels: list[int], share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the same by the reference."""
    rng = random.Random(5)  # noqa: S311 - no secret
    ids = original_of(seg_labels)
    results = [
        reference_ernie.mask_sequence(ids.tolist(), seg_labels, share, MASK, VOCAB_SIZE, rng)
        for _ in range(OBSERVATIONS)
    ]
    predicted = np.zeros((OBSERVATIONS, len(ids)), np.bool_)
    for row, result in zip(predicted, results, strict=True):
        row[result.positions] = True
    masked = np.array([result.masked_ids for result in results])
    return code_of(masked, ids, predicted), masked


def original_of(seg_labels: list[int]) -> np.ndarray:
    return np.array(
        [FIRST_TEXT_ID + i if label >= 0 else 2 for i, label in enumerate(seg_labels)], np.int16
    )


def properties(
    seg_labels: list[int], codes: np.ndarray, masked: np.ndarray
) -> dict[str, np.ndarray]:
    """Return integers that describe the sequence, its words, and all kinds of neighbours."""
    values = {
        "predictions": (codes > 0).sum(axis=1),
        "places with [MASK]": (codes == 1).sum(axis=1),
        "first predicted place": np.where((codes > 0).any(axis=1), (codes > 0).argmax(axis=1), -1),
        "random ids": np.where(codes == 2, masked, 0).sum(axis=1),
    }
    words = list(reference_ernie.words_of(seg_labels))
    for word in words:
        values[f"outcome of the word {word}"] = codes[:, word] @ (4 ** np.arange(len(word)))
    for one, other in pairwise(words):
        chosen = codes[:, [one[0], other[0]]]
        values[f"the first tokens of {one} and {other}"] = chosen @ np.array([1, 4])
    for place in range(len(seg_labels) - 1):
        values[f"the tokens {place} and {place + 1}"] = codes[:, [place, place + 1]] @ [1, 4]
    return values


@pytest.mark.parametrize("share", [0.0, 1.0, 0.3])
@pytest.mark.parametrize("name", SEQUENCES)
def test_masked_sequences_are_distributed_as_the_references(name: str, share: float) -> None:
    labels = SEQUENCES[name]
    built, written = (properties(labels, *draw(labels, share)) for draw in (ours, reference))
    assert_same_distributions(built, written, f"{name}, {share}")
