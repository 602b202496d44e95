"""BERT's examples: pairs of segments, or whole sentences, masked or left to be masked.

Source: "Preparing Data for BERT Training" (the article), after Google's create_pretraining_data.py;
Devlin et al. 2018. ALBERT's and RoBERTa's examples differ from BERT's in what they are made of
(`corpusmill.objectives.bert_rows`). Two things differ from the article, on purpose: random
replacement ids are drawn from all ids that are no special tokens (the article's "from 4" is right
for its own tokenizer alone), and a sentence without tokens is left out before pairs are made.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, Column, arrow_schema
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError, check_option
from corpusmill.objectives.bert_rows import (
    RowMaker,
    Segments,
    count_special,
    further_columns,
    label_column,
)
from corpusmill.objectives.columns import segment_column, token_column
from corpusmill.objectives.examples.pair_rows import NUM_SPECIAL, finish_rows
from corpusmill.objectives.examples.sentence_joins import join_rows
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.objectives.objective import Objective, ObjectiveOptions
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.tokenizer_file import Vocabulary
from corpusmill.tokenization.words.word_marks import continues_of, ids_of, mark, marked_dtype


@dataclass(frozen=True)
class BertOptions(ObjectiveOptions):
    """How BERT's examples are made."""

    segments: Segments = "next-sentence"
    """What an example is made of: "next-sentence" pairs a segment with the next or a random one
    (BERT), "sentence-order" with the next or, switched, the one before it (ALBERT).
    "full-sentences" has no pairs but whole sentences, as many as fit, and behind the end of a
    document and a [SEP] those of another (RoBERTa); with "doc-sentences" they are of one
    document."""
    max_seq_length: int = 512
    """Longest example in tokens, [CLS] and every [SEP] included."""
    duplicates: int = 10
    """How many times each document is built, each time with other pairs and masks."""
    short_seq_prob: float = 0.1
    """Probability that a pass over a document aims at shorter pairs, of a uniformly drawn length;
    whole sentences always aim at the full length."""
    masked_lm_prob: float = 0.15
    """Share of an example's tokens that are predicted."""
    max_predictions_per_seq: int | None = 20
    """Most predictions in an example; None predicts the true share."""
    whole_word_mask: bool = False
    """Mask all tokens of a word or none; a word too long for the predictions that are left is
    passed by."""
    ngram: int = 1
    """Longest run of whole words that is masked at once, shorter ones more often (ALBERT: 3); needs
    --whole-word-mask."""
    words: str = "unicode"
    """What --whole-word-mask takes for a word: "unicode" (Unicode's words), "jieba" (Chinese
    phrases), the name of a package's rule, or package.module:function."""
    mask: Literal["static", "dynamic"] = "static"
    """"static" masks the examples as they are built; "dynamic" stores them unmasked, to be masked
    anew in each epoch when they are loaded, with seg_labels that tell words where these are masked
    whole."""
    pool_tokens: int = 128_000_000
    """Size of the pool that random documents are drawn from, in tokens; a corpus that fits is drawn
    from whole. Only next-sentence pairs draw any."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no example can be built with.
        """
        check_option(
            "max-seq-length", self.max_seq_length, 5 <= self.max_seq_length <= 65535, "5 to 65535"
        )
        check_option("duplicates", self.duplicates, 1 <= self.duplicates <= 65535, "1 to 65535")
        check_option("short-seq-prob", self.short_seq_prob, 0 <= self.short_seq_prob <= 1, "0 to 1")
        check_option(
            "masked-lm-prob", self.masked_lm_prob, 0 < self.masked_lm_prob <= 1, "above 0, up to 1"
        )
        cap = self.max_predictions_per_seq
        check_option("max-predictions-per-seq", cap, cap is None or cap >= 1, "None, or 1 and more")
        check_option("ngram", self.ngram, 1 <= self.ngram <= 100, "1 to 100")
        if not self.whole_word_mask:
            _check_unused("ngram", self.ngram, self.ngram == 1, "n-grams are runs of whole words")
            unused = self.words == BertOptions.words
            _check_unused("words", self.words, unused, "single tokens are masked, not words")
        check_option("pool-tokens", self.pool_tokens, self.pool_tokens >= 1, "1 and more")

    @property
    def prediction_places(self) -> int:
        """What a padded row has of them: the cap as trainers are told it, reached or not."""
        cap = self.max_predictions_per_seq
        return self.most_predictions if cap is None else min(self.max_seq_length, cap)

    @property
    def most_predictions(self) -> int:
        """The cap that holds in fact: the option's, or what the share allows at full length."""
        full = max(
            1, round((self.max_seq_length - count_special(self.segments)) * self.masked_lm_prob)
        )
        return (
            full
            if self.max_predictions_per_seq is None
            else min(full, self.max_predictions_per_seq)
        )

    def bind(self, tokenizer: Vocabulary) -> "Bert":
        """See ObjectiveOptions."""
        tokenizer.special.require(tokenizer.name, "cls", "sep", "mask", "pad")
        return Bert(self, tokenizer.special, tokenizer.vocab_size, tokenizer.token_dtype.name)

    def masker(self, tokenizer: Vocabulary) -> MaskedLm:
        """Mask as a static build does."""
        return self.bind(tokenizer).masked_lm

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """See ObjectiveOptions."""
        return documents.or_else("wikitext", "line").require_sentences("bert")


def _check_unused(flag: str, value: object, fine: bool, cause: str) -> None:
    if not fine:
        raise UserError(f"--{flag} {value}", cause, "Add --whole-word-mask, or leave it out")


