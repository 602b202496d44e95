"""Masks that are drawn when rows are loaded, anew in each epoch.

What becomes of an example depends on its own tokens and on (seed, epoch, number of the sample),
and on nothing else: not on the batch, the worker, the rank, or what was read before. The kernels
are those that a build masks with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import LOADED_MASK, MAX_SEED, derive_key
from corpusmill.dataset.manifest import columns_of, special_tokens_of
from corpusmill.errors import UserError
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.masking.ernie import mask_sequences
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.reading.data_set import Samples
from corpusmill.reading.rows import Integers, Lists, Rows, Values

Keys = npt.NDArray[np.uint64]


class Masking(Protocol):
    """How rows are masked when they are loaded."""

    def __call__(self, rows: Rows) -> Rows:
        """Mask rows; those that are given stay as they are.

        Returns:
            rows with masked input_ids, with the columns masked_lm_positions and masked_lm_ids that
            statically masked data sets have, and without seg_labels.
        """


@njit
def derive_mask_keys(seed: int, samples: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    """The keys by which samples are masked in their epochs.

    Args:
        seed: of the masks, 0 to 2**64 - 1.
        samples: int64[rows], numbers of the samples in what is read.
        epochs: int64[rows], the epoch that each is read in.

    Returns:
        uint64[rows].
    """
    keys = np.empty(len(samples), np.uint64)
    for i in range(len(samples)):
        keys[i] = derive_key(seed, samples[i], epochs[i], LOADED_MASK)
    return keys


@dataclass(frozen=True)
class MaskedLmMasking:
    """BERT's masks: single tokens, whole words or n-grams, by the rule of `MaskedLm`.

    Attributes:
        masked_lm: the rule. Where it masks whole words, rows need the column seg_labels.
        seed: of the masks.
    """

    masked_lm: MaskedLm
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the seed.

        Raises:
            UserError: it is out of range.
        """
        _check_seed(self.seed)

    def __call__(self, rows: Rows) -> Rows:
        """See Masking."""
        ids = _compact(rows.lists("input_ids"))
        # A copy: the kernel masks in place, and rows may be read again in another epoch.
        input_ids = ids.values.copy()
        whole_words = self.masked_lm.whole_words
        words = _compact(rows.lists("seg_labels")).values if whole_words else np.empty(0, np.int8)
        positions, labels, ends = self.masked_lm.mask(
            input_ids, words, ids.offsets, _keys(self.seed, rows)
        )
        return _with_masks(rows, Lists(input_ids, ids.offsets), positions, labels, ends)


@dataclass(frozen=True)
class ErnieMasking:
    """ERNIE's masks, of whole words or of single tokens (`corpusmill.objectives.masking.ernie`).

    Attributes:
        mask_word_probs: probability that a sequence is masked by words, one for each data set of
            what is read.
        mask_id: id of [MASK].
        vocab_size: random ids are from 1 to vocab_size - 1.
        seed: of the masks.
        starts: the first sample of each data set.
    """

    mask_word_probs: tuple[float, ...]
    mask_id: int
    vocab_size: int
    seed: int = 0
    starts: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is out of range, or the probabilities are too many or too few.
        """
        _check_seed(self.seed)
        if len(self.mask_word_probs) != len(self.starts):
            cause = f"there are {len(self.starts)} data sets"
            value = f"mask_word_prob={list(self.mask_word_probs)}"
            raise UserError(value, cause, "Give one number for all, or one for each")
        for prob in self.mask_word_probs:
            if not 0 <= prob <= 1:
                cause = "it is no probability"
                raise UserError(f"mask_word_prob={prob}", cause, "Give 0 (never) to 1 (always)")

    def __call__(self, rows: Rows) -> Rows:
        """See Masking."""
        ids, words = _compact(rows.lists("input_ids")), _compact(rows.lists("seg_labels"))
        of_data_set = np.searchsorted(np.array(self.starts), rows.samples, side="right") - 1
        masked_ids, positions, labels, ends = mask_sequences(
            ids.values,
            words.values,
            ids.offsets,
            _keys(self.seed, rows),
            np.array(self.mask_word_probs)[of_data_set],
            self.mask_id,
            self.vocab_size,
        )
        return _with_masks(rows, Lists(masked_ids, ids.offsets), positions, labels, ends)


def bert_masking(manifest: Mapping[str, Any], seed: int) -> MaskedLmMasking:
    """The masks that a data set of BERT's was built for, by its options."""
    options = BertOptions(**manifest["objective"]["options"])
    vocab_size, dtype = _vocabulary(manifest)
    bert = Bert(options, special_tokens_of(manifest), vocab_size, dtype)
    return MaskedLmMasking(bert.masked_lm, seed)


