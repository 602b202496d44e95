"""BERT's examples: pairs of segments, or whole sentences, masked now or when they are loaded.

Source: "Preparing Data for BERT Training" (the article), after Google's create_pretraining_data.py;
Devlin et al. 2018. ALBERT's and RoBERTa's examples differ from BERT's in what they are made of
(`corpusmill.objectives.bert_rows`). Two things differ from the article, on purpose: random
replacement ids are drawn from all ids except special tokens (the article's "from 4" is right for
its own tokenizer only, and Google's program draws from all ids), and a sentence without tokens is
left out before pairs are made.

Google's own programs differ from the article, and `pairs` "google" builds what they do: other
chunks and random segments (`corpusmill.objectives.examples.sentence_pairs`), special tokens counted
with a row's tokens when predictions are, and words and n-grams that continue after a [SEP].
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError, option
from corpusmill.objectives import bert_rows
from corpusmill.objectives.columns import SPANS, segment_column, token_column, word_start_column
from corpusmill.objectives.combined_rows import empty_lists, join_documents, mask_combined
from corpusmill.objectives.examples.packing import pack_pieces_closely
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.masking.tokens import COUNTED, MaskingRule, row_keys
from corpusmill.objectives.objective import Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, Preset
from corpusmill.objectives.presets import BERT_PRESETS
from corpusmill.settings.constraints import Needs, Range
from corpusmill.tokenization.tokenizer_file import Vocabulary, marked_dtype


@dataclass(frozen=True)
class BertOptions(ObjectiveOptions):
    """How BERT's examples are made."""

    summary: ClassVar[str] = (
        "Build a BERT data set: masked language model, by default with next-sentence pairs."
    )
    presets: ClassVar[Mapping[str, Preset]] = BERT_PRESETS

    segments: bert_rows.Segments = "next-sentence"
    """What an example is made of: "next-sentence" pairs a segment with the next or a random one
    (BERT), "sentence-order" with the next or, switched, the previous one (ALBERT).
    "full-sentences" has whole sentences instead of pairs, as many as fit, and continues after the
    end of a document and a [SEP] with those of another (RoBERTa); with "doc-sentences" they are of
    one document. "packed" has no pairs either: a row is as many documents as fit, each between its
    own [CLS] and [SEP], with their boundaries (ModernBERT)."""
    max_seq_length: Annotated[int, Range(5, 65535)] = 512
    """Longest example in tokens, with [CLS] and every [SEP]."""
    duplicates: Annotated[int, Range(1, 65535)] = 10
    """How many times each document is built, each time with other pairs and masks."""
    short_seq_prob: Annotated[float, Range(0, 1)] = 0.1
    """Probability that a pass over a document aims at shorter pairs, of a uniformly drawn length;
    whole sentences always aim at the full length."""
    masked_lm_prob: Annotated[float, Range(0, 1, without=0)] = 0.15
    """Share of an example's tokens that are predicted."""
    max_predictions_per_seq: Annotated[int | None, Range(1)] = 20
    """Most predictions in an example; with None, the full share is predicted."""
    whole_word_mask: bool = False
    """Mask all tokens of a word or none; a word with more tokens than predictions are left is
    skipped."""
    ngram: Annotated[int, Range(1, 100), Needs("whole_word_mask", True)] = 1
    """Longest run of whole words that is masked at once, with shorter runs more often (ALBERT: 3);
    needs --whole-word-mask."""
    words: Annotated[str, Needs("whole_word_mask", True)] = "unicode"
    """What --whole-word-mask counts as a word: "unicode" (Unicode's words), "jieba" (Chinese
    phrases), "wordpiece" (a piece of the vocabulary and those that continue it, as in Google's
    programs), the name of a package's rule, or package.module:function."""
    mask: Literal["static", "dynamic"] = "static"
    """"static" masks the examples as they are built; "dynamic" stores them unmasked, to be masked
    anew in each epoch when they are loaded, with seg_labels that mark words if these are masked
    whole."""
    pool_tokens: Annotated[int, Range(1, 2**48 - 1)] = 128_000_000
    """Size of the pool that random documents are drawn from, in tokens; a corpus that fits is used
    whole. Only next-sentence pairs and those of Google's rule use the pool."""
    pairs: Annotated[bert_rows.Pairs, Needs("segments", *bert_rows.PAIRED)] = "article"
    """Whose rule makes pairs and counts predictions: the "article"'s, or "google" for that of
    Google's own programs, BERT's with "next-sentence" and ALBERT's with "sentence-order". By
    theirs a pair always has a second segment if there is another document."""
    draw_each_token: Annotated[
        bool,
        Needs("mask", "dynamic"),
        Needs("max_predictions_per_seq", None),
        Needs("whole_word_mask", False),
    ] = False
    """Draw for each token by itself whether it is predicted, for [CLS] and [SEP] too, and replace
    by any id, as ModernBERT's program does; otherwise a row has its exact share of predictions, and
    no special tokens. Needs --mask dynamic and --max-predictions-per-seq None."""

    @property
    def num_special(self) -> int:
        """The special tokens that do not count when a row's predictions are counted."""
        return 0 if self.pairs == "google" else bert_rows.count_special(self.segments)

    @property
    def prediction_places(self) -> int:
        """The width of a padded row's predictions: the option, even if no row can reach it."""
        cap = self.max_predictions_per_seq
        if self.mask == "dynamic" and cap is None:
            return self.max_seq_length
        return self.most_predictions if cap is None else min(self.max_seq_length, cap)

    @property
    def most_predictions(self) -> int:
        """The most predictions that a row can have: the option, or the share of the full length."""
        tokens = self.max_seq_length - self.num_special
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

    def check_build(self) -> None:
        """Refuse passes that would give equal rows, or nearly all."""
        is_repeated = self.duplicates > 1 and self.mask == "dynamic"
        if is_repeated and not bert_rows.has_pairs(self.segments):
            raise UserError(
                option("duplicates", self.duplicates),
                f"the text of {option('segments', self.segments)} is the same in each "
                f"pass, and with {option('mask')} "
                "dynamic only readers draw masks, so that rows would be equal",
                f"Give {option('duplicates', 1)}; each epoch has its own masks",
            )

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read WikiText by default, a sentence per line; packed rows have whole articles."""
        if self.segments == "packed":
            return documents.or_else("wikitext-articles", "document")
        return documents.or_else("wikitext", "line").require_sentences("bert")


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
    def pairs(self) -> bert_rows.Pairs:
        """The option of this name."""
        return self.options.pairs

    @property
    def pool_tokens(self) -> int:
        """The option of this name, for pairs with random documents."""
        is_random = self.segments == "next-sentence" or self.pairs == "google"
        return self.options.pool_tokens if is_random else 0

    @property
    def words(self) -> str:
        """The option of this name, if words are masked whole."""
        return self.options.words if self.options.whole_word_mask else ""

    @cached_property
    def masked_lm(self) -> MaskedLm:
        """How the examples are masked, now or when they are loaded."""
        options = self.options
        rule = MaskingRule(
            options.masked_lm_prob,
            options.prediction_places,
            COUNTED if self.segments == "packed" else options.num_special,
            self.special.mask_id or 0,
            joins_segments=options.pairs == "google",
            draws_each=options.draw_each_token,
        )
        return MaskedLm(
            rule,
            static=options.mask == "static",
            whole_words=options.whole_word_mask,
            max_ngram=options.ngram,
            max_seq_length=options.max_seq_length,
            special=self.special,
            vocab_size=self.vocab_size,
            token_dtype=self.token_dtype,
        )

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set."""
        length, pad_id = self.options.max_seq_length, self.special.pad_id or 0
        label = bert_rows.label_column(self.segments, self.pairs)
        pair = "[CLS] first segment [SEP] second segment [SEP]"
        meaning = "[CLS] sentences [SEP]" if label is None else pair
        meaning += ", masked" if self.masked_lm.static else ""
        further: tuple[Column, ...] = () if label is None else (segment_column(length), label)
        if self.segments == "packed":
            meaning = meaning.replace("sentences", "document", 1) + ", one piece after another"
            further = bert_rows.further_columns(self.segments, self.pairs, length)
        return (
            token_column(self.token_dtype, meaning, length, pad_id),
            *further,
            *self.word_starts,
            *self.masked_lm.columns,
        )

    @property
    def word_starts(self) -> tuple[Column, ...]:
        """The column that ALBERT's program writes, whose trainer masks words by it."""
        is_albert = self.segments == "sentence-order" and self.pairs == "google"
        length = self.options.max_seq_length
        return (word_start_column(length),) if is_albert and self.words else ()

    @cached_property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns."""
        segments, length = self.options.segments, self.options.max_seq_length
        input_ids = self.columns[0]
        if self.words and segments in bert_rows.COMBINED:
            # The marks are still needed when rows are masked.
            input_ids = replace(input_ids, dtype=marked_dtype(self.vocab_size).name)
        further = bert_rows.further_columns(segments, self.pairs, length)
        return (input_ids, *further, *self.word_starts, *self.masked_lm.columns, SPANS)

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Build rows, masked unless they are to be combined by `pack` first."""
        rows = self.make_unmasked(documents, repeat)
        starts: list[pa.Array] = []
        if self.segments in bert_rows.COMBINED:
            input_ids = rows.token_ids
            masked = [
                empty_lists(column.dtype, len(rows.indices)) for column in self.masked_lm.columns
            ]
        else:
            input_ids, continues = self.split_marks(rows.token_ids)
            keys = row_keys(np.uint64(repeat.seed), rows.documents, repeat.number, rows.indices)
            masked = self.masked_lm.build(input_ids, continues, rows.offsets, keys)
            if self.word_starts:
                starts = [ragged.to_arrow((~continues).astype(np.int8), rows.offsets)]
        tokens = ragged.to_arrow(input_ids, rows.offsets)
        values = (tokens, *rows.further, *starts, *masked, rows.spans)
        return self.make_rows(rows.documents, repeat.number, rows.indices, values)

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Combine documents' rows into full ones and mask these, if they are to be combined."""
        length = self.options.max_seq_length
        if self.segments == "full-sentences":
            combined = join_documents(rows, length, self.border_ids)
        elif self.segments == "packed":
            combined = pack_pieces_closely(rows, length)
        else:
            return rows
        return (mask_combined(group, self.masked_lm, self.split_marks) for group in combined)

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """Count full sentences also by the documents and the pieces in an example."""
        counts = super().measure(examples)
        if self.segments == "full-sentences":
            for name in ("documents", "pieces"):
                counts[name] = np.bincount(examples.column(name))
        return counts
