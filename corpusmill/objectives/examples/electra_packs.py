"""Packs of sentences in two segments, as spans of token arrays: ELECTRA's examples.

The algorithm is that of Google's build_pretraining_dataset.py (seed 001; Clark et al. 2020): the
sentences of a document are added until their length reaches a target, each to a first or a second
segment, and segments that are too long are trimmed at their ends.

The original draws the target length of an example when the previous one is complete, and so carries
it from one document to the next. That draw depends on nothing, and each one is used for exactly one
example: all targets are independent and have the same distribution, wherever documents begin. Here
an example's target is drawn by the key of its own document, which gives the same distribution
without such state. The one exception is the first example of a process of the original, which
always has the full target; here it is drawn like all others.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PACKS, derive_key, draw, to_below, to_uniform
from corpusmill.objectives.tokenized_documents import Documents

# Columns of the first array that `draw_packs` returns.
(
    DOCUMENT,
    INDEX,
    FIRST_SPAN,
    FIRST_LENGTH,
    SECOND_LENGTH,
    FIRST_TRIMMED,
    SECOND_TRIMMED,
    TARGET_LENGTH,
) = range(8)

SHORTEST_TARGET = 5
# The first segment's target in an example with a single segment. The number is the original's, and
# not infinity: further sentences are treated as in the original.
SINGLE_SEGMENT_TARGET = 100_000

# The meaning of an example's draws; the draws of example i begin at i * _DRAWS.
_SHORT, _TARGET, _SINGLE, _OVER, _DRAWS = 0, 1, 2, 3, 4


class PackRule(NamedTuple):
    """How packs are made.

    Attributes:
        max_seq_length: the longest example, with special tokens; at least 5.
        short_seq_prob: the probability of a shorter target, drawn for each example.
        single_segment_prob: the probability that an example has a single segment.
        keeps_overflow: whether trimmed tokens are put back before the document's next sentences, in
            the order of the text, instead of dropped.
    """

    max_seq_length: int
    short_seq_prob: float
    single_segment_prob: float
    keeps_overflow: bool


class _Sentences(NamedTuple):
    """What is left of the sentences of a batch.

    Attributes:
        starts: int64[sentences], where the rest of each begins.
        ends: int64[sentences].
        in_second: bool[sentences], whether the sentence is in its example's second segment.
    """

    starts: np.ndarray
    ends: np.ndarray
    in_second: np.ndarray


@njit
def draw_target_length(key: np.uint64, index: int, rule: PackRule) -> int:
    """Draw the length at which example `index` of a pass is complete: full, or 5 to full."""
    if to_uniform(draw(key, index * _DRAWS + _SHORT)) < rule.short_seq_prob:
        lengths = rule.max_seq_length - SHORTEST_TARGET + 1
        return int(SHORTEST_TARGET + to_below(draw(key, index * _DRAWS + _TARGET), lengths))
    return rule.max_seq_length


@njit
def draw_first_target_length(
    key: np.uint64, index: int, target_length: int, single_segment_prob: float
) -> int:
    """Draw the length at which the first segment is full: half the target, or one never reached.

    As in the original, only this target leaves room for three special tokens.
    """
    if to_uniform(draw(key, index * _DRAWS + _SINGLE)) < single_segment_prob:
        return SINGLE_SEGMENT_TARGET
    return (target_length - 3) // 2


@njit
def goes_over(key: np.uint64, index: int) -> bool:
    """Draw whether the sentence that would exceed the first segment's target is still added to it.

    One draw is enough: after either answer the question does not arise again.
    """
    return bool(to_uniform(draw(key, index * _DRAWS + _OVER)) < 0.5)


@njit
def split_sentences(
    sentences: _Sentences,
    begin: int,
    end: int,
    target_length: int,
    first_target: int,
    key: np.uint64,
    index: int,
) -> tuple[int, int, int]:
    """Add sentences up to the target, each to one of two segments.

    A sentence is added to the first segment if that is empty, or if the sentence does not fill it
    to its target, or, while the second segment is empty, half of the times that it does. So a short
    sentence may be added to the first segment after longer ones went to the second.

    Args:
        sentences: the batch's; `in_second` is filled for those that are added.
        begin: the first sentence.
        end: the one after the document's last.
        target_length: the target of the example.
        first_target: the target of its first segment.
        key: the key of the document's pass.
        index: the number of the example in it.

    Returns:
        The sentence after the last one added, and the tokens of the first and second segment.
    """
    starts, ends, in_second = sentences
    first_length = second_length = 0
    sentence = begin
    while sentence < end and first_length + second_length < target_length:
        length = ends[sentence] - starts[sentence]
        in_second[sentence] = not (
            first_length == 0
            or first_length + length < first_target
            or (second_length == 0 and first_length < first_target and goes_over(key, index))
        )
        if in_second[sentence]:
            second_length += length
        else:
            first_length += length
        sentence += 1
    return sentence, first_length, second_length


@njit
def take_spans(
    sentences: _Sentences,
    begin: int,
    stop: int,
    segment: bool,
    wanted: int,
    spans: np.ndarray,
    placed: int,
) -> int:
    """Take the first tokens of one segment's sentences; adjacent sentences become one span.

    Args:
        sentences: the batch's; `starts` moves past what is taken.
        begin: the example's first sentence.
        stop: the one after its last.
        segment: false for the first segment, true for the second.
        wanted: how many tokens to take.
        spans: int64[:, 2], filled from row `placed` on.
        placed: how many rows are filled.

    Returns:
        How many rows are filled now.
    """
    starts, ends, in_second = sentences
    first = placed
    for sentence in range(begin, stop):
        if wanted == 0:
            break
        length = min(ends[sentence] - starts[sentence], wanted)
        if in_second[sentence] != segment or length == 0:
            continue
        if placed > first and spans[placed - 1, 0] + spans[placed - 1, 1] == starts[sentence]:
            spans[placed - 1, 1] += length
        else:
            spans[placed, 0], spans[placed, 1] = starts[sentence], length
            placed += 1
        starts[sentence] += length
        wanted -= length
    return placed


@njit
def draw_packs(
    documents: Documents, seed: int, repeat: int, rule: PackRule
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the examples of one pass over a batch of documents.

    Args:
        documents: the batch. (In the original, empty sentences change nothing.)
        seed: the data set's seed.
        repeat: the number of the pass over the documents.
        rule: how packs are made.

    Returns:
        packs: int64[packs, 8]: the columns DOCUMENT (place in the batch), INDEX (within the
            document's pass), FIRST_SPAN (the pack's first row of `spans`; its last precedes the
            next pack's first), FIRST_LENGTH and SECOND_LENGTH (tokens of the segments),
            FIRST_TRIMMED and SECOND_TRIMMED (tokens dropped at their ends), TARGET_LENGTH.
        spans: int64[spans, 2]: start and length in the batch's tokens, those of a pack's first
            segment first; none is empty.

    Example:
        a document with sentences of 6, 4 and 7 tokens, max_seq_length 16, a full target and two
        segments, so that the first one's target is 6: FIRST_LENGTH 6, SECOND_LENGTH 7,
        SECOND_TRIMMED 4, with the spans (0, 6) and (6, 7).
    """
    ids, offsets, sentence_offsets = documents
    num_sentences = len(sentence_offsets) - 1
    tokens = sentence_offsets[num_sentences] - sentence_offsets[0]
    # A pack ends a sentence for good, or is full.
    full_packs = tokens // (rule.max_seq_length - 3)
    packs = np.empty((num_sentences + full_packs, 8), np.int64)
    spans = np.empty((num_sentences + 2 * full_packs, 2), np.int64)
    starts, ends = sentence_offsets[:-1].copy(), sentence_offsets[1:]
    sentences = _Sentences(starts, ends, np.zeros(num_sentences, np.bool_))
    written = placed = 0
    for place in range(len(ids)):
        key = derive_key(seed, ids[place], repeat, PACKS)
        begin, end = offsets[place], offsets[place + 1]
        index = 0
        while begin < end:
            target = draw_target_length(key, index, rule)
            first_target = draw_first_target_length(key, index, target, rule.single_segment_prob)
            stop, first_length, second_length = split_sentences(
                sentences, begin, end, target, first_target, key, index
            )
            kept_first = min(first_length, rule.max_seq_length - 2)
            kept_second = min(second_length, max(0, rule.max_seq_length - kept_first - 3))
            is_dropped = not rule.keeps_overflow
            packs[written, DOCUMENT], packs[written, INDEX] = place, index
            packs[written, FIRST_SPAN] = placed
            packs[written, FIRST_LENGTH], packs[written, SECOND_LENGTH] = kept_first, kept_second
            packs[written, FIRST_TRIMMED] = (first_length - kept_first) * is_dropped
            packs[written, SECOND_TRIMMED] = (second_length - kept_second) * is_dropped
            packs[written, TARGET_LENGTH] = target
            written += 1
            index += 1
            for segment, kept in ((False, kept_first), (True, kept_second)):
                placed = take_spans(sentences, begin, stop, segment, kept, spans, placed)
            if rule.keeps_overflow:
                while begin < stop and starts[begin] == ends[begin]:
                    begin += 1
            else:
                begin = stop
    return packs[:written], spans[:placed]


