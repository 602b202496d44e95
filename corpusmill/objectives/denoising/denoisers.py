"""How much of a row becomes noise, and how many tokens a row needs to fill its input.

Source: Raffel et al. 2020 (T5), section 3.1.4, and the program that they published
(`random_spans_noise_mask`, `random_prefix_noise_mask` and `random_spans_helper` in
t5/data/preprocessors.py).
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit


class Denoiser(NamedTuple):
    """A way to corrupt a row.

    Attributes:
        density: the share of a row's tokens that becomes noise, on average.
        mean_span_length: the mean length of a span of noise; 0 for a single span of any length,
            which ends the row: the objective of a prefix language model.
    """

    density: float
    mean_span_length: float


class DenoiserTable(NamedTuple):
    """Several denoisers as kernels take them.

    Attributes:
        densities: float64[denoisers].
        mean_span_lengths: float64[denoisers].
        modes: int64[denoisers], the id of the token that begins inputs; negative for none.
    """

    densities: np.ndarray
    mean_span_lengths: np.ndarray
    modes: np.ndarray


@njit
def count_noise(length: int, density: float, mean_span_length: float) -> tuple[int, int]:
    """Return how many tokens of a row are noise, and in how many spans they lie.

    As in the original, numbers have single precision, and halves round to even. At least one token
    is noise and one is not; no span is empty, and none touches the next one. The original fails for
    rows with more spans than tokens between them; here such a row has as many spans as can be told
    apart.

    Args:
        length: the row's tokens; a row of one token counts as one of two, as in the original.
        density: the share of noise.
        mean_span_length: of the noise.

    Example:
        568 tokens with a density of 0.15 and spans of 3 have 85 tokens of noise in 28 spans.
    """
    length = max(length, 2)
    wanted = np.rint(np.float32(length) * np.float32(density))
    noise = min(max(int(wanted), 1), length - 1)
    spans = max(int(np.rint(np.float32(noise) / np.float32(mean_span_length))), 1)
    return noise, min(spans, noise, length - noise)


@njit
def count_sentinels(length: int, density: float, mean_span_length: float) -> int:
    """Return how many sentinels the targets of a row have."""
    if mean_span_length == 0:
        return 0
    spans: int = count_noise(length, density, mean_span_length)[1]
    return spans


@njit
def least_prefix(length: int, density: float) -> int:
    """Return the least tokens of a row that a prefix language model is given, and at least one.

    All numbers from this one to all but the last token are equally likely.

    Args:
        length: the row's tokens.
        density: the mean share of the others, up to a half.

    Example:
        510 tokens with a density of 0.25 have at least 254 in the prefix.
    """
    most = length - 1
    least = np.rint(np.float32(1 - 2 * density) * np.float32(most))
    return max(0, min(most, max(1, int(least))))


@njit
def measure_spans(length: int, density: float, mean_span_length: float) -> tuple[int, int]:
    """Return the most tokens of a corrupted row and of its targets, each with its end token.

    The token of a mode is not counted. Only a prefix language model can have fewer.

    Example:
        568 tokens with a density of 0.15 and spans of 3 give 512 and 114.
    """
    if mean_span_length == 0:
        return max(length, 1), length - least_prefix(length, density) + 1
    if length < 2:
        # A single token is not noise, and a target of one sentinel remains.
        return length + 1, length + 1
    noise, spans = count_noise(length, density, mean_span_length)
    return length - noise + spans + 1, noise + spans + 1


@njit
def fit_tokens(input_length: int, density: float, mean_span_length: float) -> int:
    """Return the most tokens of a row that do not exceed an input when they are corrupted.

    As in the original, the targets of a density of one half are not longer than the input. The
    lengths are those of T5's helper but for few inputs, of which 128, 512 and 1024 tokens are none:
    the helper counts in double precision, and forgets that a row has at least one span.

    Args:
        input_length: the most tokens of an input, with sentinels and the end token; at least 3.
        density: the share of noise.
        mean_span_length: of the noise.

    Example:
        inputs of 512 tokens, with a density of 0.15 and spans of 3, need rows of 568 tokens. A
        prefix language model has rows of 511, of which its program gives it up to 510.
    """
    rule = (density, mean_span_length)
    tokens = input_length - 1
    if mean_span_length == 0:
        return tokens
    while measure_spans(tokens, *rule)[0] > input_length:
        tokens -= 1
    while measure_spans(tokens + 1, *rule)[0] <= input_length:
        tokens += 1
    if density == 0.5 and measure_spans(tokens, *rule)[1] > input_length:
        tokens -= 1
    return tokens
