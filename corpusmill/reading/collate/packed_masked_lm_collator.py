"""Batches of packed rows for masked language models: ModernBERT."""

from dataclasses import dataclass

import numpy as np

from corpusmill.arrays.columns import Column, Role
from corpusmill.reading.collate.load_masking import DynamicMasking
from corpusmill.reading.collate.options import Layout
from corpusmill.reading.collate.packed_layout import check_layout, lay_out
from corpusmill.reading.collate.padding import Padding, scatter_labels
from corpusmill.reading.load.batches import Collator
from corpusmill.reading.rows import Batch, Integers, Lists, Rows


@dataclass(frozen=True)
class PackedMaskedLmCollator(Collator):
    """Masked rows of several documents that must not attend to one another: `--segments packed`.

    There is no attention_mask. FlashAttention takes the four arguments that say where pieces begin;
    other implementations ignore them, and ModernBERT does not recognize pieces by its position_ids.
    Give these models `corpusmill.reading.torch.document_attention`.

    Attributes:
        padding: the width of batches.
        columns: the columns of the rows; their roles determine the arrays of a batch.
        masking: how rows are masked; None if they are masked already, or stay unmasked.
        layout: "rows" puts each row of the data set into a padded row of the batch; "flattened"
            puts all of them into one row, which is only padded to a multiple.

    Example:
        a row of the pieces [2, 5, 4, 3] and [2, 4, 3], with 6 at position 2 and 7 at position 5,
        gives input_ids [[2, 5, 4, 3, 2, 4, 3]], position_ids [[0, 1, 2, 3, 0, 1, 2]], labels
        [[-100, -100, 6, -100, -100, 7, -100]], cu_seq_lens_q and cu_seq_lens_k [0, 4, 7],
        max_length_q and max_length_k 4. The types are those of `PackedCollator`.
    """

    padding: Padding
    columns: tuple[Column, ...]
    masking: DynamicMasking | None = None
    layout: Layout = "rows"

    def __post_init__(self) -> None:
        """Check the layout.

        Raises:
            UserError: the layout is unknown, or contradicts the padding.
        """
        check_layout(self.layout, self.padding)

    def prepare(self, rows: Rows) -> Rows:
        """Mask rows that were stored unmasked."""
        return rows if self.masking is None else self.masking(rows)

    def __call__(self, rows: Rows) -> Batch:
        """Return the arrays of one batch, with labels for masked rows.

        Raises:
            UserError: a row is longer than the padding's max_length.
            ValueError: the pieces of a row do not lead from its beginning to its end.
        """
        columns = self.columns if self.masking is None else self.masking.masked_columns
        names = {column.role: column.name for column in columns}
        tokens, boundaries = names[Role.TOKEN_IDS], names[Role.BOUNDARIES]
        packed = lay_out(rows, tokens, boundaries, self.padding, self.layout)
        batch = {tokens: packed.input_ids, "position_ids": packed.position_ids}
        if Role.POSITIONS in names:
            positions = rows.lists(names[Role.POSITIONS])
            originals = rows.lists(names[Role.PREDICTED_IDS])
            labels = _label(positions, originals, packed.begins)
            batch["labels"] = labels.reshape(packed.input_ids.shape)
        return batch | packed.lengths


def _label(positions: Lists, originals: Lists, begins: Integers) -> Integers:
    """Return the labels of all places, int64[1, places], of rows that begin at `begins`."""
    if not np.array_equal(positions.lengths, originals.lengths):
        raise ValueError("labels must be as many in each row as positions")
    values, ids = (
        lists.values[lists.offsets[0] : lists.offsets[-1]] for lists in (positions, originals)
    )
    places = values + np.repeat(begins[:-1], positions.lengths)
    offsets = np.array([0, len(places)])
    labels: Integers = scatter_labels(places, offsets, ids, offsets, int(begins[-1]))
    return labels
