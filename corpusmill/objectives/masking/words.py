"""Masking of whole words and of n-grams of them, when a data set is built or when it is loaded.

Whole words: Google's create_pretraining_data.py with `do_whole_word_mask`. The words of a row are
taken in random order until the number of predictions is reached; one that would exceed it is passed
by. n-grams: the same program of ALBERT (Lan et al. 2020, section 4.1), where each word in that
order begins an n-gram, whose n is 1 to `max_ngram` with a probability proportional to 1/n. One that
would exceed the number is shortened word by word; one that meets a masked word is passed by.

Each token of what is taken is corrupted by its own 80/10/10, as there, and the number of
predictions is that of `corpusmill.objectives.masking.tokens`. As words are not split to reach it,
it is the most that a row gets: one whose every word is too long for it gets none.

Two things differ from these programs, on purpose. They join the later half of a word that was cut
to the word before the last [SEP], and ALBERT's n-grams run from one segment into the other; here
what stands behind a special token begins a word, and an n-gram ends with its segment, so that its
words follow each other in a text. And what is a word is not told from the spelling of tokens but
from labels, so that it is exact for any tokenizer.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below, to_uniform
from corpusmill.objectives.masking.tokens import (
    MASK_REPLACE_PROB,
    RANDOM_REPLACE_PROB,
    Scratch,
    choose,
    corrupt_chosen,
    count_predictions,
    is_chosen,
    make_scratch,
)

# Labels of a row's tokens, as ERNIE's data sets have them.
FIRST_OF_WORD, LATER_IN_WORD, NO_WORD = 0, 1, -1


@njit
def label_words(
    input_ids: np.ndarray, continues: np.ndarray, offsets: np.ndarray, maskable_ids: np.ndarray
) -> np.ndarray:
    """Which tokens of assembled rows begin a word, and which continue one.

    What is left of a word behind a special token, or at the begin of a row, begins a word.

    Args:
        input_ids: integers[tokens].
        continues: integers or bool[tokens], true where a token continues the word before it.
        offsets: int64[rows + 1].
        maskable_ids: bool[vocabulary], false for special tokens, which are no words.

    Returns:
        seg_labels: int8[tokens], 0 for the first token of a word, 1 for a later one, -1 for none.

    Example:
        input_ids [2, 10, 11, 3, 12, 13, 3], where 2 and 3 are special, with continues
        [0, 0, 1, 0, 1, 1, 0] give [-1, 0, 1, -1, 0, 1, -1].
    """
    seg_labels = np.empty(offsets[-1] - offsets[0], np.int8)
    for i in range(len(offsets) - 1):
        before = NO_WORD
        for place in range(offsets[i], offsets[i + 1]):
            if not maskable_ids[input_ids[place]]:
                before = NO_WORD
            elif continues[place] and before != NO_WORD:
                before = LATER_IN_WORD
            else:
                before = FIRST_OF_WORD
            seg_labels[place - offsets[0]] = before
    return seg_labels


@njit
def ngram_thresholds(max_ngram: int) -> np.ndarray:
    """Where the lengths of n-grams part the interval from 0 to 1.

    Args:
        max_ngram: words of the longest n-gram.

    Returns:
        float64[max_ngram - 1]; a uniform draw that reaches k of them is an n-gram of k + 1 words.

    Example:
        3 gives [6/11, 9/11], as 1, 1/2 and 1/3 are to each other as 6, 3 and 2.
    """
    inverse = 1 / np.arange(1, max_ngram + 1)
    thresholds: np.ndarray = (np.cumsum(inverse) / inverse.sum())[:-1]
    return thresholds


@njit
def end_of_ngram(seg_labels: np.ndarray, start: int, max_words: int, max_tokens: int) -> int:
    """Where the longest n-gram ends that begins at a word and has room.

    Args:
        seg_labels: int8[length], as `label_words` gives them.
        start: place of the first token of a word.
        max_words: most words of the n-gram.
        max_tokens: most tokens of it.

    Returns:
        place behind its last token; `start` where the first word has no room.

    Example:
        of seg_labels [-1, 0, 1, 0, 0, -1], start 1 and three words, room for 9, 3 and 1 tokens
        gives 5, 4 and 1.
    """
    stop = min(len(seg_labels), start + max_tokens + 1)
    end = start
    place = start
    while max_words and place < stop and seg_labels[place] == FIRST_OF_WORD:
        place += 1
        while place < stop and seg_labels[place] == LATER_IN_WORD:
            place += 1
        if place - start <= max_tokens:
            end = place
        max_words -= 1
    return end


@njit
def choose_words(
    seg_labels: np.ndarray,
    thresholds: np.ndarray,
    predictions: int,
    key: np.uint64,
    scratch: Scratch,
) -> tuple[int, int]:
    """Choose whole words of a row until `predictions` tokens are chosen or no word is left.

    Args:
        seg_labels: int8[length], as `label_words` gives them.
        thresholds: float64[longest n-gram - 1], from `ngram_thresholds`; empty for single words.
        predictions: most tokens to choose.
        key: of the row's stream.
        scratch: the bits of chosen tokens are set in `chosen`; `places` is changed.

    Returns:
        found: how many tokens are chosen.
        counter: of the stream's first draw that is not yet used.
    """
    chosen, starts = scratch.chosen, scratch.places
    words = 0
    for place in range(len(seg_labels)):
        starts[words] = place
        words += seg_labels[place] == FIRST_OF_WORD
    counter = 0
    found = 0
    taken = 0
    while found < predictions and taken < words:
        # The next word of a shuffle that is made no further than it is needed.
        other = taken + to_below(draw(key, counter), words - taken)
        start = starts[other]
        starts[other] = starts[taken]
        taken += 1
        counter += 1
        ngram = 1
        if len(thresholds):
            ngram += np.searchsorted(thresholds, to_uniform(draw(key, counter)), "right")
            counter += 1
        end = end_of_ngram(seg_labels, start, ngram, predictions - found)
        covered = False
        for place in range(start, end):
            covered |= is_chosen(chosen, place)
        if not covered:
            for place in range(start, end):
                choose(chosen, place)
            found += end - start
    return found, counter


@njit
def mask_words(
    input_ids: np.ndarray,
    seg_labels: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    replacement_ids: np.ndarray,
    num_special: int,
    mask_id: int,
    masked_lm_prob: float,
    max_predictions: int,
    max_ngram: int,
    mask_replace_prob: float = MASK_REPLACE_PROB,
    random_replace_prob: float = RANDOM_REPLACE_PROB,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask whole words, or n-grams of them, of every row of a batch in place.

    A data set that is masked at load time has `input_ids` and `seg_labels` as columns; the keys of
    an epoch are `corpusmill.objectives.masking.tokens.row_keys(seed, shards, epoch, rows)`.

    Args:
        input_ids: integers[tokens], changed.
        seg_labels: int8[tokens], 0 for the first token of a word, 1 for a later one, -1 for special
            tokens, which are never predicted.
        offsets: int64[rows + 1].
        keys: uint64[rows], one for each row's draws.
        replacement_ids: integers[ids], what the random tenth is drawn from.
        num_special: special tokens of a row, which `masked_lm_prob` does not count.
        mask_id: id of [MASK].
        masked_lm_prob: share of a row's tokens to predict.
        max_predictions: cap a row.
        max_ngram: words of the longest n-gram; 1 for whole words.
        mask_replace_prob: as in `tokens.corrupt_chosen`, and the next one.
        random_replace_prob: see there.

    Returns:
        positions: int32[predictions], ascending in each row.
        labels: the type of input_ids[predictions], the ids that stood there.
        prediction_offsets: int64[rows + 1].

    Example:
        input_ids [2, 10, 11, 3, 12, 3] with seg_labels [-1, 0, 1, -1, 0, -1] and room for two
        predictions may become [2, 4, 4, 3, 12, 3] with mask_id 4; positions [1, 2], labels
        [10, 11], prediction_offsets [0, 2]. With room for one, 12 alone can be masked.
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
        most[i + 1] = most[i] + count_predictions(
            length - num_special, maskable, masked_lm_prob, max_predictions
        )
    positions = np.empty(most[-1], np.int32)
    labels = np.empty(most[-1], input_ids.dtype)
    prediction_offsets = np.zeros(rows + 1, np.int64)
    scratch = make_scratch(longest)
    thresholds = ngram_thresholds(max_ngram)
    for i in range(rows):
        row_labels = seg_labels[offsets[i] : offsets[i + 1]]
        found, counter = choose_words(
            row_labels, thresholds, most[i + 1] - most[i], keys[i], scratch
        )
        begin = prediction_offsets[i]
        end = begin + found
        corrupt_chosen(
            input_ids[offsets[i] : offsets[i + 1]],
            scratch,
            replacement_ids,
            mask_id,
            keys[i],
            counter,
            positions[begin:end],
            labels[begin:end],
            mask_replace_prob,
            random_replace_prob,
        )
        prediction_offsets[i + 1] = end
    written = prediction_offsets[-1]
    return positions[:written], labels[:written], prediction_offsets


@njit
def count_words(seg_labels: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Words of each sequence.

    Args:
        seg_labels: int8[tokens].
        offsets: integers[sequences + 1].

    Returns:
        int64[sequences].

    Example:
        [-1, 0, 1, -1, 0, -1] and [0, 6] give [2].
    """
    words = np.zeros(len(offsets) - 1, np.int64)
    for i in range(len(words)):
        for place in range(offsets[i], offsets[i + 1]):
            words[i] += seg_labels[place] == FIRST_OF_WORD
    return words
