"""Pairs of segments, as spans of token arrays and as rows: [CLS] first [SEP] second [SEP].

Because the sentences of a document are contiguous, a segment is a span (start, length), and nothing
is copied before the rows are written. All algorithms scan sentences up to a target length, split
them at random into two segments, and cut the longer segment at a random end until the pair fits.

Article: next-sentence prediction as in "Preparing Data for BERT Training", after Google's
create_pretraining_data.py. Half of the time a stretch of a random document replaces the second
segment, and the unused sentences are put back.

Google: next-sentence prediction as in create_pretraining_data.py of google-research/bert, and of
google-research/albert without `random_next_sentence`. The article's pairs differ in two things: its
chunks include the sentence after the one that reaches the target, and its random segment is empty
where the first segment reaches the target. Here a random segment always has a sentence at least, so
that a second segment is empty only where there is no other document. ALBERT switches the segments
half of the time, and draws a random document only for a chunk of one sentence; both have label 1.
One thing differs, on purpose: a random segment never comes from the pair's own document. The
originals draw up to ten times, and then take even that one.

Sentence order: as in ALBERT (Lan et al. 2019, section 3.1). The two segments, always of one
document, are switched half of the time, so that no pool of random documents is needed. One thing
differs, on purpose. ALBERT gives a chunk of one sentence a random document as its second segment,
and so asks its model to tell topics apart after all. Here such a sentence is itself cut in two, at
a uniformly drawn token, and switched like any other pair. If it has one token only (it ends a
document), its second segment is empty and it counts as in order.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PAIRS, count_bits, derive_key, draw, to_below, to_uniform
from corpusmill.objectives.examples import row_spans as spans
from corpusmill.objectives.tokenized_documents import Documents

# Columns of what `draw_pairs` returns.
(
    DOCUMENT,
    INDEX,
    FIRST_START,
    FIRST_LENGTH,
    SECOND_START,
    SECOND_LENGTH,
    SECOND_SOURCE,
    LABEL,
    SECOND_DOCUMENT,
) = range(9)

_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


class PairRule(NamedTuple):
    """Which pairs are made, and how long they are.

    Attributes:
        max_num_tokens: the most tokens of a pair, without special tokens.
        short_seq_prob: the probability of a shorter target, drawn once per pass over a document.
        is_google: whether pairs are those of Google's programs instead of the article's.
        is_ordered: whether segments are switched for sentence-order prediction.
    """

    max_num_tokens: int
    short_seq_prob: float
    is_google: bool = False
    is_ordered: bool = False


@njit
def draw_target_length(key: np.uint64, rule: PairRule) -> int:
    """Draw the target length of a document's pairs from the first two draws of its stream."""
    if to_uniform(draw(key, 0)) < rule.short_seq_prob:
        return int(2 + to_below(draw(key, 1), rule.max_num_tokens - 1))
    return rule.max_num_tokens


@njit
def truncate_lengths(first: int, second: int, max_num_tokens: int) -> tuple[int, int]:
    """Return the segments' lengths after the longer one has lost token after token until both fit.

    If both are equal, the second loses a token, as in the article.

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
    """Draw how many of `removed` tokens are cut from the front, each with probability one half.

    Returns:
        The number of tokens, and the number of the stream's next unused draw.
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
def cut_pair(
    first: tuple[int, int],
    second: tuple[int, int],
    max_num_tokens: int,
    key: np.uint64,
    counter: int,
) -> tuple[tuple[int, int], tuple[int, int], int]:
    """Cut the segments of a pair at random ends until the pair fits.

    Args:
        first: start and length of the first segment.
        second: start and length of the second segment.
        max_num_tokens: the most tokens of the pair.
        key: the key of the stream.
        counter: the number of the stream's first unused draw.

    Returns:
        Both segments, and the number of the stream's next unused draw.
    """
    first_length, second_length = truncate_lengths(first[1], second[1], max_num_tokens)
    first_cut, counter = draw_front_cut(key, counter, first[1] - first_length)
    second_cut, counter = draw_front_cut(key, counter, second[1] - second_length)
    first, second = (first[0] + first_cut, first_length), (second[0] + second_cut, second_length)
    return first, second, counter


@njit
def draw_random_segment(
    key: np.uint64,
    counter: int,
    pool: Documents,
    candidates_begin: int,
    candidates_end: int,
    own_document: int,
    wanted: int,
) -> tuple[int, int, int]:
    """Draw a stretch of whole sentences, of at least `wanted` tokens if the document has them.

    Args:
        key: the key of the stream.
        counter: the number of the first of the two draws used.
        pool: the random documents.
        candidates_begin: the first document of the pool that may be drawn.
        candidates_end: the one after the last. At least one of them must not be `own_document`.
        own_document: the place in the pool of the document that must not be drawn, or -1.
        wanted: the tokens that fill the pair up to its target; 0 or less give an empty segment.

    Returns:
        The segment's document, a place in the pool; its start in the pool's tokens; its length.
    """
    others = candidates_end - candidates_begin - (1 if own_document >= 0 else 0)
    document = candidates_begin + to_below(draw(key, counter), others)
    if own_document >= 0 and document >= own_document:
        document += 1
    begin, end = pool.offsets[document], pool.offsets[document + 1]
    sentence = begin + to_below(draw(key, counter + 1), end - begin)
    start = pool.sentence_offsets[sentence]
    stop = start
    while sentence < end and stop - start < wanted:
        sentence += 1
        stop = pool.sentence_offsets[sentence]
    return document, start, stop - start


