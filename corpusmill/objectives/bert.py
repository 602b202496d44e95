"""BERT's examples: pairs of segments, or whole sentences, masked now or when they are loaded.

Source: "Preparing Data for BERT Training" (the article), after Google's create_pretraining_data.py;
Devlin et al. 2018. ALBERT's and RoBERTa's examples differ from BERT's in what they are made of
(`corpusmill.objectives.bert_rows`). Two things differ from the article, on purpose: random
replacement ids are drawn from all ids except special tokens (the article's "from 4" is right for
its own tokenizer only), and a sentence without tokens is left out before pairs are made.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError, check_option
from corpusmill.objectives import bert_rows
from corpusmill.objectives.columns import segment_column, token_column
from corpusmill.objectives.examples.sentence_joins import join_rows
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.masking.tokens import MaskingRule, row_keys
from corpusmill.objectives.objective import ObjectiveOptions, Repeat
from corpusmill.tokenization.tokenizer_file import Vocabulary
from corpusmill.tokenization.words.word_marks import marked_dtype


@dataclass(frozen=True)
class BertOptions(ObjectiveOptions):
    """How BERT's examples are made."""

    summary: ClassVar[str] = (
        "Build a BERT data set: masked language model, by default with next-sentence pairs."
    )
    segments: bert_rows.Segments = "next-sentence"
    """What an example is made of: "next-sentence" pairs a segment with the next or a random one
    (BERT), "sentence-order" with the next or, switched, the previous one (ALBERT).
    "full-sentences" has whole sentences instead of pairs, as many as fit, and continues after the
    end of a document and a [SEP] with those of another (RoBERTa); with "doc-sentences" they are of
    one document."""
    max_seq_length: int = 512
    """Longest example in tokens, with [CLS] and every [SEP]."""
    duplicates: int = 10
    """How many times each document is built, each time with other pairs and masks."""
    short_seq_prob: float = 0.1
    """Probability that a pass over a document aims at shorter pairs, of a uniformly drawn length;
    whole sentences always aim at the full length."""
    masked_lm_prob: float = 0.15
    """Share of an example's tokens that are predicted."""
    max_predictions_per_seq: int | None = 20
    """Most predictions in an example; with None, the full share is predicted."""
    whole_word_mask: bool = False
    """Mask all tokens of a word or none; a word with more tokens than predictions are left is
    skipped."""
    ngram: int = 1
    """Longest run of whole words that is masked at once, with shorter runs more often (ALBERT: 3);
    needs --whole-word-mask."""
    words: str = "unicode"
    """What --whole-word-mask counts as a word: "unicode" (Unicode's words), "jieba" (Chinese
    phrases), the name of a package's rule, or package.module:function."""
    mask: Literal["static", "dynamic"] = "static"
    """"static" masks the examples as they are built; "dynamic" stores them unmasked, to be masked
    anew in each epoch when they are loaded, with seg_labels that mark words if these are masked
    whole."""
    pool_tokens: int = 128_000_000
    """Size of the pool that random documents are drawn from, in tokens; a corpus that fits is used
    whole. Only next-sentence pairs use the pool."""

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            UserError: examples cannot be built with a value.
        """
        self.check_ranges(
            max_seq_length=(5, 65535), duplicates=(1, 65535), short_seq_prob=(0, 1), ngram=(1, 100)
        )
        check_option(
            "masked-lm-prob", self.masked_lm_prob, 0 < self.masked_lm_prob <= 1, "above 0, up to 1"
        )
        cap = self.max_predictions_per_seq
        check_option("max-predictions-per-seq", cap, cap is None or cap >= 1, "None, or 1 and more")
        if not self.whole_word_mask:
            _check_default("ngram", self.ngram, "n-grams are runs of whole words")
            _check_default("words", self.words, "single tokens are masked, not words")
        is_valid = 1 <= self.pool_tokens < 2**48
        check_option("pool-tokens", self.pool_tokens, is_valid, "1 to 281474976710655")

    @property
    def prediction_places(self) -> int:
        """The width of a padded row's predictions: the option, even if no row can reach it."""
        cap = self.max_predictions_per_seq
        return self.most_predictions if cap is None else min(self.max_seq_length, cap)

    @property
    def most_predictions(self) -> int:
        """The most predictions that a row can have: the option, or the share of the full length."""
        tokens = self.max_seq_length - bert_rows.count_special(self.segments)
        full = max(1, round(tokens * self.masked_lm_prob))
        cap = self.max_predictions_per_seq
        return full if cap is None else min(full, cap)

    def bind(self, tokenizer: Vocabulary) -> "Bert":
        """Return the objective for a tokenizer."""
        tokenizer.special.require(tokenizer.name, "cls", "sep", "mask", "pad")
        return Bert(self, tokenizer.special, tokenizer.vocab_size, tokenizer.token_dtype.name)

    def masker(self, tokenizer: Vocabulary) -> MaskedLm:
        """Mask as a static build does."""
        return self.bind(tokenizer).masked_lm

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read WikiText by default, a sentence per line."""
        return documents.or_else("wikitext", "line").require_sentences("bert")


def _check_default(flag: str, value: object, cause: str) -> None:
    if value != getattr(BertOptions, flag):
        raise UserError(f"--{flag} {value}", cause, "Add --whole-word-mask, or leave it out")


@dataclass(frozen=True)
class Bert(bert_rows.SentenceObjective):
    """The objective `bert`, bound to a tokenizer's ids."""

    name = "bert"

    options: BertOptions

    @property
    def segments(self) -> bert_rows.Segments:
        """The option of this name."""
        return self.options.segments

    @property
    def pool_tokens(self) -> int:
        """The option of this name, for next-sentence pairs."""
        return self.options.pool_tokens if self.options.segments == "next-sentence" else 0

    @property
    def words(self) -> str:
        """The option of this name, if words are masked whole."""
        return self.options.words if self.options.whole_word_mask else ""

    @property
    def masked_lm(self) -> MaskedLm:
        """How the examples are masked, now or when they are loaded."""
        options, num_special = self.options, bert_rows.count_special(self.options.segments)
        mask_id = self.special.mask_id or 0
        return MaskedLm(
            MaskingRule(options.masked_lm_prob, options.prediction_places, num_special, mask_id),
            static=options.mask == "static",
            whole_words=options.whole_word_mask,
            max_ngram=options.ngram,
            max_seq_length=options.max_seq_length,
            special=self.special,
            vocab_size=self.vocab_size,
            token_dtype=self.token_dtype,
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set."""
        length, pad_id = self.options.max_seq_length, self.special.pad_id or 0
        label = bert_rows.LABELS.get(self.options.segments)
        pair = "[CLS] first segment [SEP] second segment [SEP]"
        meaning = "[CLS] sentences [SEP]" if label is None else pair
        meaning += ", masked" if self.masked_lm.static else ""
        return (
            token_column(self.token_dtype, meaning, length, pad_id),
            *(() if label is None else (segment_column(length), label)),
            *self.masked_lm.columns,
        )

    @property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns."""
        segments, length = self.options.segments, self.options.max_seq_length
        input_ids = self.columns[0]
        if self.words and segments == "full-sentences":
            # The marks are still needed when rows are joined.
            input_ids = replace(input_ids, dtype=marked_dtype(self.vocab_size).name)
        return (input_ids, *bert_rows.further_columns(segments, length), *self.masked_lm.columns)

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Build rows, masked unless they are to be joined by `pack` first."""
        rows = self.make_unmasked(documents, repeat)
        if self.options.segments == "full-sentences":
            input_ids = rows.token_ids
            masked = [
                _empty_lists(column.dtype, len(rows.indices)) for column in self.masked_lm.columns
            ]
        else:
            input_ids, continues = self.split_marks(rows.token_ids)
            keys = row_keys(np.uint64(repeat.seed), rows.documents, repeat.number, rows.indices)
            masked = self.masked_lm.build(input_ids, continues, rows.offsets, keys)
        values = (ragged.to_arrow(input_ids, rows.offsets), *rows.further, *masked)
        return self.make_rows(rows.documents, repeat.number, rows.indices, values)

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the ends of documents into full examples, if they are full sentences."""
        return self._join(rows) if self.options.segments == "full-sentences" else rows

    def _join(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the ends of documents, and mask the examples.

        A row's key is unique and comes from the seed, so that a joined row is masked by the key of
        the piece that it begins with.
        """
        for joined in join_rows(rows, self.options.max_seq_length, *self.border_ids):
            first = joined.first_rows
            owners, indices = (first.column(name).to_numpy() for name in ("key", "index"))
            input_ids, continues = self.split_marks(joined.input_ids)
            keys = row_keys(np.uint64(0), owners, 0, indices)
            columns = {
                "input_ids": ragged.to_arrow(input_ids, joined.offsets),
                "sentence_lengths": _empty_lists("uint16", first.num_rows),
                "documents": joined.documents.astype(np.uint16),
                "pieces": joined.pieces.astype(np.uint16),
            }
            masked = self.masked_lm.build(input_ids, continues, joined.offsets, keys)
            names = [column.name for column in self.masked_lm.columns]
            columns |= zip(names, masked, strict=True)
            values = [columns.get(name, first.column(name)) for name in first.schema.names]
            yield ragged.to_batch(values, first.schema)

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """Count full sentences also by the documents and the pieces in an example."""
        counts = super().measure(examples)
        if self.segments == "full-sentences":
            for name in ("documents", "pieces"):
                counts[name] = np.bincount(examples.column(name))
        return counts


def _empty_lists(dtype: str, rows: int) -> pa.Array:
    return ragged.to_arrow(np.empty(0, dtype), np.zeros(rows + 1, np.int32))
