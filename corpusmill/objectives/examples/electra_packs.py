"""Packs of sentences in two segments, as spans of token arrays: ELECTRA's examples.

The algorithm is that of Google's build_pretraining_dataset.py (seed 001; Clark et al. 2020):
sentences of a document are taken until their length reaches a target, go to a first and a second
segment, and what is too long is trimmed at the segments' ends.

The original draws the target length of an example when the one before it is done, and so carries it
over from document to document. That draw depends on nothing, and each one is used for exactly one
example: all targets are independent and have the same distribution, wherever documents begin. Here
an example's target is drawn by the keys of its own document, which gives the same distribution and
needs no state from document to document. The one exception is the first example of a process
of the original, which always has the full target; here it is drawn like all others.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import PACKS, derive_key, draw, to_below, to_uniform

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
# The first segment's target of an example that shall have one segment. The number is the original's
# and no infinity: sentences beyond it are treated as there.
SINGLE_SEGMENT_TARGET = 100_000

# Which of an example's draws is what; the draws of example i begin at i * _DRAWS.
_SHORT, _TARGET, _SINGLE, _OVER, _DRAWS = 0, 1, 2, 3, 4


@njit
def draw_target_length(
    key: np.uint64, index: int, max_seq_length: int, short_seq_prob: float
) -> int:
    """The length at which example `index` of a pass is made: the full one, or 5 to the full one."""
    if to_uniform(draw(key, index * _DRAWS + _SHORT)) < short_seq_prob:
        lengths = max_seq_length - SHORTEST_TARGET + 1
        return int(SHORTEST_TARGET + to_below(draw(key, index * _DRAWS + _TARGET), lengths))
    return max_seq_length


@njit
def draw_first_target_length(
    key: np.uint64, index: int, target_length: int, single_segment_prob: float
) -> int:
    """The length at which the first segment is full: half the target, or one that is never reached.

    The target leaves room for three special tokens here, though not where sentences are taken.
    """
    if to_uniform(draw(key, index * _DRAWS + _SINGLE)) < single_segment_prob:
        return SINGLE_SEGMENT_TARGET
    return (target_length - 3) // 2


@njit
def goes_over(key: np.uint64, index: int) -> bool:
    """Whether the sentence that would put the first segment over its target still goes to it.

    One draw is enough: with either answer the question does not come again.
    """
    return bool(to_uniform(draw(key, index * _DRAWS + _OVER)) < 0.5)


@njit
def split_sentences(
    starts: np.ndarray,
    ends: np.ndarray,
    in_second: np.ndarray,
    begin: int,
    end: int,
    target_length: int,
    first_target: int,
    key: np.uint64,
    index: int,
) -> tuple[int, int, int]:
    """Take sentences up to the target, each to one of two segments.

    A sentence goes to the first segment where that is empty, or the sentence does not fill it to
    its target, or, while the second is empty, half of the times that it does. So a short sentence
    may still go to the first segment when longer ones before it are in the second.

    Args:
        starts: int64[sentences], where what is left of each begins.
        ends: int64[sentences].
        in_second: bool[sentences], filled for those that are taken.
        begin: the first sentence.
        end: one behind the document's last.
        target_length: of the example.
        first_target: of its first segment.
        key: of the document's pass.
        index: of the example in it.

    Returns:
        The sentence behind the last one taken, and the tokens of the first and second segment.
    """
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
def draw_packs(
    sentence_offsets: np.ndarray,
    document_offsets: np.ndarray,
    documents: np.ndarray,
    seed: int,
    repeat: int,
    max_seq_length: int,
    short_seq_prob: float,
    single_segment_prob: float,
    keep_overflow: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """The examples of one pass over a batch of documents.

    Args:
        sentence_offsets: int64[sentences + 1] into the batch's tokens; no sentence is empty (an
            empty one changes nothing in the original).
        document_offsets: int64[documents + 1] into the sentences.
        documents: uint64[documents], ids.
        seed: the data set's seed.
        repeat: which pass over the documents.
        max_seq_length: longest example, special tokens included; at least 5.
        short_seq_prob: probability of a shorter target, drawn for each example.
        single_segment_prob: probability that an example shall have one segment only.
        keep_overflow: whether what is trimmed is put back in front of the document's next
            sentences, in the order of the text, instead of dropped.

    Returns:
        packs: int64[packs, 8]: the columns DOCUMENT (place in the batch), INDEX (within the
            document's pass), FIRST_SPAN (the first row of `spans` that is the pack's; the last is
            in front of the next pack's first), FIRST_LENGTH and SECOND_LENGTH (tokens of the
            segments), FIRST_TRIMMED and SECOND_TRIMMED (tokens dropped at their ends),
            TARGET_LENGTH.
        spans: int64[spans, 2]: start and length in the batch's tokens, those of a pack's first
            segment first; none is empty.

    Example:
        one document of sentences of 6, 4 and 7 tokens, max_seq_length 16, full target, two
        segments, so that the first one's target is 6: FIRST_LENGTH 6, SECOND_LENGTH 7,
        SECOND_TRIMMED 4, with the spans (0, 6) and (6, 7).
    """
    sentences = len(sentence_offsets) - 1
    tokens = sentence_offsets[sentences] - sentence_offsets[0]
    # A pack ends a sentence for good, or holds all that there is room for.
    full_packs = tokens // (max_seq_length - 3)
    packs = np.empty((sentences + full_packs, 8), np.int64)
    spans = np.empty((sentences + 2 * full_packs, 2), np.int64)
    starts = sentence_offsets[:-1].copy()  # of what is left of each sentence
    ends = sentence_offsets[1:]
    in_second = np.zeros(sentences, np.bool_)
    written = placed = 0
    for place in range(len(documents)):
        key = derive_key(seed, documents[place], repeat, PACKS)
        begin, end = document_offsets[place], document_offsets[place + 1]
        index = 0
        while begin < end:
            target_length = draw_target_length(key, index, max_seq_length, short_seq_prob)
            first_target = draw_first_target_length(key, index, target_length, single_segment_prob)
            stop, first_length, second_length = split_sentences(
                starts, ends, in_second, begin, end, target_length, first_target, key, index
            )
            kept_first = min(first_length, max_seq_length - 2)
            kept_second = min(second_length, max(0, max_seq_length - kept_first - 3))
            dropped = not keep_overflow
            packs[written, DOCUMENT], packs[written, INDEX] = place, index
            packs[written, FIRST_SPAN] = placed
            packs[written, FIRST_LENGTH], packs[written, SECOND_LENGTH] = kept_first, kept_second
            packs[written, FIRST_TRIMMED] = (first_length - kept_first) * dropped
            packs[written, SECOND_TRIMMED] = (second_length - kept_second) * dropped
            packs[written, TARGET_LENGTH] = target_length
            written += 1
            index += 1
            for segment, kept in ((False, kept_first), (True, kept_second)):
                placed = take_spans(
                    starts, ends, in_second, begin, stop, segment, kept, spans, placed
                )
            if keep_overflow:
                while begin < stop and starts[begin] == ends[begin]:
                    begin += 1
            else:
                begin = stop
    return packs[:written], spans[:placed]


@njit
def take_spans(
    starts: np.ndarray,
    ends: np.ndarray,
    in_second: np.ndarray,
    begin: int,
    stop: int,
    segment: bool,
    wanted: int,
    spans: np.ndarray,
    placed: int,
) -> int:
    """Take the first tokens of one segment's sentences; neighbours become one span.

    Args:
        starts: int64[sentences], where what is left of each begins; moved by what is taken.
        ends: int64[sentences].
        in_second: bool[sentences], which segment each is in.
        begin: the example's first sentence.
        stop: the one behind its last.
        segment: false for the first segment, true for the second.
        wanted: how many tokens.
        spans: int64[:, 2], filled from row `placed` on.
        placed: how many rows are filled.

    Returns:
        How many rows are filled now.
    """
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
def assemble_packs(
    packs: np.ndarray, spans: np.ndarray, token_ids: np.ndarray, cls_id: int, sep_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Packs as rows of token ids: [CLS] first [SEP] second [SEP], or [CLS] first [SEP].

    Args:
        packs: int64[packs, 8], of `draw_packs`.
        spans: int64[spans, 2], of `draw_packs`.
        token_ids: integers[tokens] of the batch.
        cls_id: id of [CLS].
        sep_id: id of [SEP].

    Returns:
        input_ids: the type of token_ids[total].
        offsets: int64[packs + 1].

    Example:
        a pack with the segments [10, 11] and [12] and one with the segment [13] alone give
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
