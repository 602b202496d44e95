"""Batches for encoder-decoders: rows with inputs and targets, or text that is corrupted now.

The decoder's own inputs are the targets shifted by one place, which models of Hugging Face make
themselves of `labels`.
"""

from dataclasses import dataclass, replace

import numpy as np

from corpusmill.arrays.columns import ANY_LENGTH, Role, column_of
from corpusmill.arrays.randomness import LOADED_MASK
from corpusmill.errors import UserError
from corpusmill.objectives.denoising import SpanCorrupter
from corpusmill.reading.collate.collators import (
    CollatorOptions,
    Padding,
    attention_mask,
    join_lists,
    pad,
    refuse_others,
    sources_of,
    split_by_maker,
    starts_of,
)
from corpusmill.reading.data_set import Samples
from corpusmill.reading.recorded_options import options_of
from corpusmill.reading.rows import (
    NOT_PREDICTED,
    Batch,
    Collator,
    Integers,
    Lists,
    Rows,
    derive_sample_keys,
)

LABELS = "labels"


@dataclass(frozen=True)
class Corruption:
    """Corrupts the rows of one or several data sets as they are loaded, anew in each epoch.

    What becomes of a row depends only on its tokens and on (seed, epoch, number of the sample).

    Attributes:
        corrupters: the corrupter of each data set.
        tokens: the name of the column of tokens.
        kinds: the name of the column of the rows' classes; empty if there is none.
        seed: the seed.
        starts: the number of each data set's first sample.
    """

    corrupters: tuple[SpanCorrupter, ...]
    tokens: str = "input_ids"
    kinds: str = ""
    seed: int = 0
    starts: tuple[int, ...] = (0,)

    def __call__(self, rows: Rows) -> Rows:
        """Return rows with inputs and targets; the given ones are not changed.

        Raises:
            ValueError: the columns do not fit one another.
        """
        tokens, kinds = rows.lists(self.tokens), np.zeros(len(rows), np.int64)
        if self.kinds:
            kinds = np.asarray(rows.columns[self.kinds], np.int64)
        seed, columns = np.uint64(self.seed), dict(rows.columns)
        keys = derive_sample_keys(seed, rows.samples, rows.epochs, LOADED_MASK)
        bounds = np.column_stack([tokens.offsets[:-1], tokens.offsets[1:]])
        inputs, targets = list[tuple[Integers, Lists]](), list[tuple[Integers, Lists]]()
        for corrupter, at in split_by_maker(self.corrupters, self.starts, rows.samples):
            made = corrupter.corrupt(tokens.values, bounds[at], kinds[at], keys[at])
            inputs.append((at, Lists(made.input_ids, made.input_offsets)))
            targets.append((at, Lists(made.target_ids, made.target_offsets)))
        columns |= {
            self.tokens: join_lists(inputs, len(rows)),
            LABELS: join_lists(targets, len(rows)),
        }
        return Rows(columns, rows.samples, rows.epochs)


@dataclass(frozen=True)
class Seq2SeqCollator(Collator):
    """Rows with inputs of an encoder and targets of a decoder.

    Attributes:
        padding: the width of inputs.
        target_padding: the width of targets.
        tokens: the name of the column of inputs.
        targets: the name of the column of targets.
        corruption: how inputs and targets are made of rows; None if the rows have them.

    Example:
        inputs [5, 99, 1] and [6, 7, 99, 1] with targets [99, 8, 1] and [99, 1] give
        input_ids [[5, 99, 1, 0], [6, 7, 99, 1]], attention_mask [[1, 1, 1, 0], [1, 1, 1, 1]] and
        labels [[99, 8, 1], [99, 1, -100]]; all are int64.
    """

    padding: Padding
    target_padding: Padding
    tokens: str = "input_ids"
    targets: str = LABELS
    corruption: Corruption | None = None

    def prepare(self, rows: Rows) -> Rows:
        """Make inputs and targets of rows that were stored as text."""
        return rows if self.corruption is None else self.corruption(rows)

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch.

        Raises:
            UserError: a row is longer than the padding's max_length.
        """
        inputs, targets = rows.lists(self.tokens), rows.lists(self.targets)
        width = self.padding.width(inputs.lengths)
        target_width = self.target_padding.width(targets.lengths)
        return {
            self.tokens: pad(*inputs, width, self.padding.pad_id),
            "attention_mask": attention_mask(inputs.offsets, width),
            LABELS: pad(*targets, target_width, NOT_PREDICTED),
        }


def collate_seq2seq(
    samples: Samples, padding: Padding, options: CollatorOptions
) -> Seq2SeqCollator:
    """Return the collator of inputs and targets, which makes them of rows that lack targets.

    Raises:
        UserError: an option does not suit the data set.
    """
    refuse_others(options)
    columns, sources = samples.manifest.columns, sources_of(samples)
    targets, corruption = column_of(columns, Role.TARGET_IDS), None
    stored = [column_of(source.manifest.columns, Role.TARGET_IDS) for source in sources]
    widths = [column.width for column in stored if column]
    if targets is None:
        corrupters = tuple(map(_corrupter_of, sources))
        widths = [corrupter.longest_target for corrupter in corrupters]
        kinds = column_of(columns, Role.CLASS)
        corruption = Corruption(
            corrupters,
            columns[0].name,
            kinds.name if kinds else "",
            options.get("seed", 0),
            starts_of(sources),
        )
    # Targets have a greatest length of their own, which the data sets know.
    target_padding = replace(padding, padding="longest", max_length=None)
    if ANY_LENGTH not in widths:
        target_padding = replace(padding, max_length=padding.round_up(max(widths)))
    name = targets.name if targets else LABELS
    return Seq2SeqCollator(padding, target_padding, columns[0].name, name, corruption)


def _corrupter_of(samples: Samples) -> SpanCorrupter:
    """Return what makes targets of a data set's rows.

    Raises:
        UserError: nothing does.
    """
    corrupter = options_of(samples).corrupter(samples.manifest.tokenizer)
    if corrupter is None:
        cause = "its rows have no targets, and its objective does not make them"
        name = samples.manifest.objective.name
        raise UserError(f"objective {name}", cause, "Correct its `columns` or `corrupter`")
    return corrupter
