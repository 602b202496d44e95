"""The interface of an objective: its options, its columns, and how it builds examples.

The pipeline's stages know this interface only, so that a new objective is one new module.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, Column, Role, arrow_schema, pad_rows
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import check_option
from corpusmill.objectives.columns import FIRST_LENGTH
from corpusmill.objectives.examples.pair_rows import NUM_SPECIAL, fill_token_types
from corpusmill.objectives.masking.masker import Masker
from corpusmill.objectives.masking.words import count_words
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.tokenizer_file import Vocabulary


class Repeat(NamedTuple):
    """One of the passes over documents, and what its random draws depend on.

    Attributes:
        number: the number of the pass, from 0.
        pool: the random documents; None if the objective's `pool_tokens` is 0.
        splits: uint8[documents], 0 for train and 1 for validation.
        seed: the data set's seed.
    """

    number: int
    pool: Pool | None
    splits: np.ndarray
    seed: int


class Objective(ABC):
    """A way to make training examples from tokenized documents.

    An objective is frozen and small, because it travels to the workers inside the DoFns. Override
    only what differs from the defaults.
    """

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
        `corpusmill.tokenization.words.word_marks`.
        """
        return ""

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set, as readers see them."""

    @property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns, which are sorted before `finish` makes rows of them.

        They leave out what `finish` can derive from other columns.
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
        repeat: int,
        indices: np.ndarray,
        values: Iterable[np.ndarray | pa.Array],
    ) -> pa.RecordBatch:
        """Return what `build` returns.

        Args:
            documents: uint64[rows], the id of each row's document.
            repeat: the number of the pass.
            indices: uint32[rows], each row's place in its document's pass.
            values: the values of `built_columns`.
        """
        schema = pa.schema([*IDENTITY_SCHEMA, *arrow_schema(self.built_columns)])
        repeats = np.full(len(documents), repeat, np.uint16)
        return ragged.to_batch([documents, repeats, indices, *values], schema)

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Return counts other than rows of one pass, as {"trimmed_tokens": 3}.

        Three names are known elsewhere: "trimmed_tokens", the tokens of the documents that stand in
        no row of the pass; "random_tokens", those of other documents that stand in rows; and
        "long_sentences", the sentences that no row can hold whole. Where rows have two segments,
        the first two must balance with the rows' tokens.

        Args:
            documents: what was given to `build`.
            examples: what it returned.
        """
        return {}

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Combine the built rows of a shard, which are in their final order, into those written.

        Most objectives write the rows that they build. If several built rows become one, `measure`
        counts them as "pieces".

        Args:
            rows: batches of `corpusmill.layout.sorting.keyed_schema`, of a few thousand rows each;
                the result must not depend on where one batch ends and the next begins.
        """
        return rows

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """Return the rows as they are written: `columns` from `built_columns`, padded if asked.

        The column `token_type_ids` is derived from `first_length`.
        """
        values = dict(zip(examples.schema.names, examples.columns, strict=True))
        if FIRST_LENGTH.name in values:
            _, offsets = ragged.from_arrow(values["input_ids"])
            token_types = fill_token_types(offsets, values[FIRST_LENGTH.name].to_numpy())
            values["token_type_ids"] = ragged.to_arrow(token_types, offsets - offsets[0])
        rows = [
            _pad(values[column.name], column) if padded and column.width else values[column.name]
            for column in self.columns
        ]
        return ragged.to_batch(rows, arrow_schema(self.columns, padded))

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """Count the examples by value: {"length": int64[largest + 1], ...}.

        Args:
            examples: rows of `built_columns`, before they are finished.
        """
        rows = {}
        for column in self.built_columns:
            array = examples.column(column.name)
            match column.role:
                case Role.TOKEN_IDS:
                    rows["length"] = np.diff(array.offsets)
                case Role.WORDS:
                    rows["words"] = count_words(*ragged.from_arrow(array))
                case Role.POSITIONS:
                    rows["predictions"] = np.diff(array.offsets)
                case Role.BOUNDARIES:
                    rows["pieces"] = np.diff(array.offsets) - 1
                case Role.CLASS:
                    rows[column.name] = array.to_numpy()
            if column.name == FIRST_LENGTH.name:
                rows["first_segment_length"] = array.to_numpy().astype(np.int64)
                # A row without a second segment has one special token fewer.
                second = rows["length"] - rows["first_segment_length"] - NUM_SPECIAL
                rows["second_segment_length"] = np.maximum(0, second)
        return {name: np.bincount(values) for name, values in rows.items()}


def _pad(rows: pa.ListArray, column: Column) -> pa.FixedSizeListArray:
    matrix = pad_rows(*ragged.from_arrow(rows), column.width, column.pad)
    return pa.FixedSizeListArray.from_arrays(matrix.ravel(), column.width)


@dataclass(frozen=True)
class ObjectiveOptions(ABC):
    """The options of an objective; the fields of each subclass are the flags of its command.

    Attributes:
        summary: what its command builds, for the help of the command line.
        predicts_next: whether its models predict the next token, not masked ones.
    """

    summary: ClassVar[str]
    predicts_next: ClassVar[bool] = False

    @abstractmethod
    def bind(self, tokenizer: Vocabulary) -> Objective:
        """Return the objective for a tokenizer.

        Raises:
            UserError: the tokenizer lacks a special token that the examples need.
        """

    @abstractmethod
    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Fill in this objective's defaults of how documents are read.

        Raises:
            UserError: the objective cannot use documents that are read in this way.
        """

    def masker(self, tokenizer: Vocabulary) -> Masker | None:
        """Return what masks rows when they are loaded; None if models predict no masked tokens.

        Raises:
            UserError: the tokenizer lacks a mask token.
        """
        return None

    def check_ranges(self, **ranges: tuple[float, float]) -> None:
        """Check that options lie in their ranges, as in max_seq_length=(5, 65535).

        Raises:
            UserError: an option is out of range.
        """
        for name, (least, most) in ranges.items():
            value = getattr(self, name)
            is_valid = least <= value <= most
            check_option(name.replace("_", "-"), value, is_valid, f"{least} to {most}")
