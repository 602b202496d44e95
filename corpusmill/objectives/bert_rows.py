"""BERT's examples before they are masked: pairs of segments, or whole sentences.

A new kind of example is one more case in each function here; `corpusmill.objectives.bert` masks the
rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.objectives.columns import FIRST_LENGTH, NEXT_SENTENCE_LABEL, SENTENCE_ORDER_LABEL
from corpusmill.objectives.documents import Documents, measure_sentences, unpack_documents
from corpusmill.objectives.examples import full_sentences
from corpusmill.objectives.examples import next_sentence_pairs as pairing
from corpusmill.objectives.examples.pair_rows import NUM_SPECIAL, assemble_pairs
from corpusmill.objectives.examples.sentence_order_pairs import draw_ordered_pairs
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.words.word_marks import continues_of, ids_of, mark

Segments = Literal["next-sentence", "sentence-order", "full-sentences", "doc-sentences"]

# The columns of the pairs' class; whole sentences have none.
LABELS = {"next-sentence": NEXT_SENTENCE_LABEL, "sentence-order": SENTENCE_ORDER_LABEL}


def further_columns(segments: Segments, max_seq_length: int) -> tuple[Column, ...]:
    """Return the columns that are built beside the ids, in the order of `UnmaskedRows.further`."""
    label = LABELS.get(segments)
    if label is not None:
        return (FIRST_LENGTH, label)
    if segments == "doc-sentences":
        return ()
    meaning = "tokens of the sentences of a document's last piece"
    return (
        Column("sentence_lengths", "uint16", meaning, max_seq_length),
        Column("documents", "uint16", "pieces of documents in the example"),
        Column("pieces", "uint16", "rows of which the example holds the end"),
    )


def count_special(segments: Segments) -> int:
    """Return the number of a row's special tokens, without any [SEP] between documents."""
    return NUM_SPECIAL if segments in LABELS else full_sentences.NUM_SPECIAL


@dataclass(frozen=True)
class UnmaskedRows:
    """The rows of a batch of documents, in the documents' order.

    Attributes:
        documents: uint64[rows], the id of each row's document.
        indices: uint32[rows], each row's place in its document's pass.
        token_ids: integers[tokens], with special tokens; marked if the documents' ids are.
        offsets: int64[rows + 1].
        further: the values of `further_columns`.
    """

    documents: np.ndarray
    indices: np.ndarray
    token_ids: np.ndarray
    offsets: np.ndarray
    further: Sequence[np.ndarray | pa.Array]


@dataclass(frozen=True)
class SentenceObjective(Objective):
    """An objective whose rows are pairs of segments or whole sentences.

    Attributes:
        options: its options, with `max_seq_length`, `duplicates` and `short_seq_prob`.
        special: the tokenizer's special ids; cls, sep, mask and pad must be there.
        vocab_size: the largest id + 1.
        token_dtype: the NumPy name of the type of a token id.
    """

    options: Any
    special: SpecialTokens
    vocab_size: int
    token_dtype: str

    @property
    def segments(self) -> Segments:
        """What a row is made of."""
        return "next-sentence"

    @property
    def repeats(self) -> int:
        """How many times each document is built."""
        return int(self.options.duplicates)

    @property
    def border_ids(self) -> tuple[int, int]:
        """[CLS] and [SEP], marked if the documents' ids say where words continue."""
        ids = np.array([self.special.cls_id, self.special.sep_id], np.int64)
        cls_id, sep_id = (mark(ids, np.zeros(2, np.bool_)) if self.words else ids).tolist()
        return cls_id, sep_id

    def split_marks(self, token_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids without marks, and whether each continues a word; empty without marks."""
        if not self.words:
            return token_ids, np.empty(0, np.int8)
        return ids_of(token_ids).astype(self.token_dtype, copy=False), continues_of(token_ids)

    def make_unmasked(self, documents: pa.RecordBatch, repeat: Repeat) -> UnmaskedRows:
        """Make rows; the arguments are those of `build`."""
        index, token_ids = unpack_documents(documents)
        if self.segments not in LABELS:
            return self._make_pieces(index, token_ids)
        options = self.options
        rule = pairing.PairRule(options.max_seq_length - NUM_SPECIAL, options.short_seq_prob)
        draws = (np.uint64(repeat.seed), repeat.number, rule)
        if self.segments == "sentence-order":
            pairs = draw_ordered_pairs(index, *draws)
            return self._make_pairs(index, pairs, token_ids, token_ids)
        if (pool := repeat.pool) is None:
            raise ValueError("next-sentence pairs need a pool of random documents")
        pairs = pairing.draw_pairs(index, pool.index, pool.candidates(repeat.splits), *draws)
        return self._make_pairs(index, pairs, token_ids, pool.token_ids)

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Count the tokens cut off pairs that were too long, and sentences longer than a pair.

        Every sentence of a document is in one pair of a pass, and so what a document has more
        tokens than its pairs was cut off. Whole sentences are divided rather than cut off.
        """
        if self.segments not in LABELS:
            return {"trimmed_tokens": 0}
        sentences = measure_sentences(documents)
        _, offsets = ragged.from_arrow(examples.column("input_ids"))
        tokens, random_tokens = np.diff(offsets).astype(np.int64) - NUM_SPECIAL, 0
        if self.segments == "next-sentence":
            is_random = examples.column(NEXT_SENTENCE_LABEL.name).to_numpy() == 1
            first_lengths = examples.column(FIRST_LENGTH.name).to_numpy()
            random_tokens = int((tokens - first_lengths)[is_random].sum())
        return {
            "trimmed_tokens": int(sentences.sum() - tokens.sum()) + random_tokens,
            "random_tokens": random_tokens,
            "long_sentences": int(
                np.count_nonzero(sentences > self.options.max_seq_length - NUM_SPECIAL)
            ),
        }

    def _make_pairs(
        self,
        documents: Documents,
        pairs: np.ndarray,
        token_ids: np.ndarray,
        pool_token_ids: np.ndarray,
    ) -> UnmaskedRows:
        rows, offsets = assemble_pairs(pairs, token_ids, pool_token_ids, *self.border_ids)
        owners = documents.ids[pairs[:, pairing.DOCUMENT]]
        indices = pairs[:, pairing.INDEX].astype(np.uint32)
        further = (pairs[:, pairing.FIRST_LENGTH], pairs[:, pairing.IS_RANDOM])
        return UnmaskedRows(owners, indices, rows, offsets, further)

    def _make_pieces(self, documents: Documents, token_ids: np.ndarray) -> UnmaskedRows:
        room = self.options.max_seq_length - full_sentences.NUM_SPECIAL
        pieces, lengths, ends = full_sentences.cut_documents(documents, room)
        spans = pieces[:, full_sentences.START :]
        rows, offsets = full_sentences.assemble_rows(
            spans, np.arange(len(pieces) + 1), token_ids, *self.border_ids
        )
        owners = documents.ids[pieces[:, full_sentences.DOCUMENT]]
        indices = pieces[:, full_sentences.INDEX].astype(np.uint32)
        further: tuple[np.ndarray | pa.Array, ...] = ()
        if self.segments == "full-sentences":
            ones = np.ones(len(pieces), np.uint16)
            further = (ragged.to_arrow(lengths, ends), ones, ones)
        return UnmaskedRows(owners, indices, rows, offsets, further)
