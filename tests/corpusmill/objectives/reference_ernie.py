"""ERNIE in plain Python, written to be read.

Stage one is the article's pairs (reference_bert.py) of tokens with their words. Stage two is
written from the article on ERNIE's data and the facts of the original's masking: one draw per
token, by characters or by words. The kernels of `corpusmill.objectives.ernie` draw other
random numbers; their results must have the same distribution, which test_ernie_distribution.py
checks.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.corpusmill.objectives.reference_bert import generate_pairs, truncate_pair

# A token is 2 * its id + 1 where it continues a word, and 2 * its id where it begins one.
Document = list[list[int]]


@dataclass
class ReferenceSequence:
    """An example of stage one."""

    input_ids: list[int]
    token_type_ids: list[int]
    seg_labels: list[int]
    is_random_next: bool


@dataclass
class ReferenceMasking:
    """A masked sequence."""

    masked_ids: list[int]
    positions: list[int]
    labels: list[int]
    by_words: bool


def generate_sequences(
    own: int,
    documents: list[Document],
    rng: random.Random,
    cls_id: int,
    sep_id: int,
    max_seq_length: int = 512,
    short_seq_prob: float = 0.1,
) -> Iterator[ReferenceSequence]:
    """Generate the examples of one pass over documents[own]: BERT's pairs with words."""
    max_num_tokens = max_seq_length - 3
    target_length = max_num_tokens
    if rng.random() < short_seq_prob:
        target_length = rng.randint(2, max_num_tokens)
    for first, second, is_random_next in generate_pairs(own, documents, target_length, rng):
        truncate_pair(first, second, max_num_tokens, rng)
        input_ids, token_type_ids, seg_labels = [cls_id], [0], [-1]
        for number, segment in enumerate((first, second)):
            for place, token in enumerate(segment):
                input_ids.append(token // 2)
                token_type_ids.append(number)
                # If the beginning of a word was cut off, its first remaining token begins it.
                seg_labels.append(token % 2 if place else 0)
            input_ids.append(sep_id)
            token_type_ids.append(number)
            seg_labels.append(-1)
        yield ReferenceSequence(input_ids, token_type_ids, seg_labels, is_random_next)


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
