"""T5's examples: text with spans left out, and the spans as the targets of a decoder.

Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", section 3.1.4, and the program that they published (t5/data/preprocessors.py:
`span_corruption`). The examples are those of the program: pieces of documents, one of each longer
than 65,536 tokens, are joined by 128 and cut into rows that fill the input when they are corrupted
(`corpusmill.objectives.examples.windows`, `corpusmill.objectives.denoising`).

With UL2's mixture (`corpusmill.objectives.denoising`) each row has a denoiser of its own;
its program cuts other documents for each denoiser, here the rows of all follow one another.

Equal to the program are the lengths, the noise and its spans, the sentinels and end tokens, and, if
documents come to it in random order, which stretches of which documents stand in one row. Three
things differ, so that data sets are the same for any number of workers and nothing is lost
silently. Documents are joined in the random order of a shard instead of that of the input, each
split and shard for itself. The rows of about four million tokens are shuffled together, where the
program shuffles a thousand rows as it trains. Tokens that are left out of long documents are
counted, and `overflow` keeps them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column, Role
from corpusmill.arrays.randomness import derive_keys, purpose_of
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError, option
from corpusmill.knobs import knob
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.objectives.columns import JOINED_COUNTS, SPANS, pad_of_text, token_column
from corpusmill.objectives.combined_rows import empty_lists, rows_of_chunks
from corpusmill.objectives.denoising import (
    MODES,
    UL2,
    UL2_PROGRAM,
    Denoiser,
    MixedDenoiser,
    SpanCorrupter,
    count_sentinels,
    find_modes,
    find_sentinels,
    fit_tokens,
    sentinel_roles,
)
from corpusmill.objectives.examples.row_spans import locate_stretches, single_spans
from corpusmill.objectives.examples.windows import (
    MERGED_PIECE_TOKENS,
    SHUFFLED_TOKENS,
    Chunks,
    cut_joined,
    cut_windows,
    draw_pieces,
)
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, Preset, SuitedTokenizer
from corpusmill.objectives.tokenized_documents import measure_sentences, unpack_documents
from corpusmill.settings.constraints import Needs, Range
from corpusmill.tokenization.tokenizer_file import SpecialTokens, Vocabulary

# T5's own tokenizer has a hundred sentinels; UL2's rows of 512 tokens have up to 127 spans.
_SENTINELS = 128
_SUITED_TOKENS = [names[0] for names in (*sentinel_roles(_SENTINELS).values(), *MODES.values())]

JOINED_PIECES = knob("joined_pieces", 128)
"""The pieces that are joined for T5, and cut into rows together."""


@dataclass(frozen=True)
class T5Options(ObjectiveOptions):
    """How T5's examples are made."""

    summary: ClassVar[str] = (
        "Build a T5 data set: spans of text become sentinels, which a decoder spells out."
    )
    presets: ClassVar[Mapping[str, Preset]] = {
        "t5": Preset(
            {}, "Raffel et al. 2020, section 3.1.4, and their program, as are the defaults"
        ),
        "ul2": Preset(
            {"denoisers": "ul2"},
            "Tay et al. 2022, table 1: seven denoisers, equally likely; the lengths of spans are "
            "drawn as in their program, and not from normal distributions; --denoisers ul2-program "
            "has its longer targets of S, too",
        ),
    }
    collator: ClassVar[str] = "corpusmill.reading.collate.seq2seq_collator:collate_seq2seq"
    suited_tokenizer: ClassVar[SuitedTokenizer] = SuitedTokenizer(
        "unigram", ("<pad>", "</s>", "<unk>", *_SUITED_TOKENS)
    )

    max_seq_length: Annotated[int, Range(5, 65535)] = 512
    """Longest input of the encoder in tokens, with sentinels and the end token. The length of the
    targets follows from it: 114 for inputs of 512."""
    duplicates: Annotated[int, Range(1, 65535)] = 1
    """How many times each document is built, each time with other rows and spans."""
    noise_density: Annotated[float, Range(0.01, 0.9), Needs("denoisers", "spans")] = 0.15
    """Share of a row's tokens that is left out and predicted."""
    mean_noise_span_length: Annotated[float, Range(1, 1000), Needs("denoisers", "spans")] = 3.0
    """Mean length of the spans that are left out, in tokens."""
    mask: Literal["static", "dynamic"] = "static"
    """"static" leaves out spans when the examples are built; "dynamic" stores their text, of which
    spans are left out anew in each epoch when it is loaded."""
    denoisers: Literal["spans", "ul2", "ul2-program"] = "spans"
    """What is left out: "spans" of --noise-density and --mean-noise-span-length (T5); with "ul2" a
    row gets one of UL2's seven denoisers, which leave out short or long spans, few or many, or the
    end of the row, and its input begins with the token of their mode. The end is a quarter of a row
    on average, as in the article's table, or a half with "ul2-program", as in its program."""
    merge_documents: bool = True
    """Join 128 documents before they are cut into rows, as T5 does, so that nearly all rows are
    full; otherwise a row is of one document, and a document's last row may be short."""
    overflow: Literal["drop", "keep"] = "drop"
    """What becomes of documents of more than 65,536 tokens: "drop" takes a random piece of this
    length in each pass, as T5 does, and counts the other tokens; "keep" takes all pieces."""

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            UserError: examples cannot be built with a value.
        """
        super().__post_init__()
        if self.duplicates > 1 and self.mask == "dynamic" and not self.merge_documents:
            cause = "each pass would cut documents into the same rows, and readers leave out spans"
            cure = f"Give {option('duplicates', 1)}; other spans are left out in each epoch"
            raise UserError(option("duplicates", self.duplicates), cause, cure)

    @property
    def mixture(self) -> tuple[MixedDenoiser, ...]:
        """How rows are corrupted: all ways are equally likely."""
        own = Denoiser(self.noise_density, self.mean_noise_span_length)
        ul2 = {"ul2": UL2, "ul2-program": UL2_PROGRAM}
        return ul2.get(self.denoisers, (MixedDenoiser("spans", "", own),))

    @property
    def row_tokens(self) -> tuple[int, ...]:
        """The tokens of a full row of each denoiser before it is corrupted."""
        length = self.max_seq_length - bool(self._modes)
        return tuple(int(fit_tokens(length, *mixed.denoiser)) for mixed in self.mixture)

    @property
    def num_sentinels(self) -> int:
        """The most spans of a row."""
        pairs = zip(self.row_tokens, self.mixture, strict=True)
        return max(int(count_sentinels(tokens, *mixed.denoiser)) for tokens, mixed in pairs)

    @property
    def special_tokens(self) -> Mapping[str, Sequence[str]]:
        """The sentinels, in the order in which they stand in a row, and the tokens of modes."""
        return {**sentinel_roles(self.num_sentinels), **self._modes}

    @property
    def _modes(self) -> Mapping[str, Sequence[str]]:
        return {} if self.denoisers == "spans" else MODES

    def bind(self, tokenizer: Vocabulary) -> "T5":
        """Return the objective for a tokenizer."""
        tokenizer.special.require(tokenizer.name, "eos", "pad")
        modes = find_modes(tokenizer, self._modes)
        sentinels = find_sentinels(tokenizer, self.num_sentinels, max(self.row_tokens))
        dtype = tokenizer.token_dtype.name
        return T5(self, tokenizer.special, sentinels, tuple(modes.items()), dtype)

    def corrupter(self, tokenizer: Vocabulary) -> SpanCorrupter | None:
        """Leave out spans as a static build does."""
        return self.bind(tokenizer).corrupter if self.mask == "dynamic" else None

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read WikiText's articles by default, each as one text."""
        return documents.or_else("wikitext-articles", "document")