@njit
def find_in_pool(pool_documents: np.ndarray, begin: int, end: int, document: np.uint64) -> int:
    """Return a document's place among the sorted ids pool_documents[begin:end], or -1."""
    place = begin + int(np.searchsorted(pool_documents[begin:end], document))
    return place if place < end and pool_documents[place] == document else -1


@njit
def scan_to_target(sentence_offsets: np.ndarray, begin: int, end: int, target_length: int) -> int:
    """Return how many sentences from `begin` on reach `target_length`, or are left."""
    stop = begin + 1
    while stop < end and sentence_offsets[stop] - sentence_offsets[begin] < target_length:
        stop += 1
    return stop - begin


@njit
def draw_pairs(
    documents: Documents,
    pool: Documents,
    candidates: np.ndarray,
    seed: int,
    repeats: np.ndarray,
    rule: PairRule,
) -> np.ndarray:
    """Draw the segment pairs of a batch of documents.

    If the pool holds no document but the pair's own, the pair keeps its own second segment; if it
    has none either, the second segment is empty and the pair does not count as random.

    Args:
        documents: the batch.
        pool: the random documents; the ids are sorted within each stretch.
        candidates: int64[documents, 2], the stretch of the pool that each document may draw from;
            empty ones where all segments are of the document itself.
        seed: the data set's seed.
        repeats: uint16[documents], the number of the pass over each.
        rule: which pairs are made, and how long they are.

    Returns:
        int64[pairs, 9]: the columns DOCUMENT (place in the batch), INDEX (within the document's
        pass), FIRST_START, FIRST_LENGTH, SECOND_START, SECOND_LENGTH, SECOND_SOURCE (0: the batch's
        tokens, 1: the pool's), LABEL (1: the second segment is of a random document, or the first
        comes after the second in the document), SECOND_DOCUMENT (that document's place in the pool;
        -1 where there is none).

    Example:
        a document of the sentences [10, 11] and [12] gives one pair if segments are switched: FIRST
        is the span (0, 2) and SECOND (2, 1), or the other way round with LABEL 1.
    """
    ids, offsets, sentence_offsets = documents
    pairs = np.empty((len(sentence_offsets) - 1, 9), np.int64)
    written = 0
    includes_next = not (rule.is_google or rule.is_ordered)
    cuts_sentences = rule.is_ordered and not rule.is_google
    for place in range(len(ids)):
        key = derive_key(seed, ids[place], repeats[place], PAIRS)
        target_length = draw_target_length(key, rule)
        counter = 2
        pool_begin, pool_end = candidates[place, 0], candidates[place, 1]
        own_place, has_others = -1, False
        if pool_end > pool_begin:
            own_place = find_in_pool(pool.ids, pool_begin, pool_end, ids[place])
            has_others = pool_end - pool_begin > (1 if own_place >= 0 else 0)
        begin, end = offsets[place], offsets[place + 1]
        index = 0
        while begin < end:
            count = scan_to_target(sentence_offsets, begin, end, target_length)
            # The article takes the sentence after the one that reaches the target, too.
            if includes_next and begin + count < end:
                count += 1
            start, stop = sentence_offsets[begin], sentence_offsets[begin + count]
            num_first, middle = 1, stop
            if count > 1:
                num_first += to_below(draw(key, counter), count - 1)
                middle = sentence_offsets[begin + num_first]
            elif cuts_sentences and stop - start > 1:
                middle = start + 1 + to_below(draw(key, counter), stop - start - 1)
            is_half = to_uniform(draw(key, counter + 1)) < 0.5
            counter += 2
            first, second = (start, middle - start), (middle, stop - middle)
            is_random = has_others and (count == 1 or (is_half and not rule.is_ordered))
            is_switched = rule.is_ordered and is_half and second[1] > 0
            random_document = -1
            if is_random:
                wanted = max(1 if rule.is_google else 0, target_length - first[1])
                random_document, middle, length = draw_random_segment(
                    key, counter, pool, pool_begin, pool_end, own_place, wanted
                )
                second = (middle, length)
                counter += 2
            elif is_switched:
                first, second = second, first
            begin += num_first if is_random else count
            first, second, counter = cut_pair(first, second, rule.max_num_tokens, key, counter)
            pairs[written, DOCUMENT], pairs[written, INDEX] = place, index
            pairs[written, FIRST_START], pairs[written, FIRST_LENGTH] = first
            pairs[written, SECOND_START], pairs[written, SECOND_LENGTH] = second
            pairs[written, SECOND_SOURCE] = random_document >= 0
            pairs[written, SECOND_DOCUMENT] = random_document
            pairs[written, LABEL] = is_random or is_switched
            written, index = written + 1, index + 1
    return pairs[:written]


