"""What BERT's examples are made of, before they are masked: pairs of segments, or whole sentences.

A kind of example is one entry of each function here; `corpusmill.objectives.bert` masks what they
give.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.objectives.columns import NEXT_SENTENCE_LABEL, SENTENCE_ORDER_LABEL
from corpusmill.objectives.documents import Documents, unpack_documents
from corpusmill.objectives.examples import full_sentences
from corpusmill.objectives.examples import next_sentence_pairs as pairing
from corpusmill.objectives.examples.pair_rows import NUM_SPECIAL, assemble_pairs
from corpusmill.objectives.examples.sentence_order_pairs import draw_ordered_pairs
from corpusmill.objectives.random_documents import Pool

Segments = Literal["next-sentence", "sentence-order", "full-sentences", "doc-sentences"]

# The labels of pairs.
_LABELS = {"next-sentence": NEXT_SENTENCE_LABEL, "sentence-order": SENTENCE_ORDER_LABEL}


def label_column(segments: Segments) -> Column | None:
    """The column that a pair is classified by; None where there are no pairs."""
    return _LABELS.get(segments)


def further_columns(segments: Segments, max_seq_length: int) -> tuple[Column, ...]:
    """What is built beside the ids of rows, in the order of `UnmaskedRows.further`."""
    label = label_column(segments)
    if label is not None:
        return (Column("first_length", "uint16", "tokens of the first segment"), label)
    if segments == "doc-sentences":
        return ()
    meaning = "tokens of the sentences of a document's last piece"
    return (
        Column("sentence_lengths", "uint16", meaning, max_seq_length),
        Column("documents", "uint16", "pieces of documents in the example"),
        Column("pieces", "uint16", "rows of which the example holds the end"),
    )


def count_special(segments: Segments) -> int:
    """Special tokens of a row; a [SEP] between documents of full sentences is not counted."""
    return NUM_SPECIAL if segments in _LABELS else full_sentences.NUM_SPECIAL


@dataclass(frozen=True)
class UnmaskedRows:
    """Rows of a batch of documents, in the documents' order.

    Attributes:
        places: int64[rows], place in the batch of the document of each row.
        indices: uint32[rows], place of each row in its document's pass.
        token_ids: integers[tokens], special tokens included.
        offsets: int64[rows + 1].
        further: values of `further_columns`.
    """

    places: np.ndarray
    indices: np.ndarray
    token_ids: np.ndarray
    offsets: np.ndarray
    further: Sequence[np.ndarray | pa.Array]


@dataclass(frozen=True)
class RowMaker:
    """Makes the rows of a pass over documents.

    Attributes:
        segments: the kind of example.
        max_seq_length: longest row, special tokens included.
        short_seq_prob: probability of a shorter target of a pair.
        cls_id: [CLS] as it stands among the ids of the documents.
        sep_id: [SEP], likewise.
    """

    segments: Segments
    max_seq_length: int
    short_seq_prob: float
    cls_id: int
    sep_id: int

    def make(
        self,
        documents: pa.RecordBatch,
        repeat: int,
        pool: Pool | None,
        splits: np.ndarray,
        seed: int,
    ) -> UnmaskedRows:
        """See `corpusmill.objectives.objective.Objective.build`."""
        index, token_ids = unpack_documents(documents)
        if self.segments not in _LABELS:
            return self._pieces(index, token_ids)
        rule = pairing.PairRule(self.max_seq_length - NUM_SPECIAL, self.short_seq_prob)
        draws = (np.uint64(seed), repeat, rule)
        if self.segments == "sentence-order":
            return self._pairs(draw_ordered_pairs(index, *draws), token_ids, token_ids)
        if pool is None:
            raise ValueError("next-sentence pairs need a pool of random documents")
        pairs = pairing.draw_pairs(index, pool.index, pool.candidates(splits), *draws)
        return self._pairs(pairs, token_ids, pool.token_ids)

    def _pairs(
        self, pairs: np.ndarray, token_ids: np.ndarray, pool_token_ids: np.ndarray
    ) -> UnmaskedRows:
        rows, offsets = assemble_pairs(pairs, token_ids, pool_token_ids, self.cls_id, self.sep_id)
        first_lengths = pairs[:, pairing.FIRST_LENGTH].astype(np.uint16)
        further = [first_lengths, pairs[:, pairing.IS_RANDOM].astype(np.int8)]
        indices = pairs[:, pairing.INDEX].astype(np.uint32)
        return UnmaskedRows(pairs[:, pairing.DOCUMENT], indices, rows, offsets, further)

    def _pieces(self, documents: Documents, token_ids: np.ndarray) -> UnmaskedRows:
        room = self.max_seq_length - full_sentences.NUM_SPECIAL
        pieces, lengths, ends = full_sentences.cut_documents(documents, room)
        rows, offsets = full_sentences.assemble_pieces(pieces, token_ids, self.cls_id, self.sep_id)
        further: list[np.ndarray | pa.Array] = []
        if self.segments == "full-sentences":
            ones = np.ones(len(pieces), np.uint16)
            further = [ragged.to_arrow(lengths, ends), ones, ones]
        indices = pieces[:, full_sentences.INDEX].astype(np.uint32)
        return UnmaskedRows(pieces[:, full_sentences.DOCUMENT], indices, rows, offsets, further)