@njit
def assemble_packs(
    packs: np.ndarray, spans: np.ndarray, token_ids: np.ndarray, cls_id: int, sep_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Assemble packs as rows of token ids: [CLS] first [SEP] second [SEP], or [CLS] first [SEP].

    Args:
        packs: int64[packs, 8], from `draw_packs`.
        spans: int64[spans, 2], from `draw_packs`.
        token_ids: integers[tokens], the batch's.
        cls_id: the id of [CLS].
        sep_id: the id of [SEP].

    Returns:
        input_ids: the type of token_ids[total].
        offsets: int64[packs + 1].

    Example:
        a pack with the segments [10, 11] and [12] and one with the single segment [13] give
        [2, 10, 11, 3, 12, 3, 2, 13, 3] and [0, 6, 9], where cls_id is 2 and sep_id is 3.
    """
    offsets = np.zeros(len(packs) + 1, np.int64)
    for i in range(len(packs)):
        second = packs[i, SECOND_LENGTH]
        special = 3 if second else 2
        offsets[i + 1] = offsets[i] + packs[i, FIRST_LENGTH] + second + special
    input_ids = np.empty(offsets[-1], token_ids.dtype)
    for i in range(len(packs)):
        place = offsets[i]
        input_ids[place] = cls_id
        place += 1
        first_end = place + packs[i, FIRST_LENGTH]
        last_span = packs[i + 1, FIRST_SPAN] if i + 1 < len(packs) else len(spans)
        for span in range(packs[i, FIRST_SPAN], last_span):
            if place == first_end:
                input_ids[place] = sep_id
                place += 1
            start, length = spans[span, 0], spans[span, 1]
            for token in range(length):
                input_ids[place + token] = token_ids[start + token]
            place += length
        input_ids[place] = sep_id
    return input_ids, offsets
