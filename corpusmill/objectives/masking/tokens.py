"""Masking of single tokens for the masked language model: 80 % [MASK], 10 % random, 10 % unchanged.

The rule is BERT's (Devlin et al. 2018, section 3.1) in the article's form: the number of
predictions is `round(tokens * masked_lm_prob)`, at least one, at most `max_predictions_per_seq`.
The same function masks rows once, when a data set is built, and anew in each epoch, when unmasked
rows are loaded: another key draws other places. Whole words and n-grams are masked by
`corpusmill.objectives.masking.words`.

ModernBERT's program has no such number (`mlm_masking` in src/sequence_packer.py of its repository):
each place of a row is predicted with the probability `masked_lm_prob`, and all are independent.
DistilBERT's draws rare tokens more often (`prepare_batch_mlm` in distiller.py of its project), each
in proportion to a power of its count in the corpus.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import MASKING, count_bits, draw, draw_rows, to_below, to_uniform

# Instead of a number of special tokens: those of each row are counted.
COUNTED = -1

_NO_BIT, _ONE_BIT = np.uint64(0), np.uint64(1)


class MaskingRule(NamedTuple):
    """How many tokens of a row are predicted, and what replaces them.

    Attributes:
        masked_lm_prob: the share of a row's tokens to predict.
        max_predictions: the most predictions of a row.
        num_special: the special tokens of a row, which `masked_lm_prob` does not count; COUNTED if
            rows differ in them.
        mask_id: the id of [MASK].
        mask_replace_prob: the probability that a chosen token becomes [MASK].
        random_replace_prob: the probability that it becomes a random token; otherwise it stays.
        joins_segments: whether words and n-grams continue after a special token, as in Google's
            programs.
        draws_each: whether each place is drawn by itself, as in ModernBERT's program.
    """

    masked_lm_prob: float
    max_predictions: int
    num_special: int
    mask_id: int
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1
    joins_segments: bool = False
    draws_each: bool = False


@njit
def count_predictions(length: int, maskable: int, rule: MaskingRule) -> int:
    """Return how many tokens of a row are predicted; halves round to even, as in Python's `round`.

    Args:
        length: the row's tokens, with special tokens.
        maskable: how many of them may be chosen.
        rule: how the rows are masked.
    """
    tokens = maskable if rule.num_special == COUNTED else length - rule.num_special
    wanted = int(np.rint(tokens * rule.masked_lm_prob))
    return min(maskable, rule.max_predictions, max(1, wanted))


def row_keys(
    seed: int | np.uint64, documents: np.ndarray, repeat: int | np.ndarray, indices: np.ndarray
) -> np.ndarray:
    """Derive the keys by which rows are masked from what identifies the rows.

    Args:
        seed: the data set's seed.
        documents: uint64[rows], the id of each row's document; a reader may pass its shard.
        repeat: the number of the pass over the documents, or uint16[rows]; a reader may pass the
            epoch.
        indices: integers[rows], each row's place in its document's pass, or in the shard.

    Returns:
        uint64[rows].

    Raises:
        ValueError: there is another number of indices than of documents.

    Example:
        keys of a shard's first three rows in the second epoch:
        row_keys(seed, np.full(3, shard, np.uint64), 1, np.arange(3)).
    """
    return draw_rows(seed, documents, repeat, indices, MASKING)


class Scratch(NamedTuple):
    """Memory for what is drawn for a row.

    Attributes:
        chosen: uint64[longest / 64, rounded up], one bit per place, the lowest bit of the first
            number first; all zero between rows. Finding the chosen places takes one step per set
            bit; bytes would take one per place, and a branch misprediction per chosen place.
        places: int64[longest].
        shares: float64[longest].
    """

    chosen: np.ndarray
    places: np.ndarray
    shares: np.ndarray


@njit
def make_scratch(longest: int) -> Scratch:
    """Allocate memory for rows of up to `longest` tokens."""
    chosen = np.zeros((longest + 63) // 64, np.uint64)
    return Scratch(chosen, np.empty(longest, np.int64), np.empty(longest))


@njit
def choose(chosen: np.ndarray, place: int) -> None:
    """Set a place's bit."""
    chosen[place >> 6] |= _ONE_BIT << np.uint64(place & 63)


@njit
def is_chosen(chosen: np.ndarray, place: int) -> bool:
    """Return whether a place's bit is set."""
    is_set: bool = (chosen[place >> 6] >> np.uint64(place & 63)) & _ONE_BIT != _NO_BIT
    return is_set


