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
from corpusmill.objectives import combined_rows
from corpusmill.objectives.columns import (
    FIRST_LENGTH,
    NEXT_SENTENCE_LABEL,
    RANDOM_LENGTH,
    SENTENCE_ORDER_LABEL,
    SWITCHED_OR_RANDOM_LABEL,
    boundary_column,
)
from corpusmill.objectives.examples import sentence_pairs as pairing
from corpusmill.objectives.examples.packing import mark_pieces
from corpusmill.objectives.examples.row_spans import locate_stretches, single_spans, span_lists
from corpusmill.objectives.examples.sentence_pairs import (
    NUM_SPECIAL,
    assemble_pairs,
    locate_segments,
)
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.tokenized_documents import Documents, measure_sentences, unpack_documents
from corpusmill.tokenization.tokenizer_file import SpecialTokens, continues_of, ids_of, mark

Segments = Literal["next-sentence", "sentence-order", "full-sentences", "doc-sentences", "packed"]

# Whose rule makes pairs: the article's, or the one of Google's own programs.
Pairs = Literal["article", "google"]

# The columns of the pairs' class; whole sentences have none.
_LABELS: dict[tuple[Segments, Pairs], Column] = {
    ("next-sentence", "article"): NEXT_SENTENCE_LABEL,
    ("next-sentence", "google"): NEXT_SENTENCE_LABEL,
    ("sentence-order", "article"): SENTENCE_ORDER_LABEL,
    ("sentence-order", "google"): SWITCHED_OR_RANDOM_LABEL,
}

# `pack` makes rows of what is built, and masks them.
PAIRED: tuple[Segments, ...] = ("next-sentence", "sentence-order")
COMBINED: tuple[Segments, ...] = ("full-sentences", "packed")

# A piece of a document has a token at least, between [CLS] and [SEP].
_SHORTEST_PIECE = 1 + combined_rows.NUM_SPECIAL


def has_pairs(segments: Segments) -> bool:
    """Return whether rows are pairs of segments, not whole sentences."""
    return segments in PAIRED


def label_column(segments: Segments, pairs: Pairs) -> Column | None:
    """Return the column of the pairs' class; None for whole sentences."""
    return _LABELS.get((segments, pairs))


