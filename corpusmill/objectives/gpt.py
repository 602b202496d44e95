"""GPT's examples: the tokens of documents, as windows, as one stream, or packed.

Three ways from documents to rows, for a model that predicts the next token:

    windows   a row is at most max_seq_length tokens of one document, and shares `overlap` tokens
              with the row before it; nothing is filled up. Source: "BPE vocabulary and data loading
              pipeline for training a large model from scratch"
              (`corpusmill.objectives.examples.windows`).
    stream    a row is a document and the end-of-text token, so that the rows of a shard, one behind
              the other, are one stream, stored once; examples of any length and stride are cut from
              it by the reader. Source: "Building the Dataset and DataLoader for training a large
              language model" (`corpusmill.objectives.examples.token_stream`).
    pack      a row is whole documents, each with its end-of-text token, that together fill
              max_seq_length as well as they can; only what is longer is cut. Source: Ding et al.
              2024, "Fewer Truncations Improve Language Modeling"
              (`corpusmill.objectives.examples.best_fit_packing`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import (
    ANY_LENGTH,
    IDENTITY_SCHEMA,
    NO_PAD,
    Column,
    Role,
    arrow_schema,
    pad_rows,
    smallest_integer,
)
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError, check_option
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.objectives.columns import token_column
from corpusmill.objectives.documents import unpack_documents
from corpusmill.objectives.examples.best_fit_packing import pack_best_fit
from corpusmill.objectives.examples.windows import cut_windows
from corpusmill.objectives.objective import Objective, ObjectiveOptions
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.tokenizer_file import Vocabulary

# More than any document has: a stream's documents are not cut.
_WHOLE = 2**62

# What is packed at a time: on WikiText-2, of 512 to 8192 tokens a row, four times as much saves 0.2
# per mille of padding at most, and a quarter costs up to 0.6 % (rows of 8192 tokens).
_PACKED_TOKENS, _PACKED_ROWS, _MOST_PACKED_TOKENS = 2**22, 256, 2**25


@dataclass(frozen=True)
class GptOptions(ObjectiveOptions):
    """How GPT's examples are made."""

    predicts_next: ClassVar[bool] = True

    mode: Literal["stream", "windows", "pack"] = "stream"
    """What a row is: a document with the end-of-text token behind it, for readers that cut examples
    from one stream of tokens (stream); at most max-seq-length tokens of one document (windows);
    whole documents that fill max-seq-length together, with their boundaries (pack)."""
    max_seq_length: int = 1024
    """Longest row of windows and pack, in tokens. A stream is cut by its reader; there it is the
    length that reports count examples of."""
    overlap: int = 0
    """Tokens that a window shares with the one before it."""
    end_of_text: bool | None = None
    """End each document with the end-of-text token; by default in stream and pack, and not in
    windows."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no row can be built with.
        """
        longest = self.max_seq_length
        check_option("max-seq-length", longest, 2 <= longest <= 2**20, f"2 to {2**20}")
        if self.mode != "windows" and self.overlap:
            raise UserError(
                f"--overlap {self.overlap}",
                f"only windows overlap, and the mode is {self.mode}",
                "Give --mode windows, or leave it out",
            )
        if not 0 <= self.overlap < self.max_seq_length:
            raise UserError(
                f"--overlap {self.overlap}",
                f"it is not below the length of a window, {self.max_seq_length}",
                "Give 0 or more, and less than --max-seq-length; a tenth to a quarter is usual",
            )

    @property
    def ends_documents(self) -> bool:
        """Whether the end-of-text token is added, once nothing is left to the mode."""
        return self.mode != "windows" if self.end_of_text is None else self.end_of_text

    def bind(self, tokenizer: Vocabulary) -> "Gpt":
        """See ObjectiveOptions."""
        if self.ends_documents:
            tokenizer.special.require(tokenizer.name, "eos")
        return Gpt(self, tokenizer.special, tokenizer.token_dtype.name)

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """See ObjectiveOptions."""
        return documents.or_else("wikitext-articles", "document")


