"""What an objective is to the rest: options, columns, and a build function.

The stages of the pipeline know this interface alone, so that a further objective is one more
module.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column
from corpusmill.corpus.options import DocumentOptions
from corpusmill.objectives.random_documents import Pool

if TYPE_CHECKING:
    # Readers have objectives' names without tokenizers, which take a while to import.
    from corpusmill.tokenization.sources.read import TokenizerFile


class Objective(Protocol):
    """One way to make training examples of tokenized documents.

    Frozen and small: it travels to the workers inside the DoFns. An objective inherits what it has
    no need to say otherwise.
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
    def words(self) -> str:
        """The rule of words by which token ids are marked; empty where they are not.

        With a rule the ids of documents and pool are `corpusmill.tokenization.words.word_marks`'.
        """
        return ""

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

    def count(self, examples: pa.RecordBatch) -> dict[str, int]:
        """Counts of what `build` gave, beside its rows, for the manifest: {"trimmed_tokens": 3}."""
        return {}

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a shard as they are written, from the built rows in their final order.

        Most objectives write what they build. Where several built rows become one, `measure` counts
        them as "pieces".

        Args:
            rows: of `corpusmill.layout.sorting.keyed_schema`, a few thousand at a time; the cuts
                between batches carry no meaning.
        """
        return rows

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """The rows as they are written: `columns` from `built_columns`, padded where asked."""

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """Distributions of the examples, counts by value: {"length": int64[largest + 1], ...}."""


class ObjectiveOptions(Protocol):
    """The options of an objective, a frozen dataclass whose fields are flags of its command."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def bind(self, tokenizer: "TokenizerFile") -> Objective:
        """The objective for a tokenizer.

        Raises:
            UserError: the tokenizer lacks a special token that the examples need.
        """

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """How the corpus is read for this objective.

        Raises:
            UserError: the objective cannot use documents that are read in the given way.
        """
