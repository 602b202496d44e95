"""ALBERT's segment pairs in plain Python, written from its create_pretraining_data.py to be read.

Without `random_next_sentence`, as ALBERT is trained. The kernel of
`corpusmill.objectives.examples.sentence_pairs` draws other random numbers; its pairs must
have the same distribution (test_sentence_pairs.py). Its deliberate difference is made here, too: a
chunk of one sentence is cut in two at a token, where the original adds a random document.
"""

import random
from collections.abc import Iterator
from itertools import chain

from tests.corpusmill.objectives.reference_bert import Document, truncate_pair

Pair = tuple[list[int], list[int], bool]


def generate_pairs(
    document: Document, max_num_tokens: int, short_seq_prob: float, rng: random.Random
) -> Iterator[Pair]:
    """Generate the pairs of one pass: first segment, second segment, whether they are switched."""
    target_length = max_num_tokens
    if rng.random() < short_seq_prob:
        target_length = rng.randint(2, max_num_tokens)
    chunk: list[list[int]] = []
    for place, sentence in enumerate(document):
        chunk.append(sentence)
        if place == len(document) - 1 or sum(map(len, chunk)) >= target_length:
            first, second = split(chunk, rng)
            switched = bool(second) and rng.random() < 0.5
            if switched:
                first, second = second, first
            truncate_pair(first, second, max_num_tokens, rng)
            yield first, second, switched
            chunk = []


def split(chunk: Document, rng: random.Random) -> tuple[list[int], list[int]]:
    """Split between sentences, or a single sentence in two."""
    if len(chunk) == 1:
        [only] = chunk
        cut = rng.randint(1, len(only) - 1) if len(only) > 1 else 1
        return only[:cut], only[cut:]
    cut = rng.randint(1, len(chunk) - 1)
    return list(chain(*chunk[:cut])), list(chain(*chunk[cut:]))
