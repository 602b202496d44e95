"""Segment pairs for sentence-order prediction, as spans of token arrays.

Source: ALBERT (Lan et al. 2019, section 3.1) and its create_pretraining_data.py without
`random_next_sentence`: scan sentences until they reach a target length, split them at random into
two segments, switch the two half of the time, then cut the longer one at a random end until the
pair fits. Both segments are of one document, so that no pool of random documents is needed.

One thing differs, on purpose. ALBERT gives a chunk of one sentence a random document as its second
segment, and so asks its model to tell topics apart after all. Here such a sentence is itself cut in
two, at a uniformly drawn token, and switched like any other pair. If it has one token only (it ends
a document), its second segment is empty and it counts as in order.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PAIRS, derive_key, draw, to_below, to_uniform
from corpusmill.objectives.documents import Documents
from corpusmill.objectives.examples import next_sentence_pairs as pairing

# The class of the pairs: 1 if the two segments are switched.
IS_SWITCHED = pairing.IS_RANDOM


@njit
def scan_to_target(sentence_offsets: np.ndarray, begin: int, end: int, target_length: int) -> int:
    """Return how many sentences from `begin` on reach `target_length`, or are left.

    This is one fewer than `corpusmill.objectives.examples.next_sentence_pairs.scan_chunk` takes:
    ALBERT stops at the sentence that reaches the target, the article after the next one.
    """
    stop = begin + 1
    while stop < end and sentence_offsets[stop] - sentence_offsets[begin] < target_length:
        stop += 1
    return stop - begin


@njit
def draw_split(
    sentence_offsets: np.ndarray, begin: int, count: int, key: np.uint64, counter: int
) -> int:
    """Draw where the second segment of a chunk starts, in the batch's tokens.

    Args:
        sentence_offsets: int64[sentences + 1].
        begin: the chunk's first sentence.
        count: the number of its sentences.
        key: the key of the stream.
        counter: the number of the one draw used.

    Returns:
        The start of any sentence except the first. In a single sentence: the place of any token
        except the first, or the sentence's end if it has one token.
    """
    bits = draw(key, counter)
    if count > 1:
        return int(sentence_offsets[begin + 1 + to_below(bits, count - 1)])
    start, length = sentence_offsets[begin], sentence_offsets[begin + 1] - sentence_offsets[begin]
    return int(start + 1 + (to_below(bits, length - 1) if length > 1 else 0))


@njit
def draw_ordered_pairs(
    documents: Documents, seed: int, repeat: int, rule: pairing.PairRule
) -> np.ndarray:
    """Draw the segment pairs of one pass over a batch of documents.

    Args:
        documents: the batch.
        seed: the data set's seed.
        repeat: the number of the pass over the documents.
        rule: how long pairs are.

    Returns:
        int64[pairs, 9], the columns of
        `corpusmill.objectives.examples.next_sentence_pairs.draw_pairs`: FIRST is the segment that
        an example begins with, SECOND_SOURCE is 0, and IS_SWITCHED is 1 if FIRST comes after SECOND
        in the document.

    Example:
        a document of the sentences [10, 11] and [12] gives one pair: FIRST is the span (0, 2) and
        SECOND (2, 1), or the other way round with IS_SWITCHED 1.
    """
    ids, offsets, sentence_offsets = documents
    pairs = np.empty((len(sentence_offsets) - 1, 9), np.int64)
    written = 0
    for place in range(len(ids)):
        key = derive_key(seed, ids[place], repeat, PAIRS)
        target_length = pairing.draw_target_length(key, rule)
        counter = 2
        begin, end = offsets[place], offsets[place + 1]
        index = 0
        while begin < end:
            count = scan_to_target(sentence_offsets, begin, end, target_length)
            start = sentence_offsets[begin]
            middle = draw_split(sentence_offsets, begin, count, key, counter)
            begin += count
            first, second = (start, middle - start), (middle, sentence_offsets[begin] - middle)
            is_switched = second[1] > 0 and to_uniform(draw(key, counter + 1)) < 0.5
            counter += 2
            if is_switched:
                first, second = second, first
            first, second, counter = pairing.cut_pair(
                first, second, rule.max_num_tokens, key, counter
            )
            pairing.write_segments(pairs[written], place, index, first, second, -1)
            pairs[written, IS_SWITCHED] = is_switched
            written += 1
            index += 1
    return pairs[:written]