@dataclass(frozen=True)
class T5(Objective):
    """The objective `t5`, bound to a tokenizer's ids.

    Attributes:
        options: how examples are made.
        special: the tokenizer's special ids; eos and pad must be there.
        sentinel_ids: the ids of the sentinels, in their order.
        mode_ids: the roles and ids of the tokens of modes.
        token_dtype: the NumPy name of the type of a token id.
    """

    name = "t5"

    options: T5Options
    special: SpecialTokens
    sentinel_ids: tuple[int, ...]
    mode_ids: tuple[tuple[str, int], ...]
    token_dtype: str

    @property
    def repeats(self) -> int:
        """How many times each document is built."""
        return self.options.duplicates

    @property
    def facts(self) -> Mapping[str, Any]:
        """The sentinels, and the tokens of modes if there are any."""
        modes = {"mode_ids": dict(self.mode_ids)} if self.mode_ids else {}
        return {"sentinel_ids": list(self.sentinel_ids), **modes}

    @property
    def corrupter(self) -> SpanCorrupter:
        """How rows become inputs and targets, now or when they are loaded."""
        mixture, modes = self.options.mixture, dict(self.mode_ids)
        return SpanCorrupter(
            tuple(mixed.denoiser for mixed in mixture),
            self.options.row_tokens,
            self.sentinel_ids,
            self.special.eos_id or 0,
            tuple(modes[mixed.mode] for mixed in mixture if mixed.mode),
        )

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set, by Hugging Face's names; in TFRecord they have T5's."""
        dtype, pad = self.token_dtype, pad_of_text(self.special)
        lists: tuple[Column, ...]
        if self.options.mask == "dynamic":
            meaning, width = "text, of which spans are left out later", max(self.options.row_tokens)
            tokens = token_column(dtype, meaning, width, pad)
            lists = (replace(tokens, feature="targets"),)
        else:
            meaning = "text with a sentinel in place of each span that was left out"
            tokens = token_column(dtype, meaning, self.options.max_seq_length, pad)
            meaning = "each sentinel, and the tokens that it stands for"
            width, role = self.corrupter.longest_target, Role.TARGET_IDS
            targets = Column("labels", dtype, meaning, width, pad, role, feature="targets")
            lists = (replace(tokens, feature="inputs"), targets)
        names = tuple(mixed.name for mixed in self.options.mixture)
        if len(names) == 1:
            return lists
        denoiser = Column(
            "denoiser",
            "int8",
            "how the row was corrupted, or is when it is loaded",
            role=Role.CLASS,
            largest=len(names) - 1,
            value_names=names,
            title="denoiser",
        )
        return (*lists, denoiser)

    @cached_property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns: pieces of documents, of which `pack` makes rows."""
        return (*self.columns, *JOINED_COUNTS, SPANS)

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Cut documents into pieces."""
        index, token_ids = unpack_documents(documents)
        bounds = index.sentence_offsets[index.offsets]
        pieces, offsets, owners, indices = cut_windows(token_ids, bounds, MERGED_PIECE_TOKENS)
        if self.options.overflow == "drop" and indices.any():
            purpose = purpose_of("corpusmill.t5.pieces")
            keys = derive_keys(np.uint64(repeat.seed), index.ids, repeat.number, purpose)
            drawn = draw_pieces(owners, indices, keys)
            pieces, offsets = ragged.take(pieces, offsets, drawn)
            owners, indices = owners[drawn], indices[drawn]
        starts = bounds[owners] + indices.astype(np.int64) * MERGED_PIECE_TOKENS
        columns = {
            self.columns[0].name: ragged.to_arrow(pieces, offsets),
            SPANS.name: single_spans(locate_stretches(index, owners, starts, np.diff(offsets))),
            "denoiser": np.zeros(len(owners), np.int8),
            **{column.name: np.ones(len(owners), np.uint16) for column in JOINED_COUNTS},
        }
        nothing = empty_lists(self.token_dtype, len(owners))
        values = [columns.get(column.name, nothing) for column in self.built_columns]
        return self.make_rows(index.ids[owners], repeat.number, indices, values)

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Count the tokens in pieces, all of which are in rows, and those that were left out."""
        tokens = int(measure_sentences(documents).sum())
        kept = len(examples.column(self.columns[0].name).flatten())
        return {"kept_tokens": kept, "trimmed_tokens": tokens - kept}

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join pieces, cut them into rows, and leave out spans unless masks are dynamic."""
        waiting: list[pa.RecordBatch] = []
        tokens, name, most_tokens = 0, self.columns[0].name, JOINED_PIECES * MERGED_PIECE_TOKENS
        # Whole groups of pieces that are joined, so that batches do not matter.
        for group in cut_into_groups(rows, name, JOINED_PIECES, most_tokens + 1):
            waiting.append(group)
            tokens += len(group.column(name).flatten())
            if tokens >= SHUFFLED_TOKENS:
                yield self._cut(pa.concat_batches(waiting))
                waiting, tokens = [], 0
        if waiting:
            yield self._cut(pa.concat_batches(waiting))

    def _cut(self, pieces: pa.RecordBatch) -> pa.RecordBatch:
        name = self.columns[0].name
        token_ids, offsets = ragged.from_arrow(pieces.column(name))
        chunks = cut_joined(
            offsets.astype(np.int64),
            pieces.column("key").to_numpy(),
            JOINED_PIECES if self.options.merge_documents else 1,
            np.array(self.options.row_tokens),
            purpose_of("corpusmill.t5.rows"),
        )
        order = np.argsort(chunks.keys)
        columns = {**self._make_rows(token_ids, chunks, order), "denoiser": chunks.kinds[order]}
        return rows_of_chunks(pieces, offsets, chunks, order, columns)

    def _make_rows(
        self, token_ids: np.ndarray, chunks: Chunks, order: np.ndarray
    ) -> dict[str, pa.Array]:
        """Return the lists of rows: their text, or their inputs and targets."""
        names = [column.name for column in self.columns]
        if self.options.mask == "dynamic":
            offsets = np.append(chunks.bounds[:, 0], chunks.bounds[-1:, 1]).astype(np.int32)
            return {names[0]: ragged.to_arrow(*ragged.take(token_ids, offsets, order))}
        keys = derive_keys(np.uint64(0), chunks.keys[order], 0, purpose_of("corpusmill.t5.spans"))
        rows = self.corrupter.corrupt(token_ids, chunks.bounds[order], chunks.kinds[order], keys)
        return {
            names[0]: ragged.to_arrow(rows.input_ids, rows.input_offsets),
            names[1]: ragged.to_arrow(rows.target_ids, rows.target_offsets),
        }