def electra_masking(
    manifest: Mapping[str, Any], seed: int, masked_lm_prob: float = 0.15
) -> MaskedLmMasking:
    """The masks that ELECTRA's generator learns from.

    Source: `mask` in pretrain/pretrain_helpers.py of google-research/electra, which the trainer
    calls at each step: round(tokens * masked_lm_prob) predictions, special tokens counted, of which
    85 % become [MASK] and 15 % stay. The original draws places with replacement, so that some are
    drawn twice and count double; here all differ.

    Args:
        manifest: of a data set of ELECTRA's.
        seed: of the masks.
        masked_lm_prob: share of a row's tokens to predict.

    Raises:
        UserError: the tokenizer has no [MASK].
    """
    options = ElectraOptions(**manifest["objective"]["options"])
    special = special_tokens_of(manifest)
    special.require(manifest["tokenizer"]["name"], "mask")
    vocab_size, dtype = _vocabulary(manifest)
    masked_lm = MaskedLm(
        static=False,
        whole_words=False,
        max_ngram=1,
        masked_lm_prob=masked_lm_prob,
        max_predictions=max(1, int((masked_lm_prob + 0.005) * options.max_seq_length)),
        max_seq_length=options.max_seq_length,
        num_special=0,
        special=special,
        vocab_size=vocab_size,
        token_dtype=dtype,
        mask_replace_prob=0.85,
        random_replace_prob=0.0,
    )
    return MaskedLmMasking(masked_lm, seed)


def ernie_masking(
    sources: Sequence[Samples], seed: int, mask_word_prob: float | Sequence[float] | None = None
) -> ErnieMasking:
    """The masks of data sets of ERNIE's.

    Args:
        sources: what is read: one data set, or all those that a mixture is of.
        seed: of the masks.
        mask_word_prob: probability that a sequence is masked by words, for all or for each data
            set; None for what each was built with.
    """
    manifest = sources[0].manifest
    probs: Sequence[float]
    if mask_word_prob is None:
        built = [source.manifest["objective"]["options"] for source in sources]
        probs = [options["mask_word_prob"] for options in built]
    elif isinstance(mask_word_prob, Sequence):
        probs = mask_word_prob
    else:
        probs = [mask_word_prob] * len(sources)
    starts = np.cumsum([0, *map(len, sources)])[:-1].tolist()
    mask_id = manifest["tokenizer"]["special"]["mask_id"]
    return ErnieMasking(tuple(probs), mask_id, _vocabulary(manifest)[0], seed, tuple(starts))


def _vocabulary(manifest: Mapping[str, Any]) -> tuple[int, str]:
    dtypes = {column.name: column.dtype for column in columns_of(manifest)}
    return manifest["tokenizer"]["vocab_size"], dtypes["input_ids"]


def _check_seed(seed: int) -> None:
    if not 0 <= seed <= MAX_SEED:
        raise UserError(f"seed={seed}", "the value is out of range", f"Give 0 to {MAX_SEED}")


def _keys(seed: int, rows: Rows) -> Keys:
    keys: Keys = derive_mask_keys(np.uint64(seed), rows.samples, rows.epochs)
    return keys


def _compact(lists: Lists) -> Lists:
    """The same lists without values of others, and so with offsets from 0."""
    begin, end = lists.offsets[0], lists.offsets[-1]
    return Lists(lists.values[begin:end], lists.offsets - begin)


def _with_masks(
    rows: Rows,
    masked: Lists,
    positions: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    ends: Integers,
) -> Rows:
    columns: dict[str, Values] = {
        **rows.columns,
        "input_ids": masked,
        "masked_lm_positions": Lists(positions, ends),
        "masked_lm_ids": Lists(labels, ends),
    }
    columns.pop("seg_labels", None)
    return Rows(columns, rows.samples, rows.epochs)
