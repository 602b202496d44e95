"""ERNIE's examples: BERT's segment pairs, with the words that their tokens belong to.

Source: "ERNIE 中文训练数据预处理" (the article), the README and reader/pretraining.py of
PaddlePaddle/ERNIE; Sun et al. 2019, arXiv 1904.09223. The original's program that makes its
sequences was never published; as the article advises, BERT's pairs are used
(`corpusmill.objectives.examples.sentence_pairs`), and `seg_labels` mark where words begin:

    input_ids    [CLS]  我   喜   欢   [SEP]  茶   [SEP]
    seg_labels    -1    0    0    1     -1    0     -1

In the 6,000 sequences that the original shows, [CLS] and [SEP] have -1, no other token has, and
none of them is followed by a 1. Therefore a word whose beginning was cut off begins at its first
remaining token here, and a [SEP] that is written out in the text has -1, too.

Masking is left to the trainer's reader (`corpusmill.objectives.masking.ernie`), so that each epoch
has other masks, or done once, with `mask` "static".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import check_option
from corpusmill.objectives.bert_rows import SentenceObjective, further_columns
from corpusmill.objectives.columns import (
    SPANS,
    prediction_columns,
    segment_column,
    token_column,
    word_column,
)
from corpusmill.objectives.examples.pair_rows import NUM_SPECIAL
from corpusmill.objectives.masking.ernie import ErnieMasker
from corpusmill.objectives.masking.masked_lm import all_ids_but
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.objectives.masking.words import label_words
from corpusmill.objectives.objective import Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, Preset
from corpusmill.objectives.presets import ERNIE_PRESETS
from corpusmill.tokenization.tokenizer_file import Vocabulary


@dataclass(frozen=True)
class ErnieOptions(ObjectiveOptions):
    """How ERNIE's examples are made."""

    presets: ClassVar[Mapping[str, Preset]] = ERNIE_PRESETS
    summary: ClassVar[str] = (
        "Build an ERNIE data set: sentence pairs with the words of their tokens, to mask by words."
    )
    max_seq_length: int = 512
    """Longest example in tokens, with [CLS] and both [SEP]."""
    duplicates: int = 10
    """How many times each document is built, each time with other pairs."""
    short_seq_prob: float = 0.1
    """Probability that a pass over a document aims at a shorter, uniformly drawn length."""
    words: str = "unicode"
    """What a word is: "unicode" for languages that write spaces, "jieba" for Chinese (needs the
    extra "chinese"), "wordpiece" for the words of a WordPiece tokenizer, or your own rule: an
    entry point of the group "corpusmill.words", or package.module:function."""
    mask: Literal["dynamic", "static"] = "dynamic"
    """"dynamic" leaves masking to the trainer, which draws it anew in each epoch; "static" masks
    each example once and stores the original ids."""
    mask_word_prob: float = 1.0
    """Probability that whole words of a sequence are masked, rather than single tokens. The
    original's list of files has 1.1, which means always."""
    pool_tokens: int = 128_000_000
    """Size of the pool that random documents are drawn from, in tokens; a corpus that fits is used
    whole."""

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            UserError: examples cannot be built with a value.
        """
        self.check_ranges(max_seq_length=(5, 65535), duplicates=(1, 65535), short_seq_prob=(0, 1))
        share = self.mask_word_prob
        check_option("mask-word-prob", share, 0 <= share <= 1, "0 (never) to 1 (always)")
        is_valid = 1 <= self.pool_tokens < 2**48
        check_option("pool-tokens", self.pool_tokens, is_valid, "1 to 281474976710655")
        check_option("words", self.words or '""', bool(self.words), '"unicode", "jieba" or a name')

    def bind(self, tokenizer: Vocabulary) -> "Ernie":
        """Return the objective for a tokenizer."""
        tokenizer.special.require(tokenizer.name, "cls", "sep", "mask", "pad")
        return Ernie(self, tokenizer.special, tokenizer.vocab_size, tokenizer.token_dtype.name)

    def masker(self, tokenizer: Vocabulary) -> ErnieMasker:
        """Mask as a static build does."""
        return self.bind(tokenizer).masker

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read WikiText by default, a sentence per line."""
        return documents.or_else("wikitext", "line").require_sentences("ernie")


@dataclass(frozen=True)
class Ernie(SentenceObjective):
    """The objective `ernie`, bound to a tokenizer's ids."""

    name = "ernie"

    options: ErnieOptions

    @property
    def pool_tokens(self) -> int:
        """The option of this name."""
        return self.options.pool_tokens

    @property
    def words(self) -> str:
        """The option of this name."""
        return self.options.words

    @property
    def masker(self) -> ErnieMasker:
        """How the examples are masked, now or when they are loaded."""
        return ErnieMasker(self.options.mask_word_prob, self.special.mask_id or 0, self.vocab_size)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data set."""
        tokens, _, label, words, *masks, _ = self.built_columns
        return (tokens, segment_column(tokens.width), words, label, *masks)

    @cached_property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns."""
        length, masked = self.options.max_seq_length, self.options.mask == "static"
        meaning = "[CLS] first segment [SEP] second segment [SEP]" + masked * ", masked"
        return (
            token_column(self.token_dtype, meaning, length, self.special.pad_id or 0),
            *further_columns("next-sentence", "article", length),
            word_column(length),
            *(prediction_columns(self.token_dtype, length - NUM_SPECIAL, length) if masked else ()),
            SPANS,
        )

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Build pairs with labels of words; with `mask` "static", mask them."""
        rows = self.make_unmasked(documents, repeat)
        input_ids, continues = self.split_marks(rows.token_ids)
        in_words = all_ids_but(self.vocab_size, self.special.cls_id, self.special.sep_id)
        seg_labels = label_words(input_ids, continues, rows.offsets, in_words, False)
        labels_of_words = ragged.to_arrow(seg_labels, rows.offsets)
        masks: list[pa.ListArray] = []
        if self.options.mask == "static":
            keys = row_keys(np.uint64(repeat.seed), rows.documents, repeat.number, rows.indices)
            positions, labels, ends = self.masker.mask(input_ids, seg_labels, rows.offsets, keys)
            masks = [ragged.to_arrow(positions, ends), ragged.to_arrow(labels, ends)]
        tokens = ragged.to_arrow(input_ids, rows.offsets)
        values = (tokens, *rows.further, labels_of_words, *masks, rows.spans)
        return self.make_rows(rows.documents, repeat.number, rows.indices, values)
