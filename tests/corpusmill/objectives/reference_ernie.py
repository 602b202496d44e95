"""ERNIE's masking in plain Python, written to be read.

It is written from the article on ERNIE's data and the facts of the original's masking: one draw per
token, by characters or by words. The kernels of `corpusmill.objectives.ernie` draw other random
numbers; their results must have the same distribution, which test_ernie_masking.py checks.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class ReferenceMasking:
    """A masked sequence."""

    masked_ids: list[int]
    positions: list[int]
    labels: list[int]
    by_words: bool


def mask_sequence(
    input_ids: list[int],
    seg_labels: list[int],
    mask_word_prob: float,
    mask_id: int,
    vocab_size: int,
    rng: random.Random,
) -> ReferenceMasking:
    """Mask a sequence by words or by characters."""
    by_words = rng.random() < mask_word_prob
    groups = words_of(seg_labels) if by_words else characters_of(seg_labels)
    result = ReferenceMasking(list(input_ids), [], [], by_words)
    for group in groups:
        draws = [rng.random() for _ in group]
        if draws[0] > 0.15:
            continue
        # The first token's draw has chosen the word, so that its thirds lie below 0.15.
        tops = [0.15, *(1.0 for _ in group[1:])]
        for place, drawn, top in zip(group, draws, tops, strict=True):
            result.positions.append(place)
            result.labels.append(input_ids[place])
            if 0.2 * top < drawn:
                result.masked_ids[place] = mask_id
            elif 0.1 * top < drawn:
                result.masked_ids[place] = rng.randrange(1, vocab_size)
    return result


def words_of(seg_labels: list[int]) -> Iterator[list[int]]:
    """Return the places of each word: a 0 and the 1s after it."""
    word: list[int] = []
    for place, label in enumerate([*seg_labels, -1]):
        if label == 1:
            if word:
                word.append(place)
            continue
        if word:
            yield word
        word = [place] if label == 0 else []


def characters_of(seg_labels: list[int]) -> Iterator[list[int]]:
    """Return each place except [CLS] and [SEP] as a word of its own."""
    for place, label in enumerate(seg_labels):
        if label != -1:
            yield [place]