# Inlined, as is `mask_row`; otherwise counting references to a row's slices takes a fifth of the
# time.
@njit(inline="always")
def corrupt_chosen(
    row: np.ndarray,
    scratch: Scratch,
    replacement_ids: np.ndarray,
    rule: MaskingRule,
    key: np.uint64,
    counter: int,
    positions: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Corrupt the chosen places of a row, each by its own draws.

    Args:
        row: integers[length], changed.
        scratch: `chosen` holds the places, and is cleared; the other arrays are changed.
        replacement_ids: integers[ids], from which random replacements are drawn.
        rule: what replaces a chosen token.
        key: the key of the row's stream.
        counter: the number of the stream's first unused draw.
        positions: integers[chosen places], filled, ascending.
        labels: integers[chosen places], filled with the original ids.
    """
    chosen, drawn, shares = scratch
    written = 0
    for word in range((len(row) + 63) // 64):
        bits = chosen[word]
        chosen[word] = _NO_BIT
        while bits != _NO_BIT:
            lowest = bits & (~bits + _ONE_BIT)
            bits ^= lowest
            positions[written] = (word << 6) + count_bits(lowest - _ONE_BIT)
            written += 1
    # All draws come first: the processor makes several at a time, and branches on none of them.
    for i in range(written):
        shares[i] = to_uniform(draw(key, counter + 2 * i))
    for i in range(written):
        drawn[i] = to_below(draw(key, counter + 2 * i + 1), len(replacement_ids))
    replaced = rule.mask_replace_prob + rule.random_replace_prob
    for i in range(written):
        token = row[positions[i]]
        labels[i] = token
        other = replacement_ids[drawn[i]] if shares[i] < replaced else token
        row[positions[i]] = rule.mask_id if shares[i] < rule.mask_replace_prob else other


@njit(inline="always")
def mask_row(
    row: np.ndarray,
    scratch: Scratch,
    maskable_ids: np.ndarray,
    replacement_ids: np.ndarray,
    rule: MaskingRule,
    key: np.uint64,
    positions: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Choose maskable places of a row, as many as `positions` holds, and corrupt them in place.

    Places are drawn until enough different maskable ones are found, which makes every set of them
    equally likely without a list of candidates.

    Args:
        row: integers[length], changed; it must hold enough maskable tokens.
        scratch: changed, except `chosen`, which is all zero before and after.
        maskable_ids: bool[vocabulary], false for ids that are never predicted.
        replacement_ids: integers[ids], from which random replacements are drawn.
        rule: what replaces a chosen token.
        key: the key of the row's stream.
        positions: integers[predictions], filled, ascending.
        labels: integers[predictions], filled with the original ids.
    """
    chosen, places = scratch.chosen, scratch.places
    predictions = len(positions)
    for i in range(predictions):
        places[i] = to_below(draw(key, i), len(row))
    num_chosen = 0
    for place in places[:predictions]:
        is_new = not is_chosen(chosen, place) and maskable_ids[row[place]]
        if is_new:
            choose(chosen, place)
        num_chosen += is_new
    counter = predictions
    while num_chosen < predictions:
        place = to_below(draw(key, counter), len(row))
        counter += 1
        if not is_chosen(chosen, place) and maskable_ids[row[place]]:
            choose(chosen, place)
            num_chosen += 1
    corrupt_chosen(row, scratch, replacement_ids, rule, key, counter, positions, labels)


@njit
def mask_rows(
    input_ids: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    maskable_ids: np.ndarray,
    replacement_ids: np.ndarray,
    rule: MaskingRule,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask every row of a batch in place.

    Args:
        input_ids: integers[tokens], changed.
        offsets: int64[rows + 1].
        keys: uint64[rows], one for each row's draws (`row_keys`).
        maskable_ids: bool[vocabulary], false for ids that are never predicted.
        replacement_ids: integers[ids], from which random replacements are drawn.
        rule: how the rows are masked.

    Returns:
        positions: int32[predictions], ascending in each row.
        labels: the type of input_ids[predictions], the original ids.
        prediction_offsets: int64[rows + 1].

    Example:
        input_ids [2, 10, 11, 3, 12, 3] becomes [2, 10, 4, 3, 12, 3] with mask_id 4; positions [2],
        labels [11], prediction_offsets [0, 1].
    """
    rows = len(offsets) - 1
    prediction_offsets = np.zeros(rows + 1, np.int64)
    longest = 0
    for i in range(rows):
        length = offsets[i + 1] - offsets[i]
        longest = max(longest, length)
        most = length if rule.num_special == COUNTED else count_predictions(length, length, rule)
        maskable = 0
        for token in input_ids[offsets[i] : offsets[i + 1]]:
            if maskable == most:  # usually reached early, so that a row is not read to its end
                break
            maskable += maskable_ids[token]
        prediction_offsets[i + 1] = prediction_offsets[i] + count_predictions(
            length, maskable, rule
        )
    positions = np.empty(prediction_offsets[-1], np.int32)
    labels = np.empty(prediction_offsets[-1], input_ids.dtype)
    scratch = make_scratch(longest)
    for i in range(rows):
        begin, end = prediction_offsets[i], prediction_offsets[i + 1]
        mask_row(
            input_ids[offsets[i] : offsets[i + 1]],
            scratch,
            maskable_ids,
            replacement_ids,
            rule,
            keys[i],
            positions[begin:end],
            labels[begin:end],
        )
    return positions, labels, prediction_offsets


@njit
def choose_by_weight(
    weights: np.ndarray, predictions: int, key: np.uint64, scratch: Scratch
) -> int:
    """Choose places one after another, each with a probability in proportion to its weight.

    Places wait for an exponentially distributed time with their weight as the rate, and the first
    ones to come are chosen, which gives the same distribution.

    Args:
        weights: float64[length], none below 0; places with a weight of 0 are not chosen.
        predictions: the most places to choose.
        key: the key of the row's stream, of which the first `length` draws are used.
        scratch: the bits of chosen places are set in `chosen`; `shares` is changed.

    Returns:
        How many places are chosen.
    """
    times = scratch.shares[: len(weights)]
    possible = 0
    for place in range(len(weights)):
        wait = -np.log(1 - to_uniform(draw(key, place)))
        times[place] = wait / weights[place] if weights[place] > 0 else np.inf
        possible += weights[place] > 0
    predictions = min(possible, predictions)
    for place in np.argsort(times)[:predictions]:
        choose(scratch.chosen, place)
    return predictions


@njit
def choose_each(weights: np.ndarray, share: float, key: np.uint64, scratch: Scratch) -> int:
    """Choose each place whose weight is not 0 with the probability `share`; see above."""
    chosen = 0
    for place in range(len(weights)):
        if weights[place] > 0 and to_uniform(draw(key, place)) < share:
            choose(scratch.chosen, place)
            chosen += 1
    return chosen


@njit
def mask_weighted(
    input_ids: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    weights: np.ndarray,
    replacement_ids: np.ndarray,
    rule: MaskingRule,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask every row of a batch in place, by the weights of its tokens or each place by itself.

    By weights, `masked_lm_prob` of a row's tokens are predicted, special tokens counted and rounded
    up, as in DistilBERT's program.

    Args:
        input_ids: integers[tokens], changed.
        offsets: int64[rows + 1].
        keys: uint64[rows], one for each row's draws.
        weights: float64[vocabulary], 0 for ids that are never predicted.
        replacement_ids: integers[ids], from which random replacements are drawn.
        rule: how the rows are masked.

    Returns:
        What `mask_rows` returns.
    """
    rows = len(offsets) - 1
    positions = np.empty(len(input_ids), np.int32)
    labels = np.empty(len(input_ids), input_ids.dtype)
    ends = np.zeros(rows + 1, np.int64)
    scratch = make_scratch(0 if rows == 0 else np.diff(offsets).max())
    for i in range(rows):
        row = input_ids[offsets[i] : offsets[i + 1]]
        if rule.draws_each:
            chosen = choose_each(weights[row], rule.masked_lm_prob, keys[i], scratch)
        else:
            most = min(int(np.ceil(rule.masked_lm_prob * len(row))), rule.max_predictions)
            chosen = choose_by_weight(weights[row], most, keys[i], scratch)
        begin, end = ends[i], ends[i] + chosen
        corrupt_chosen(
            row,
            scratch,
            replacement_ids,
            rule,
            keys[i],
            len(row),
            positions[begin:end],
            labels[begin:end],
        )
        ends[i + 1] = end
    return positions[: ends[-1]], labels[: ends[-1]], ends
