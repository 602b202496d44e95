"""Rows and batches for masked diffusion: a share of the tokens of a row, drawn, becomes [MASK].

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

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.columns import Role, column_of
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, purpose_of, to_below, to_uniform
from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import (
    CollatorOptions,
    Layout,
    Padding,
    Predicted,
    attention_mask,
    pad,
)
from corpusmill.reading.collate.packed_layouts import lay_out
from corpusmill.reading.data_set import Samples
from corpusmill.reading.rows import (
    NOT_PREDICTED,
    Batch,
    Collator,
    Lists,
    Rows,
    check_share,
    derive_sample_keys,
)
from corpusmill.reading.token_windows import TOKENS

_PURPOSE = purpose_of("corpusmill.masked-diffusion")


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
        rule = (float(self.least_share), float(self.greatest_share), float(self.cut_rate))
        masked, labels, offsets, shares = _mask(*tokens, keys, rule, self.mask_id or 0)
        return Lists(masked, offsets), Lists(labels, offsets), shares


@njit
def _mask(
    values: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    rule: tuple[float, float, float],
    mask_id: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mask rows, as `MaskedDiffusion.corrupt` describes.

    Of the stream of a row, the first draw gives the share, the second whether it is cut, and the
    third to which length; those after them belong to its tokens.
    """
    least, greatest, cut_rate = rule
    shares, kept = np.empty(len(keys)), np.zeros(len(keys) + 1, np.int64)
    for i in range(len(keys)):
        length = offsets[i + 1] - offsets[i]
        shares[i] = least + (greatest - least) * to_uniform(draw(keys[i], 0))
        if length and to_uniform(draw(keys[i], 1)) < cut_rate:
            length = 1 + to_below(draw(keys[i], 2), length)
        kept[i + 1] = kept[i] + length
    masked, labels = np.empty(kept[-1], np.int32), np.empty(kept[-1], np.int32)
    for i in range(len(keys)):
        begin = kept[i]
        for place in range(kept[i + 1] - begin):
            token = values[offsets[i] + place]
            is_masked = to_uniform(draw(keys[i], 3 + place)) < shares[i]
            masked[begin + place] = mask_id if is_masked else token
            labels[begin + place] = token if is_masked else NOT_PREDICTED
    return masked, labels, kept, shares


