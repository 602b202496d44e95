"""The interface of an objective: its options, its columns, and how it builds examples.

The pipeline's stages know this interface only, so that a new objective is one new module.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import (
    IDENTITY_SCHEMA,
    Column,
    Role,
    arrow_schema,
    column_of,
    pad_rows,
    tokens_of,
)
from corpusmill.corpus.document_options import TextMaker
from corpusmill.objectives.columns import JOINED_COUNTS, measure_rows
from corpusmill.objectives.examples.sentence_pairs import fill_token_types
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.text_cuts import Cuts


class Repeat(NamedTuple):
    """One of the passes over documents, and what its random draws depend on.

    Attributes:
        number: the number of the pass, from 0; uint16[documents] for an objective that
            `takes_passes`.
        pool: the random documents; None if the objective's `pool_tokens` is 0.
        splits: uint8[documents], 0 for train and 1 for validation.
        seed: the data set's seed.
    """

    number: Any
    pool: Pool | None
    splits: np.ndarray
    seed: int


class Objective(ABC):
    """A way to make training examples from tokenized documents.

    An objective is frozen and small, because it travels to the workers inside the DoFns. Override
    only what differs from the defaults.

    Attributes:
        takes_passes: whether `build` makes the rows of several passes at once, in which documents
            recur, each with the number of its own pass.
        joins_records: whether `build` makes one document of several records, where they have the
            columns of `corpusmill.layout.groups`.
    """

    takes_passes: ClassVar[bool] = False
    joins_records: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name on the command line."""

    @property
    def repeats(self) -> int:
        """How many times each document is built, each time with other draws."""
        return 1

    @property
    def pool_tokens(self) -> int:
        """The size of the pool of random documents in tokens; 0 for an objective without a pool."""
        return 0

    @property
    def words(self) -> str:
        """The word rule by which token ids are marked; empty if they are not marked.

        With a rule, the ids of documents and pool are those of
        `corpusmill.tokenization.tokenizer_file`.
        """
        return ""

    def text_cuts(self, seed: int) -> Cuts | None:
        """Return what cuts the texts of documents before they are tokenized; None for nothing.

        `build` finds the pieces of a text as its document's sentences, the empty ones included.
        With a `TextMarks`, marks in the texts cut their tokens.
        `ObjectiveOptions.choose_documents` must see to it that a document is one text.

        Args:
            seed: the data set's seed.
        """
        return None

    def text_maker(self, tokenizer_json: str) -> TextMaker | None:
        """Return what makes the text of a record of several fields; None if one field holds it.

        Args:
            tokenizer_json: the tokenizer's complete tokenizer.json.
        """
        return None

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the manifest keeps beside the options, in JSON's types, by name.

        Readers may need what `bind` found in the tokenizer. Two names are known elsewhere, to an
        objective that has both: "begin_of_text" and "end_of_text", lists of the ids that it puts
        before and after each document.
        """
        return {}

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set, as readers see them; the tokens are the first."""

    @property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns, which are sorted before `finish` makes rows of them.

        They leave out what `finish` can derive from other columns. An objective may end them with
        `corpusmill.extending.SPANS`, which says of which tokens of which documents a row is made. A
        `pack` that combines rows must then combine or cut spans as it does rows; otherwise spans
        are taken off before rows are sorted. Without the column, rows are traced to their documents
        only.
        """
        return self.columns

    @abstractmethod
    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Build the examples of one pass over a batch of documents.

        Args:
            documents: tokenized documents (`corpusmill.tokenization.sentence_tokenizer`'s batches).
            repeat: which pass it is.

        Returns:
            IDENTITY_SCHEMA followed by `built_columns`.
        """

    def make_rows(
        self,
        documents: np.ndarray,
        repeat: int | np.ndarray,
        indices: np.ndarray,
        values: Iterable[np.ndarray | pa.Array],
    ) -> pa.RecordBatch:
        """Return what `build` returns.

        Args:
            documents: uint64[rows], the id of each row's document.
            repeat: the number of the pass, or uint16[rows].
            indices: uint32[rows], each row's place in its document's pass.
            values: the values of `built_columns`.
        """
        repeats = np.full(len(documents), repeat, np.uint16)
        return ragged.to_batch([documents, repeats, indices, *values], self._built_schema)

    @cached_property
    def _built_schema(self) -> pa.Schema:
        return pa.schema([*IDENTITY_SCHEMA, *arrow_schema(self.built_columns)])

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Return counts other than rows of one pass, as {"trimmed_tokens": 3}.

        Four names are known elsewhere: "trimmed_tokens", the tokens of the documents that stand in
        no row of the pass; "kept_tokens", those that do; "random_tokens", those of other documents
        that stand in rows; and "long_sentences", the sentences that no row can hold whole. Kept and
        trimmed tokens must be all tokens of the documents. Where rows have two segments, trimmed
        and random tokens must balance with the rows' tokens.

        Args:
            documents: what was given to `build`.
            examples: what it returned.
        """
        return {}

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Combine the built rows of a shard, which are in their final order, into those written.

        Most objectives write the rows that they build, and return `rows` itself. If several built
        rows become one, `measure` counts them as "pieces".

        Args:
            rows: batches of `corpusmill.layout.sorting.keyed_schema`, of a few thousand rows each;
                the result must not depend on where one batch ends and the next begins. The column
                `key` has a random number for each row, unique and derived from the seed, from which
                more can be drawn: `derive_keys(0, keys, 0, purpose_of("my-package.joins"))`.
        """
        return rows

    @property
    def combines_rows(self) -> bool:
        """Whether `pack` does more than return the rows that it is given."""
        rows: Iterator[pa.RecordBatch] = iter(())
        return self.pack(rows) is not rows

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """Return the rows as they are written: `columns` from `built_columns`, padded if asked.

        Segments are derived from the length of the first one.

        Args:
            examples: rows as `pack` returns them, with their keys.
            padded: whether lists get a fixed size.
        """
        values = dict(zip(examples.schema.names, examples.columns, strict=True))
        first_length = column_of(self.built_columns, Role.FIRST_LENGTH)
        segments = column_of(self.columns, Role.SEGMENTS)
        if first_length and segments:
            _, offsets = ragged.from_arrow(values[tokens_of(self.columns).name])
            token_types = fill_token_types(offsets, values[first_length.name].to_numpy())
            values[segments.name] = ragged.to_arrow(token_types, offsets - offsets[0])
        for column in self.columns:
            if padded and column.width:
                lists = ragged.from_arrow(values[column.name])
                matrix = pad_rows(*lists, column.width, column.pad).ravel()
                values[column.name] = pa.FixedSizeListArray.from_arrays(matrix, column.width)
        rows = [values[column.name] for column in self.columns]
        return ragged.to_batch(rows, arrow_schema(self.columns, padded))

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """Count the examples by value: {"length": int64[largest + 1], ...}.

        Args:
            examples: rows of `built_columns`, before they are finished.
        """
        # Rows have spans only where they are combined, or where provenance is kept.
        measured = (column for column in self.built_columns if column.role is not Role.SPANS)
        rows = measure_rows(examples, measured)
        joined = [column.name for column in JOINED_COUNTS if column in self.built_columns]
        rows |= {name: examples.column(name).to_numpy() for name in joined}
        return {name: np.bincount(values) for name, values in rows.items()}
