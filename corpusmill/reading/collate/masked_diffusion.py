"""Rows for masked diffusion: a share of the tokens, drawn for each row, becomes [MASK].

The models learn to predict a text from any part of it. Each row has a share t of its own, each of
its tokens becomes [MASK] with the probability t by itself, and the loss of a masked token counts
1 / t, which makes the sum a bound of the likelihood.

Sources: Nie et al. 2025, "Large Language Diffusion Models" (LLaDA), equation 3 and section 2.2, and
`forward_process` in GUIDELINES.md of its project, with t between 0.001 and 1, and 1 % of the data
of a random length; Sahoo et al. 2024, "Simple and Effective Masked Diffusion Language Models"
(MDLM), whose bound with continuous time and the log-linear schedule masks a share t and weights by
1 / t. LLaDA's program cuts whole batches to a random length, and MDLM's draws the t of a batch at
even distances; here rows are drawn each by itself, so that what becomes of one depends on nothing
but (seed, epoch, number of the sample).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import derive_all, draw, purpose_of, to_below, to_uniform
from corpusmill.errors import UserError
from corpusmill.reading.rows import NOT_PREDICTED, Integers, Lists, check_share


@dataclass(frozen=True)
class MaskedDiffusion:
    """How the rows of `gpt` are masked for a model of masked diffusion.

    Attributes:
        least_share: the least share of a row's tokens that become [MASK], above 0.
        greatest_share: the greatest; the share of a row is uniform between both.
        cut_rate: the share of the rows that are cut to a length between 1 and their own, all
            equally likely, so that a model learns short texts, too.
        mask_id: the id of [MASK]; None for that of the data set's tokenizer. It may be an id after
            those of the tokenizer, if the model has an embedding for it.

    Raises:
        UserError: a value is out of range.

    Example:
        make_batches(samples, 32, diffusion=MaskedDiffusion(mask_id=50257))
    """

    least_share: float = 0.001
    greatest_share: float = 1.0
    cut_rate: float = 0.01
    mask_id: int | None = None

    def __post_init__(self) -> None:
        """Check each value."""
        if not 0 < self.least_share <= self.greatest_share <= 1:
            value = f"least_share={self.least_share}, greatest_share={self.greatest_share}"
            cure = "Give numbers above 0, up to 1, the least one first"
            raise UserError(value, "no share can be drawn", cure)
        check_share("cut_rate", self.cut_rate)
        most = np.iinfo(np.int32).max
        if self.mask_id is not None and not 0 <= self.mask_id <= most:
            raise UserError(f"mask_id={self.mask_id}", "it is no id", f"Give 0 to {most}")

    def corrupt(
        self, tokens: Lists, keys: npt.NDArray[np.uint64]
    ) -> tuple[Lists, Lists, npt.NDArray[np.float64]]:
        """Return rows with masked tokens; the given ones are not changed.

        Args:
            tokens: integers[tokens], the rows; `mask_id` must be known.
            keys: uint64[rows], one for each row's draws.

        Returns:
            masked: int32[tokens], the rows, some of them cut.
            labels: int32[tokens], of the same lengths: the original ids of masked tokens, and -100.
            shares: float64[rows], the share of each row.

        Example:
            the row [5, 6, 7, 8] with a share of 0.4 may become [5, 9, 7, 8] with mask_id 9, with
            labels [-100, 6, -100, -100].
        """
        rule = (self.least_share, self.greatest_share, self.cut_rate)
        shares, lengths = _draw_rows(tokens.lengths, keys, *map(float, rule))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        masked, labels = np.empty((2, int(offsets[-1])), np.int32)
        _mask(*tokens, keys, shares, self.mask_id or 0, offsets, masked, labels)
        return Lists(masked, offsets), Lists(labels, offsets), shares


def derive_diffusion_keys(seed: int, samples: Integers, epochs: Integers) -> npt.NDArray[np.uint64]:
    """Return the keys, uint64[rows], of samples in their epochs, both int64[rows]."""
    purpose = purpose_of("corpusmill.masked-diffusion")
    keys: npt.NDArray[np.uint64] = derive_all(
        np.uint64(seed), samples.astype(np.uint64), epochs.astype(np.uint64), purpose
    )
    return keys


def cut_marks(marks: Lists, lengths: Integers) -> Lists:
    """Return the boundaries of the pieces of rows that were cut to these lengths, int64[rows].

    Example:
        [0, 3, 5] of a row that is cut to 4 tokens becomes [0, 3, 4], and to 3 tokens [0, 3].
    """
    kept = np.empty(int(marks.offsets[-1] - marks.offsets[0]) + len(lengths), np.int64)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    _cut_marks(*marks, lengths, kept, offsets)
    return Lists(kept[: offsets[-1]], offsets)


@njit
def _draw_rows(
    lengths: np.ndarray, keys: np.ndarray, least: float, greatest: float, cut_rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of each row, float64[rows], and its length, int64[rows].

    Of the stream of a row, the first draw gives the share, the second whether it is cut, and the
    third to which length; those after them belong to its tokens.
    """
    shares, kept = np.empty(len(keys)), lengths.copy()
    for i in range(len(keys)):
        shares[i] = least + (greatest - least) * to_uniform(draw(keys[i], 0))
        if lengths[i] and to_uniform(draw(keys[i], 1)) < cut_rate:
            kept[i] = 1 + to_below(draw(keys[i], 2), lengths[i])
    return shares, kept


@njit
def _mask(
    values: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    shares: np.ndarray,
    mask_id: int,
    kept_offsets: np.ndarray,
    masked: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Write the masked rows and their labels, as `MaskedDiffusion.corrupt` describes."""
    for i in range(len(keys)):
        begin = kept_offsets[i]
        for place in range(kept_offsets[i + 1] - begin):
            token = values[offsets[i] + place]
            is_masked = to_uniform(draw(keys[i], 3 + place)) < shares[i]
            masked[begin + place] = mask_id if is_masked else token
            labels[begin + place] = token if is_masked else NOT_PREDICTED


@njit
def _cut_marks(
    marks: np.ndarray,
    mark_offsets: np.ndarray,
    lengths: np.ndarray,
    kept: np.ndarray,
    offsets: np.ndarray,
) -> None:
    """Write the boundaries that are left, and where those of each row begin."""
    written = 0
    for i in range(len(lengths)):
        for mark in range(mark_offsets[i], mark_offsets[i + 1]):
            if marks[mark] < lengths[i]:
                kept[written] = marks[mark]
                written += 1
        kept[written] = lengths[i]
        written += 1
        offsets[i + 1] = written
