"""Segment pairs for next-sentence prediction, as spans of token arrays.

The algorithm is the article's ("Preparing Data for BERT Training", after Google's
create_pretraining_data.py): scan sentences up to a target length, split them at random into two
segments, replace the second by a stretch of a random document half of the time and put the unused
sentences back, then cut the longer segment at a random end until the pair fits. Because the
sentences of a document lie one behind the other, a segment is a span (start, length); nothing is
copied here.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PAIRS, count_bits, derive_key, draw, to_below, to_uniform

# Columns of what `draw_pairs` returns.
(
    DOCUMENT,
    INDEX,
    FIRST_START,
    FIRST_LENGTH,
    SECOND_START,
    SECOND_LENGTH,
    SECOND_SOURCE,
    IS_RANDOM,
) = range(8)

_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit
def truncate_lengths(first: int, second: int, max_num_tokens: int) -> tuple[int, int]:
    """The lengths left when the longer segment gives token after token until the pair fits.

    Of two equal segments the second gives, as in the article.

    Example:
        (9, 4) cut to 10 gives (6, 4); (5, 5) cut to 7 gives (4, 3).
    """
    excess = first + second - max_num_tokens
    if excess <= 0:
        return first, second
    to_equal = min(abs(first - second), excess)
    if first > second:
        first -= to_equal
    else:
        second -= to_equal
    rest = excess - to_equal
    return first - rest // 2, second - (rest + 1) // 2


@njit
def draw_front_cut(key: np.uint64, counter: int, removed: int) -> tuple[int, int]:
    """How many of `removed` tokens go from the front, each with probability one half.

    Returns:
        The number, and the counter of the stream's next unused draw.
    """
    front = 0
    while removed > 0:
        bits = draw(key, counter)
        counter += 1
        if removed < 64:
            bits &= _ALL_BITS >> np.uint64(64 - removed)
        front += count_bits(bits)
        removed -= 64
    return front, counter


@njit
def scan_chunk(sentence_offsets: np.ndarray, begin: int, end: int, target_length: int) -> int:
    """How many sentences from `begin` a pair is made of.

    As in the article the sentence that follows the one that reaches `target_length` is taken too.
    """
    count = 1
    running_length = 0
    while begin + count < end and running_length < target_length:
        running_length += sentence_offsets[begin + count] - sentence_offsets[begin + count - 1]
        count += 1
    return count


@njit
def draw_random_segment(
    key: np.uint64,
    counter: int,
    own_document: int,
    candidates_begin: int,
    candidates_end: int,
    pool_sentence_offsets: np.ndarray,
    pool_document_offsets: np.ndarray,
    wanted: int,
) -> tuple[int, int]:
    """A stretch of whole sentences, at least `wanted` tokens where the document has them.

    Args:
        key: of the stream.
        counter: of the first of the two draws taken.
        own_document: place in the pool of the document that must not be drawn, or -1.
        candidates_begin: first document of the pool that may be drawn.
        candidates_end: one behind the last. At least one of them must not be `own_document`.
        pool_sentence_offsets: int64[sentences + 1] into the pool's tokens.
        pool_document_offsets: int64[documents + 1] into the pool's sentences.
        wanted: tokens that fill the pair up to its target; none are given for 0 or less.

    Returns:
        Start and length of the segment in the pool's tokens.
    """
    others = candidates_end - candidates_begin - (1 if own_document >= 0 else 0)
    document = candidates_begin + to_below(draw(key, counter), others)
    if own_document >= 0 and document >= own_document:
        document += 1
    begin, end = pool_document_offsets[document], pool_document_offsets[document + 1]
    sentence = begin + to_below(draw(key, counter + 1), end - begin)
    start = pool_sentence_offsets[sentence]
    stop = start
    while sentence < end and stop - start < wanted:
        sentence += 1
        stop = pool_sentence_offsets[sentence]
    return start, stop - start


@njit
def find_in_pool(pool_documents: np.ndarray, begin: int, end: int, document: np.uint64) -> int:
    """Place of a document among the sorted ids pool_documents[begin:end], or -1."""
    place = begin + int(np.searchsorted(pool_documents[begin:end], document))
    return place if place < end and pool_documents[place] == document else -1


@njit
def draw_pairs(
    sentence_offsets: np.ndarray,
    document_offsets: np.ndarray,
    documents: np.ndarray,
    candidates: np.ndarray,
    pool_sentence_offsets: np.ndarray,
    pool_document_offsets: np.ndarray,
    pool_documents: np.ndarray,
    seed: int,
    repeat: int,
    max_num_tokens: int,
    short_seq_prob: float,
) -> np.ndarray:
    """The segment pairs of one pass over a batch of documents.

    Where the pool holds no document but the pair's own, the pair keeps its own second segment; with
    none of its own either, the second segment is empty and the pair counts as not random.

    Args:
        sentence_offsets: int64[sentences + 1] into the batch's tokens; no sentence is empty.
        document_offsets: int64[documents + 1] into the sentences.
        documents: uint64[documents], ids.
        candidates: int64[documents, 2], the stretch of the pool each document may draw from.
        pool_sentence_offsets: int64[pool sentences + 1] into the pool's tokens.
        pool_document_offsets: int64[pool documents + 1] into the pool's sentences.
        pool_documents: uint64[pool documents], sorted ids within each stretch.
        seed: the data set's seed.
        repeat: which pass over the documents.
        max_num_tokens: tokens of a pair, special tokens not counted.
        short_seq_prob: probability of a shorter target, drawn once a pass over a document.

    Returns:
        int64[pairs, 8]: the columns DOCUMENT (place in the batch), INDEX (within the document's
        pass), FIRST_START, FIRST_LENGTH, SECOND_START, SECOND_LENGTH, SECOND_SOURCE (0: the batch's
        tokens, 1: the pool's), IS_RANDOM (1: the second segment is of a random document).
    """
    pairs = np.empty((len(sentence_offsets) - 1, 8), np.int64)
    written = 0
    for place in range(len(documents)):
        key = derive_key(seed, documents[place], repeat, PAIRS)
        target_length = max_num_tokens
        if to_uniform(draw(key, 0)) < short_seq_prob:
            target_length = 2 + to_below(draw(key, 1), max_num_tokens - 1)
        counter = 2
        pool_begin, pool_end = candidates[place, 0], candidates[place, 1]
        own = find_in_pool(pool_documents, pool_begin, pool_end, documents[place])
        has_others = pool_end - pool_begin > (1 if own >= 0 else 0)
        begin, end = document_offsets[place], document_offsets[place + 1]
        index = 0
        while begin < end:
            taken = scan_chunk(sentence_offsets, begin, end, target_length)
            kept = 1 + to_below(draw(key, counter), taken - 1) if taken > 1 else 1
            first_start, second_start = sentence_offsets[begin], sentence_offsets[begin + kept]
            first_length = second_start - first_start
            second_length = sentence_offsets[begin + taken] - second_start
            is_random = has_others and (taken == 1 or to_uniform(draw(key, counter + 1)) < 0.5)
            counter += 2
            if is_random:
                second_start, second_length = draw_random_segment(
                    key,
                    counter,
                    own,
                    pool_begin,
                    pool_end,
                    pool_sentence_offsets,
                    pool_document_offsets,
                    target_length - first_length,
                )
                counter += 2
                begin += kept
            else:
                begin += taken
            new_first, new_second = truncate_lengths(first_length, second_length, max_num_tokens)
            first_cut, counter = draw_front_cut(key, counter, first_length - new_first)
            second_cut, counter = draw_front_cut(key, counter, second_length - new_second)
            pairs[written, DOCUMENT], pairs[written, INDEX] = place, index
            pairs[written, FIRST_START] = first_start + first_cut
            pairs[written, FIRST_LENGTH] = new_first
            pairs[written, SECOND_START] = second_start + second_cut
            pairs[written, SECOND_LENGTH] = new_second
            pairs[written, SECOND_SOURCE] = pairs[written, IS_RANDOM] = is_random
            written += 1
            index += 1
    return pairs[:written]
