"""Batches for masked language models: rows that were masked when they were built, or are now.

Masks that are drawn when rows are loaded are others in each epoch. Those of an example depend only
on its own tokens and on (seed, epoch, number of the sample): not on the batch, the worker, the
rank, or what was read before. The kernels are those of builds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.arrays.randomness import LOADED_MASK
from corpusmill.errors import UserError
from corpusmill.objectives.columns import prediction_columns
from corpusmill.objectives.masking.masked_lm import Masker, MaskShares
from corpusmill.reading.collate.collators import (
    MASK_SETTINGS,
    CollatorOptions,
    Layout,
    Padding,
    attention_mask,
    join_lists,
    pad,
    refuse_others,
    scatter_labels,
    sources_of,
    split_by_maker,
    starts_of,
)
from corpusmill.reading.collate.packed_layouts import lay_out
from corpusmill.reading.data_set import Samples
from corpusmill.reading.recorded_options import change_masker, check_suits, masker_of
from corpusmill.reading.rows import (
    Batch,
    Collator,
    Integers,
    Lists,
    Part,
    Rows,
    Values,
    derive_sample_keys,
    gather_lists,
)


@dataclass(frozen=True)
class DynamicMasking:
    """Masks the rows of one or several data sets as they are loaded.

    The shares of masks that a stage of the training gives hold in place of those of the maskers.

    Attributes:
        maskers: the masker of each data set.
        columns: the columns of the rows before they are masked.
        seed: the seed of the masks.
        starts: the number of each data set's first sample.
    """

    maskers: tuple[Masker, ...]
    columns: tuple[Column, ...]
    seed: int = 0
    starts: tuple[int, ...] = (0,)
    _by_shares: dict[tuple[float, ...], tuple[Masker, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def masked_columns(self) -> tuple[Column, ...]:
        """The columns of masked rows, with predictions and without words."""
        tokens = self.columns[0]
        kept = tuple(column for column in self.columns if column.role is not Role.WORDS)
        return kept + prediction_columns(tokens.dtype, tokens.width, tokens.width)

    def __call__(self, rows: Rows) -> Rows:
        """Return masked rows; the given ones are not changed.

        Raises:
            ValueError: offsets do not fit the rows or their values, or words not their tokens.
        """
        split = self._split_by_masker(rows)
        parts = [(places, self._mask(masker, rows, places)) for masker, places in split]
        names = (self.columns[0].name, *(column.name for column in self.masked_columns[-2:]))
        columns: dict[str, Values] = dict(rows.columns)
        for i, name in enumerate(names):
            columns[name] = join_lists([(at, masked[i]) for at, masked in parts], len(rows))
        if words := column_of(self.columns, Role.WORDS):
            del columns[words.name]
        return Rows(columns, rows.samples, rows.epochs)

    def _split_by_masker(self, rows: Rows) -> Iterator[tuple[Masker, Integers]]:
        """Yield maskers, each with the places of the rows that it masks."""
        if rows.mask_shares is None:
            yield from split_by_maker(self.maskers, self.starts, rows.samples)
            return
        stages, owners = np.unique(rows.mask_shares, axis=0, return_inverse=True)
        for stage, shares in enumerate(stages.tolist()):
            places = np.flatnonzero(owners == stage)
            if (key := tuple(shares)) not in self._by_shares:
                given = MaskShares(*(None if share < 0 else share for share in shares)).given
                changed = tuple(change_masker(masker, given) for masker in self.maskers)
                self._by_shares[key] = changed
            by_masker = split_by_maker(self._by_shares[key], self.starts, rows.samples[places])
            for masker, own in by_masker:
                yield masker, places[own]

    def _mask(self, masker: Masker, rows: Rows, places: Integers) -> tuple[Lists, Lists, Lists]:
        """Return the masked tokens of some rows, the predicted positions, and the original ids."""
        ids = _take_lists(rows.lists(self.columns[0].name), places)
        words = column_of(self.columns, Role.WORDS) if masker.whole_words else None
        seg_labels = np.empty(0, np.int8)
        if words:
            seg_labels = _take_lists(rows.lists(words.name), places).values
            if len(seg_labels) != len(ids.values):
                raise ValueError(f"{words.name} must have one number for each token")
        seed, own = np.uint64(self.seed), (rows.samples[places], rows.epochs[places])
        keys = derive_sample_keys(seed, *own, LOADED_MASK)
        positions, labels, ends = masker.mask(ids.values, seg_labels, ids.offsets, keys)
        return ids, Lists(positions, ends), Lists(labels, ends)


def _take_lists(lists: Lists, rows: Integers) -> Lists:
    """Return a copy of some lists, with offsets from 0."""
    return gather_lists([Part(lists, rows, np.arange(len(rows)))], len(rows))


@dataclass(frozen=True)
class MaskedLmCollator(Collator):
    """Masked rows, for models that predict the original tokens and perhaps classes of the rows.

    Rows of several documents that must not attend to one another (`--segments packed`) have no
    attention_mask. FlashAttention takes the four arguments that say where pieces begin; other
    implementations ignore them, and ModernBERT does not recognize pieces by its position_ids. Give
    these models `corpusmill.reading.torch.document_attention`.

    Attributes:
        padding: the width of batches.
        columns: the columns of the rows; their roles determine the arrays of a batch.
        masking: how rows are masked; None if they are masked already, or stay unmasked.
        layout: where the tokens of packed rows are in a batch, and the names of its arrays
            (`corpusmill.reading.collate.packed_layouts`).

    Example:
        rows [2, 4, 3] with 7 at position 1 and [2, 3], with classes 1 and 0, give
        input_ids [[2, 4, 3], [2, 3, 0]], attention_mask [[1, 1, 1], [1, 1, 0]], token_type_ids
        [[0, 0, 0], [0, 0, 0]], labels [[-100, 7, -100], [-100, -100, -100]] and
        next_sentence_label [1, 0]; all are int64.
        A row of the pieces [2, 5, 4, 3] and [2, 4, 3], with 6 at position 2 and 7 at position 5,
        gives input_ids [[2, 5, 4, 3, 2, 4, 3]], position_ids [[0, 1, 2, 3, 0, 1, 2]], labels
        [[-100, -100, 6, -100, -100, 7, -100]], seq_idx [[0, 0, 0, 0, 1, 1, 1]], cu_seq_lens_q and
        cu_seq_lens_k [0, 4, 7], max_length_q and max_length_k 4. The types are those of
        `PackedCollator`.
    """

    padding: Padding
    columns: tuple[Column, ...]
    masking: DynamicMasking | None = None
    layout: Layout = "rows"

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
            ValueError: the pieces of a row do not lead from its beginning to its end, or a
                prediction is not within its row.
        """
        columns = self.columns if self.masking is None else self.masking.masked_columns
        names = {column.role: column.name for column in columns}
        tokens = rows.lists(columns[0].name)
        width, labels = self.padding.width(tokens.lengths), None
        mask = attention_mask(tokens.offsets, width)
        if Role.POSITIONS in names:
            predicted = (rows.lists(names[role]) for role in (Role.POSITIONS, Role.PREDICTED_IDS))
            labels = scatter_labels(*next(predicted), *next(predicted), width)
        if Role.BOUNDARIES in names:
            marks = names[Role.BOUNDARIES]
            packed = lay_out(rows, columns[0].name, marks, self.padding, self.layout)
            if labels is not None:
                labels = packed.label(labels[mask == 1], shift=False)
            return packed.name_arrays(tokens.flat, self.padding.pad_id, labels)
        batch = {
            columns[0].name: pad(*tokens, width, self.padding.pad_id),
            "attention_mask": mask,
        }
        for column in columns:
            match column.role:
                case Role.SEGMENTS | Role.TOKEN_VALUES:
                    batch[column.name] = pad(*rows.lists(column.name), width, column.pad)
                case Role.CLASS | Role.VALUE if not column.width:
                    batch[column.name] = np.asarray(rows.columns[column.name], np.int64)
        return batch if labels is None else {**batch, "labels": labels}


