"""ELECTRA's examples: the sentences of a document packed into two segments.

Source: Google's build_pretraining_dataset.py (seed 001), after Clark et al. 2020. Masking is left
to the trainer, which draws new places at each step.
`corpusmill.objectives.examples.electra_packs` explains how the draws are made independent of the
order of documents. The original drops tokens that do not fit into an example; here they are
counted, and `overflow` keeps them.

With `merge_documents` examples are those of DeBERTa-v3: its prepare_data.py joins the tokens of all
documents, with nothing between them, and cuts them every max_seq_length - 2 tokens. Here the
documents of a shard are joined in its random order, so that any number of workers builds the same,
and rows of about four million tokens are shuffled together. Only the last row of a shard is short.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.arrays.randomness import purpose_of
from corpusmill.corpus.document_options import DocumentOptions, DocumentRule
from corpusmill.errors import UserError, option
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.objectives.columns import (
    FIRST_LENGTH,
    JOINED_COUNTS,
    SPANS,
    segment_column,
    token_column,
)
from corpusmill.objectives.combined_rows import assemble_rows, rows_of_chunks
from corpusmill.objectives.examples import electra_packs as packing
from corpusmill.objectives.examples.row_spans import locate_stretches, single_spans, span_lists
from corpusmill.objectives.examples.windows import (
    MERGED_PIECE_TOKENS,
    SHUFFLED_TOKENS,
    Chunks,
    cut_joined,
    cut_windows,
)
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.masking.tokens import MaskingRule
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, Preset
from corpusmill.objectives.tokenized_documents import measure_sentences, unpack_documents
from corpusmill.settings.constraints import Needs, Range
from corpusmill.tokenization.tokenizer_file import SpecialTokens, Vocabulary

_RULES_WITH_BLANKS = ("wikitext", "blank-lines")

# The share of tokens that the original masks for the generator.
_MASKED_LM_PROB = 0.15


@dataclass(frozen=True)
class ElectraOptions(ObjectiveOptions):
    """How ELECTRA's examples are made."""

    presets: ClassVar[Mapping[str, Preset]] = {
        "electra": Preset(
            {}, "google-research/electra, build_pretraining_dataset.py, its defaults"
        ),
        "deberta-v3": Preset(
            {"max_seq_length": 512, "merge_documents": True},
            "He et al. 2021, and prepare_data.py of microsoft/DeBERTa: ELECTRA's replaced tokens, "
            "all documents joined and cut into rows of 512 tokens; for a tokenizer of "
            "train-tokenizer --model unigram",
        ),
    }
    summary: ClassVar[str] = (
        "Build an ELECTRA data set: text packed into one or two segments, to be masked in training."
    )
    max_seq_length: Annotated[int, Range(5, 65535)] = 128
    """Longest example in tokens, with [CLS] and both [SEP]."""
    duplicates: Annotated[int, Range(1, 65535)] = 1
    """How many times each document is built, each time with other draws."""
    short_seq_prob: Annotated[float, Range(0, 1), Needs("merge_documents", False)] = 0.05
    """Probability that an example has a shorter target length, uniform from 5 up."""
    single_segment_prob: Annotated[float, Range(0, 1), Needs("merge_documents", False)] = 0.1
    """Probability that an example has a single segment, as in classification tasks."""
    blanks_separate_docs: bool = True
    """Empty lines of a text separate documents; otherwise a file is one document (--document-rule
    whole-file), which one worker reads, and cuts between lines into several documents if it is
    longer than --max-document-bytes; at each cut an example ends early. In formats with records, a
    record is always a document."""
    overflow: Annotated[Literal["drop", "keep"], Needs("merge_documents", False)] = "drop"
    """What becomes of tokens that do not fit into an example: "drop" leaves them out, as the
    original does, and counts them; "keep" puts them before the sentences of the document's next
    example, so that no token is lost."""
    merge_documents: bool = False
    """Join the tokens of all documents, and cut them into rows without segments that are all full,
    as DeBERTa-v3's program does; no token is lost. Then nothing is drawn, and --short-seq-prob,
    --single-segment-prob and --overflow must be left out."""

    def bind(self, tokenizer: Vocabulary) -> "Electra":
        """Return the objective for a tokenizer."""
        tokenizer.special.require(tokenizer.name, "cls", "sep", "pad")
        return Electra(self, tokenizer.special, tokenizer.token_dtype.name)

    def masker(self, tokenizer: Vocabulary) -> MaskedLm:
        """Mask as the trainer of ELECTRA's generator does at each step.

        Of round(tokens * 0.15) predictions, where tokens include special tokens, 85 % become [MASK]
        and 15 % stay. The original draws positions with replacement, so that some are drawn twice
        and count double; here all differ.

        Source: `mask` in pretrain/pretrain_helpers.py of google-research/electra.
        """
        tokenizer.special.require(tokenizer.name, "mask")
        most = _most_predictions(_MASKED_LM_PROB, self.max_seq_length)
        mask_id = tokenizer.special.mask_id or 0
        return _GeneratorMasking(
            MaskingRule(_MASKED_LM_PROB, most, 0, mask_id, 0.85, 0.0),
            static=False,
            whole_words=False,
            max_ngram=1,
            max_seq_length=self.max_seq_length,
            special=tokenizer.special,
            vocab_size=tokenizer.vocab_size,
            token_dtype=tokenizer.token_dtype.name,
        )

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read a sentence per line; by default only empty lines separate documents, not titles."""
        wanted: DocumentRule = "blank-lines" if self.blanks_separate_docs else "whole-file"
        rule = documents.document_rule or wanted
        if self.blanks_separate_docs != (rule in _RULES_WITH_BLANKS):
            separate, not_so = (option("blanks_separate_docs", value) for value in (True, False))
            cause = f"with {separate} empty lines separate documents, with {not_so} they do not; "
            cause += f"{wanted} was expected"
            cure = "Leave one of the two out, or reverse it"
            raise UserError(option("document_rule", rule), cause, cure)
        return documents.or_else(rule, "line").require_sentences("electra")


def _most_predictions(share: float, max_seq_length: int) -> int:
    return max(1, int((share + 0.005) * max_seq_length))


@dataclass(frozen=True)
class _GeneratorMasking(MaskedLm):
    """The masking of the generator, whose most predictions follow from their share."""

    def limit(self, rule: MaskingRule) -> MaskingRule:
        """Return a rule with another share, and its most predictions."""
        most = _most_predictions(rule.masked_lm_prob, self.max_seq_length)
        return rule._replace(max_predictions=most)


@dataclass(frozen=True)
class Electra(Objective):
    """The objective `electra`, bound to a tokenizer's ids.

    Attributes:
        options: how examples are made.
        special: the tokenizer's special ids; cls, sep and pad must be there.
        token_dtype: the NumPy name of the type of a token id.
    """

    name = "electra"

    options: ElectraOptions
    special: SpecialTokens
    token_dtype: str

    @property
    def repeats(self) -> int:
        """How many times each document is built."""
        return self.options.duplicates

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set."""
        length, pad_id = self.options.max_seq_length, self.special.pad_id or 0
        if self.options.merge_documents:
            return (token_column(self.token_dtype, "[CLS] text [SEP]", length, pad_id),)
        meaning = "[CLS] first segment [SEP] second segment [SEP]; the second one may be missing"
        return (
            token_column(self.token_dtype, meaning, length, pad_id),
            segment_column(length),
        )

    @cached_property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns."""
        if self.options.merge_documents:
            return (*self.columns, *JOINED_COUNTS, SPANS)
        return (
            self.columns[0],
            FIRST_LENGTH,
            Column("first_trimmed", "uint32", "tokens that were too many for the first segment"),
            Column("second_trimmed", "uint32", "tokens that were too many for the second segment"),
            SPANS,
        )

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Build packs of two segments, or pieces of documents that `pack` joins."""
        index, token_ids = unpack_documents(documents)
        if self.options.merge_documents:
            # Most documents have a single piece.
            bounds = index.sentence_offsets[index.offsets]
            pieces, offsets, owners, indices = cut_windows(token_ids, bounds, MERGED_PIECE_TOKENS)
            starts = bounds[owners] + indices.astype(np.int64) * MERGED_PIECE_TOKENS
            ones = np.ones(len(owners), np.uint16)
            spans = single_spans(locate_stretches(index, owners, starts, np.diff(offsets)))
            columns = [ragged.to_arrow(pieces, offsets), ones, ones, spans]
            return self.make_rows(index.ids[owners], repeat.number, indices, columns)
        rule = packing.PackRule(
            self.options.max_seq_length,
            self.options.short_seq_prob,
            self.options.single_segment_prob,
            self.options.overflow == "keep",
        )
        packs, parts = packing.draw_packs(index, np.uint64(repeat.seed), repeat.number, rule)
        input_ids, offsets = packing.assemble_packs(
            packs, parts, token_ids, self.special.cls_id, self.special.sep_id
        )
        span_offsets = np.append(packs[:, packing.FIRST_SPAN], len(parts))
        places = np.repeat(packs[:, packing.DOCUMENT], np.diff(span_offsets))
        stretches = locate_stretches(index, places, *parts.T)
        values = (
            ragged.to_arrow(input_ids, offsets),
            packs[:, packing.FIRST_LENGTH],
            packs[:, packing.FIRST_TRIMMED],
            packs[:, packing.SECOND_TRIMMED],
            span_lists(stretches, span_offsets),
        )
        owners = index.ids[packs[:, packing.DOCUMENT]]
        return self.make_rows(owners, repeat.number, packs[:, packing.INDEX], values)

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Count the tokens that were dropped from each segment, and sentences longer than a row."""
        if self.options.merge_documents:
            return {"trimmed_tokens": 0}
        first, second = (
            int(examples.column(f"{segment}_trimmed").to_numpy().sum(dtype=np.int64))
            for segment in ("first", "second")
        )
        room = self.options.max_seq_length - 2  # [CLS] and [SEP], where there is one segment
        return {
            "trimmed_tokens": first + second,
            "trimmed_tokens.first_segment": first,
            "trimmed_tokens.second_segment": second,
            "long_sentences": int(np.count_nonzero(measure_sentences(documents) > room)),
        }

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join pieces of documents and cut them into full rows, if documents are merged."""
        return self._join(rows) if self.options.merge_documents else rows

    def _join(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        used = 0  # of the tokens of the first piece that waits
        for group in cut_into_groups(rows, "input_ids", SHUFFLED_TOKENS, SHUFFLED_TOKENS):
            pieces = pa.concat_batches([*waiting, group])
            offsets, chunks = self._cut_pieces(pieces, used)
            full = int(np.count_nonzero(np.diff(chunks.bounds, axis=1) == self._room))
            if full:
                yield self._make_full_rows(pieces, offsets, chunks, full)
            waiting, used = [], 0
            if full < len(chunks.rows):
                first = chunks.rows[full]
                waiting, used = [pieces.slice(first)], chunks.bounds[full, 0] - offsets[first]
        if waiting:
            offsets, chunks = self._cut_pieces(waiting[0], used)
            yield self._make_full_rows(waiting[0], offsets, chunks, len(chunks.rows))

    @property
    def _room(self) -> int:
        """The tokens of a full row of one segment."""
        return self.options.max_seq_length - 2

    def _cut_pieces(self, pieces: pa.RecordBatch, used: int) -> tuple[np.ndarray, Chunks]:
        """Return the pieces' offsets, and the chunks of their tokens without the first `used`."""
        offsets = np.array(ragged.from_arrow(pieces.column("input_ids"))[1], np.int64)
        begins = np.concatenate([offsets[:1] + used, offsets[1:]])
        keys, purpose = pieces.column("key").to_numpy(), purpose_of("corpusmill.electra.rows")
        return offsets, cut_joined(begins, keys, len(keys), np.array([self._room]), purpose)

    def _make_full_rows(
        self, pieces: pa.RecordBatch, offsets: np.ndarray, chunks: Chunks, count: int
    ) -> pa.RecordBatch:
        """Make rows of the first `count` chunks, in random order."""
        order = np.argsort(chunks.keys[:count])
        token_ids, _ = ragged.from_arrow(pieces.column("input_ids"))
        bounds = chunks.bounds[order]
        stretches = np.stack([bounds[:, 0], bounds[:, 1] - bounds[:, 0]], axis=1)
        input_ids, ends = assemble_rows(
            stretches, np.arange(count + 1), token_ids, self.special.cls_id, self.special.sep_id
        )
        columns = {"input_ids": ragged.to_arrow(input_ids, ends)}
        return rows_of_chunks(pieces, offsets, chunks, order, columns)
