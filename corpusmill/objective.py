"""What an objective is to the rest: options, columns, and a build function.

The stages of the pipeline know this interface alone, so that a further objective is one more
module.
"""

from typing import Protocol

import numpy as np
import pyarrow as pa

from corpusmill.columns import Column
from corpusmill.pool import Pool

# Which example a row is; every objective's `build` puts these columns first.
IDENTITY_SCHEMA = pa.schema(
    [
        pa.field("document", pa.uint64(), nullable=False),
        pa.field("repeat", pa.uint16(), nullable=False),
        pa.field("index", pa.uint32(), nullable=False),
    ]
)


class Objective(Protocol):
    """One way to make training examples of tokenized documents.

    Frozen and small: it travels to the workers inside the DoFns.
    """

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def repeats(self) -> int:
        """How many times each document is built, each time with other draws."""

    @property
    def pool_tokens(self) -> int:
        """Tokens of the pool of random documents; 0 where the objective draws none."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set, as readers see them."""

    @property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` gives, and that are sorted before `finish` makes rows of them.

        No value is among them that `finish` can work out from the others.
        """

    def build(
        self,
        documents: pa.RecordBatch,
        repeat: int,
        pool: Pool | None,
        splits: np.ndarray,
        seed: int,
    ) -> pa.RecordBatch:
        """The examples of one pass over a batch of documents.

        Args:
            documents: tokenized documents (`corpusmill.tokenization.sentence_tokenizer`'s batches).
            repeat: which pass, from 0.
            pool: the random documents; None where `pool_tokens` is 0.
            splits: uint8[documents], 0 for train and 1 for validation.
            seed: the data set's seed.

        Returns:
            IDENTITY_SCHEMA followed by `built_columns`.
        """

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """The rows as they are written: `columns` from `built_columns`, padded where asked."""

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """Distributions of the examples, counts by value: {"length": int64[largest + 1], ...}."""
