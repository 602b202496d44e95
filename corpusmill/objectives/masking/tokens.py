"""Masking for the masked language model: 80 % [MASK], 10 % random, 10 % unchanged.

The rule is BERT's (Devlin et al. 2018, section 3.1) in the article's form: the number of
predictions is `round(tokens * masked_lm_prob)`, at least one, at most `max_predictions_per_seq`.
The same function masks once, when a data set is built, and anew for each epoch, when rows that
were left unmasked are loaded: another key gives other places. Whole words and n-grams are masked
by `corpusmill.objectives.masking.words`.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import MASKING, count_bits, derive_key, draw, to_below, to_uniform

# What becomes of a chosen token; the last tenth stays as it is.
MASK_REPLACE_PROB, RANDOM_REPLACE_PROB = 0.8, 0.1

_NO_BIT, _ONE_BIT = np.uint64(0), np.uint64(1)


@njit
def count_predictions(
    num_tokens: int, maskable: int, masked_lm_prob: float, max_predictions: int
) -> int:
    """How many of a row's tokens are predicted; halves round to even, as Python's `round` does.

    Args:
        num_tokens: tokens of the row, special tokens not counted.
        maskable: how many of them may be chosen.
        masked_lm_prob: the share.
        max_predictions: the cap.
    """
    wanted = int(np.rint(num_tokens * masked_lm_prob))
    return min(maskable, max_predictions, max(1, wanted))


@njit
def row_keys(seed: int, documents: np.ndarray, repeat: int, indices: np.ndarray) -> np.ndarray:
    """The keys by which rows are masked, from what tells rows apart.

    Args:
        seed: the data set's seed.
        documents: uint64[rows], id of each row's document; a reader may give its shard instead.
        repeat: which pass over the documents; a reader may give the epoch.
        indices: integers[rows], place of each row in its document's pass, or in the shard.

    Returns:
        uint64[rows].

    Example:
        keys of a shard's first three rows in the second epoch:
        row_keys(seed, np.full(3, shard, np.uint64), 1, np.arange(3)).
    """
    keys = np.empty(len(documents), np.uint64)
    for i in range(len(documents)):
        keys[i] = draw(derive_key(seed, documents[i], repeat, MASKING), indices[i])
    return keys


class Scratch(NamedTuple):
    """Room for what is drawn for a row.

    Attributes:
        chosen: uint64[longest / 64, rounded up], a bit a place, from the lowest of the first; all
            zero between rows. Bits are found with a step for each that is set, where bytes would
            take one for each place, and a wrong guess of the processor's for each that is chosen.
        places: int64[longest].
        shares: float64[longest].
    """

    chosen: np.ndarray
    places: np.ndarray
    shares: np.ndarray


@njit
def make_scratch(longest: int) -> Scratch:
    """Room for rows of up to so many places."""
    chosen = np.zeros((longest + 63) // 64, np.uint64)
    return Scratch(chosen, np.empty(longest, np.int64), np.empty(longest))


@njit
def choose(chosen: np.ndarray, place: int) -> None:
    """Set a place's bit."""
    chosen[place >> 6] |= _ONE_BIT << np.uint64(place & 63)


@njit
def is_chosen(chosen: np.ndarray, place: int) -> bool:
    """Whether a place's bit is set."""
    is_set: bool = (chosen[place >> 6] >> np.uint64(place & 63)) & _ONE_BIT != _NO_BIT
    return is_set