@njit
def _cut_marks(
    marks: np.ndarray, mark_offsets: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the boundaries of the pieces of rows that were cut to these lengths, int64[rows].

    Example:
        [0, 3, 5] of a row that is cut to 4 tokens becomes [0, 3, 4], and to 3 tokens [0, 3].
    """
    kept = np.empty(mark_offsets[-1] - mark_offsets[0] + len(lengths), np.int64)
    offsets, written = np.zeros(len(lengths) + 1, np.int64), 0
    for i in range(len(lengths)):
        for mark in range(mark_offsets[i], mark_offsets[i + 1]):
            if marks[mark] < lengths[i]:
                kept[written] = marks[mark]
                written += 1
        kept[written] = lengths[i]
        written += 1
        offsets[i + 1] = written
    return kept[:written], offsets


_LABELS, _SHARES = "labels", "p_mask"


@dataclass(frozen=True)
class DiffusionCollator(Collator):
    """Rows of which a drawn share of the tokens is masked, for models that see both sides.

    Attributes:
        padding: the width of batches.
        diffusion: how rows are masked, with the id of [MASK].
        tokens: the name of the column of tokens.
        boundaries: the name of the column of the pieces' boundaries; empty if rows are not packed.
        predicted: "labels" holds the original token at the place of a masked one (LLaDA, MDLM),
            "targets" at the place before it, for models that began as models of the next token
            (Dream); the first token of a text is not predicted then.
        layout: the layout of packed rows.
        seed: the seed of the masks.

    Example:
        rows [5, 6, 7, 8] with a share of 0.4 and [5, 6] with one of 0.7 may give input_ids
        [[5, 9, 7, 8], [9, 6, 0, 0]], attention_mask [[1, 1, 1, 1], [1, 1, 0, 0]], labels
        [[-100, 6, -100, -100], [5, -100, -100, -100]], and p_mask
        [[0.4, 0.4, 0.4, 0.4], [0.7, 0.7, 1, 1]]. p_mask is float32, all others are int64. Packed
        rows have the arguments of `PackedCollator` in place of attention_mask.
    """

    padding: Padding
    diffusion: MaskedDiffusion
    tokens: str = "input_ids"
    boundaries: str = ""
    predicted: Predicted = "labels"
    layout: Layout = "rows"
    seed: int = 0

    def prepare(self, rows: Rows) -> Rows:
        """Mask rows, and cut some of them, anew in each epoch."""
        tokens = rows.lists(self.tokens)
        if self.tokens == TOKENS:  # the last token of a window is only a target
            width = int(tokens.lengths.max(initial=1))
            kept = tokens.flat.reshape(-1, width)[:, :-1]
            tokens = Lists(kept.reshape(-1), np.arange(len(kept) + 1) * kept.shape[1])
        keys = derive_sample_keys(np.uint64(self.seed), rows.samples, rows.epochs, _PURPOSE)
        masked, labels, shares = self.diffusion.corrupt(tokens, keys)
        columns = {**rows.columns, self.tokens: masked, _LABELS: labels, _SHARES: shares}
        if self.boundaries:
            marks = rows.lists(self.boundaries)
            columns[self.boundaries] = Lists(*_cut_marks(*marks, masked.lengths))
        return Rows(columns, rows.samples, rows.epochs)

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Raises:
            UserError: a row is longer than the padding's max_length.
            ValueError: the pieces of a row do not lead from its beginning to its end.
        """
        ids, labels, shares = rows.lists(self.tokens), rows.lists(_LABELS), rows.columns[_SHARES]
        shift, pad_id = self.predicted == "targets", self.padding.pad_id
        if self.boundaries:
            packed = lay_out(rows, self.tokens, self.boundaries, self.padding, self.layout)
            flat = packed.label(labels.flat, shift)
            batch = packed.name_arrays(ids.flat, pad_id, flat, self.predicted)
            of_tokens = np.repeat(shares, ids.lengths)
            return {**batch, _SHARES: packed.spread(of_tokens, 1, "float32")}
        width = self.padding.width(ids.lengths)
        mask = attention_mask(ids.offsets, width)
        return {
            "input_ids": pad(*ids, width, pad_id),
            "attention_mask": mask,
            self.predicted: pad(*labels, width + shift, NOT_PREDICTED)[:, int(shift) :],
            _SHARES: np.where(mask, np.asarray(shares)[:, None], 1).astype(np.float32),
        }


def collate_diffusion(
    samples: Samples, padding: Padding, options: CollatorOptions, diffusion: MaskedDiffusion
) -> DiffusionCollator:
    """Return the collator of rows of tokens that are masked for diffusion.

    Raises:
        UserError: there is no mask token.
    """
    columns, special = samples.manifest.columns, samples.manifest.tokenizer.special
    mask_id = special.mask_id if diffusion.mask_id is None else diffusion.mask_id
    if mask_id is None:
        cause = "the tokenizer of the data set has no mask token"
        size = samples.manifest.tokenizer.vocab_size
        cure = f"Give an id that no text has, such as MaskedDiffusion(mask_id={size})"
        raise UserError("mask_id=None", cause, cure)
    boundaries = column_of(columns, Role.BOUNDARIES)
    return DiffusionCollator(
        padding,
        replace(diffusion, mask_id=mask_id),
        columns[0].name,
        boundaries.name if boundaries else "",
        options.get("predicted", "labels"),
        options.get("layout", "rows"),
        options.get("seed", 0),
    )
