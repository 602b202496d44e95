"""GPT's examples: the tokens of documents, as windows, as one stream, or packed.

There are three ways from documents to rows, for a model that predicts the next token:

    windows   a row is at most max_seq_length tokens of one document, and shares `overlap` tokens
              with the previous row; short rows stay short. Source: "BPE vocabulary and data loading
              pipeline for training a large model from scratch"
              (`corpusmill.objectives.examples.windows`).
    stream    a row is a document and the end-of-text token, so that the rows of a shard in sequence
              are one stream, stored once, from which readers cut examples of any length and stride.
              Source: "Building the Dataset and DataLoader for training a large language model"
              (`corpusmill.objectives.examples.windows`).
    pack      a row is whole documents, each with its end-of-text token, that together fill
              max_seq_length as well as possible; only longer documents are cut. Source: Ding et al.
              2024, "Fewer Truncations Improve Language Modeling"
              (`corpusmill.objectives.examples.packing`).

In each of them, a document begins with the tokens that the tokenizer's own `encode` puts before a
text, if it puts any there; they stand in its first row alone.

Before they become rows, the middles of some documents may be moved to their ends
(`corpusmill.objectives.examples.fill_in_the_middle`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, Column
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError, option
from corpusmill.layout.groups import BEGINS, heads_of, put_heads
from corpusmill.objectives.columns import SPANS, boundary_column, pad_of_text, token_column
from corpusmill.objectives.examples import fill_in_the_middle as fim
from corpusmill.objectives.examples.fill_in_the_middle import (
    ADDED,
    count_token,
    locate_parts,
    rearrange,
)
from corpusmill.objectives.examples.packing import mark_pieces, pack_pieces
from corpusmill.objectives.examples.row_spans import cut_spans, span_lists
from corpusmill.objectives.examples.windows import cut_windows, locate_windows
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, Preset, SuitedTokenizer
from corpusmill.objectives.tokenized_documents import Documents, unpack_documents
from corpusmill.settings.constraints import Needs, Range
from corpusmill.tokenization.text_cuts import TextCuts
from corpusmill.tokenization.tokenizer_file import SpecialTokens, Vocabulary

# The lengths that a row may have.
LENGTHS = Range(2, 2**20)

# Longer than any document: a stream's documents are not cut.
_WHOLE = 2**62


@dataclass(frozen=True)
class GptOptions(ObjectiveOptions):
    """How GPT's examples are made."""

    presets: ClassVar[Mapping[str, Preset]] = {
        "gpt2": Preset(
            {"mode": "stream", "max_seq_length": 1024},
            "Radford et al. 2019: one stream of documents, read in windows of 1,024 tokens",
        ),
    }
    summary: ClassVar[str] = (
        "Build a GPT data set: tokens of documents as one stream, as windows, or packed."
    )
    collator: ClassVar[str] = "corpusmill.reading.collate.causal_collators:collate_causal_lm"
    suited_tokenizer: ClassVar[SuitedTokenizer] = SuitedTokenizer(
        "bpe", ("<|endoftext|>", *(names[0] for names in fim.FIM_TOKENS.values()))
    )

    mode: Literal["stream", "windows", "pack"] = "stream"
    """What a row is: a document and the end-of-text token, for readers that cut examples from one
    stream of tokens (stream); at most max-seq-length tokens of one document (windows); whole
    documents that together fill max-seq-length, with their boundaries (pack)."""
    max_seq_length: Annotated[int, LENGTHS] = 1024
    """Longest row of windows and pack, in tokens. A stream is cut by its reader; for a stream this
    is the length of the examples that reports count."""
    overlap: Annotated[int, Needs("mode", "windows")] = 0
    """Tokens that a window shares with the previous one."""
    begin_of_text: bool | None = None
    """Begin each document with the tokenizer's token for that, such as <s>, <bos> or
    <|begin_of_text|>; by default if the tokenizer itself does: if its post-processor says so, or
    add_bos_token in the tokenizer_config.json beside it."""
    end_of_text: bool | None = None
    """End each document with the end-of-text token; by default in stream and pack, and in windows
    if middles are moved or the tokenizer itself ends each text with it."""
    fim_rate: Annotated[float, Range(0, 1), Needs("end_of_text", None, True)] = 0.0
    """Share of the documents whose middle is moved to their end, so that a model learns to fill in
    the middle: 0.5 to 0.9 is usual. The tokenizer needs <|fim_prefix|>, <|fim_middle|> and
    <|fim_suffix|>, or the same in another common spelling."""
    fim_spm_share: Annotated[float, Range(0, 1)] = 0.5
    """Share of these documents that begin with the suffix (SPM); the others begin with the prefix
    (PSM)."""
    fim_cut: Literal["characters", "tokens"] = "characters"
    """Where they are cut: anywhere in the text, before it is tokenized (characters), or between
    tokens."""

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            UserError: rows cannot be built with a value.
        """
        super().__post_init__()
        if not 0 <= self.overlap < self.max_seq_length:
            cause = f"it is not below the length of a window, {self.max_seq_length}"
            cure = (
                f"Give 0 or more, and less than {option('max_seq_length')}; a tenth to a quarter "
            )
            raise UserError(option("overlap", self.overlap), cause, f"{cure}is usual")

    def begins_documents(self, special: SpecialTokens) -> bool:
        """Whether documents begin with a token, by the option or else by the tokenizer."""
        return bool(special.before) if self.begin_of_text is None else self.begin_of_text

    def ends_documents(self, special: SpecialTokens) -> bool:
        """Whether documents end with a token, by the option, the mode or the tokenizer."""
        if self.end_of_text is None:
            return self.mode != "windows" or self.fim_rate > 0 or bool(special.after)
        return self.end_of_text

    @property
    def cuts_texts(self) -> bool:
        """Whether texts are cut before they are tokenized."""
        return self.fim_rate > 0 and self.fim_cut == "characters"

    @property
    def special_tokens(self) -> Mapping[str, Sequence[str]]:
        """The tokens around prefix, middle and suffix.

        The manifest keeps them with any `fim_rate`, as windows of a stream may need them.
        """
        return fim.FIM_TOKENS

    def bind(self, tokenizer: Vocabulary) -> "Gpt":
        """Return the objective for a tokenizer."""
        special = tokenizer.special
        if self.begins_documents(special) and not special.begin_of_text:
            special.require(tokenizer.name, "bos")
        if self.ends_documents(special) and not special.end_of_text:
            special.require(tokenizer.name, "eos")
        if self.fim_rate:
            fim.require_tokens(tokenizer.name, special)
        return Gpt(self, special, tokenizer.token_dtype.name)

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read WikiText's articles by default, each as one text.

        Raises:
            UserError: texts are to be cut, and documents are not one text each.
        """
        documents = documents.or_else("wikitext-articles", "document")
        if self.cuts_texts and not documents.keeps_text:
            rate, rule = option("fim_rate", self.fim_rate), documents.sentence_rule
            cause = f"{rate} cuts documents at characters, which must be one text"
            cure = f"Leave it out, or add {option('fim_cut', 'tokens')}"
            raise UserError(option("sentence_rule", rule), cause, cure)
        return documents