# The special tokens of a row.
NUM_SPECIAL = 3


@njit
def assemble_pairs(
    pairs: np.ndarray, token_ids: np.ndarray, pool_token_ids: np.ndarray, cls_id: int, sep_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Copy the spans of each pair into one row: [CLS] first [SEP] second [SEP].

    Args:
        pairs: int64[pairs, 9], from `draw_pairs`.
        token_ids: integers[tokens], the batch's.
        pool_token_ids: integers[tokens], the pool's, of the same type.
        cls_id: the id of [CLS].
        sep_id: the id of [SEP].

    Returns:
        input_ids: the type of token_ids[total].
        offsets: int64[pairs + 1].

    Example:
        a pair with the spans [10, 11] and [12] gives [2, 10, 11, 3, 12, 3] and [0, 6], where
        cls_id is 2 and sep_id is 3.
    """
    offsets = np.zeros(len(pairs) + 1, np.int64)
    for i in range(len(pairs)):
        length = pairs[i, FIRST_LENGTH] + pairs[i, SECOND_LENGTH] + NUM_SPECIAL
        offsets[i + 1] = offsets[i] + length
    input_ids = np.empty(offsets[-1], token_ids.dtype)
    for i in range(len(pairs)):
        place = offsets[i]
        input_ids[place] = cls_id
        place += 1
        start, length = pairs[i, FIRST_START], pairs[i, FIRST_LENGTH]
        _copy(token_ids, start, length, input_ids, place)
        place += length
        input_ids[place] = sep_id
        place += 1
        start, length = pairs[i, SECOND_START], pairs[i, SECOND_LENGTH]
        if pairs[i, SECOND_SOURCE]:
            _copy(pool_token_ids, start, length, input_ids, place)
        else:
            _copy(token_ids, start, length, input_ids, place)
        input_ids[place + length] = sep_id
    return input_ids, offsets


@njit
def _copy(values: np.ndarray, start: int, length: int, target: np.ndarray, place: int) -> None:
    """Copy values; a slice that is assigned to another one takes thrice as long for a segment."""
    # Indices that may be negative would be checked for it at each value.
    first, target_first = np.uint64(start), np.uint64(place)
    for i in range(np.uint64(length)):
        target[target_first + i] = values[first + i]


@njit
def fill_token_types(offsets: np.ndarray, first_lengths: np.ndarray) -> np.ndarray:
    """Return 0 for [CLS], the first segment and its [SEP]; 1 for the second and its [SEP].

    Args:
        offsets: integers[rows + 1].
        first_lengths: integers[rows], the tokens of the first segment, without special tokens.

    Returns:
        int8[total].

    Example:
        offsets [0, 6] and first_lengths [2] give [0, 0, 0, 0, 1, 1].
    """
    token_types = np.ones(offsets[-1] - offsets[0], np.int8)
    for i in range(len(first_lengths)):
        start = offsets[i] - offsets[0]
        token_types[start : start + first_lengths[i] + 2] = 0
    return token_types


@njit
def locate_segments(pairs: np.ndarray, documents: Documents, pool: Documents) -> np.ndarray:
    """Return where the segments of pairs stand in their documents.

    Args:
        pairs: int64[pairs, 9], from `draw_pairs`.
        documents: the batch.
        pool: the random documents; any where no second segment is random.

    Returns:
        uint64[2 * pairs, 3], the two parts of each pair (`row_spans`).

    Example:
        a pair of the spans (2, 1) and (3, 2) in the batch's tokens, whose document 7 begins with
        token 2, gives [[7, 0, 1], [7, 1, 2]].
    """
    parts = np.empty((2 * len(pairs), 3), np.uint64)
    for i in range(len(pairs)):
        place, other = pairs[i, DOCUMENT], pairs[i, SECOND_DOCUMENT]
        begin = second_begin = documents.sentence_offsets[documents.offsets[place]]
        parts[2 * i, spans.DOCUMENT] = parts[2 * i + 1, spans.DOCUMENT] = documents.ids[place]
        if other >= 0:
            second_begin = pool.sentence_offsets[pool.offsets[other]]
            parts[2 * i + 1, spans.DOCUMENT] = pool.ids[other]
        parts[2 * i, spans.FIRST] = pairs[i, FIRST_START] - begin
        parts[2 * i, spans.LENGTH] = pairs[i, FIRST_LENGTH]
        parts[2 * i + 1, spans.FIRST] = pairs[i, SECOND_START] - second_begin
        parts[2 * i + 1, spans.LENGTH] = pairs[i, SECOND_LENGTH]
    return parts