@dataclass(frozen=True)
class Gpt(Objective):
    """The objective `gpt`, bound to a tokenizer's ids; see `Objective`.

    Attributes:
        options: how rows are made.
        special: the tokenizer's special ids; eos must be there where documents end with it.
        token_dtype: NumPy name of the type of a token id.
    """

    options: GptOptions
    special: SpecialTokens
    token_dtype: str

    @property
    def name(self) -> str:
        """See Objective."""
        return "gpt"

    @property
    def columns(self) -> tuple[Column, ...]:
        """See Objective."""
        mode, length = self.options.mode, self.options.max_seq_length
        meaning = {
            "stream": "a document's tokens; the rows of a shard are one stream",
            "windows": "tokens that follow one another in a document",
            "pack": "the tokens of documents, one behind the other",
        }[mode]
        width = ANY_LENGTH if mode == "stream" else length
        tokens = token_column(self.token_dtype, meaning, width, self._pad_id)
        return (tokens, self._boundaries) if mode == "pack" else (tokens,)

    @property
    def _boundaries(self) -> Column:
        length = self.options.max_seq_length
        return Column(
            "cu_seqlens",
            smallest_integer(length).name,
            "where each document begins, from 0, and where the last one ends",
            length + 1,
            role=Role.BOUNDARIES,
        )

    @property
    def _pad_id(self) -> int:
        """What fills a row; nothing does where it could not be told from the row's own end."""
        pad_id = self.special.pad_id
        return NO_PAD if pad_id is None or pad_id == self.special.eos_id else pad_id

    def build(
        self,
        documents: pa.RecordBatch,
        repeat: int,
        pool: Pool | None,  # noqa: ARG002 - nothing is drawn
        splits: np.ndarray,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> pa.RecordBatch:
        """See Objective."""
        options = self.options
        index, token_ids = unpack_documents(documents)
        # A document's tokens are those of its sentences, which are contiguous.
        input_ids, offsets, owners, indices = cut_windows(
            token_ids,
            index.sentence_offsets[index.offsets],
            _WHOLE if options.mode == "stream" else options.max_seq_length,
            options.overlap,
            -1
            if self.special.eos_id is None or not options.ends_documents
            else self.special.eos_id,
        )
        columns = [
            index.ids[owners],
            np.full(len(owners), repeat, np.uint16),
            indices,
            ragged.to_arrow(input_ids, offsets),
        ]
        if options.mode == "pack":
            columns.append(self._mark_boundaries(np.diff(offsets), np.arange(len(offsets))))
        return ragged.to_batch(columns, pa.schema([*IDENTITY_SCHEMA, *self._built_schema()]))

    def _built_schema(self) -> pa.Schema:
        return arrow_schema(self.built_columns)

    def _mark_boundaries(self, lengths: np.ndarray, row_offsets: np.ndarray) -> pa.ListArray:
        """cu_seqlens of rows, from the lengths of their pieces, row after row."""
        marks, offsets = cumulate(lengths, row_offsets)
        return ragged.to_arrow(marks.astype(self._boundaries.dtype), offsets)

    def count(self, examples: pa.RecordBatch) -> dict[str, int]:
        """See Objective."""
        if self.options.mode == "stream":
            return {}
        seconds = np.count_nonzero(examples.column("index").to_numpy() == 1)
        return {"cut_documents": int(seconds)}

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """See Objective."""
        if self.options.mode != "pack":
            yield from rows
            return
        length = self.options.max_seq_length
        tokens = max(_PACKED_TOKENS, min(_PACKED_ROWS * length, _MOST_PACKED_TOKENS))
        for window in cut_into_groups(rows, tokens, tokens):
            yield self._pack_window(window)

    def _pack_window(self, window: pa.RecordBatch) -> pa.RecordBatch:
        lengths = np.diff(ragged.from_arrow(window.column("input_ids"))[1]).astype(np.int64)
        pieces, row_offsets = pack_best_fit(lengths, self.options.max_seq_length)
        taken = ragged.take_rows(window, pieces)
        values, offsets = ragged.from_arrow(taken.column("input_ids"))
        # A row is known by the first piece in it.
        firsts = row_offsets[:-1]
        columns = {
            "input_ids": ragged.to_arrow(values, offsets[row_offsets]),
            "cu_seqlens": self._mark_boundaries(lengths[pieces], row_offsets),
        }
        chosen = [
            columns[name] if name in columns else taken.column(name).to_numpy()[firsts]
            for name in taken.schema.names
        ]
        return ragged.to_batch(chosen, taken.schema)

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """See Objective."""
        rows = [examples.column(column.name) for column in self.columns]
        if padded:
            rows = [_pad(row, column) for row, column in zip(rows, self.columns, strict=True)]
        return ragged.to_batch(rows, arrow_schema(self.columns, padded))

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """See Objective."""
        lengths = np.diff(ragged.from_arrow(examples.column("input_ids"))[1])
        found = {"length": np.bincount(lengths)}
        if self.options.mode == "pack":
            marks = np.diff(ragged.from_arrow(examples.column("cu_seqlens"))[1])
            found["pieces"] = np.bincount(marks - 1)
        return found


def cumulate(lengths: np.ndarray, row_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the pieces of each row begin in it, and where the last one ends.

    Args:
        lengths: int64[pieces], tokens of each piece, row after row.
        row_offsets: int64[rows + 1] into the pieces.

    Returns:
        marks: int64[pieces + rows], [0, ..., length of the row] for each row.
        offsets: int64[rows + 1] into marks.

    Example:
        lengths [2, 6, 3], row_offsets [0, 2, 3] give [0, 2, 8, 0, 3] and [0, 3, 5].
    """
    sums = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(len(row_offsets) - 1), np.diff(row_offsets) + 1)
    # The last mark of a row is the sum that the first of the next one is, too.
    marks = sums[np.arange(len(rows)) - rows] - sums[row_offsets[rows]]
    return marks, row_offsets + np.arange(len(row_offsets))


def _pad(row: pa.ListArray, column: Column) -> pa.FixedSizeListArray:
    matrix = pad_rows(*ragged.from_arrow(row), column.width, column.pad)
    return pa.FixedSizeListArray.from_arrays(matrix.ravel(), column.width)
