"""BERT's examples in plain Python, written from the article to be read.

"Preparing Data for BERT Training" in two steps: a document to pairs of segments, a pair cut to
length. The kernels of `corpusmill.objectives` draw other random numbers; their results must have
the same distribution (test_sentence_pairs.py).
"""

import random
from collections.abc import Iterator

Sentence = list[int]
Document = list[Sentence]


def generate_fitting_pairs(
    own: int, documents: list[Document], max_num_tokens: int, short: float, rng: random.Random
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Generate the pairs of one pass over documents[own], cut to length; `short` is the share."""
    target_length = max_num_tokens
    if rng.random() < short:
        target_length = rng.randint(2, max_num_tokens)
    for first, second, is_random_next in generate_pairs(own, documents, target_length, rng):
        truncate_pair(first, second, max_num_tokens, rng)
        yield first, second, is_random_next


def generate_pairs(
    own: int, documents: list[Document], target_length: int, rng: random.Random
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Generate pairs: first segment, second segment, whether the second is of a random document."""
    sentences = documents[own].copy()
    while sentences:
        # Take sentences up to the target and, as the article does, the next one.
        running_length = 0
        end = 1
        while end < len(sentences) and running_length < target_length:
            running_length += len(sentences[end - 1])
            end += 1
        split = rng.randint(1, end - 1) if end > 1 else 1
        first = [token for sentence in sentences[:split] for token in sentence]
        second = [token for sentence in sentences[split:end] for token in sentence]
        if not second or rng.random() < 0.5:
            other = rng.randint(0, len(documents) - 2)
            if other >= own:
                other += 1
            second = take_from(documents[other], target_length - len(first), rng)
            sentences = sentences[split:]  # the unused sentences are put back
            yield first, second, True
        else:
            sentences = sentences[end:]
            yield first, second, False


def take_from(document: Document, wanted: int, rng: random.Random) -> list[int]:
    """Take whole sentences from a random one on, until they have `wanted` tokens."""
    segment: list[int] = []
    start = rng.randint(0, len(document) - 1)
    for sentence in document[start:]:
        if len(segment) >= wanted:
            break
        segment.extend(sentence)
    return segment


def truncate_pair(
    first: list[int], second: list[int], max_num_tokens: int, rng: random.Random
) -> None:
    """Remove tokens one by one from the longer segment, from either end with equal chance."""
    while len(first) + len(second) > max_num_tokens:
        longer = first if len(first) > len(second) else second
        longer.pop(0 if rng.random() < 0.5 else -1)
