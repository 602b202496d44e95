"""Segment pairs by Google's rule: those of BERT's and ALBERT's own programs.

Source: create_pretraining_data.py of google-research/bert, and that of google-research/albert
without `random_next_sentence`. The article's pairs
(`corpusmill.objectives.examples.next_sentence_pairs`) differ in two things: its chunks include the
sentence after the one that reaches the target, and its random segment is empty where the first
segment reaches the target. Here a random segment always has a sentence at least, so that a second
segment is empty only where there is no other document.

ALBERT switches the segments half of the time, and draws a random document only for a chunk of one
sentence; both have label 1. Today's pairs of `sentence-order`
(`corpusmill.objectives.examples.sentence_order_pairs`) cut such a sentence in two instead.

One thing differs, on purpose: a random segment never comes from the pair's own document. The
originals draw up to ten times, and then take even that one.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PAIRS, derive_key, draw, to_below, to_uniform
from corpusmill.objectives.documents import Documents
from corpusmill.objectives.examples import next_sentence_pairs as pairing
from corpusmill.objectives.examples.sentence_order_pairs import scan_to_target


@njit
def draw_google_pairs(
    documents: Documents,
    pool: Documents,
    candidates: np.ndarray,
    seed: int,
    repeat: int,
    rule: pairing.PairRule,
    is_ordered: bool,
) -> np.ndarray:
    """Draw the segment pairs of one pass over a batch of documents.

    If the pool holds no document but the pair's own, no pair is random; a chunk of one sentence
    then has an empty second segment, and the label 0.

    Args:
        documents: the batch.
        pool: the random documents; the ids are sorted within each stretch.
        candidates: int64[documents, 2], the stretch of the pool that each document may draw from.
        seed: the data set's seed.
        repeat: the number of the pass over the documents.
        rule: how long pairs are.
        is_ordered: whether segments are switched as for ALBERT, instead of drawn at random.

    Returns:
        int64[pairs, 9], the columns of `next_sentence_pairs.draw_pairs`; IS_RANDOM is the label: 1
        if the second segment is of a random document, or if FIRST comes after SECOND in the
        document.

    Example:
        a document of the sentences [10, 11] and [12] gives one pair with `is_ordered`: FIRST is the
        span (0, 2) and SECOND (2, 1), or the other way round with the label 1.
    """
    ids, offsets, sentence_offsets = documents
    pairs = np.empty((len(sentence_offsets) - 1, 9), np.int64)
    written = 0
    for place in range(len(ids)):
        key = derive_key(seed, ids[place], repeat, PAIRS)
        target_length = pairing.draw_target_length(key, rule)
        counter = 2
        pool_begin, pool_end = candidates[place, 0], candidates[place, 1]
        own = pairing.find_in_pool(pool.ids, pool_begin, pool_end, ids[place])
        has_others = pool_end - pool_begin > (1 if own >= 0 else 0)
        begin, end = offsets[place], offsets[place + 1]
        index = 0
        while begin < end:
            count = scan_to_target(sentence_offsets, begin, end, target_length)
            kept = 1 + to_below(draw(key, counter), count - 1) if count > 1 else 1
            is_half = to_uniform(draw(key, counter + 1)) < 0.5
            counter += 2
            middle = sentence_offsets[begin + kept]
            first = (sentence_offsets[begin], middle - sentence_offsets[begin])
            second = (middle, sentence_offsets[begin + count] - middle)
            is_random = has_others and (count == 1 or (is_half and not is_ordered))
            is_switched = is_ordered and is_half and count > 1
            random_document = -1
            if is_random:
                wanted = max(1, target_length - first[1])
                random_document, start, length = pairing.draw_random_segment(
                    key, counter, pool, pool_begin, pool_end, own, wanted
                )
                second = (start, length)
                counter += 2
            elif is_switched:
                first, second = second, first
            begin += kept if is_random else count
            first, second, counter = pairing.cut_pair(
                first, second, rule.max_num_tokens, key, counter
            )
            pairing.write_segments(pairs[written], place, index, first, second, random_document)
            pairs[written, pairing.IS_RANDOM] = is_random or is_switched
            written += 1
            index += 1
    return pairs[:written]
