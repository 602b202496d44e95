"""The features of a tf.train.Example, with the names that Google's trainers parse.

Sources: `create_pretraining_data.py` and `run_pretraining.py` of google-research/bert and
google-research/albert, `build_pretraining_dataset.py` and `pretrain/pretrain_data.py` of
google-research/electra.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column, Role, most_values
from corpusmill.arrays.flat_rows import flatten
from corpusmill.arrays.ragged import is_padded, row_lengths
from corpusmill.formats.tfrecord.kernels import FLOAT_LIST, INT64_LIST

Kind = Literal["values", "mask", "weights"]

# The most bytes of a number, and of the tags and lengths around the numbers of a feature.
_NUMBER_BYTES, _FRAME_BYTES = 10, 64

# Features that are 1 for each value of a column and 0 for its padding.
_DERIVED: dict[Role, tuple[str, Kind]] = {
    Role.TOKEN_IDS: ("input_mask", "mask"),
    Role.POSITIONS: ("masked_lm_weights", "weights"),
}


@dataclass(frozen=True)
class Feature:
    """One feature of an example.

    Attributes:
        name: its key.
        column: the column from which it is made.
        kind: "values": the column's numbers; "mask": int64 ones and zeros; "weights": the same as
            floats.
    """

    name: str
    column: Column
    kind: Kind

    @property
    def list_kind(self) -> int:
        """FLOAT_LIST or INT64_LIST."""
        return FLOAT_LIST if self.kind == "weights" else INT64_LIST

    def most_bytes(self, longest: int, padded: bool) -> int:
        """Return the most bytes of the feature in a record.

        Args:
            longest: the most tokens of a row.
            padded: whether lists have a fixed size.
        """
        size = 4 if self.kind == "weights" else _NUMBER_BYTES
        return most_values(self.column, longest, padded) * size + len(self.name) + _FRAME_BYTES

    def flatten(self, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the feature.

        Args:
            batch: with the column.

        Returns:
            values: integers[total], or uint8[4 * total] for weights, the bytes of little-endian
                float32; read-only.
            offsets: int64[rows + 1] into values.

        Example:
            a mask of the padded rows [[5, 6, 0], [5, 0, 0]] is [1, 1, 0, 1, 0, 0].
        """
        array = batch.column(self.column.name)
        values, offsets = flatten(array)
        if self.kind == "values":
            return values, offsets
        if is_padded(array):
            lengths = row_lengths(array, self.column.pad)
            ones = (np.arange(self.column.width) < lengths[:, None]).ravel().astype(np.int8)
        else:
            offsets = offsets - offsets[0]
            ones = np.ones(offsets[-1], np.int8)
        if self.kind == "weights":
            ones, offsets = ones.astype("<f4").view(np.uint8), offsets * 4
        ones.flags.writeable = False
        return ones, offsets


def features_of(columns: Sequence[Column]) -> tuple[Feature, ...]:
    """Return the features of columns, sorted by name as deterministic serialisers write them.

    Example:
        input_ids and token_type_ids give input_ids, input_mask, segment_ids.
    """
    features = [Feature(column.feature or column.name, column, "values") for column in columns]
    derived = [(column, *_DERIVED[column.role]) for column in columns if column.role in _DERIVED]
    features += [Feature(name, column, kind) for column, name, kind in derived]
    return tuple(sorted(features, key=lambda feature: feature.name.encode()))


def shape_of(feature: Feature, padded: bool) -> tuple[str, int]:
    """Return the feature's dtype and width as tf.data declares them; width 0 means any length."""
    dtype = "float32" if feature.kind == "weights" else "int64"
    if not feature.column.width:
        return dtype, 1
    return dtype, feature.column.width if padded else 0
