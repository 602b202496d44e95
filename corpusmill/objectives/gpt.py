"""GPT's examples: the tokens of documents, as windows, as one stream, or packed.

There are three ways from documents to rows, for a model that predicts the next token:

    windows   a row is at most max_seq_length tokens of one document, and shares `overlap` tokens
              with the previous row; short rows stay short. Source: "BPE vocabulary and data loading
              pipeline for training a large model from scratch"
              (`corpusmill.objectives.examples.windows`).
    stream    a row is a document and the end-of-text token, so that the rows of a shard in sequence
              are one stream, stored once, from which readers cut examples of any length and stride.
              Source: "Building the Dataset and DataLoader for training a large language model"
              (`corpusmill.objectives.examples.token_stream`).
    pack      a row is whole documents, each with its end-of-text token, that together fill
              max_seq_length as well as possible; only longer documents are cut. Source: Ding et al.
              2024, "Fewer Truncations Improve Language Modeling"
              (`corpusmill.objectives.examples.best_fit_packing`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, NO_PAD, Column, Role, smallest_integer
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.objectives.columns import token_column
from corpusmill.objectives.documents import unpack_documents
from corpusmill.objectives.examples.best_fit_packing import pack_best_fit
from corpusmill.objectives.examples.windows import cut_windows
from corpusmill.objectives.objective import Objective, ObjectiveOptions, Repeat
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.tokenizer_file import Vocabulary

# Longer than any document: a stream's documents are not cut.
_WHOLE = 2**62

# How much is packed at a time: on WikiText-2, with 512 to 8192 tokens per row, four times as much
# saves at most 0.2 per mille of padding, and a quarter costs up to 0.6 % (rows of 8192 tokens).
_PACKED_TOKENS, _PACKED_ROWS, _MOST_PACKED_TOKENS = 2**22, 256, 2**25


@dataclass(frozen=True)
class GptOptions(ObjectiveOptions):
    """How GPT's examples are made."""

    summary: ClassVar[str] = (
        "Build a GPT data set: tokens of documents as one stream, as windows, or packed."
    )
    predicts_next: ClassVar[bool] = True

    mode: Literal["stream", "windows", "pack"] = "stream"
    """What a row is: a document and the end-of-text token, for readers that cut examples from one
    stream of tokens (stream); at most max-seq-length tokens of one document (windows); whole
    documents that together fill max-seq-length, with their boundaries (pack)."""
    max_seq_length: int = 1024
    """Longest row of windows and pack, in tokens. A stream is cut by its reader; for a stream this
    is the length of the examples that reports count."""
    overlap: int = 0
    """Tokens that a window shares with the previous one."""
    end_of_text: bool | None = None
    """End each document with the end-of-text token; by default in stream and pack, but not in
    windows."""

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            UserError: rows cannot be built with a value.
        """
        self.check_ranges(max_seq_length=(2, 2**20))
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
        """Whether the end-of-text token is added, by the option or else by the mode."""
        return self.mode != "windows" if self.end_of_text is None else self.end_of_text

    def bind(self, tokenizer: Vocabulary) -> "Gpt":
        """Return the objective for a tokenizer."""
        if self.ends_documents:
            tokenizer.special.require(tokenizer.name, "eos")
        return Gpt(self, tokenizer.special, tokenizer.token_dtype.name)

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read WikiText's articles by default, each as one text."""
        return documents.or_else("wikitext-articles", "document")


@dataclass(frozen=True)
class Gpt(Objective):
    """The objective `gpt`, bound to a tokenizer's ids.

    Attributes:
        options: how rows are made.
        special: the tokenizer's special ids; eos must be there if documents end with it.
        token_dtype: the NumPy name of the type of a token id.
    """

    name = "gpt"

    options: GptOptions
    special: SpecialTokens
    token_dtype: str

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set."""
        mode, length = self.options.mode, self.options.max_seq_length
        meaning = {
            "stream": "a document's tokens; the rows of a shard are one stream",
            "windows": "tokens that follow one another in a document",
            "pack": "the tokens of documents, one behind the other",
        }[mode]
        width = ANY_LENGTH if mode == "stream" else length
        pad_id = self.special.pad_id
        if pad_id is None or pad_id == self.special.eos_id:
            pad_id = NO_PAD  # it could be mistaken for the row's own end
        tokens = token_column(self.token_dtype, meaning, width, pad_id)
        dtype = smallest_integer(length).name
        meaning = "where each document begins, from 0, and where the last one ends"
        boundaries = Column("cu_seqlens", dtype, meaning, length + 1, role=Role.BOUNDARIES)
        return (tokens, boundaries) if mode == "pack" else (tokens,)

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Cut documents into rows; in the mode "pack", into the pieces that `pack` packs."""
        options, eos_id = self.options, self.special.eos_id
        index, token_ids = unpack_documents(documents)
        # A document's tokens are those of its sentences, which are contiguous.
        input_ids, offsets, owners, indices = cut_windows(
            token_ids,
            index.sentence_offsets[index.offsets],
            _WHOLE if options.mode == "stream" else options.max_seq_length,
            options.overlap,
            eos_id if options.ends_documents and eos_id is not None else -1,
        )
        values = [ragged.to_arrow(input_ids, offsets)]
        if options.mode == "pack":
            marks = cumulate(np.diff(offsets), np.arange(len(offsets)))
            values.append(ragged.to_arrow(*marks))
        return self.make_rows(index.ids[owners], repeat.number, indices, values)

    def count(
        self,
        documents: pa.RecordBatch,  # noqa: ARG002  all of their tokens are in a row
        examples: pa.RecordBatch,
    ) -> dict[str, int]:
        """Count the documents that were cut, those with a second row; no token is left out."""
        if self.options.mode == "stream":
            return {"trimmed_tokens": 0}
        cut_documents = np.count_nonzero(examples.column("index").to_numpy() == 1)
        return {"trimmed_tokens": 0, "cut_documents": int(cut_documents)}

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack pieces into rows, in the mode of this name."""
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
        packed = ragged.take_rows(window, pieces)
        values, offsets = ragged.from_arrow(packed.column("input_ids"))
        # A row has the identity of its first piece.
        firsts = row_offsets[:-1]
        columns = {
            "input_ids": ragged.to_arrow(values, offsets[row_offsets]),
            "cu_seqlens": ragged.to_arrow(*cumulate(lengths[pieces], row_offsets)),
        }
        arrays = [
            columns[name] if name in columns else packed.column(name).to_numpy()[firsts]
            for name in packed.schema.names
        ]
        return ragged.to_batch(arrays, packed.schema)


def cumulate(lengths: np.ndarray, row_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the pieces of each row begin, and where the last one ends.

    Args:
        lengths: int64[pieces], the tokens of each piece, row after row.
        row_offsets: int64[rows + 1] into the pieces.

    Returns:
        marks: int64[pieces + rows]: for each row, [0, ..., the row's length].
        offsets: int64[rows + 1] into marks.

    Example:
        lengths [2, 6, 3], row_offsets [0, 2, 3] give [0, 2, 8, 0, 3] and [0, 3, 5].
    """
    sums = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(len(row_offsets) - 1), np.diff(row_offsets) + 1)
    # The last mark of a row and the first one of the next row are the same sum.
    marks = sums[np.arange(len(rows)) - rows] - sums[row_offsets[rows]]
    return marks, row_offsets + np.arange(len(row_offsets))
