"""Masked sequences have the distribution of the reference's.

Each property of each sequence and configuration is one chi-square test. One observation is one
sequence; sequences are independent. What becomes of a token is coded as 0 (not predicted), 1
([MASK]), 2 (a random id) or 3 (stays).
"""

import random
from itertools import pairwise

import numpy as np
import pytest

from corpusmill.objectives.ernie import mask_sequences
from corpusmill.objectives.masking.tokens import row_keys
from tests.corpusmill.objectives import reference_ernie
from tests.tools.distributions import assert_counts, assert_same_distributions

OBSERVATIONS = 5_000
MASK_ID, VOCAB_SIZE, FIRST_TEXT_ID = 4, 40, 100

SEQUENCES = {
    "words of 1 to 4 tokens": [-1, 0, 0, 1, 0, 1, 1, -1, 0, 1, 1, 1, 0, -1],
    "single tokens": [-1, 0, 0, 0, -1, 0, 0, -1],
    "an empty second segment": [-1, 0, 1, 0, -1, -1],
    "one word, and a word cut in front": [-1, 1, 0, 1, 1, 1, 1, -1],
}


def code_of(masked: np.ndarray, original: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return each token's outcome; a random id can be that of [MASK] by chance."""
    kinds = np.select([masked == original, masked == MASK_ID], [3, 1], 2)
    return np.where(predicted, kinds, 0)


def ours(seg_labels: list[int], share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and masked ids, each [OBSERVATIONS, length]."""
    length = len(seg_labels)
    ids = original_of(seg_labels)
    rows = np.arange(OBSERVATIONS)
    keys = row_keys(np.uint64(3), np.zeros(OBSERVATIONS, np.uint64), 0, rows)
    words, offsets = np.array(seg_labels, np.int8), np.arange(OBSERVATIONS + 1) * length
    masked, positions, labels, ends = mask_sequences(
        np.tile(ids, OBSERVATIONS), np.tile(words, OBSERVATIONS), offsets, keys, share, MASK_ID,
        VOCAB_SIZE,
    )  # fmt: skip
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
        reference_ernie.mask_sequence(ids.tolist(), seg_labels, share, MASK_ID, VOCAB_SIZE, rng)
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


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_shares_are_those_of_the_original(share: float) -> None:
    """15 % of the words, of these 80, 10 and 10 %; a random id can be that of [MASK] by chance."""
    codes, _ = ours(SEQUENCES["single tokens"], share)
    counts = np.bincount(codes[:, 2], minlength=4)
    by_chance = 0.1 / (VOCAB_SIZE - 1)
    chosen = [0.8 + by_chance, 0.1 - by_chance, 0.1]
    assert_counts(
        counts, [0.85, *(0.15 * share for share in chosen)], "none, [MASK], random, stays"
    )


def test_later_tokens_of_a_chosen_word_have_thirds_of_their_own() -> None:
    seg_labels = SEQUENCES["words of 1 to 4 tokens"]
    codes, _ = ours(seg_labels, 1.0)
    word = [8, 9, 10, 11]
    chosen = codes[codes[:, 8] > 0][:, word]
    by_chance = 0.1 / (VOCAB_SIZE - 1)
    shares = np.array([0.8 + by_chance, 0.1 - by_chance, 0.1])
    for place in range(4):
        counts = np.bincount(chosen[:, place], minlength=4)[1:]
        assert_counts(counts, shares, f"token {place}")
    pairs = np.bincount((chosen[:, 1] - 1) * 3 + chosen[:, 2] - 1, minlength=9)
    assert_counts(pairs, np.outer(shares, shares).ravel(), "two later tokens")
