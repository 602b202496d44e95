"""Segment pairs for sentence-order prediction, as spans of token arrays.

Source: ALBERT (Lan et al. 2019, section 3.1) and its create_pretraining_data.py without
`random_next_sentence`: scan sentences until they reach a target length, split them at random into
two segments, switch the two half of the time, then cut the longer one at a random end until the
pair fits. Both segments are of one document, so that no pool of random documents is drawn.

One thing differs, on purpose. ALBERT gives a chunk of one sentence a random document as its second
segment, and so asks its model to tell topics apart after all. Here such a sentence is itself cut in
two, at a uniformly drawn token, and switched as any other pair. A sentence of one token that stands
alone (it ends a document) has an empty second segment and counts as in order.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PAIRS, derive_key, draw, to_below, to_uniform
from corpusmill.objectives.examples import next_sentence_pairs as pairing

# The last column of the pairs: 1 where the two segments are switched.
IS_SWITCHED = pairing.IS_RANDOM


@njit
def scan_to_target(sentence_offsets: np.ndarray, begin: int, end: int, target_length: int) -> int:
    """How many sentences from `begin` on reach `target_length`, or are left.

    One fewer than `corpusmill.objectives.examples.next_sentence_pairs.scan_chunk` takes: ALBERT
    stops at the sentence that reaches the target, the article behind the one that follows it.
    """
    stop = begin + 1
    while stop < end and sentence_offsets[stop] - sentence_offsets[begin] < target_length:
        stop += 1
    return stop - begin


@njit
def draw_split(
    sentence_offsets: np.ndarray, begin: int, taken: int, key: np.uint64, counter: int
) -> int:
    """Where the second segment of a chunk starts, in tokens of the batch.

    Args:
        sentence_offsets: int64[sentences + 1].
        begin: first sentence of the chunk.
        taken: sentences of the chunk.
        key: of the stream.
        counter: of the one draw that is taken.

    Returns:
        The start of a sentence but the first; of a single sentence that of any of its tokens but
        the first, or its end where it has one token.
    """
    bits = draw(key, counter)
    if taken > 1:
        return int(sentence_offsets[begin + 1 + to_below(bits, taken - 1)])
    start, length = sentence_offsets[begin], sentence_offsets[begin + 1] - sentence_offsets[begin]
    return int(start + 1 + (to_below(bits, length - 1) if length > 1 else 0))


@njit
def draw_ordered_pairs(
    sentence_offsets: np.ndarray,
    document_offsets: np.ndarray,
    documents: np.ndarray,
    seed: int,
    repeat: int,
    max_num_tokens: int,
    short_seq_prob: float,
) -> np.ndarray:
    """The segment pairs of one pass over a batch of documents.

    Args:
        sentence_offsets: int64[sentences + 1] into the batch's tokens; no sentence is empty.
        document_offsets: int64[documents + 1] into the sentences.
        documents: uint64[documents], ids.
        seed: the data set's seed.
        repeat: which pass over the documents.
        max_num_tokens: tokens of a pair, special tokens not counted.
        short_seq_prob: probability of a shorter target, drawn once a pass over a document.

    Returns:
        int64[pairs, 8], the columns of
        `corpusmill.objectives.examples.next_sentence_pairs.draw_pairs`: FIRST is the segment that
        an example begins with, SECOND_SOURCE is 0, and IS_SWITCHED is 1 where FIRST stands behind
        SECOND in the document.

    Example:
        of one document of the sentences [10, 11] and [12], one pair: FIRST is the span (0, 2) and
        SECOND (2, 1), or the other way round with IS_SWITCHED 1.
    """
    pairs = np.zeros((len(sentence_offsets) - 1, 8), np.int64)
    written = 0
    for place in range(len(documents)):
        key = derive_key(seed, documents[place], repeat, PAIRS)
        target_length = max_num_tokens
        if to_uniform(draw(key, 0)) < short_seq_prob:
            target_length = 2 + to_below(draw(key, 1), max_num_tokens - 1)
        counter = 2
        begin, end = document_offsets[place], document_offsets[place + 1]
        index = 0
        while begin < end:
            taken = scan_to_target(sentence_offsets, begin, end, target_length)
            first_start = sentence_offsets[begin]
            second_start = draw_split(sentence_offsets, begin, taken, key, counter)
            begin += taken
            first_length = second_start - first_start
            second_length = sentence_offsets[begin] - second_start
            switched = second_length > 0 and to_uniform(draw(key, counter + 1)) < 0.5
            counter += 2
            if switched:
                first_start, second_start = second_start, first_start
                first_length, second_length = second_length, first_length
            new_first, new_second = pairing.truncate_lengths(
                first_length, second_length, max_num_tokens
            )
            first_cut, counter = pairing.draw_front_cut(key, counter, first_length - new_first)
            second_cut, counter = pairing.draw_front_cut(key, counter, second_length - new_second)
            pairs[written, pairing.DOCUMENT], pairs[written, pairing.INDEX] = place, index
            pairs[written, pairing.FIRST_START] = first_start + first_cut
            pairs[written, pairing.FIRST_LENGTH] = new_first
            pairs[written, pairing.SECOND_START] = second_start + second_cut
            pairs[written, pairing.SECOND_LENGTH] = new_second
            pairs[written, IS_SWITCHED] = switched
            written += 1
            index += 1
    return pairs[:written]