@dataclass(frozen=True)
class Gpt(Objective):
    """The objective `gpt`, bound to a tokenizer's ids.

    Attributes:
        options: how rows are made.
        special: the tokenizer's special ids; those that documents begin or end with must be there.
        token_dtype: the NumPy name of the type of a token id.
    """

    name = "gpt"
    joins_records = True

    options: GptOptions
    special: SpecialTokens
    token_dtype: str

    @property
    def begin_of_text(self) -> tuple[int, ...]:
        """The ids before each document."""
        begins = self.options.begins_documents(self.special)
        return self.special.begin_of_text if begins else ()

    @property
    def end_of_text(self) -> tuple[int, ...]:
        """The ids after each document."""
        return self.special.end_of_text if self.options.ends_documents(self.special) else ()

    @property
    def facts(self) -> Mapping[str, Any]:
        """What begins and ends documents."""
        return {"begin_of_text": [*self.begin_of_text], "end_of_text": [*self.end_of_text]}

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set."""
        mode, length = self.options.mode, self.options.max_seq_length
        meaning = {
            "stream": "a document's tokens; the rows of a shard are one stream",
            "windows": "tokens that follow one another in a document",
            "pack": "the tokens of documents, one behind the other",
        }[mode]
        width = ANY_LENGTH if mode == "stream" else length
        pad = pad_of_text(self.special, *self.end_of_text)
        tokens = token_column(self.token_dtype, meaning, width, pad)
        return (tokens, boundary_column(length, length)) if mode == "pack" else (tokens,)

    @cached_property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns."""
        return (*self.columns, SPANS)

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Cut documents into rows; in the mode "pack", into the pieces that `pack` packs."""
        options, before = self.options, self.begin_of_text
        index, token_ids = unpack_documents(documents)
        # A document's tokens are those of its sentences, which are contiguous.
        document_offsets = index.sentence_offsets[index.offsets]
        bounds, forms = self._draw_cuts(index, document_offsets, repeat.seed)
        parts, places = locate_parts(index.ids, bounds, forms)
        if options.fim_rate:
            roles = fim.find_tokens(self.special)
            token_ids, document_offsets = rearrange(token_ids, bounds, forms, roles)
        ids = index.ids
        if BEGINS in documents.schema.names:
            joined = put_heads(documents, token_ids, document_offsets)
            token_ids, document_offsets, shifts, firsts = joined
            ids, places = ids[firsts], places + np.repeat(shifts, len(places) // len(shifts))
        length = _WHOLE if options.mode == "stream" else options.max_seq_length
        input_ids, offsets, owners, indices = cut_windows(
            token_ids, document_offsets, length, options.overlap, before, self.end_of_text
        )
        values = [ragged.to_arrow(input_ids, offsets)]
        if options.mode == "pack":
            values.append(mark_pieces(offsets))
        text_offsets = document_offsets - document_offsets[0]
        cut = (length, options.overlap, len(before))
        windows = locate_windows(text_offsets, owners, indices, *cut)
        values.append(span_lists(*cut_spans(parts, places, windows)))
        return self.make_rows(ids[owners], repeat.number, indices, values)

    def text_cuts(self, seed: int) -> TextCuts | None:
        """Return what cuts texts at characters, if middles are moved in this way."""
        options = self.options
        return fim.CharacterCuts(seed, options.fim_rate) if options.cuts_texts else None

    def _draw_cuts(
        self, index: Documents, offsets: np.ndarray, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where documents are cut, and their forms, as `rearrange` takes them."""
        if not self.options.fim_rate:
            begins, ends = offsets[:-1], offsets[1:]
            bounds = np.stack([begins, ends, ends, ends], axis=1)
            return bounds, np.full(len(bounds), fim.PLAIN, np.uint8)
        keys = fim.derive_document_keys(seed, index.ids)
        forms = fim.draw_forms(keys, self.options.fim_rate, self.options.fim_spm_share)
        if self.options.cuts_texts:
            bounds = fim.bounds_of_pieces(index.offsets, index.sentence_offsets, forms)
        else:
            bounds = fim.cut_tokens(offsets, keys)
        return bounds, forms

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Count the documents that were cut, those with a second row; no token is left out.

        If middles are moved, also the documents with a moved one, and the tokens of documents in
        rows.
        """
        counts = {"trimmed_tokens": 0}
        if self.options.mode != "stream":
            cut_documents = np.count_nonzero(examples.column("index").to_numpy() == 1)
            counts["cut_documents"] = int(cut_documents)
        if not self.options.fim_rate:
            return counts
        index, token_ids = unpack_documents(documents)
        bounds = index.sentence_offsets[index.offsets[[0, -1]]]
        input_ids, offsets = ragged.from_arrow(examples.column("input_ids"))
        indices = examples.column("index").to_numpy()
        # What a row shares with the previous one is not counted again.
        begins = offsets[:-1] + np.where(indices > 0, self.options.overlap, 0)
        _, middle, _ = fim.find_tokens(self.special)
        heads, _ = heads_of(documents)
        moved = count_token(input_ids, begins, offsets[1:], middle)
        moved -= count_token(token_ids, bounds[:1], bounds[1:], middle)  # in the text
        moved -= np.count_nonzero(heads == middle)
        around = len(self.begin_of_text) + len(self.end_of_text)
        added = ADDED * moved + around * np.count_nonzero(indices == 0) + len(heads)
        kept = int((offsets[1:] - begins).sum()) - added
        return {**counts, "fim_documents": int(moved), "kept_tokens": int(kept)}

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack pieces into rows, in the mode of this name."""
        is_packed = self.options.mode == "pack"
        return pack_pieces(rows, self.options.max_seq_length) if is_packed else rows
