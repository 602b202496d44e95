"""Batches for models of masked diffusion: windows, separate rows and packed rows of `gpt`."""

from dataclasses import dataclass, replace

import numpy as np

from corpusmill.arrays.columns import Role, column_of
from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import (
    CollatorOptions,
    Layout,
    Padding,
    Predicted,
    attention_mask,
    pad,
)
from corpusmill.reading.collate.masked_diffusion import (
    MaskedDiffusion,
    cut_marks,
    derive_diffusion_keys,
)
from corpusmill.reading.collate.packed_layouts import lay_out
from corpusmill.reading.data_set import Samples
from corpusmill.reading.rows import NOT_PREDICTED, Batch, Collator, Lists, Rows
from corpusmill.reading.token_windows import TOKENS

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
        keys = derive_diffusion_keys(self.seed, rows.samples, rows.epochs)
        masked, labels, shares = self.diffusion.corrupt(tokens, keys)
        columns = {**rows.columns, self.tokens: masked, _LABELS: labels, _SHARES: shares}
        if self.boundaries:
            marks = rows.lists(self.boundaries)
            columns[self.boundaries] = cut_marks(marks, masked.lengths)
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
