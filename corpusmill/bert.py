"""BERT's examples: segment pairs for next-sentence prediction, masked or left to be masked.

Source: "Preparing Data for BERT Training" (the article), after Google's create_pretraining_data.py;
Devlin et al. 2018. Two things differ from the article, on purpose: random replacement ids are drawn
from all ids that are no special tokens (the article's "from 4" is right for its own tokenizer
alone), and a sentence without tokens is left out before pairs are made.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from corpusmill import pairs as pairing
from corpusmill import ragged
from corpusmill.columns import Column, arrow_schema, pad_rows
from corpusmill.corpus.options import DocumentOptions
from corpusmill.faults import UserError
from corpusmill.masked_lm import MaskedLm
from corpusmill.masking import row_keys
from corpusmill.objective import IDENTITY_SCHEMA, Objective
from corpusmill.pair_rows import NUM_SPECIAL, assemble_pairs, fill_token_types
from corpusmill.pool import Pool
from corpusmill.tokenization.files import TokenizerFile
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.word_marks import continues_of, ids_of, mark


@dataclass(frozen=True)
class BertOptions:
    """How BERT's examples are made."""

    max_seq_length: int = 512
    """Longest example in tokens, [CLS] and both [SEP] included."""
    duplicates: int = 10
    """How many times each document is built, each time with other pairs and masks."""
    short_seq_prob: float = 0.1
    """Probability that a pass over a document aims at a shorter, uniformly drawn length."""
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
    from whole."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no example can be built with.
        """
        _check(
            "max-seq-length", self.max_seq_length, 5 <= self.max_seq_length <= 65535, "5 to 65535"
        )
        _check("duplicates", self.duplicates, 1 <= self.duplicates <= 65535, "1 to 65535")
        _check("short-seq-prob", self.short_seq_prob, 0 <= self.short_seq_prob <= 1, "0 to 1")
        _check(
            "masked-lm-prob", self.masked_lm_prob, 0 < self.masked_lm_prob <= 1, "above 0, up to 1"
        )
        cap = self.max_predictions_per_seq
        _check("max-predictions-per-seq", cap, cap is None or cap >= 1, "None, or 1 and more")
        _check("ngram", self.ngram, 1 <= self.ngram <= 100, "1 to 100")
        if not self.whole_word_mask:
            _check_unused("ngram", self.ngram, self.ngram == 1, "n-grams are runs of whole words")
            unused = self.words == BertOptions.words
            _check_unused("words", self.words, unused, "single tokens are masked, not words")
        _check("pool-tokens", self.pool_tokens, self.pool_tokens >= 1, "1 and more")

    @property
    def most_predictions(self) -> int:
        """The cap that holds in fact: the option's, or what the share allows at full length."""
        full = max(1, round((self.max_seq_length - NUM_SPECIAL) * self.masked_lm_prob))
        return (
            full
            if self.max_predictions_per_seq is None
            else min(full, self.max_predictions_per_seq)
        )

    def bind(self, tokenizer: TokenizerFile) -> "Bert":
        """See ObjectiveOptions."""
        tokenizer.special.require(tokenizer.name, "cls", "sep", "mask", "pad")
        return Bert(self, tokenizer.special, tokenizer.vocab_size, tokenizer.token_dtype.name)

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """See ObjectiveOptions."""
        return documents.or_else("wikitext", "line")


def _check(flag: str, value: object, fine: bool, range_of_values: str) -> None:
    if not fine:
        raise UserError(f"--{flag} {value}", "the value is out of range", f"Give {range_of_values}")


def _check_unused(flag: str, value: object, fine: bool, cause: str) -> None:
    if not fine:
        raise UserError(f"--{flag} {value}", cause, "Add --whole-word-mask, or leave it out")


