"""BERT's examples: segment pairs for next-sentence prediction with static masking.

Source: "Preparing Data for BERT Training" (the article), after Google's create_pretraining_data.py;
Devlin et al. 2018. Two things differ from the article, on purpose: random replacement ids are drawn
from all ids that are no special tokens (the article's "from 4" is right for its own tokenizer
alone), and a sentence without tokens is left out before pairs are made.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from corpusmill import pairs as pairing
from corpusmill import ragged
from corpusmill.columns import Column, arrow_schema, pad_rows, smallest_integer
from corpusmill.corpus.options import DocumentOptions
from corpusmill.faults import UserError
from corpusmill.masking import mask_rows, row_keys
from corpusmill.objective import IDENTITY_SCHEMA, Objective
from corpusmill.pair_rows import NUM_SPECIAL, assemble_pairs, fill_token_types
from corpusmill.pool import Pool
from corpusmill.tokenization.files import TokenizerFile
from corpusmill.tokenization.special_tokens import SpecialTokens


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
    def columns(self) -> tuple[Column, ...]:
        """See Objective."""
        length, predictions = self.options.max_seq_length, self.options.most_predictions
        pad_id = self.special.pad_id or 0
        position = smallest_integer(length - 1).name
        return (
            Column(
                "input_ids",
                self.token_dtype,
                "[CLS] first segment [SEP] second segment [SEP], masked",
                length,
                pad_id,
            ),
            Column("token_type_ids", "int8", "0 up to the first [SEP], 1 behind it", length),
            Column(
                "next_sentence_label", "int8", "1 where the second segment is of a random document"
            ),
            Column(
                "masked_lm_positions",
                position,
                "places of input_ids to predict, ascending",
                predictions,
            ),
            Column("masked_lm_ids", self.token_dtype, "the ids that stood there", predictions),
        )

    @property
    def built_columns(self) -> tuple[Column, ...]:
        """See Objective."""
        input_ids, _, label, positions, masked_ids = self.columns
        first_length = Column("first_length", "uint16", "tokens of the first segment")
        return (input_ids, first_length, label, positions, masked_ids)

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
        input_ids, offsets = assemble_pairs(
            pairs, token_ids, pool.token_ids, self.special.cls_id, self.special.sep_id
        )
        owners, indices = ids[pairs[:, pairing.DOCUMENT]], pairs[:, pairing.INDEX].astype(np.uint32)
        positions, labels, prediction_offsets = mask_rows(
            input_ids,
            offsets,
            row_keys(np.uint64(seed), owners, repeat, indices),
            *self._masking_arguments(),
        )
        schema = pa.schema([*IDENTITY_SCHEMA, *arrow_schema(self.built_columns)])
        position_dtype = np.dtype(self.columns[3].dtype)
        columns = [
            owners,
            np.full(len(pairs), repeat, np.uint16),
            indices,
            ragged.to_arrow(input_ids, offsets),
            pairs[:, pairing.FIRST_LENGTH].astype(np.uint16),
            pairs[:, pairing.IS_RANDOM].astype(np.int8),
            ragged.to_arrow(positions.astype(position_dtype), prediction_offsets),
            ragged.to_arrow(labels, prediction_offsets),
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
        predictions = np.diff(examples.column("masked_lm_positions").offsets.to_numpy())
        first_lengths = examples.column("first_length").to_numpy()
        labels = examples.column("next_sentence_label").to_numpy()
        return {
            "length": np.bincount(lengths),
            "first_segment_length": np.bincount(first_lengths),
            "second_segment_length": np.bincount(lengths - NUM_SPECIAL - first_lengths),
            "predictions": np.bincount(predictions),
            "next_sentence_label": np.bincount(labels),
        }

    def _masking_arguments(self) -> tuple[np.ndarray, np.ndarray, int, int, float, int]:
        """What `mask_rows` needs to know of the tokenizer and the options, in its order."""
        return (
            _maskable_ids(self.special, self.vocab_size),
            _replacement_ids(self.special, self.vocab_size),
            NUM_SPECIAL,
            self.special.mask_id or 0,
            self.options.masked_lm_prob,
            self.options.most_predictions,
        )


@lru_cache(maxsize=4)
def _maskable_ids(special: SpecialTokens, vocab_size: int) -> np.ndarray:
    maskable = np.ones(vocab_size, np.bool_)
    never = [special.cls_id, special.sep_id, special.pad_id]
    maskable[[token for token in never if token is not None]] = False
    return maskable


@lru_cache(maxsize=4)
def _replacement_ids(special: SpecialTokens, vocab_size: int) -> np.ndarray:
    return np.setdiff1d(np.arange(vocab_size), np.array(special.all_ids)).astype(np.int32)
