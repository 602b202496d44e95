"""Batches for masked language models: rows that were masked when they were built, or are now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.errors import UserError
from corpusmill.objectives.masking.masker import Masker
from corpusmill.reading.collate.load_masking import DynamicMasking
from corpusmill.reading.collate.options import CollatorOptions, check_suits, refuse_others
from corpusmill.reading.collate.packed_masked_lm_collator import PackedMaskedLmCollator
from corpusmill.reading.collate.padding import Padding, attention_mask, pad, scatter_labels
from corpusmill.reading.collate.sources import options_of, sources_of, starts_of
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Collator
from corpusmill.reading.rows import Batch, Rows


@dataclass(frozen=True)
class MaskedLmCollator(Collator):
    """Masked rows, for models that predict the original tokens and perhaps classes of the rows.

    Attributes:
        padding: the width of batches.
        columns: the columns of the rows; their roles determine the arrays of a batch.
        masking: how rows are masked; None if they are masked already, or stay unmasked.

    Example:
        rows [2, 4, 3] with 7 at position 1 and [2, 3], with classes 1 and 0, give
        input_ids [[2, 4, 3], [2, 3, 0]], attention_mask [[1, 1, 1], [1, 1, 0]], token_type_ids
        [[0, 0, 0], [0, 0, 0]], labels [[-100, 7, -100], [-100, -100, -100]] and
        next_sentence_label [1, 0]; all are int64.
    """

    padding: Padding
    columns: tuple[Column, ...]
    masking: DynamicMasking | None = None

    def prepare(self, rows: Rows) -> Rows:
        """Mask rows that were stored unmasked."""
        return rows if self.masking is None else self.masking(rows)

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Returns:
            the tokens and attention_mask, labels for masked rows, and each column of values per
            token or per row.

        Raises:
            UserError: a row is longer than the padding's max_length.
        """
        columns = self.columns if self.masking is None else self.masking.masked_columns
        tokens = rows.lists(columns[0].name)
        width = self.padding.width(tokens.lengths)
        batch = {
            columns[0].name: pad(*tokens, width, self.padding.pad_id),
            "attention_mask": attention_mask(tokens.offsets, width),
        }
        for column in columns:
            match column.role:
                case Role.SEGMENTS | Role.TOKEN_VALUES:
                    batch[column.name] = pad(*rows.lists(column.name), width, column.pad)
                case Role.PREDICTED_IDS:
                    positions = column_of(columns, Role.POSITIONS)
                    assert positions is not None  # noqa: S101  by the table of columns
                    batch["labels"] = scatter_labels(
                        *rows.lists(positions.name), *rows.lists(column.name), width
                    )
                case Role.CLASS | Role.VALUE if not column.width:
                    batch[column.name] = np.asarray(rows.columns[column.name], np.int64)
        return batch


def collate_masked_lm(
    samples: Samples, padding: Padding, options: CollatorOptions
) -> MaskedLmCollator | PackedMaskedLmCollator:
    """Return the collator of masked rows, which masks rows that were stored unmasked.

    Raises:
        UserError: an option does not suit the data set.
    """
    is_packed = column_of(samples.manifest.columns, Role.BOUNDARIES) is not None
    refuse_others(options, "mask", "mask_word_prob", *(("layout",) if is_packed else ()))
    columns, mask = samples.manifest.columns, options.get("mask", True)
    is_masked = column_of(columns, Role.POSITIONS) is not None
    cause = "the examples were masked when they were built"
    check_suits("mask", mask, mask or not is_masked, cause)
    masking = _choose_masking(samples, options)
    if is_packed:
        return PackedMaskedLmCollator(padding, columns, masking, options.get("layout", "rows"))
    return MaskedLmCollator(padding, columns, masking)


def _choose_masking(samples: Samples, options: CollatorOptions) -> DynamicMasking | None:
    """Return how rows are masked when they are loaded; None if they are not."""
    columns, prob = samples.manifest.columns, options.get("mask_word_prob")
    sources = sources_of(samples)
    maskers: list[Masker] = []
    if options.get("mask", True) and not column_of(columns, Role.POSITIONS):
        for source in sources:
            if masker := options_of(source).masker(source.manifest.tokenizer):
                has_words = column_of(source.manifest.columns, Role.WORDS) is not None
                is_valid = has_words or not masker.whole_words
                check_suits("mask", True, is_valid, "the rows lack the words that are masked whole")
                maskers.append(masker)
    if not maskers:
        check_suits("mask_word_prob", prob, prob is None, "no masks are drawn")
        return None
    if prob is not None:
        maskers = _set_word_probs(maskers, prob)
    return DynamicMasking(tuple(maskers), columns, options.get("seed", 0), starts_of(sources))


def _set_word_probs(maskers: list[Masker], prob: float | Sequence[float]) -> list[Masker]:
    """Return the maskers with new probabilities of masking a sequence by whole words."""
    suits = all(hasattr(masker, "mask_word_prob") for masker in maskers)
    check_suits("mask_word_prob", prob, suits, "masks are not drawn by whole words or tokens")
    probs = list(prob) if isinstance(prob, Sequence) else [prob] * len(maskers)
    if len(probs) != len(maskers):
        cause = f"there are {len(maskers)} data sets"
        cure = "Give one number for all, or one for each"
        raise UserError(f"mask_word_prob={probs}", cause, cure)
    pairs: Iterable[tuple[Any, float]] = zip(maskers, probs, strict=True)
    return [replace(masker, mask_word_prob=value) for masker, value in pairs]