@dataclass(frozen=True)
class Bert(Objective):
    """The objective `bert`, bound to a tokenizer's ids; see `Objective`.

    Attributes:
        options: how examples are made.
        special: the tokenizer's special ids; cls, sep, mask and pad must be there.
        vocab_size: largest id + 1.
        token_dtype: NumPy name of the type of a token id.
    """

    options: BertOptions
    special: SpecialTokens
    vocab_size: int
    token_dtype: str

    @property
    def name(self) -> str:
        """See Objective."""
        return "bert"

    @property
    def repeats(self) -> int:
        """See Objective."""
        return self.options.duplicates

    @property
    def pool_tokens(self) -> int:
        """See Objective."""
        return self.options.pool_tokens if self.options.segments == "next-sentence" else 0

    @property
    def words(self) -> str:
        """See Objective."""
        return self.options.words if self.options.whole_word_mask else ""

    @property
    def masked_lm(self) -> MaskedLm:
        """How the examples are masked, now or when they are loaded."""
        return MaskedLm(
            static=self.options.mask == "static",
            whole_words=self.options.whole_word_mask,
            max_ngram=self.options.ngram,
            masked_lm_prob=self.options.masked_lm_prob,
            max_predictions=self.options.prediction_places,
            max_seq_length=self.options.max_seq_length,
            num_special=count_special(self.options.segments),
            special=self.special,
            vocab_size=self.vocab_size,
            token_dtype=self.token_dtype,
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """See Objective."""
        length, pad_id = self.options.max_seq_length, self.special.pad_id or 0
        label = label_column(self.options.segments)
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
        """See Objective."""
        segments, length = self.options.segments, self.options.max_seq_length
        input_ids = self.columns[0]
        if self.words and segments == "full-sentences":
            # The marks are needed once more, when rows are joined.
            input_ids = replace(input_ids, dtype=marked_dtype(self.vocab_size).name)
        return (input_ids, *further_columns(segments, length), *self.masked_lm.columns)

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
        maker = RowMaker(
            options.segments, options.max_seq_length, options.short_seq_prob, *self._border_ids
        )
        rows = maker.make(documents, repeat, pool, splits, seed)
        owners = documents.column("document").to_numpy()[rows.places]
        if options.segments == "full-sentences":
            input_ids, masked = rows.token_ids, self._not_yet_masked(len(owners))
        else:
            input_ids, continues = self._split_marks(rows.token_ids)
            keys = row_keys(np.uint64(seed), owners, repeat, rows.indices)
            masked = self.masked_lm.build(input_ids, continues, rows.offsets, keys)
        schema = pa.schema([*IDENTITY_SCHEMA, *arrow_schema(self.built_columns)])
        columns = [
            owners,
            np.full(len(owners), repeat, np.uint16),
            rows.indices,
            ragged.to_arrow(input_ids, rows.offsets),
            *rows.further,
            *masked,
        ]
        return ragged.to_batch(columns, schema)

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """See Objective."""
        return self._join(rows) if self.options.segments == "full-sentences" else rows

    def _join(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Full sentences: the ends of documents joined, and then masked.

        A row's key tells it from all others and comes from the seed, so that it stands for both in
        the key that a joined row is masked by: that of the piece which it begins with.
        """
        for joined in join_rows(rows, self.options.max_seq_length, *self._border_ids):
            first = joined.first_rows
            owners, indices = (first.column(name).to_numpy() for name in ("key", "index"))
            input_ids, continues = self._split_marks(joined.input_ids)
            keys = row_keys(np.uint64(0), owners, 0, indices)
            columns = {
                "input_ids": ragged.to_arrow(input_ids, joined.offsets),
                "sentence_lengths": _empty_lists("uint16", first.num_rows),
                "documents": joined.documents.astype(np.uint16),
                "pieces": joined.pieces.astype(np.uint16),
            }
            masked = self.masked_lm.build(input_ids, continues, joined.offsets, keys)
            columns |= zip((of.name for of in self.masked_lm.columns), masked, strict=True)
            values = [columns.get(name, first.column(name)) for name in first.schema.names]
            yield ragged.to_batch(values, first.schema)

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """See Objective."""
        return finish_rows(examples, self.columns, padded)

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """See Objective."""
        offsets = examples.column("input_ids").offsets.to_numpy()
        lengths = np.diff(offsets)
        found = {"length": lengths}
        for column in further_columns(self.options.segments, self.options.max_seq_length):
            if not column.width:
                found[column.name] = examples.column(column.name).to_numpy()
        if "first_length" in found:
            first_lengths = found.pop("first_length")
            found["first_segment_length"] = first_lengths
            found["second_segment_length"] = lengths - NUM_SPECIAL - first_lengths
        counts = {name: np.bincount(values) for name, values in found.items()}
        return counts | self.masked_lm.measure(examples)

    @property
    def _border_ids(self) -> tuple[int, int]:
        """[CLS] and [SEP] as they stand among the ids of documents, marked where these are."""
        ids = np.array([self.special.cls_id, self.special.sep_id], np.int64)
        cls_id, sep_id = (mark(ids, np.zeros(2, np.bool_)) if self.words else ids).tolist()
        return cls_id, sep_id

    def _split_marks(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Token ids, and whether each continues a word; nothing where rows are not marked."""
        if not self.words:
            return rows, np.empty(0, np.int8)
        return ids_of(rows).astype(self.token_dtype, copy=False), continues_of(rows)

    def _not_yet_masked(self, rows: int) -> list[pa.Array]:
        """Empty values of the masks' columns, for rows that are masked once they are joined."""
        return [_empty_lists(of.dtype, rows) for of in self.masked_lm.columns]


def _empty_lists(dtype: str, rows: int) -> pa.Array:
    return ragged.to_arrow(np.empty(0, dtype), np.zeros(rows + 1, np.int32))
