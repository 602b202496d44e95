"""A model's arguments from rows: the collators of `corpusmill.reading.load.batches`.

    MaskedLmCollator    BERT, ALBERT, RoBERTa, ERNIE, ELECTRA's generator
    CausalLmCollator    GPT: windows of documents, or documents
    WindowCollator      GPT: windows of a token stream
    PackedCollator      GPT: packed rows

`collator_for` gives the one that a data set needs. Arrays are called what the models of Hugging
Face call their arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from corpusmill.dataset.manifest import special_tokens_of
from corpusmill.errors import UserError
from corpusmill.reading.collate.causal_collators import (
    CausalLmCollator,
    PackedCollator,
    Predicted,
    WindowCollator,
)
from corpusmill.reading.collate.load_masking import (
    Masking,
    bert_masking,
    electra_masking,
    ernie_masking,
)
from corpusmill.reading.collate.padding import Padding, attention_mask, pad
from corpusmill.reading.data_set import Samples
from corpusmill.reading.order.mixture import JoinedSamples
from corpusmill.reading.rows import Rows, scatter_labels

Batch = dict[str, npt.NDArray[Any]]

# Columns that have one number an example, which models classify.
_CLASSES = ("next_sentence_label", "sentence_order_label")


@dataclass(frozen=True)
class MaskedLmCollator:
    """Masked rows for models that predict what stood there, and what else rows are labelled with.

    Attributes:
        padding: how wide a batch is.
        masking: how rows are masked; None where they are masked already, or shall not be.

    Example:
        rows [2, 4, 3] with 7 at place 1 and [2, 3], of the labels 1 and 0, give
        input_ids [[2, 4, 3], [2, 3, 0]], attention_mask [[1, 1, 1], [1, 1, 0]], token_type_ids
        [[0, 0, 0], [0, 0, 0]], labels [[-100, 7, -100], [-100, -100, -100]] and
        next_sentence_label [1, 0]; all are int64.
    """

    padding: Padding
    masking: Masking | None = None

    def prepare(self, rows: Rows) -> Rows:
        """See Collator: masks."""
        return rows if self.masking is None else self.masking(rows)

    def __call__(self, rows: Rows) -> Batch:
        """See Collator.

        Returns:
            labels where rows are masked, token_type_ids and the labels of pairs where they have
            any.

        Raises:
            UserError: a row is longer than the padding's max_length.
        """
        columns, ids = rows.columns, rows.lists("input_ids")
        width = self.padding.width(ids.lengths)
        batch = {
            "input_ids": pad(ids, width, self.padding.pad_id),
            "attention_mask": attention_mask(ids, width),
        }
        if "token_type_ids" in columns:
            batch["token_type_ids"] = pad(rows.lists("token_type_ids"), width, 0)
        if "masked_lm_positions" in columns:
            labels = np.empty((len(rows), width), np.int64)
            places, originals = rows.lists("masked_lm_positions"), rows.lists("masked_lm_ids")
            scatter_labels(*places, *originals, labels)
            batch["labels"] = labels
        for name in _CLASSES:
            if name in columns:
                batch[name] = np.asarray(columns[name], np.int64)
        return batch


def collator_for(
    samples: Samples,
    *,
    padding: Literal["longest", "max_length"] = "longest",
    pad_to_multiple_of: int | None = None,
    max_length: int | None = None,
    seed: int = 0,
    mask: bool = True,
    mask_word_prob: float | Sequence[float] | None = None,
    predicted: Predicted = "labels",
    layout: Literal["rows", "flattened"] = "rows",
) -> "MaskedLmCollator | CausalLmCollator | PackedCollator | WindowCollator":
    """The collator that a data set needs, by what its manifest says of it.

    Args:
        samples: a data set, windows of one, or several of a kind.
        padding: "longest" makes a batch as wide as its longest row, "max_length" as max_length.
        pad_to_multiple_of: makes it wider, up to a multiple. Windows of a stream are all of one
            length, and are not padded.
        max_length: tokens that the model can take; None for the data set's --max-seq-length with
            padding="max_length", else compares nothing.
        seed: of the masks that are drawn when rows are loaded. They differ in each epoch.
        mask: whether rows that are stored unmasked are masked when they are loaded.
        mask_word_prob: ERNIE's probability that a sequence is masked by whole words, one for all or
            one for each data set; None for what the data set was built with.
        predicted: of GPT's; "labels" are the input_ids, as Hugging Face models take them, "targets"
            have at each place the token that comes next.
        layout: of packed rows; "flattened" puts a batch into one row without padding.

    Raises:
        UserError: a value is out of range, or does not suit the data set.

    Example:
        collator_for(DataSet("out"), pad_to_multiple_of=8) of a data set of BERT's is what makes
        the arguments of BertForPreTraining.
    """
    manifest = samples.manifest
    if padding == "max_length" and max_length is None:
        max_length = _longest(manifest)
    width = Padding(_pad_id(manifest), padding, pad_to_multiple_of, max_length)
    objective, mode = manifest["objective"]["name"], manifest["objective"]["options"].get("mode")
    masked = _is_masked(manifest)
    _check("mask", mask, mask or not masked, "examples were masked when they were built")
    by_words = objective == "ernie" and mask and not masked
    _check(
        "mask_word_prob",
        mask_word_prob,
        by_words or mask_word_prob is None,
        "no mask is drawn by it",
    )
    fine = predicted == "labels" or (predicted == "targets" and objective == "gpt")
    _check("predicted", predicted, fine, f"examples of {objective} have none")
    _check("layout", layout, layout == "rows" or mode == "pack", "rows are not packed")
    if "windows" in manifest:
        width.width(np.array([samples.longest]))
        return WindowCollator(predicted)
    if mode == "pack":
        return PackedCollator(width, layout, predicted)
    if objective == "gpt":
        return CausalLmCollator(width, predicted)
    masking = _masking(samples, seed, mask_word_prob) if mask and not masked else None
    return MaskedLmCollator(width, masking)


def _masking(
    samples: Samples, seed: int, mask_word_prob: float | Sequence[float] | None
) -> Masking:
    objective = samples.manifest["objective"]["name"]
    if objective == "ernie":
        sources = samples.sources if isinstance(samples, JoinedSamples) else (samples,)
        return ernie_masking(sources, seed, mask_word_prob)
    return {"bert": bert_masking, "electra": electra_masking}[objective](samples.manifest, seed)


def _check(name: str, value: object, fine: bool, cause: str) -> None:
    if not fine:
        raise UserError(f"{name}={value}", cause, "Leave it out, or give data that it suits")


def _is_masked(manifest: Mapping[str, Any]) -> bool:
    """Whether rows were masked when they were built."""
    return any(column["name"] == "masked_lm_positions" for column in manifest["columns"])


def _longest(manifest: Mapping[str, Any]) -> int | None:
    """The longest row that there may be; None where nothing sets a limit."""
    objective = manifest["objective"]
    if "windows" in manifest:
        return int(manifest["windows"]["context_len"])
    if objective["options"].get("mode") == "stream":
        return None
    return int(objective["options"]["max_seq_length"])


def _pad_id(manifest: Mapping[str, Any]) -> int:
    """What fills input_ids up: [PAD], or else the end-of-text token, as is usual with GPT's."""
    special = special_tokens_of(manifest)
    found = special.eos_id if special.pad_id is None else special.pad_id
    return found or 0
