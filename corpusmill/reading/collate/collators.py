"""A model's arguments from rows: the collators of `corpusmill.reading.load.batches`.

    MaskedLmCollator    masked rows: BERT, ALBERT, RoBERTa, ERNIE, ELECTRA's generator
    CausalLmCollator    windows of documents, or documents: GPT
    WindowCollator      windows of a token stream: GPT
    PackedCollator      packed rows: GPT

`collator_for` chooses the one that a data set needs. Arrays have the names of the arguments of
Hugging Face's models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

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
from corpusmill.reading.collate.padding import Padding, attention_mask, pad
from corpusmill.reading.data_set import Samples
from corpusmill.reading.order.mixture import JoinedSamples
from corpusmill.reading.rows import Rows, scatter_labels

Batch = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class MaskedLmCollator:
    """Masked rows, for models that predict the original tokens and perhaps classes of the rows.

    Attributes:
        padding: how wide a batch is.
        columns: of the rows; their roles decide what becomes of them.
        masking: how rows are masked; None for rows that are masked already, or are not to be.

    Example:
        rows [2, 4, 3] with 7 at position 1 and [2, 3], of the classes 1 and 0, give
        input_ids [[2, 4, 3], [2, 3, 0]], attention_mask [[1, 1, 1], [1, 1, 0]], token_type_ids
        [[0, 0, 0], [0, 0, 0]], labels [[-100, 7, -100], [-100, -100, -100]] and
        next_sentence_label [1, 0]; all are int64.
    """

    padding: Padding
    columns: tuple[Column, ...]
    masking: DynamicMasking | None = None

    def prepare(self, rows: Rows) -> Rows:
        """Mask rows that are not masked yet."""
        return rows if self.masking is None else self.masking(rows)

    def __call__(self, rows: Rows) -> Batch:
        """The batch of some rows.

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
            columns[0].name: pad(tokens, width, self.padding.pad_id),
            "attention_mask": attention_mask(tokens, width),
        }
        for column in columns:
            match column.role:
                case Role.SEGMENTS | Role.TOKEN_VALUES:
                    batch[column.name] = pad(rows.lists(column.name), width, column.pad)
                case Role.PREDICTED_IDS:
                    positions = column_of(columns, Role.POSITIONS)
                    assert positions is not None  # noqa: S101  by the table of columns
                    labels = np.empty((len(rows), width), np.int64)
                    scatter_labels(*rows.lists(positions.name), *rows.lists(column.name), labels)
                    batch["labels"] = labels
                case Role.CLASS | Role.VALUE:
                    batch[column.name] = np.asarray(rows.columns[column.name], np.int64)
        return batch


class CollatorOptions(TypedDict, total=False):
    """The options of `collator_for`; each may be left out.

    Attributes:
        padding: "longest" makes a batch as wide as its longest row, "max_length" as max_length.
        pad_to_multiple_of: makes it wider, up to a multiple. Windows of a stream are all of one
            length, and are not padded.
        max_length: tokens that the model takes; by default the data set's --max-seq-length with
            padding="max_length", and otherwise no limit.
        seed: of the masks that are drawn when rows are loaded. They differ in each epoch.
        mask: whether rows that are stored unmasked are masked when they are loaded.
        mask_word_prob: ERNIE's probability that a sequence is masked by whole words, one for all
            data sets or one for each; by default the one that the data set was built with.
        predicted: for models of the next token; "labels" are the input_ids, as Hugging Face models
            take them, "targets" have at each position the token that comes next.
        layout: of packed rows; "flattened" puts a batch into one row without padding.
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
    """The collator that a data set needs, by the columns in its manifest.

    Args:
        samples: a data set, windows of one, or several of a kind.
        options: see `CollatorOptions`.

    Raises:
        UserError: a value is out of range, or does not suit the data set.

    Example:
        collator_for(DataSet("out"), pad_to_multiple_of=8) makes the arguments of BertForPreTraining
        from a data set of BERT's.
    """
    if unknown := options.keys() - CollatorOptions.__annotations__.keys():
        raise TypeError(f"collator_for has no option {', '.join(sorted(unknown))}")
    manifest = samples.manifest
    columns = manifest.columns
    objective = options_class(manifest.objective.name)(**manifest.objective.options)
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


def _choose_masking(samples: Samples, options: CollatorOptions) -> DynamicMasking | None:
    """How rows are masked when they are loaded; None for rows that are not."""
    columns, prob = samples.manifest.columns, options.get("mask_word_prob")
    sources = samples.sources if isinstance(samples, JoinedSamples) else (samples,)
    maskers: list[Masker] = []
    if options.get("mask", True) and not column_of(columns, Role.POSITIONS):
        for source in sources:
            entry = source.manifest.objective
            objective = options_class(entry.name)(**entry.options)
            if masker := objective.masker(source.manifest.tokenizer):
                maskers.append(masker)
    if not maskers:
        _check("mask_word_prob", prob, prob is None, "no mask is drawn by it")
        return None
    if prob is not None:
        maskers = _set_word_probs(maskers, prob)
    starts = np.cumsum([0, *map(len, sources)])[:-1].tolist()
    return DynamicMasking(tuple(maskers), columns, options.get("seed", 0), tuple(starts))


def _set_word_probs(maskers: list[Masker], prob: float | Sequence[float]) -> list[Masker]:
    """The maskers with other probabilities that a sequence is masked by words."""
    suits = all(hasattr(masker, "mask_word_prob") for masker in maskers)
    _check("mask_word_prob", prob, suits, "no mask is drawn by it")
    probs = list(prob) if isinstance(prob, Sequence) else [prob] * len(maskers)
    if len(probs) != len(maskers):
        cause = f"there are {len(maskers)} data sets"
        raise UserError(
            f"mask_word_prob={probs}", cause, "Give one number for all, or one for each"
        )
    changed: list[Any] = list(maskers)
    return [
        replace(masker, mask_word_prob=value) for masker, value in zip(changed, probs, strict=True)
    ]


def _check_options(
    options: CollatorOptions, objective: ObjectiveOptions, columns: Sequence[Column]
) -> None:
    """Refuse options that do not suit the data set."""
    is_masked = column_of(columns, Role.POSITIONS) is not None
    mask, predicted = options.get("mask", True), options.get("predicted", "labels")
    _check("mask", mask, mask or not is_masked, "examples were masked when they were built")
    suits = predicted == "labels" or (predicted == "targets" and objective.predicts_next)
    _check("predicted", predicted, suits, "the model of this data set has none")
    layout, is_packed = options.get("layout", "rows"), column_of(columns, Role.BOUNDARIES)
    _check("layout", layout, layout == "rows" or bool(is_packed), "rows are not packed")


def _check(name: str, value: object, is_valid: bool, cause: str) -> None:
    if not is_valid:
        raise UserError(f"{name}={value}", cause, "Leave it out, or give data that it suits")


def _longest(tokens: Column) -> int | None:
    """The longest row that is possible; None without a limit."""
    if tokens.role is Role.WINDOW:
        return tokens.width - 1
    return None if tokens.width == ANY_LENGTH else tokens.width


def _pad_id(manifest: Manifest) -> int:
    """What fills input_ids up: [PAD], or else the end-of-text token, as is usual with GPT's."""
    special = manifest.tokenizer.special
    found = special.eos_id if special.pad_id is None else special.pad_id
    return found or 0