def further_columns(segments: Segments, pairs: Pairs, max_seq_length: int) -> tuple[Column, ...]:
    """Return the columns that are built beside the ids, in the order of `UnmaskedRows.further`."""
    label = label_column(segments, pairs)
    if label is not None:
        return (FIRST_LENGTH, label, *_counted_columns(segments, pairs))
    if segments == "packed":
        return (boundary_column(max_seq_length, max_seq_length // _SHORTEST_PIECE),)
    if segments == "doc-sentences":
        return ()
    meaning = "tokens of the sentences of a document's last piece"
    return (
        Column("sentence_lengths", "uint16", meaning, max_seq_length),
        Column("documents", "uint16", "pieces of documents in the example"),
        Column("pieces", "uint16", "rows of which the example holds the end"),
    )


def _counted_columns(segments: Segments, pairs: Pairs) -> tuple[Column, ...]:
    """The column of random tokens, where the class does not tell which segments are random."""
    is_mixed = label_column(segments, pairs) is SWITCHED_OR_RANDOM_LABEL
    return (RANDOM_LENGTH,) if is_mixed else ()


def count_special(segments: Segments) -> int:
    """Return the number of a row's special tokens, without those between documents."""
    return NUM_SPECIAL if has_pairs(segments) else combined_rows.NUM_SPECIAL


@dataclass(frozen=True)
class UnmaskedRows:
    """The rows of a batch of documents, in the documents' order.

    Attributes:
        documents: uint64[rows], the id of each row's document.
        indices: uint32[rows], each row's place in its document's pass.
        token_ids: integers[tokens], with special tokens; marked if the documents' ids are.
        offsets: int64[rows + 1].
        further: the values of `further_columns`.
        spans: the values of SPANS.
    """

    documents: np.ndarray
    indices: np.ndarray
    token_ids: np.ndarray
    offsets: np.ndarray
    further: Sequence[np.ndarray | pa.Array]
    spans: pa.ListArray


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
    def pairs(self) -> Pairs:
        """Whose rule makes the pairs."""
        return "article"

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
        if not has_pairs(self.segments):
            return self._make_pieces(index, token_ids)
        options = self.options
        rule = pairing.PairRule(
            options.max_seq_length - NUM_SPECIAL,
            options.short_seq_prob,
            is_google=self.pairs == "google",
            is_ordered=self.segments == "sentence-order",
        )
        random, candidates = (index, token_ids), np.zeros((len(index.ids), 2), np.int64)
        if rule.is_google or not rule.is_ordered:
            if (pool := repeat.pool) is None:
                raise ValueError("these pairs need a pool of random documents")
            random, candidates = (pool.index, pool.token_ids), pool.candidates(repeat.splits)
        seed = np.uint64(repeat.seed)
        pairs = pairing.draw_pairs(index, random[0], candidates, seed, repeat.number, rule)
        return self._make_pairs((index, token_ids), pairs, random)

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Count the tokens cut off pairs that were too long, and sentences longer than a pair.

        Every sentence of a document is in one pair of a pass, and so what a document has more
        tokens than its pairs was cut off. Whole sentences are divided rather than cut off.
        """
        if self.segments == "packed":
            lengths = np.diff(ragged.from_arrow(examples.column("input_ids"))[1])
            kept = int((lengths - combined_rows.NUM_SPECIAL).sum())
            return {"trimmed_tokens": 0, "kept_tokens": kept}
        if not has_pairs(self.segments):
            return {"trimmed_tokens": 0}
        sentences = measure_sentences(documents)
        _, offsets = ragged.from_arrow(examples.column("input_ids"))
        tokens, random_tokens = np.diff(offsets).astype(np.int64) - NUM_SPECIAL, 0
        if self.segments == "next-sentence":
            is_random = examples.column(NEXT_SENTENCE_LABEL.name).to_numpy() == 1
            first_lengths = examples.column(FIRST_LENGTH.name).to_numpy()
            random_tokens = int((tokens - first_lengths)[is_random].sum())
        elif RANDOM_LENGTH.name in examples.schema.names:
            random_tokens = int(examples.column(RANDOM_LENGTH.name).to_numpy().sum(dtype=np.int64))
        return {
            "trimmed_tokens": int(sentences.sum() - tokens.sum()) + random_tokens,
            "random_tokens": random_tokens,
            "long_sentences": int(
                np.count_nonzero(sentences > self.options.max_seq_length - NUM_SPECIAL)
            ),
        }

    def _make_pairs(
        self,
        batch: tuple[Documents, np.ndarray],
        pairs: np.ndarray,
        random: tuple[Documents, np.ndarray],
    ) -> UnmaskedRows:
        """Make rows of pairs of the documents and tokens of a batch, and of random ones."""
        (documents, token_ids), (pool, pool_token_ids) = batch, random
        rows, offsets = assemble_pairs(pairs, token_ids, pool_token_ids, *self.border_ids)
        parts = locate_segments(pairs, documents, pool)
        spans = span_lists(parts, 2 * np.arange(len(pairs) + 1))
        owners = documents.ids[pairs[:, pairing.DOCUMENT]]
        indices = pairs[:, pairing.INDEX].astype(np.uint32)
        further = [pairs[:, pairing.FIRST_LENGTH], pairs[:, pairing.LABEL]]
        if _counted_columns(self.segments, self.pairs):
            further.append(pairs[:, pairing.SECOND_LENGTH] * pairs[:, pairing.SECOND_SOURCE])
        return UnmaskedRows(owners, indices, rows, offsets, further, spans)

    def _make_pieces(self, documents: Documents, token_ids: np.ndarray) -> UnmaskedRows:
        room = self.options.max_seq_length - combined_rows.NUM_SPECIAL
        pieces, lengths, ends = combined_rows.cut_documents(documents, room)
        rows, offsets = combined_rows.assemble_rows(
            pieces[:, combined_rows.START :],
            np.arange(len(pieces) + 1),
            token_ids,
            *self.border_ids,
        )
        places, _, starts, piece_lengths = pieces.T
        spans = single_spans(locate_stretches(documents, places, starts, piece_lengths))
        owners = documents.ids[places]
        indices = pieces[:, combined_rows.INDEX].astype(np.uint32)
        further: tuple[np.ndarray | pa.Array, ...] = ()
        if self.segments == "packed":
            further = (mark_pieces(offsets),)
        elif self.segments == "full-sentences":
            ones = np.ones(len(pieces), np.uint16)
            further = (ragged.to_arrow(lengths, ends), ones, ones)
        return UnmaskedRows(owners, indices, rows, offsets, further, spans)
