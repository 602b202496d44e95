"""Batches for models that predict the next token: windows, separate rows, packed rows.

Hugging Face models shift `labels` themselves: labels are the input_ids, with -100 where nothing is
predicted. Other loops prefer `targets`, which hold the next token at each place. Every collator
here gives one or the other.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.reading.collate.collators import (
    CollatorOptions,
    Layout,
    Padding,
    Predicted,
    attention_mask,
    pad,
    refuse_others,
)
from corpusmill.reading.collate.masked_diffusion import (
    DiffusionCollator,
    MaskedDiffusion,
    collate_diffusion,
)
from corpusmill.reading.collate.packed_layouts import is_shifted, lay_out
from corpusmill.reading.data_set import Samples
from corpusmill.reading.recorded_options import check_suits
from corpusmill.reading.rows import NOT_PREDICTED, Batch, Collator, Rows
from corpusmill.reading.token_windows import TOKENS


@dataclass(frozen=True)
class CausalLmCollator(Collator):
    """Rows of different lengths, each a separate text: GPT's windows and documents.

    Attributes:
        padding: the width of batches.
        predicted: "labels" or "targets", explained above.
        tokens: the name of the column of tokens.

    Example:
        rows [5, 6, 7] and [8, 9] give input_ids [[5, 6, 7], [8, 9, 0]], attention_mask
        [[1, 1, 1], [1, 1, 0]] and labels [[5, 6, 7], [8, 9, -100]], or targets
        [[6, 7, -100], [9, -100, -100]]; all are int64.
    """

    padding: Padding
    predicted: Predicted = "labels"
    tokens: str = "input_ids"

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Raises:
            UserError: a row is longer than the padding's max_length.
        """
        ids = rows.lists(self.tokens)
        width = self.padding.width(ids.lengths)
        labels = pad(*ids, width + (self.predicted == "targets"), NOT_PREDICTED)
        return {
            self.tokens: pad(*ids, width, self.padding.pad_id),
            "attention_mask": attention_mask(ids.offsets, width),
            self.predicted: labels if self.predicted == "labels" else labels[:, 1:],
        }


@dataclass(frozen=True)
class WindowCollator(Collator):
    """Windows of a token stream (`corpusmill.reading.token_windows`), which need no padding.

    Attributes:
        predicted: "labels" or "targets", explained above. `input_ids` and `targets` are views of
            one array, as a copy would cost as much as all other work; `labels` are a copy.

    Example:
        windows [5, 6, 7] and [7, 8, 9] give input_ids [[5, 6], [7, 8]] and targets
        [[6, 7], [8, 9]], or labels [[5, 6], [7, 8]]; all are int64.
    """

    predicted: Predicted = "labels"

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Raises:
            ValueError: windows differ in length.
        """
        tokens = rows.lists(TOKENS)
        if np.diff(tokens.lengths).any():
            raise ValueError("windows must have one length")
        stored = tokens.flat.reshape(len(rows), -1)
        if self.predicted == "targets":
            windows = stored.astype(np.int64)
            return {"input_ids": windows[:, :-1], "targets": windows[:, 1:]}
        input_ids = stored[:, :-1].astype(np.int64)
        return {"input_ids": input_ids, "labels": input_ids.copy()}


@dataclass(frozen=True)
class PackedCollator(Collator):
    """Rows of several pieces of text that must not attend to one another: `gpt --mode pack`.

    Positions restart at each piece, and the first token of a piece is not predicted. There is no
    attention_mask: without one, and with use_cache=False, which suits training, Hugging Face models
    recognize pieces by their position_ids. The padding of a row is a separate piece.

    Attributes:
        padding: the width of batches.
        layout: where tokens are in a batch, and the names of its arrays
            (`corpusmill.reading.collate.packed_layouts`). Those of trainers have the next token at
            each place.
        predicted: "labels" or "targets", explained above, with the layouts of transformers.
        tokens: the name of the column of tokens.
        boundaries: the name of the column of the pieces' boundaries.
        learned: the column that says which tokens are learned; None if all of them are.

    Example:
        a row of the pieces [5, 6, 7] and [8, 9], padded to 6, gives input_ids [[5, 6, 7, 8, 9, 0]],
        labels [[-100, 6, 7, -100, 9, -100]], position_ids [[0, 1, 2, 0, 1, 0]], seq_idx
        [[0, 0, 0, 1, 1, 2]], cu_seq_lens_q and cu_seq_lens_k [0, 3, 5, 6], max_length_q and
        max_length_k 3. seq_idx and the first two of the last four are int32, the others of the four
        int64[]; all other arrays are int64.
    """

    padding: Padding
    layout: Layout = "rows"
    predicted: Predicted = "labels"
    tokens: str = "input_ids"
    boundaries: str = "cu_seqlens"
    learned: Column | None = None

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Raises:
            UserError: a row is longer than the padding's max_length.
            ValueError: the pieces of a row do not lead from its beginning to its end.
        """
        packed = lay_out(rows, self.tokens, self.boundaries, self.padding, self.layout)
        tokens = rows.lists(self.tokens).flat
        shift = self.predicted == "targets" or is_shifted(self.layout)
        targets = tokens
        if self.learned:
            is_learned = rows.lists(self.learned.name).flat != self.learned.pad
            targets = np.where(is_learned, tokens.astype(np.int64), NOT_PREDICTED)
        labels = packed.label(targets, shift, is_causal=True)
        return packed.name_arrays(tokens, self.padding.pad_id, labels, self.predicted)


def collate_causal_lm(
    samples: Samples, padding: Padding, options: CollatorOptions
) -> CausalLmCollator | DiffusionCollator | PackedCollator | WindowCollator:
    """Return the collator of windows, packed rows or separate rows, as the columns have it.

    With the option `diffusion` it is that of diffusion.

    Raises:
        UserError: an option does not suit the data set.
    """
    columns, predicted = samples.manifest.columns, options.get("predicted", "labels")
    tokens, boundaries = columns[0], column_of(columns, Role.BOUNDARIES)
    learned = column_of(columns, Role.LEARNED)
    check_suits("predicted", predicted, predicted in get_args(Predicted), "it is not known")
    refuse_others(options, "predicted", "diffusion", *(("layout",) if boundaries else ()))
    if tokens.role is Role.WINDOW:
        padding.width(np.array([samples.longest]))
    if (diffusion := options.get("diffusion")) is not None:
        is_valid = isinstance(diffusion, MaskedDiffusion)
        check_suits("diffusion", diffusion, is_valid, "it is no MaskedDiffusion")
        check_suits("diffusion", diffusion, not learned, "only some tokens are learned")
        return collate_diffusion(samples, padding, options, diffusion)
    if boundaries:
        layout = options.get("layout", "rows")
        return PackedCollator(padding, layout, predicted, tokens.name, boundaries.name, learned)
    if tokens.role is Role.WINDOW:
        return WindowCollator(predicted)
    return CausalLmCollator(padding, predicted, tokens.name)