@dataclass(frozen=True)
class Bert(Objective):
    """The objective `bert`, bound to a tokenizer's ids; see `corpusmill.objective.Objective`.

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
        return self.options.pool_tokens

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
            max_predictions=self.options.most_predictions,
            max_seq_length=self.options.max_seq_length,
            num_special=NUM_SPECIAL,
            special=self.special,
            vocab_size=self.vocab_size,
            token_dtype=self.token_dtype,
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """See Objective."""
        length, pad_id = self.options.max_seq_length, self.special.pad_id or 0
        meaning = "[CLS] first segment [SEP] second segment [SEP]"
        meaning += ", masked" if self.masked_lm.static else ""
        return (
            Column("input_ids", self.token_dtype, meaning, length, pad_id),
            Column("token_type_ids", "int8", "0 up to the first [SEP], 1 behind it", length),
            Column(
                "next_sentence_label", "int8", "1 where the second segment is of a random document"
            ),
            *self.masked_lm.columns,
        )

    @property
    def built_columns(self) -> tuple[Column, ...]:
        """See Objective."""
        input_ids, _, label, *masked = self.columns
        first_length = Column("first_length", "uint16", "tokens of the first segment")
        return (input_ids, first_length, label, *masked)

    def build(
        self,
        documents: pa.RecordBatch,
        repeat: int,
        pool: Pool | None,
        splits: np.ndarray,
        seed: int,
    ) -> pa.RecordBatch:
        """See Objective."""
        if pool is None:
            raise ValueError("BERT's pairs need a pool of random documents")
        ids = documents.column("document").to_numpy()
        sentences, document_offsets = ragged.from_arrow(documents.column("sentences"))
        token_ids, sentence_offsets = ragged.from_arrow(sentences)
        pairs = pairing.draw_pairs(
            sentence_offsets.astype(np.int64),
            document_offsets.astype(np.int64),
            ids,
            pool.candidates(splits),
            pool.sentence_offsets,
            pool.document_offsets,
            pool.documents,
            np.uint64(seed),
            repeat,
            self.options.max_seq_length - NUM_SPECIAL,
            self.options.short_seq_prob,
        )
        cls_id, sep_id = self._border_ids
        rows, offsets = assemble_pairs(pairs, token_ids, pool.token_ids, cls_id, sep_id)
        input_ids, continues = self._split_marks(rows)
        owners, indices = ids[pairs[:, pairing.DOCUMENT]], pairs[:, pairing.INDEX].astype(np.uint32)
        keys = row_keys(np.uint64(seed), owners, repeat, indices)
        masked = self.masked_lm.build(input_ids, continues, offsets, keys)
        schema = pa.schema([*IDENTITY_SCHEMA, *arrow_schema(self.built_columns)])
        columns = [
            owners,
            np.full(len(pairs), repeat, np.uint16),
            indices,
            ragged.to_arrow(input_ids, offsets),
            pairs[:, pairing.FIRST_LENGTH].astype(np.uint16),
            pairs[:, pairing.IS_RANDOM].astype(np.int8),
            *masked,
        ]
        return ragged.to_batch(columns, schema)

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """See Objective."""
        input_ids, offsets = ragged.from_arrow(examples.column("input_ids"))
        token_types = fill_token_types(offsets, examples.column("first_length").to_numpy())
        columns = {
            "input_ids": (input_ids[offsets[0] : offsets[-1]], offsets - offsets[0]),
            "token_type_ids": (token_types, offsets - offsets[0]),
        }
        schema = arrow_schema(self.columns, padded)
        rows = []
        for column in self.columns:
            if not column.width:
                rows.append(examples.column(column.name))
                continue
            values, starts = columns.get(column.name) or ragged.from_arrow(
                examples.column(column.name)
            )
            if padded:
                matrix = pad_rows(values, starts, column.width, column.pad)
                rows.append(pa.FixedSizeListArray.from_arrays(matrix.ravel(), column.width))
            else:
                rows.append(ragged.to_arrow(values, starts))
        return ragged.to_batch(rows, schema)

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """See Objective."""
        offsets = examples.column("input_ids").offsets.to_numpy()
        lengths = np.diff(offsets)
        first_lengths = examples.column("first_length").to_numpy()
        labels = examples.column("next_sentence_label").to_numpy()
        return {
            "length": np.bincount(lengths),
            "first_segment_length": np.bincount(first_lengths),
            "second_segment_length": np.bincount(lengths - NUM_SPECIAL - first_lengths),
            **self.masked_lm.measure(examples),
            "next_sentence_label": np.bincount(labels),
        }

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
