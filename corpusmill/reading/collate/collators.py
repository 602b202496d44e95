"""The collators of `corpusmill.reading.load.batches`: from rows to the arguments of a model.

    MaskedLmCollator    masked rows: BERT, ALBERT, RoBERTa, ERNIE, ELECTRA's generator
    CausalLmCollator    windows of documents, or documents: GPT
    WindowCollator      windows of a token stream: GPT
    PackedCollator      packed rows: GPT

`collator_for` chooses the collator for a data set. Arrays are named after the arguments of Hugging
Face models.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from corpusmill.arrays.columns import ANY_LENGTH, Column, Role, column_of
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError
from corpusmill.objectives.masking.masker import Masker
from corpusmill.objectives.objective import ObjectiveOptions
from corpusmill.objectives.registry import options_class
from corpusmill.reading.collate.causal_collators import (
    CausalLmCollator,
    PackedCollator,
    Predicted,
    WindowCollator,
)
from corpusmill.reading.collate.load_masking import DynamicMasking
from corpusmill.reading.collate.padding import Padding, attention_mask, pad, scatter_labels
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Collator
from corpusmill.reading.order.mixture import JoinedSamples
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


class CollatorOptions(TypedDict, total=False):
    """The options of `collator_for`; all are optional.

    Attributes:
        padding: "longest" makes a batch as wide as its longest row, "max_length" as max_length.
        pad_to_multiple_of: widens it to a multiple. Windows of a stream all have one length, and
            are not padded.
        max_length: the most tokens that the model takes; by default the data set's --max-seq-length
            with padding="max_length", and otherwise no limit.
        seed: the seed of masks that are drawn when rows are loaded; they differ in each epoch.
        mask: whether to mask rows that were stored unmasked when they are loaded.
        mask_word_prob: ERNIE's probability that a sequence is masked by whole words, one for all
            data sets or one for each; by default that of the build.
        predicted: for models of the next token: "labels" are the input_ids, as Hugging Face models
            take them, "targets" have the next token at each position.
        layout: the layout of packed rows; "flattened" puts a batch into one row without padding.
    """

    padding: Literal["longest", "max_length"]
    pad_to_multiple_of: int | None
    max_length: int | None
    seed: int
    mask: bool
    mask_word_prob: float | Sequence[float] | None
    predicted: Predicted
    layout: Literal["rows", "flattened"]


def collator_for(
    samples: Samples, **options: Unpack[CollatorOptions]
) -> "MaskedLmCollator | CausalLmCollator | PackedCollator | WindowCollator":
    """Return the collator for a data set, which depends on the columns in its manifest.

    Args:
        samples: a data set, windows of one, or a mixture.
        options: the options; see `CollatorOptions`.

    Raises:
        UserError: a value is out of range, or does not suit the data set.

    Example:
        collator_for(DataSet("out"), pad_to_multiple_of=8) gives the arguments of BertForPreTraining
        if the data set was built by `bert`.
    """
    if unknown := options.keys() - CollatorOptions.__annotations__.keys():
        raise TypeError(f"collator_for has no option {', '.join(sorted(unknown))}")
    manifest = samples.manifest
    columns = manifest.columns
    objective = _objective_options(manifest)
    max_length, padding = options.get("max_length"), options.get("padding", "longest")
    if padding == "max_length" and max_length is None:
        max_length = _longest(columns[0])
    multiple = options.get("pad_to_multiple_of")
    width = Padding(_pad_id(manifest), padding, multiple, max_length)
    _check_options(options, objective, columns)
    predicted = options.get("predicted", "labels")
    if columns[0].role is Role.WINDOW:
        width.width(np.array([samples.longest]))
        return WindowCollator(predicted)
    if column_of(columns, Role.BOUNDARIES):
        return PackedCollator(width, options.get("layout", "rows"), predicted)
    if objective.predicts_next:
        return CausalLmCollator(width, predicted)
    return MaskedLmCollator(width, columns, _choose_masking(samples, options))


def _objective_options(manifest: Manifest) -> ObjectiveOptions:
    """The options of the objective that a data set was built with."""
    return options_class(manifest.objective.name)(**manifest.objective.options)


def _choose_masking(samples: Samples, options: CollatorOptions) -> DynamicMasking | None:
    """Return how rows are masked when they are loaded; None if they are not."""
    columns, prob = samples.manifest.columns, options.get("mask_word_prob")
    sources = samples.sources if isinstance(samples, JoinedSamples) else (samples,)
    maskers: list[Masker] = []
    if options.get("mask", True) and not column_of(columns, Role.POSITIONS):
        for source in sources:
            objective = _objective_options(source.manifest)
            if masker := objective.masker(source.manifest.tokenizer):
                has_words = column_of(source.manifest.columns, Role.WORDS) is not None
                is_valid = has_words or not masker.whole_words
                _check("mask", True, is_valid, "the rows lack the words that are masked whole")
                maskers.append(masker)
    if not maskers:
        _check("mask_word_prob", prob, prob is None, "no masks are drawn")
        return None
    if prob is not None:
        maskers = _set_word_probs(maskers, prob)
    starts = np.cumsum([0, *map(len, sources)])[:-1].tolist()
    return DynamicMasking(tuple(maskers), columns, options.get("seed", 0), tuple(starts))


def _set_word_probs(maskers: list[Masker], prob: float | Sequence[float]) -> list[Masker]:
    """Return the maskers with new probabilities of masking a sequence by whole words."""
    suits = all(hasattr(masker, "mask_word_prob") for masker in maskers)
    _check("mask_word_prob", prob, suits, "masks are not drawn by whole words or tokens")
    probs = list(prob) if isinstance(prob, Sequence) else [prob] * len(maskers)
    if len(probs) != len(maskers):
        cause = f"there are {len(maskers)} data sets"
        cure = "Give one number for all, or one for each"
        raise UserError(f"mask_word_prob={probs}", cause, cure)
    pairs: Iterable[tuple[Any, float]] = zip(maskers, probs, strict=True)
    return [replace(masker, mask_word_prob=value) for masker, value in pairs]


def _check_options(
    options: CollatorOptions, objective: ObjectiveOptions, columns: Sequence[Column]
) -> None:
    """Refuse options that do not suit the data set."""
    is_masked = column_of(columns, Role.POSITIONS) is not None
    mask, predicted = options.get("mask", True), options.get("predicted", "labels")
    _check("mask", mask, mask or not is_masked, "the examples were masked when they were built")
    suits = predicted == "labels" or (predicted == "targets" and objective.predicts_next)
    _check("predicted", predicted, suits, "the model of this data set does not take it")
    layout, is_packed = options.get("layout", "rows"), column_of(columns, Role.BOUNDARIES)
    _check("layout", layout, layout == "rows" or bool(is_packed), "the rows are not packed")


def _check(name: str, value: object, is_valid: bool, cause: str) -> None:
    if not is_valid:
        raise UserError(f"{name}={value}", cause, "Omit it, or give data that it suits")


def _longest(tokens: Column) -> int | None:
    """Return the length of the longest possible row; None without a limit."""
    if tokens.role is Role.WINDOW:
        return tokens.width - 1
    return None if tokens.width == ANY_LENGTH else tokens.width


def _pad_id(manifest: Manifest) -> int:
    """Return the id of [PAD], or else of the end-of-text token, as is usual with GPT."""
    special = manifest.tokenizer.special
    return (special.eos_id if special.pad_id is None else special.pad_id) or 0
