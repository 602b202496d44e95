"""The segment pairs of Google's own programs in plain Python, written from them to be read.

create_pretraining_data.py of BERT, and of ALBERT without `random_next_sentence`. The kernel of
`corpusmill.objectives.examples.sentence_pairs` draws other random numbers; its pairs must have the
same distribution (test_sentence_pairs.py). Its deliberate difference is made here, too: a random
document is always another one.
"""

import random
from collections.abc import Iterator
from itertools import chain

from tests.corpusmill.objectives.reference_bert import Document, truncate_pair

Pair = tuple[list[int], list[int], bool]


def generate_pairs(
    own: int,
    documents: list[Document],
    max_num_tokens: int,
    short_seq_prob: float,
    is_albert: bool,
    rng: random.Random,
) -> Iterator[Pair]:
    """Generate the pairs of one pass over documents[own]: first segment, second segment, label."""
    target_length = max_num_tokens
    if rng.random() < short_seq_prob:
        target_length = rng.randint(2, max_num_tokens)
    left = documents[own]
    while left:
        chunk = take_chunk(left, target_length)
        first, second, label, used = split(own, documents, chunk, target_length, is_albert, rng)
        left = left[used:]
        truncate_pair(first, second, max_num_tokens, rng)
        yield first, second, label


def take_chunk(sentences: Document, target_length: int) -> Document:
    """Take sentences up to the one that reaches the target, or all."""
    for end in range(1, len(sentences)):
        if sum(map(len, sentences[:end])) >= target_length:
            return sentences[:end]
    return sentences


def split(
    own: int,
    documents: list[Document],
    chunk: Document,
    target_length: int,
    is_albert: bool,
    rng: random.Random,
) -> tuple[list[int], list[int], bool, int]:
    """Split a chunk: first segment, second segment, label, and how many sentences were used."""
    cut = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
    first, second = list(chain(*chunk[:cut])), list(chain(*chunk[cut:]))
    if not second or (not is_albert and rng.random() < 0.5):
        other = rng.choice([place for place in range(len(documents)) if place != own])
        second = take_from(documents[other], target_length - len(first), rng)
        return first, second, True, cut  # the others are put back
    if is_albert and rng.random() < 0.5:
        return second, first, True, len(chunk)
    return first, second, False, len(chunk)


def take_from(document: Document, wanted: int, rng: random.Random) -> list[int]:
    """Take a random sentence, and those after it until they have `wanted` tokens."""
    start = rng.randint(0, len(document) - 1)
    segment = list(document[start])
    for sentence in document[start + 1 :]:
        if len(segment) >= wanted:
            break
        segment.extend(sentence)
    return segment
