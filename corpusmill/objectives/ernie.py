"""ERNIE's examples: BERT's segment pairs, with the words that their tokens belong to.

Source: "ERNIE 中文训练数据预处理" (the article), the README and reader/pretraining.py of
PaddlePaddle/ERNIE; Sun et al. 2019, arXiv 1904.09223. The original's program that makes its
sequences was never published; as the article advises, BERT's pairs are taken
(`corpusmill.objectives.examples.next_sentence_pairs`), and `seg_labels` say where words begin:

    input_ids    [CLS]  我   喜   欢   [SEP]  茶   [SEP]
    seg_labels    -1    0    0    1     -1    0     -1

In the 6,000 sequences that the original shows, each [CLS] and [SEP] has -1, no other token has, and
none of them is followed by a 1. So here a word whose beginning was cut off begins at its first
token that is left, and a [SEP] that is written out in the text has -1, too.

Masking is left to the trainer's reader (`corpusmill.objectives.masking.ernie`), so that each epoch
sees other masks, or is done once, with `mask` "static".
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, Column, arrow_schema
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import check_option
from corpusmill.objectives.bert_rows import RowMaker, further_columns
from corpusmill.objectives.columns import (
    prediction_columns,
    segment_column,
    token_column,
    word_column,
)
from corpusmill.objectives.examples.pair_rows import NUM_SPECIAL, finish_rows
from corpusmill.objectives.masking.ernie import ErnieMasker, mask_sequences
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.objectives.masking.words import count_words, label_words
from corpusmill.objectives.objective import Objective, ObjectiveOptions
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.tokenizer_file import Vocabulary
from corpusmill.tokenization.words.word_marks import continues_of, ids_of, mark


@dataclass(frozen=True)
class ErnieOptions(ObjectiveOptions):
    """How ERNIE's examples are made."""

    max_seq_length: int = 512
    """Longest example in tokens, [CLS] and both [SEP] included."""
    duplicates: int = 10
    """How many times each document is built, each time with other pairs."""
    short_seq_prob: float = 0.1
    """Probability that a pass over a document aims at a shorter, uniformly drawn length."""
    words: str = "unicode"
    """What a word is: "unicode" for languages that write spaces, "jieba" for Chinese (needs the
    extra "chinese"), or a rule of one's own: an entry point of the group "corpusmill.words", or
    package.module:function."""
    mask: Literal["dynamic", "static"] = "dynamic"
    """"dynamic" leaves masking to the trainer, which draws it anew in each epoch; "static" masks
    each example once and stores what was there."""
    mask_word_prob: float = 1.0
    """Probability that whole words of a sequence are masked, and not single tokens. The original's
    list of files says 1.1, which is always."""
    pool_tokens: int = 128_000_000
    """Size of the pool that random documents are drawn from, in tokens; a corpus that fits is drawn
    from whole."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no example can be built with.
        """
        length, share = self.max_seq_length, self.mask_word_prob
        check_option("max-seq-length", length, 5 <= length <= 65535, "5 to 65535")
        check_option("duplicates", self.duplicates, 1 <= self.duplicates <= 65535, "1 to 65535")
        check_option("short-seq-prob", self.short_seq_prob, 0 <= self.short_seq_prob <= 1, "0 to 1")
        check_option("mask-word-prob", share, 0 <= share <= 1, "0 (never) to 1 (always)")
        check_option("pool-tokens", self.pool_tokens, self.pool_tokens >= 1, "1 and more")
        check_option("words", self.words or '""', bool(self.words), '"unicode", "jieba" or a name')

    def bind(self, tokenizer: Vocabulary) -> "Ernie":
        """See ObjectiveOptions."""
        tokenizer.special.require(tokenizer.name, "cls", "sep", "mask", "pad")
        return Ernie(self, tokenizer.special, tokenizer.vocab_size, tokenizer.token_dtype.name)

    def masker(self, tokenizer: Vocabulary) -> ErnieMasker:
        """Mask as a static build does."""
        tokenizer.special.require(tokenizer.name, "mask")
        return ErnieMasker(
            self.mask_word_prob, tokenizer.special.mask_id or 0, tokenizer.vocab_size
        )

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """See ObjectiveOptions."""
        return documents.or_else("wikitext", "line").require_sentences("ernie")


