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

How much of a row becomes noise, and how many tokens fill its input, is as in `random_spans_helper`.

Rows may be drawn from a mixture of denoisers. UL2 (Tay et al. 2022, "UL2: Unifying Language
Learning Paradigms", section 3.1.2 and table 1, and the program in the article's appendix) mixes
seven of them, of which all take part equally:

    R   spans of 3 or 8 tokens, 15 %           regular, as T5
    S   one span at the end, 25 % on average   sequential, a prefix language model
    X   spans of 3, 8 or 64 tokens, 50 %, or of 64 tokens, 15 %   extreme

A row's input begins with the token of its mode, [R], [S] or [X]; the published models have [NLU],
[S2S] and [NLG] in their place. As in the program, spans are divided as T5 does, where the article
speaks of normally distributed lengths. The share of S is that of the table; the program calls T5's
function for a prefix language model instead, with a share of one half on average (UL2_PROGRAM).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below
from corpusmill.errors import UserError, option
from corpusmill.tokenization.tokenizer_file import Vocabulary


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


class MixedDenoiser(NamedTuple):
    """A denoiser of a mixture.

    Attributes:
        name: for reports.
        mode: the role of the special token that begins its inputs.
        denoiser: how it corrupts rows.
    """

    name: str
    mode: str
    denoiser: Denoiser


UL2 = (
    MixedDenoiser("R (spans of 3, 15 %)", "mode_r", Denoiser(0.15, 3.0)),
    MixedDenoiser("R (spans of 8, 15 %)", "mode_r", Denoiser(0.15, 8.0)),
    MixedDenoiser("S (one span at the end, 25 %)", "mode_s", Denoiser(0.25, 0.0)),
    MixedDenoiser("X (spans of 3, 50 %)", "mode_x", Denoiser(0.5, 3.0)),
    MixedDenoiser("X (spans of 8, 50 %)", "mode_x", Denoiser(0.5, 8.0)),
    MixedDenoiser("X (spans of 64, 15 %)", "mode_x", Denoiser(0.15, 64.0)),
    MixedDenoiser("X (spans of 64, 50 %)", "mode_x", Denoiser(0.5, 64.0)),
)
UL2_PROGRAM = tuple(
    MixedDenoiser("S (one span at the end, 50 %)", mixed.mode, Denoiser(0.5, 0.0))
    if mixed.mode == "mode_s"
    else mixed
    for mixed in UL2
)

# The usual names of the tokens of modes: the article's, and those of the published models.
MODES: Mapping[str, Sequence[str]] = {
    "mode_r": ("[R]", "[NLU]"),
    "mode_s": ("[S]", "[S2S]"),
    "mode_x": ("[X]", "[NLG]"),
}


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
        ValueError: a row has more spans than there are sentinels, or a denoiser that is not in the
            table.

    Example:
        token_ids [5, 6, 7, 8, 9], one row, with a density of 0.4, spans of 2, sentinels [99, 98]
        and end 1 may give input_ids [5, 6, 7, 99, 1] and target_ids [99, 8, 9, 1].
    """
    rows, longest = len(bounds), 2
    densities, span_lengths, modes = denoisers
    input_offsets, target_offsets = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    for row in range(rows):
        length, kind = bounds[row, 1] - bounds[row, 0], kinds[row]
        if not 0 <= kind < len(densities):
            raise ValueError("kinds must be numbers of denoisers")
        density, span_length = densities[kind], span_lengths[kind]
        if count_sentinels(length, density, span_length) > len(sentinels):
            raise ValueError("a row must not have more spans than there are sentinels")
        lengths = measure_spans(length, density, span_length)
        if span_length == 0:
            least = least_prefix(length, density)
            prefix = int(least + to_below(draw(keys[row], 0), max(1, length - least)))
            lengths = prefix + 1, length - prefix + 1
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


def sentinel_roles(number: int) -> Mapping[str, Sequence[str]]:
    """Return the roles of sentinels in their order, with T5's names, which are the usual ones."""
    return {f"sentinel_{place}": (f"<extra_id_{place}>",) for place in range(number)}


def find_sentinels(tokenizer: Vocabulary, number: int, row_tokens: int) -> tuple[int, ...]:
    """Return the ids of the sentinels in their order.

    Args:
        tokenizer: with the roles of `sentinel_roles`.
        number: how many there must be.
        row_tokens: the tokens of the longest row, for the message.

    Raises:
        UserError: the tokenizer lacks one.
    """
    found = list(map(tokenizer.special.find, sentinel_roles(number)))
    if None in found:
        cause = f"rows of up to {row_tokens} tokens have up to {number} spans, and of as many "
        cause += f"sentinels, <extra_id_0> to <extra_id_{number - 1}>, it lacks "
        cause += f"<extra_id_{found.index(None)}>"
        cure = f"Give a smaller {option('max_seq_length')} or longer spans, or train one that has "
        cure += f"them all as {option('special_tokens')}"
        raise UserError(option("tokenizer", tokenizer.name), cause, cure)
    return tuple(token for token in found if token is not None)


def find_modes(tokenizer: Vocabulary, roles: Mapping[str, Sequence[str]]) -> Mapping[str, int]:
    """Return the ids of the tokens of modes by role.

    Raises:
        UserError: the tokenizer lacks one.
    """
    ids: dict[str, int] = {}
    for role, names in roles.items():
        token = tokenizer.special.find(role)
        if token is None:
            cause = f"it has no special token {' or '.join(names)}, which begins inputs of a mode"
            cure = "Train one that has it, add it to this one as a special token, or name another "
            cure += f"with {option('role_tokens', role)}=..."
            raise UserError(option("tokenizer", tokenizer.name), cause, cure)
        ids[role] = token
    return ids


@dataclass(frozen=True)
class SpanCorrupter:
    """Makes inputs and targets of rows with the kernels of a build; equal ones corrupt alike.

    Attributes:
        denoisers: how rows are corrupted; the class of a row is the number of its denoiser.
        tokens: the most tokens of a row of each denoiser.
        sentinel_ids: the ids of sentinels in their order, as many as a row has spans at most.
        end_id: the id of the token that ends inputs and targets.
        mode_ids: for each denoiser the id of the token that begins inputs; empty for none.
    """

    denoisers: tuple[Denoiser, ...]
    tokens: tuple[int, ...]
    sentinel_ids: tuple[int, ...]
    end_id: int
    mode_ids: tuple[int, ...] = ()

    @property
    def longest_input(self) -> int:
        """The most tokens of an input, with sentinels, mode and its end token."""
        return max(inputs for inputs, _ in self._lengths) + (1 if self.mode_ids else 0)

    @property
    def longest_target(self) -> int:
        """The most tokens of targets, with sentinels and their end token."""
        return max(targets for _, targets in self._lengths)

    def corrupt(
        self, token_ids: np.ndarray, bounds: np.ndarray, kinds: np.ndarray, keys: np.ndarray
    ) -> CorruptedRows:
        """Make the inputs and targets of rows.

        Args:
            token_ids: integers[tokens], not changed.
            bounds: int64[rows, 2], where each row begins and ends.
            kinds: int64[rows], the denoiser of each row.
            keys: uint64[rows], one for each row's draws.

        Raises:
            ValueError: a class has no denoiser, or a row needs more sentinels than there are.
        """
        sentinels = np.array(self.sentinel_ids, np.int64)
        corrupted: CorruptedRows = corrupt_rows(
            token_ids, bounds, kinds, keys, self._table, sentinels, self.end_id
        )
        return corrupted

    @cached_property
    def _lengths(self) -> list[tuple[int, int]]:
        return [
            measure_spans(tokens, *denoiser)
            for tokens, denoiser in zip(self.tokens, self.denoisers, strict=True)
        ]

    @cached_property
    def _table(self) -> DenoiserTable:
        densities, span_lengths = np.array(self.denoisers, np.float64).T.copy()
        modes = np.array(self.mode_ids or [-1] * len(self.denoisers), np.int64)
        return DenoiserTable(densities, span_lengths, modes)
