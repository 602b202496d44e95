"""Masking of whole words and of n-grams of words, when a data set is built or when it is loaded.

Whole words: Google's create_pretraining_data.py with `do_whole_word_mask`. The words of a row are
taken in random order until the number of predictions is reached; a word that would exceed it is
skipped. n-grams: the same program of ALBERT (Lan et al. 2020, section 4.1), where each word in that
order begins an n-gram, whose n is 1 to `max_ngram` with a probability proportional to 1/n. An
n-gram that would exceed the number is shortened word by word; one that meets a masked word is
skipped.

Each chosen token is corrupted by its own 80/10/10, as in these programs, and the number of
predictions is that of `corpusmill.objectives.masking.tokens`. As words are not split to reach it, a
row may get fewer predictions, and none if each of its words is too long.

Two things differ from these programs, on purpose. They join the later half of a word that was cut
to the word before the last [SEP], and ALBERT's n-grams continue from one segment into the other;
here the token after a special token begins a word, and an n-gram ends with its segment, so that its
words are consecutive in a text, unless `joins_segments` asks for what they do. And words are
recognized by labels, not by the spelling of tokens, which is exact for any tokenizer.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below, to_uniform
from corpusmill.objectives.masking.tokens import (
    MaskingRule,
    Scratch,
    choose,
    corrupt_chosen,
    count_predictions,
    is_chosen,
    make_scratch,
)

# Labels of a row's tokens, as in ERNIE's data sets.
FIRST_OF_WORD, LATER_IN_WORD, NO_WORD = 0, 1, -1


@njit
def label_words(
    input_ids: np.ndarray,
    continues: np.ndarray,
    offsets: np.ndarray,
    maskable_ids: np.ndarray,
    joins_segments: bool,
) -> np.ndarray:
    """Label the tokens of assembled rows that begin a word, and those that continue one.

    The rest of a word at the beginning of a row is a word of its own. After a later special token
    it is one, too, unless it joins the last word before that token.

    Args:
        input_ids: integers[tokens].
        continues: integers or bool[tokens], true where a token continues the word before it.
        offsets: int64[rows + 1].
        maskable_ids: bool[vocabulary], false for special tokens, which belong to no word.
        joins_segments: whether it joins that word.

    Returns:
        seg_labels: int8[tokens], 0 for the first token of a word, 1 for a later one, -1 for a
            special token.

    Example:
        input_ids [2, 10, 11, 3, 12, 13, 3], where 2 and 3 are special, with continues
        [0, 0, 1, 0, 1, 1, 0] give [-1, 0, 1, -1, 0, 1, -1], or [-1, 0, 1, -1, 1, 1, -1] if words
        join segments.
    """
    seg_labels = np.empty(offsets[-1] - offsets[0], np.int8)
    for i in range(len(offsets) - 1):
        before = NO_WORD
        for place in range(offsets[i], offsets[i + 1]):
            if not maskable_ids[input_ids[place]]:
                seg_labels[place - offsets[0]] = NO_WORD
                before = before if joins_segments else NO_WORD
                continue
            before = LATER_IN_WORD if continues[place] and before != NO_WORD else FIRST_OF_WORD
            seg_labels[place - offsets[0]] = before
    return seg_labels


@njit
def ngram_thresholds(max_ngram: int) -> np.ndarray:
    """Return the thresholds that divide the interval from 0 to 1 into the lengths of n-grams.

    Args:
        max_ngram: the words of the longest n-gram.

    Returns:
        float64[max_ngram - 1]; a uniform draw that reaches k of them is an n-gram of k + 1 words.

    Example:
        3 gives [6/11, 9/11], as the probabilities are proportional to 1, 1/2 and 1/3.
    """
    inverse = 1 / np.arange(1, max_ngram + 1)
    thresholds: np.ndarray = (np.cumsum(inverse) / inverse.sum())[:-1]
    return thresholds


@njit
def end_of_ngram(
    seg_labels: np.ndarray, start: int, max_words: int, max_tokens: int, joins_segments: bool
) -> tuple[int, int]:
    """Find the end of the longest n-gram that begins at a word and fits.

    Args:
        seg_labels: int8[length], from `label_words`.
        start: the place of a word's first token.
        max_words: the most words of the n-gram.
        max_tokens: its most tokens.
        joins_segments: whether it continues after a special token, which it does not contain.

    Returns:
        end: the place after its last token; `start` if the first word does not fit.
        size: its tokens.

    Example:
        seg_labels [-1, 0, 1, 0, 0, -1, 1] with start 1, three words and at most 9, 3 and 1 tokens
        give (5, 4), (4, 3) and (1, 0); the first is (7, 5) if it joins segments.
    """
    end = place = start
    size = tokens = 0
    while max_words and place < len(seg_labels) and seg_labels[place] == FIRST_OF_WORD:
        tokens += 1
        place += 1
        word_end = place
        while place < len(seg_labels) and tokens <= max_tokens:
            label = seg_labels[place]
            if label == FIRST_OF_WORD or (label == NO_WORD and not joins_segments):
                break
            place += 1
            if label == LATER_IN_WORD:
                tokens += 1
                word_end = place
        if tokens > max_tokens:
            break
        end, size = word_end, tokens
        max_words -= 1
    return end, size


@njit
def choose_words(
    seg_labels: np.ndarray,
    thresholds: np.ndarray,
    predictions: int,
    joins_segments: bool,
    key: np.uint64,
    scratch: Scratch,
) -> tuple[int, int]:
    """Choose whole words of a row until `predictions` tokens are chosen or no word is left.

    Args:
        seg_labels: int8[length], from `label_words`.
        thresholds: float64[longest n-gram - 1], from `ngram_thresholds`; empty for single words.
        predictions: the most tokens to choose.
        joins_segments: whether words and n-grams continue after a special token.
        key: the key of the row's stream.
        scratch: the bits of chosen tokens are set in `chosen`; `places` is changed.

    Returns:
        num_chosen: how many tokens are chosen.
        counter: the number of the stream's first unused draw.
    """
    chosen, starts = scratch.chosen, scratch.places
    words = 0
    for place in range(len(seg_labels)):
        starts[words] = place
        words += seg_labels[place] == FIRST_OF_WORD
    counter = 0
    num_chosen = 0
    drawn_words = 0
    while num_chosen < predictions and drawn_words < words:
        # The next word of a shuffle that is made only as far as needed.
        other = drawn_words + to_below(draw(key, counter), words - drawn_words)
        start = starts[other]
        starts[other] = starts[drawn_words]
        drawn_words += 1
        counter += 1
        ngram = 1
        if len(thresholds):
            ngram += np.searchsorted(thresholds, to_uniform(draw(key, counter)), "right")
            counter += 1
        room = predictions - num_chosen
        end, size = end_of_ngram(seg_labels, start, ngram, room, joins_segments)
        is_covered = False
        for place in range(start, end):
            is_covered |= is_chosen(chosen, place)
        if not is_covered:
            for place in range(start, end):
                if seg_labels[place] != NO_WORD:
                    choose(chosen, place)
            num_chosen += size
    return num_chosen, counter


@njit
def mask_words(
    input_ids: np.ndarray,
    seg_labels: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    replacement_ids: np.ndarray,
    rule: MaskingRule,
    max_ngram: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask whole words, or n-grams of them, in every row of a batch in place.

    A data set that is masked when it is loaded has the columns `input_ids` and `seg_labels`; the
    keys of an epoch are `corpusmill.objectives.masking.tokens.row_keys(seed, shards, epoch, rows)`.

    Args:
        input_ids: integers[tokens], changed.
        seg_labels: int8[tokens], 0 for the first token of a word, 1 for a later one, -1 for special
            tokens, which are never predicted.
        offsets: int64[rows + 1].
        keys: uint64[rows], one for each row's draws.
        replacement_ids: integers[ids], from which random replacements are drawn.
        rule: how the rows are masked.
        max_ngram: the words of the longest n-gram; 1 for whole words.

    Returns:
        positions: int32[predictions], ascending in each row.
        labels: the type of input_ids[predictions], the original ids.
        prediction_offsets: int64[rows + 1].

    Example:
        input_ids [2, 10, 11, 3, 12, 3] with seg_labels [-1, 0, 1, -1, 0, -1] and at most two
        predictions may become [2, 4, 4, 3, 12, 3] with mask_id 4; positions [1, 2], labels
        [10, 11], prediction_offsets [0, 2]. With at most one, only 12 can be masked.
    """
    rows = len(offsets) - 1
    most = np.zeros(rows + 1, np.int64)
    longest = 0
    for i in range(rows):
        maskable = 0
        for place in range(offsets[i], offsets[i + 1]):
            maskable += seg_labels[place] != NO_WORD
        length = offsets[i + 1] - offsets[i]
        longest = max(longest, length)
        most[i + 1] = most[i] + count_predictions(length, maskable, rule)
    positions = np.empty(most[-1], np.int32)
    labels = np.empty(most[-1], input_ids.dtype)
    prediction_offsets = np.zeros(rows + 1, np.int64)
    scratch = make_scratch(longest)
    thresholds = ngram_thresholds(max_ngram)
    for i in range(rows):
        row_labels = seg_labels[offsets[i] : offsets[i + 1]]
        num_chosen, counter = choose_words(
            row_labels, thresholds, most[i + 1] - most[i], rule.joins_segments, keys[i], scratch
        )
        begin = prediction_offsets[i]
        end = begin + num_chosen
        corrupt_chosen(
            input_ids[offsets[i] : offsets[i + 1]],
            scratch,
            replacement_ids,
            rule,
            keys[i],
            counter,
            positions[begin:end],
            labels[begin:end],
        )
        prediction_offsets[i + 1] = end
    written = prediction_offsets[-1]
    return positions[:written], labels[:written], prediction_offsets