def collate_masked_lm(
    samples: Samples, padding: Padding, options: CollatorOptions
) -> MaskedLmCollator:
    """Return the collator of masked rows, which masks rows that were stored unmasked.

    Raises:
        UserError: an option does not suit the data set.
    """
    is_packed = column_of(samples.manifest.columns, Role.BOUNDARIES) is not None
    refuse_others(options, "mask", *MASK_SETTINGS, *(("layout",) if is_packed else ()))
    columns, mask = samples.manifest.columns, options.get("mask", True)
    is_masked = column_of(columns, Role.POSITIONS) is not None
    cause = "the examples were masked when they were built"
    check_suits("mask", mask, mask or not is_masked, cause)
    masking = _choose_masking(samples, options)
    return MaskedLmCollator(padding, columns, masking, options.get("layout", "rows"))


def _choose_masking(samples: Samples, options: CollatorOptions) -> DynamicMasking | None:
    """Return how rows are masked when they are loaded; None if they are not."""
    sources = sources_of(samples)
    found = map(masker_of, sources) if options.get("mask", True) else ()
    maskers = [masker for masker in found if masker]
    given: dict[str, Any] = {name: options.get(name) for name in MASK_SETTINGS}
    given = {name: value for name, value in given.items() if value is not None}
    if not maskers:
        for name, value in given.items():
            shown = "..." if name == "token_weights" else value
            check_suits(name, shown, False, "no masks are drawn")
        return None
    settings: list[dict[str, Any]] = [{} for _ in maskers]
    for name, value in given.items():
        is_list = isinstance(value, Sequence) and name != "token_weights"
        values = list(value) if is_list else [value] * len(maskers)
        if len(values) != len(maskers):
            cause = f"there are {len(maskers)} data sets"
            raise UserError(f"{name}={values}", cause, "Give one number for all, or one for each")
        for own, one in zip(settings, values, strict=True):
            own[name] = one
    changed = tuple(map(change_masker, maskers, settings))
    columns = samples.manifest.columns
    return DynamicMasking(changed, columns, options.get("seed", 0), starts_of(sources))