@dataclass(frozen=True)
class Ernie(Objective):
    """The objective `ernie`, bound to a tokenizer's ids; see `Objective`.

    Attributes:
        options: how examples are made.
        special: the tokenizer's special ids; cls, sep, mask and pad must be there.
        vocab_size: largest id + 1.
        token_dtype: NumPy name of the type of a token id.
    """

    options: ErnieOptions
    special: SpecialTokens
    vocab_size: int
    token_dtype: str

    @property
    def name(self) -> str:
        """See Objective."""
        return "ernie"

    @property
    def repeats(self) -> int:
        """See Objective."""
        return self.options.duplicates

    @property
    def pool_tokens(self) -> int:
        """See Objective."""
        return self.options.pool_tokens

    @property
    def words(self) -> str:
        """See Objective."""
        return self.options.words

    @property
    def columns(self) -> tuple[Column, ...]:
        """See Objective."""
        tokens, _, label, words, *masks = self.built_columns
        return (tokens, segment_column(tokens.width), words, label, *masks)

    @property
    def built_columns(self) -> tuple[Column, ...]:
        """See Objective."""
        length, masked = self.options.max_seq_length, self.options.mask == "static"
        meaning = "[CLS] first segment [SEP] second segment [SEP]" + masked * ", masked"
        return (
            token_column(self.token_dtype, meaning, length, self.special.pad_id or 0),
            *further_columns("next-sentence", length),
            word_column(length),
            *self._mask_columns,
        )

    @property
    def _mask_columns(self) -> tuple[Column, ...]:
        if self.options.mask == "dynamic":
            return ()
        length = self.options.max_seq_length
        return prediction_columns(self.token_dtype, length - NUM_SPECIAL, length)

    def build(
        self,
        documents: pa.RecordBatch,
        repeat: int,
        pool: Pool | None,
        splits: np.ndarray,
        seed: int,
    ) -> pa.RecordBatch:
        """See Objective."""
        options = self.options
        ids = np.array([self.special.cls_id, self.special.sep_id])
        around = mark(ids, np.zeros(2, np.bool_)).tolist()
        maker = RowMaker("next-sentence", options.max_seq_length, options.short_seq_prob, *around)
        rows = maker.make(documents, repeat, pool, splits, seed)
        owners = documents.column("document").to_numpy()[rows.places]
        input_ids = ids_of(rows.token_ids).astype(self.token_dtype)
        in_words = _ids_in_words(self.special, self.vocab_size)
        seg_labels = label_words(input_ids, continues_of(rows.token_ids), rows.offsets, in_words)
        masks: list[pa.ListArray] = []
        if options.mask == "static":
            keys = row_keys(np.uint64(seed), owners, repeat, rows.indices)
            input_ids, *masks = self._mask(input_ids, seg_labels, rows.offsets, keys)
        columns = [
            owners,
            np.full(len(owners), repeat, np.uint16),
            rows.indices,
            ragged.to_arrow(input_ids, rows.offsets),
            *rows.further,
            ragged.to_arrow(seg_labels, rows.offsets),
            *masks,
        ]
        schema = pa.schema([*IDENTITY_SCHEMA, *arrow_schema(self.built_columns)])
        return ragged.to_batch(columns, schema)

    def _mask(
        self, input_ids: np.ndarray, seg_labels: np.ndarray, offsets: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, pa.ListArray, pa.ListArray]:
        masked_ids, positions, labels, prediction_offsets = mask_sequences(
            input_ids,
            seg_labels,
            offsets,
            keys,
            self.options.mask_word_prob,
            self.special.mask_id or 0,
            self.vocab_size,
        )
        position = self._mask_columns[0].dtype
        return (
            masked_ids,
            ragged.to_arrow(positions.astype(position), prediction_offsets),
            ragged.to_arrow(labels, prediction_offsets),
        )

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """See Objective."""
        return finish_rows(examples, self.columns, padded)

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """See Objective; "words" is the number of words of an example."""
        seg_labels, offsets = ragged.from_arrow(examples.column("seg_labels"))
        lengths, first = np.diff(offsets), examples.column("first_length").to_numpy()
        found = {
            "length": lengths,
            "first_segment_length": first,
            "second_segment_length": lengths - NUM_SPECIAL - first,
            "words": count_words(seg_labels, offsets),
            "next_sentence_label": examples.column("next_sentence_label").to_numpy(),
        }
        if self._mask_columns:
            found["predictions"] = np.diff(examples.column("masked_lm_positions").offsets)
        return {name: np.bincount(values) for name, values in found.items()}


@lru_cache(maxsize=4)
def _ids_in_words(special: SpecialTokens, vocab_size: int) -> np.ndarray:
    """bool[vocabulary], false for [CLS] and [SEP]."""
    found = np.ones(vocab_size, np.bool_)
    found[np.array([special.cls_id, special.sep_id])] = False
    return found
