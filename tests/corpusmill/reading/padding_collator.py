"""A collator as small as can be, and an order without end, for tests of what moves batches."""

import numpy as np

from corpusmill.reading.batches import Batch
from corpusmill.reading.gathering import pad_lists
from corpusmill.reading.order import Order
from corpusmill.reading.rows import Integers, Rows


class PaddingCollator:
    """Pads input_ids; says which samples these are, in which epochs."""

    def prepare(self, rows: Rows) -> Rows:
        keys = {"sample": rows.samples.copy(), "epoch": rows.epochs.copy()}
        return rows.replace(keys)

    def __call__(self, rows: Rows) -> Batch:
        ids = rows.lists("input_ids")
        matrix = np.empty((len(rows), int(ids.lengths.max())), np.int64)
        pad_lists(ids.values, ids.offsets, 0, matrix)
        keys = {name: np.array(rows.columns[name]) for name in ("sample", "epoch")}
        return {"input_ids": matrix, **keys}


class EndlessOrder(Order):
    """The samples over and over again, so that whoever reads is in the midst of an epoch."""

    def __len__(self) -> int:
        return 10**9

    def locate(self, numbers: Integers) -> Integers:
        return numbers % sum(self.shard_sizes)
