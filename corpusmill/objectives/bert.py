"""BERT's examples: pairs of segments, or whole sentences, masked now or when they are loaded.

Source: "Preparing Data for BERT Training" (the article), after Google's create_pretraining_data.py;
Devlin et al. 2018. ALBERT's and RoBERTa's examples differ from BERT's in what they are made of
(`Segments`). Two things differ from the article, on purpose: random
replacement ids are drawn from all ids except special tokens (the article's "from 4" is right for
its own tokenizer only, and Google's program draws from all ids), and a sentence without tokens is
left out before pairs are made.

Google's own programs differ from the article, and `pairs` "google" builds what they do: other
chunks and random segments (`corpusmill.objectives.examples.sentence_pairs`), special tokens counted
with a row's tokens when predictions are, and words and n-grams that continue after a [SEP].
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column, Role
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError, option
from corpusmill.objectives import combined_rows
from corpusmill.objectives.columns import (
    FIRST_LENGTH,
    JOINED_COUNTS,
    NEXT_SENTENCE_LABEL,
    RANDOM_LENGTH,
    SENTENCE_ORDER_LABEL,
    SPANS,
    SWITCHED_OR_RANDOM_LABEL,
    boundary_column,
    segment_column,
    token_column,
)
from corpusmill.objectives.examples import sentence_pairs as pairing
from corpusmill.objectives.examples.packing import mark_pieces, pack_pieces_closely
from corpusmill.objectives.examples.row_spans import locate_stretches, single_spans, span_lists
from corpusmill.objectives.examples.sentence_pairs import NUM_SPECIAL
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.masking.tokens import COUNTED, MaskingRule, row_keys
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, Preset
from corpusmill.objectives.tokenized_documents import Documents, measure_sentences, unpack_documents
from corpusmill.settings.constraints import Needs, Range
from corpusmill.tokenization.tokenizer_file import (
    SpecialTokens,
    Vocabulary,
    continues_of,
    ids_of,
    mark,
    marked_dtype,
)

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
_PAIRED: tuple[Segments, ...] = ("next-sentence", "sentence-order")
_COMBINED: tuple[Segments, ...] = ("full-sentences", "packed")

# A piece of a document has a token at least, between [CLS] and [SEP].
_SHORTEST_PIECE = 1 + combined_rows.NUM_SPECIAL


def further_columns(segments: Segments, pairs: Pairs, max_seq_length: int) -> tuple[Column, ...]:
    """Return the columns that are built beside the ids, in the order of `UnmaskedRows.further`."""
    label = _LABELS.get((segments, pairs))
    if label is not None:
        return (FIRST_LENGTH, label, *_counted_columns(segments, pairs))
    if segments == "packed":
        return (boundary_column(max_seq_length, max_seq_length // _SHORTEST_PIECE),)
    if segments == "doc-sentences":
        return ()
    meaning = "tokens of the sentences of a document's last piece"
    return (Column("sentence_lengths", "uint16", meaning, max_seq_length), *JOINED_COUNTS)


def _counted_columns(segments: Segments, pairs: Pairs) -> tuple[Column, ...]:
    """The column of random tokens, where the class does not tell which segments are random."""
    is_mixed = _LABELS.get((segments, pairs)) is SWITCHED_OR_RANDOM_LABEL
    return (RANDOM_LENGTH,) if is_mixed else ()


@dataclass(frozen=True)
class UnmaskedRows:
    """The rows of a batch of documents, in the documents' order.

    Attributes:
        identity: uint64[rows], the id of each row's document; uint16[rows], the number of the pass;
            and uint32[rows], each row's place in its document's pass.
        token_ids: integers[tokens], with special tokens; marked if the documents' ids are.
        offsets: int64[rows + 1].
        further: the values of `further_columns`.
        spans: the values of SPANS.
    """

    identity: tuple[np.ndarray, np.ndarray, np.ndarray]
    token_ids: np.ndarray
    offsets: np.ndarray
    further: Sequence[np.ndarray | pa.Array]
    spans: pa.ListArray


@dataclass(frozen=True)
class SentenceObjective(Objective):
    """An objective whose rows are pairs of segments or whole sentences.

    Attributes:
        options: its options, with `segments`, `pairs`, `max_seq_length`, `duplicates` and
            `short_seq_prob`.
        special: the tokenizer's special ids; cls, sep, mask and pad must be there.
        vocab_size: the largest id + 1.
        token_dtype: the NumPy name of the type of a token id.
    """

    takes_passes = True

    options: Any
    special: SpecialTokens
    vocab_size: int
    token_dtype: str

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
        repeats = np.full(len(index.ids), repeat.number, np.uint16)
        if self.options.segments not in _PAIRED:
            return self._make_pieces(index, token_ids, repeats)
        options = self.options
        rule = pairing.PairRule(
            options.max_seq_length - NUM_SPECIAL,
            options.short_seq_prob,
            is_google=self.options.pairs == "google",
            is_ordered=self.options.segments == "sentence-order",
        )
        random, candidates = (index, token_ids), np.zeros((len(index.ids), 2), np.int64)
        if rule.is_google or not rule.is_ordered:
            if (pool := repeat.pool) is None:
                raise ValueError("these pairs need a pool of random documents")
            random, candidates = (pool.index, pool.token_ids), pool.candidates(repeat.splits)
        seed = np.uint64(repeat.seed)
        pairs = pairing.draw_pairs(index, random[0], candidates, seed, repeats, rule)
        rows, offsets = pairing.assemble_pairs(pairs, token_ids, random[1], *self.border_ids)
        parts = pairing.locate_segments(pairs, index, random[0])
        spans = span_lists(parts, 2 * np.arange(len(pairs) + 1))
        places = pairs[:, pairing.DOCUMENT]
        identity = index.ids[places], repeats[places], pairs[:, pairing.INDEX].astype(np.uint32)
        further = [pairs[:, pairing.FIRST_LENGTH], pairs[:, pairing.LABEL]]
        if _counted_columns(options.segments, options.pairs):
            further.append(pairs[:, pairing.SECOND_LENGTH] * pairs[:, pairing.SECOND_SOURCE])
        return UnmaskedRows(identity, rows, offsets, further, spans)

    def count(self, documents: pa.RecordBatch, examples: pa.RecordBatch) -> dict[str, int]:
        """Count the tokens cut off pairs that were too long, and sentences longer than a pair.

        Every sentence of a document is in one pair of a pass, and so what a document has more
        tokens than its pairs was cut off. Whole sentences are divided rather than cut off.
        """
        if self.options.segments == "packed":
            lengths = np.diff(ragged.from_arrow(examples.column("input_ids"))[1])
            kept = int((lengths - combined_rows.NUM_SPECIAL).sum())
            return {"trimmed_tokens": 0, "kept_tokens": kept}
        if self.options.segments not in _PAIRED:
            return {"trimmed_tokens": 0}
        sentences = measure_sentences(documents)
        _, offsets = ragged.from_arrow(examples.column("input_ids"))
        tokens, random_tokens = np.diff(offsets).astype(np.int64) - NUM_SPECIAL, 0
        if self.options.segments == "next-sentence":
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

    def _make_pieces(
        self, documents: Documents, token_ids: np.ndarray, repeats: np.ndarray
    ) -> UnmaskedRows:
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
        indices = pieces[:, combined_rows.INDEX].astype(np.uint32)
        identity = documents.ids[places], repeats[places], indices
        further: tuple[np.ndarray | pa.Array, ...] = ()
        if self.options.segments == "packed":
            further = (mark_pieces(offsets),)
        elif self.options.segments == "full-sentences":
            ones = np.ones(len(pieces), np.uint16)
            further = (ragged.to_arrow(lengths, ends), ones, ones)
        return UnmaskedRows(identity, rows, offsets, further, spans)


_DYNAMIC = {"mask": "dynamic", "max_predictions_per_seq": None, "duplicates": 1}

# The options under which models were trained, as far as their authors tell.
_PRESETS: Mapping[str, Preset] = {
    "bert-article": Preset(
        {},
        "the article's program, as are the defaults. It differs from Google's: a chunk takes one "
        "sentence more, and a segment that fills the target has no second one",
    ),
    "bert-google": Preset(
        {"pairs": "google", "max_seq_length": 128},
        "google-research/bert, create_pretraining_data.py, its defaults",
    ),
    "albert": Preset(
        {
            "segments": "sentence-order",
            "pairs": "google",
            "duplicates": 40,
            "whole_word_mask": True,
            "ngram": 3,
            "words": "wordpiece",
        },
        "google-research/albert, create_pretraining_data.py, its defaults",
    ),
    "roberta": Preset(
        {"segments": "full-sentences", **_DYNAMIC},
        "Liu et al. 2019, section 4: full sentences across documents, masks drawn anew in each "
        "epoch",
    ),
    "modernbert": Preset(
        {"segments": "packed", "max_seq_length": 1024, "masked_lm_prob": 0.3, **_DYNAMIC},
        "Warner et al. 2024, section 2.2: packed documents, 30 % of tokens masked, rows of 1,024 "
        "tokens and later of 8,192; their program draws as --draw-each-token does",
    ),
    "distilbert": Preset(
        {"segments": "doc-sentences", **_DYNAMIC},
        "Sanh et al. 2019, section 3: no next sentences, masks drawn anew; their program makes a "
        "row of each line, this one of as many sentences of a document as fit",
    ),
}


@dataclass(frozen=True)
class BertOptions(ObjectiveOptions):
    """How BERT's examples are made."""

    summary: ClassVar[str] = (
        "Build a BERT data set: masked language model, by default with next-sentence pairs."
    )
    presets: ClassVar[Mapping[str, Preset]] = _PRESETS

    segments: Segments = "next-sentence"
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
    pairs: Annotated[Pairs, Needs("segments", *_PAIRED)] = "article"
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
        if self.pairs == "google":
            return 0
        return NUM_SPECIAL if self.segments in _PAIRED else combined_rows.NUM_SPECIAL

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
        if self.duplicates > 1 and self.mask == "dynamic" and self.segments not in _PAIRED:
            cause = (
                f"the text of {option('segments', self.segments)} is the same in each pass, and "
            )
            cause += (
                f"with {option('mask')} dynamic only readers draw masks, so that rows would be "
            )
            cause += "equal"
            cure = f"Give {option('duplicates', 1)}; each epoch has its own masks"
            raise UserError(option("duplicates", self.duplicates), cause, cure)

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Read WikiText by default, a sentence per line; packed rows have whole articles."""
        if self.segments == "packed":
            return documents.or_else("wikitext-articles", "document")
        return documents.or_else("wikitext", "line").require_sentences("bert")


@dataclass(frozen=True)
class Bert(SentenceObjective):
    """The objective `bert`, bound to a tokenizer's ids."""

    name = "bert"

    options: BertOptions

    @property
    def pool_tokens(self) -> int:
        """The option of this name, for pairs with random documents."""
        is_random = self.options.segments == "next-sentence" or self.options.pairs == "google"
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
            COUNTED if self.options.segments == "packed" else options.num_special,
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
        label = _LABELS.get((self.options.segments, self.options.pairs))
        pair = "[CLS] first segment [SEP] second segment [SEP]"
        meaning = "[CLS] sentences [SEP]" if label is None else pair
        meaning += ", masked" if self.masked_lm.static else ""
        further: tuple[Column, ...] = () if label is None else (segment_column(length), label)
        if self.options.segments == "packed":
            meaning = meaning.replace("sentences", "document", 1) + ", one piece after another"
            further = further_columns(self.options.segments, self.options.pairs, length)
        return (
            token_column(self.token_dtype, meaning, length, pad_id),
            *further,
            *self.word_starts,
            *self.masked_lm.columns,
        )

    @property
    def word_starts(self) -> tuple[Column, ...]:
        """The column that ALBERT's program writes, whose trainer masks words by it."""
        is_albert = self.options.segments == "sentence-order" and self.options.pairs == "google"
        meaning = "1 for the first token of a word and for special tokens, 0 for a later token"
        length, role = self.options.max_seq_length, Role.WORD_STARTS
        column = Column("token_boundary", "int8", meaning, length, role=role, largest=1)
        return (column,) if is_albert and self.words else ()

    @cached_property
    def built_columns(self) -> tuple[Column, ...]:
        """The columns that `build` returns."""
        segments, length = self.options.segments, self.options.max_seq_length
        input_ids = self.columns[0]
        if self.words and segments in _COMBINED:
            # The marks are still needed when rows are masked.
            input_ids = replace(input_ids, dtype=marked_dtype(self.vocab_size).name)
        further = further_columns(segments, self.options.pairs, length)
        return (input_ids, *further, *self.word_starts, *self.masked_lm.columns, SPANS)

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        """Build rows, masked unless they are to be combined by `pack` first."""
        rows = self.make_unmasked(documents, repeat)
        starts: list[pa.Array] = []
        if self.options.segments in _COMBINED:
            input_ids = rows.token_ids
            masked = [
                combined_rows.empty_lists(column.dtype, len(rows.identity[0]))
                for column in self.masked_lm.columns
            ]
        else:
            input_ids, continues = self.split_marks(rows.token_ids)
            keys = row_keys(repeat.seed, *rows.identity)
            masked = self.masked_lm.build(input_ids, continues, rows.offsets, keys)
            if self.word_starts:
                starts = [ragged.to_arrow((~continues).astype(np.int8), rows.offsets)]
        tokens = ragged.to_arrow(input_ids, rows.offsets)
        values = (tokens, *rows.further, *starts, *masked, rows.spans)
        return self.make_rows(*rows.identity, values)

    def pack(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Combine documents' rows into full ones and mask these, if they are to be combined."""
        length = self.options.max_seq_length
        if self.options.segments == "full-sentences":
            combined = combined_rows.join_documents(rows, length, self.border_ids)
        elif self.options.segments == "packed":
            combined = pack_pieces_closely(rows, length)
        else:
            return rows
        return (
            combined_rows.mask_combined(group, self.masked_lm, self.split_marks)
            for group in combined
        )
