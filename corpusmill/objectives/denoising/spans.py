"""Spans of a row become sentinels, and the targets say what stood there.

    row      We hold these truths to be self evident that
    input    We hold <0> to be <1> that <end>
    target   <0> these truths <1> self evident <end>

Source: Raffel et al. 2020 (T5), section 3.1.4, and the program that they published
(`random_spans_noise_mask`, `noise_span_to_unique_sentinel` and `nonnoise_span_to_unique_sentinel`
in t5/data/preprocessors.py). A row begins with text and ends with noise; all ways to divide its
noise into spans, and its text into the stretches before them, are equally likely. Unlike the
article's figure, the program writes no last sentinel before the end of the targets.

A prefix language model (`random_prefix_noise_mask`) is given the beginning of a row, of random
length, and its targets are the rest; both are without sentinels.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below
from corpusmill.objectives.denoising.denoisers import (
    DenoiserTable,
    count_noise,
    count_sentinels,
    least_prefix,
    measure_spans,
)


class CorruptedRows(NamedTuple):
    """The inputs and targets of rows.

    Attributes:
        input_ids: integers[tokens of the inputs].
        input_offsets: int64[rows + 1].
        target_ids: integers[tokens of the targets].
        target_offsets: int64[rows + 1].
    """

    input_ids: np.ndarray
    input_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray


@njit
def draw_parts(begins: np.ndarray, items: int, parts: int, key: np.uint64, first_draw: int) -> None:
    """Divide items into parts that are not empty; all ways to do so are equally likely.

    The places at which parts begin are drawn without replacement (Floyd's algorithm), one draw for
    each part but the first.

    Args:
        begins: bool[items or more], all false; set where a part other than the first begins.
        items: at least `parts`.
        parts: at least 1.
        key: of the row.
        first_draw: the number of the first draw.
    """
    drawn = first_draw
    for last in range(items - parts + 1, items):
        place = 1 + to_below(draw(key, drawn), last)
        drawn += 1
        begins[last if begins[place] else place] = True


@njit
def draw_prefix(length: int, density: float, key: np.uint64) -> int:
    """Draw how many tokens of a row a prefix language model is given."""
    least = least_prefix(length, density)
    return int(least + to_below(draw(key, 0), max(1, length - least)))


@njit
def draw_lengths(
    length: int, density: float, mean_span_length: float, key: np.uint64
) -> tuple[int, int]:
    """Return the tokens of a corrupted row and of its targets, without the token of a mode."""
    if mean_span_length == 0:
        prefix = draw_prefix(length, density, key)
        return prefix + 1, length - prefix + 1
    lengths: tuple[int, int] = measure_spans(length, density, mean_span_length)
    return lengths


@njit
def corrupt_rows(
    token_ids: np.ndarray,
    bounds: np.ndarray,
    kinds: np.ndarray,
    keys: np.ndarray,
    denoisers: DenoiserTable,
    sentinels: np.ndarray,
    end: int,
) -> CorruptedRows:
    """Corrupt rows.

    Args:
        token_ids: integers[tokens].
        bounds: int64[rows, 2], where each row begins and ends.
        kinds: int64[rows], the denoiser of each row.
        keys: uint64[rows], one for each row's draws.
        denoisers: how rows are corrupted.
        sentinels: int64[spans of the longest row or more], the ids of sentinels in their order.
        end: the id of the token that ends inputs and targets.

    Raises:
        ValueError: a row does not lie in the tokens, has more spans than there are sentinels, or a
            denoiser that is not in the table; or the rows have another number of keys or kinds.

    Example:
        token_ids [5, 6, 7, 8, 9], one row, with a density of 0.4, spans of 2, sentinels [99, 98]
        and end 1 may give input_ids [5, 6, 7, 99, 1] and target_ids [99, 8, 9, 1].
    """
    rows, longest = len(bounds), 2
    densities, span_lengths, modes = denoisers
    input_offsets, target_offsets = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    if len(keys) != rows or len(kinds) != rows:
        raise ValueError("kinds and keys must be as many as rows")
    for row in range(rows):
        if not 0 <= bounds[row, 0] <= bounds[row, 1] <= len(token_ids):
            raise ValueError("rows must lie in the tokens")
        length, kind = bounds[row, 1] - bounds[row, 0], kinds[row]
        if not 0 <= kind < len(densities):
            raise ValueError("kinds must be numbers of denoisers")
        density, span_length = densities[kind], span_lengths[kind]
        if count_sentinels(length, density, span_length) > len(sentinels):
            raise ValueError("a row must not have more spans than there are sentinels")
        lengths = draw_lengths(length, density, span_length, keys[row])
        input_offsets[row + 1] = input_offsets[row] + lengths[0] + (1 if modes[kind] >= 0 else 0)
        target_offsets[row + 1] = target_offsets[row] + lengths[1]
        longest = max(longest, length)
    input_ids = np.empty(input_offsets[rows], token_ids.dtype)
    target_ids = np.empty(target_offsets[rows], token_ids.dtype)
    begins = np.zeros((2, longest), np.bool_)
    for row in range(rows):
        source = token_ids[bounds[row, 0] : bounds[row, 1]]
        inputs = input_ids[input_offsets[row] : input_offsets[row + 1]]
        targets = target_ids[target_offsets[row] : target_offsets[row + 1]]
        inputs[-1] = targets[-1] = end
        kind = kinds[row]
        if modes[kind] >= 0:
            inputs[0], inputs = modes[kind], inputs[1:]
        if span_lengths[kind] > 0:
            counts = count_noise(len(source), densities[kind], span_lengths[kind])
            corrupt_row(source, inputs, targets, begins, keys[row], counts, sentinels)
        else:
            inputs[:-1], targets[:-1] = source[: len(inputs) - 1], source[len(inputs) - 1 :]
    return CorruptedRows(input_ids, input_offsets, target_ids, target_offsets)


@njit
def corrupt_row(
    source: np.ndarray,
    inputs: np.ndarray,
    targets: np.ndarray,
    begins: np.ndarray,
    key: np.uint64,
    counts: tuple[int, int],
    sentinels: np.ndarray,
) -> None:
    """Write the input and the targets of a row, without their end tokens.

    Args:
        source: integers[length], the row.
        inputs: filled; of the length that `measure_spans` returns.
        targets: likewise.
        begins: bool[2, length or more], all false before and after.
        key: of the row.
        counts: the row's tokens of noise, and their spans.
        sentinels: the ids of sentinels in their order.
    """
    length = len(source)
    if length < 2:
        inputs[:length] = source
        targets[:length] = sentinels[:length]
        return
    noise, spans = counts
    noise_begins, text_begins = begins[0, :noise], begins[1, : length - noise]
    draw_parts(noise_begins, noise, spans, key, 0)
    draw_parts(text_begins, length - noise, spans, key, spans - 1)
    read = read_text = read_noise = written = predicted = 0
    for span in range(spans):
        inputs[written] = source[read]
        read, read_text, written = read + 1, read_text + 1, written + 1
        while read_text < length - noise and not text_begins[read_text]:
            inputs[written] = source[read]
            read, read_text, written = read + 1, read_text + 1, written + 1
        inputs[written] = targets[predicted] = sentinels[span]
        written, predicted = written + 1, predicted + 1
        targets[predicted] = source[read]
        read, read_noise, predicted = read + 1, read_noise + 1, predicted + 1
        while read_noise < noise and not noise_begins[read_noise]:
            targets[predicted] = source[read]
            read, read_noise, predicted = read + 1, read_noise + 1, predicted + 1
    noise_begins[:] = False
    text_begins[:] = False