# Inlined, as is `mask_row`: counting references to a row's slices takes a fifth of the time else.
@njit(inline="always")
def corrupt_chosen(
    row: np.ndarray,
    scratch: Scratch,
    replacement_ids: np.ndarray,
    mask_id: int,
    key: np.uint64,
    counter: int,
    positions: np.ndarray,
    labels: np.ndarray,
    mask_replace_prob: float = MASK_REPLACE_PROB,
    random_replace_prob: float = RANDOM_REPLACE_PROB,
) -> None:
    """Corrupt the chosen places of a row, each by its own 80/10/10.

    Args:
        row: integers[length], changed.
        scratch: `chosen` has the places, and is cleared; the rest is changed.
        replacement_ids: integers[ids], what the random tenth is drawn from.
        mask_id: id of [MASK].
        key: of the row's stream.
        counter: of the stream's first draw that is not yet used.
        positions: integers[as many as are chosen], filled, ascending.
        labels: integers[as many], filled with the original ids.
        mask_replace_prob: probability that a chosen token becomes [MASK].
        random_replace_prob: probability that it becomes a random token; else it stays.
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
    # All draws first, of which the processor makes several at a time, and no branch on them.
    for i in range(written):
        shares[i] = to_uniform(draw(key, counter + 2 * i))
    for i in range(written):
        drawn[i] = to_below(draw(key, counter + 2 * i + 1), len(replacement_ids))
    replaced = mask_replace_prob + random_replace_prob
    for i in range(written):
        token = row[positions[i]]
        labels[i] = token
        other = replacement_ids[drawn[i]] if shares[i] < replaced else token
        row[positions[i]] = mask_id if shares[i] < mask_replace_prob else other


@njit(inline="always")
def mask_row(
    row: np.ndarray,
    scratch: Scratch,
    maskable_ids: np.ndarray,
    replacement_ids: np.ndarray,
    mask_id: int,
    predictions: int,
    key: np.uint64,
    positions: np.ndarray,
    labels: np.ndarray,
    mask_replace_prob: float = MASK_REPLACE_PROB,
    random_replace_prob: float = RANDOM_REPLACE_PROB,
) -> None:
    """Choose `predictions` maskable places of a row and corrupt them in place.

    Places are drawn until enough different maskable ones are found, which makes every set of them
    equally likely without a list of candidates.

    Args:
        row: integers[length], changed.
        scratch: changed, but for `chosen`, which is all zero before and after.
        maskable_ids: bool[vocabulary].
        replacement_ids: integers[ids], what the random tenth is drawn from.
        mask_id: id of [MASK].
        predictions: how many places; the row must hold as many maskable ones.
        key: of the row's stream.
        positions: integers[predictions], filled, ascending.
        labels: integers[predictions], filled with the original ids.
        mask_replace_prob: as in `corrupt_chosen`, and the next one, too.
        random_replace_prob: see there.
    """
    chosen, places = scratch.chosen, scratch.places
    for i in range(predictions):
        places[i] = to_below(draw(key, i), len(row))
    found = 0
    for place in places[:predictions]:
        fresh = not is_chosen(chosen, place) and maskable_ids[row[place]]
        if fresh:
            choose(chosen, place)
        found += fresh
    counter = predictions
    while found < predictions:
        place = to_below(draw(key, counter), len(row))
        counter += 1
        if not is_chosen(chosen, place) and maskable_ids[row[place]]:
            choose(chosen, place)
            found += 1
    corrupt_chosen(
        row,
        scratch,
        replacement_ids,
        mask_id,
        key,
        counter,
        positions,
        labels,
        mask_replace_prob,
        random_replace_prob,
    )


@njit
def mask_rows(
    input_ids: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    maskable_ids: np.ndarray,
    replacement_ids: np.ndarray,
    num_special: int,
    mask_id: int,
    masked_lm_prob: float,
    max_predictions: int,
    mask_replace_prob: float = MASK_REPLACE_PROB,
    random_replace_prob: float = RANDOM_REPLACE_PROB,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask every row of a batch in place.

    Args:
        input_ids: integers[tokens], changed.
        offsets: int64[rows + 1].
        keys: uint64[rows], one for each row's draws (`row_keys`).
        maskable_ids: bool[vocabulary], false for ids that are never predicted.
        replacement_ids: integers[ids], what the random tenth is drawn from.
        num_special: special tokens of a row, which `masked_lm_prob` does not count.
        mask_id: id of [MASK].
        masked_lm_prob: share of a row's tokens to predict.
        max_predictions: cap a row.
        mask_replace_prob: as in `corrupt_chosen`, and the next one, too.
        random_replace_prob: see there.

    Returns:
        positions: int32[predictions], ascending in each row.
        labels: the type of input_ids[predictions], the ids that stood there.
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
        wanted = count_predictions(length - num_special, length, masked_lm_prob, max_predictions)
        maskable = 0
        for token in input_ids[offsets[i] : offsets[i + 1]]:
            if maskable == wanted:  # mostly reached early, and a row need not be read to its end
                break
            maskable += maskable_ids[token]
        prediction_offsets[i + 1] = prediction_offsets[i] + maskable
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
            mask_id,
            end - begin,
            keys[i],
            positions[begin:end],
            labels[begin:end],
            mask_replace_prob,
            random_replace_prob,
        )
    return positions, labels, prediction_offsets
