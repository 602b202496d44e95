"""ERNIE's examples: BERT's segment pairs, with the words that their tokens belong to.

Sources: "ERNIE 中文训练数据预处理" (the article), the README, reader/pretraining.py and `mask` in
ERNIE/batching.py of PaddlePaddle/ERNIE; Sun et al. 2019, arXiv 1904.09223. The original's program
that makes its sequences was never published; as the article advises, BERT's pairs are used
(`corpusmill.objectives.examples.sentence_pairs`), and `seg_labels` mark where words begin:

    input_ids    [CLS]  我   喜   欢   [SEP]  茶   [SEP]
    seg_labels    -1    0    0    1     -1    0     -1

In the 6,000 sequences that the original shows, [CLS] and [SEP] have -1, no other token has, and
none of them is followed by a 1. Therefore a word whose beginning was cut off begins at its first
remaining token here, and a [SEP] that is written out in the text has -1, too.

Masking is left to the trainer's reader, so that each epoch has other masks, or done once, with
`mask` "static". A sequence is masked in one of two modes (section 3.2 of the paper):

- characters: each token is chosen with probability 0.15 on its own;
- words: each word is chosen with probability 0.15, with all of its tokens.

A chosen token becomes [MASK] (80 %), a random id (10 %) or stays (10 %), each token of a word by
its own draw. Their number has no upper limit, and a sequence may have none. Random ids are drawn
from 1 to vocabulary size - 1, with all special tokens except 0 ([PAD] there): the upper bound of
the original's `randint(1, vocabulary size)` is excluded. The original draws the mode once per file
and epoch; here it is drawn once per sequence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below, to_uniform
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError, option
from corpusmill.objectives.bert import SentenceObjective, further_columns
from corpusmill.objectives.columns import (
    SPANS,
    prediction_columns,
    segment_column,
    token_column,
    word_column,
)
from corpusmill.objectives.examples.sentence_pairs import NUM_SPECIAL
from corpusmill.objectives.masking.masked_lm import (
    MaskShares,
    all_ids_but,
    check_shares,
)
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.objectives.masking.words import LATER_IN_WORD, NO_WORD, label_words
from corpusmill.objectives.objective import Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions, Preset
from corpusmill.settings.constraints import Range
from corpusmill.tokenization.tokenizer_file import Vocabulary

CHOICE_PROB = 0.15


@njit
def _mask_rows(
    input_ids: np.ndarray,
    seg_labels: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    mask_word_prob: float,
    mask_id: int,
    vocab_size: int,
    above: tuple[float, float, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask rows in place, as `ErnieMasker.mask` describes.

    `above` holds the probability of a choice, and the uniform draws above which a chosen token
    becomes [MASK], and a random id.
    """
    choice_prob, mask_above, random_above = above
    positions = np.empty(len(input_ids), np.int32)
    labels = np.empty(len(input_ids), input_ids.dtype)
    prediction_offsets = np.zeros(len(keys) + 1, np.int64)
    written = 0
    for i in range(len(keys)):
        key = keys[i]
        by_words = to_uniform(draw(key, 0)) < mask_word_prob
        chosen = False
        begin = offsets[i]
        for place in range(begin, offsets[i + 1]):
            label = seg_labels[place]
            if label == NO_WORD:
                chosen = False
                continue
            # A later token of a word is chosen with the first one; its draw decides the rest.
            follows = by_words and label == LATER_IN_WORD
            if follows and not chosen:
                continue
            counter = 1 + 2 * (place - begin)
            share = to_uniform(draw(key, counter))
            if not follows:
                share /= choice_prob
                chosen = share <= 1
                if not chosen:
                    continue
            positions[written] = place - begin
            labels[written] = input_ids[place]
            written += 1
            if share > mask_above:
                input_ids[place] = mask_id
            elif share > random_above:
                input_ids[place] = 1 + to_below(draw(key, counter + 1), vocab_size - 1)
        prediction_offsets[i + 1] = written
    return positions[:written].copy(), labels[:written].copy(), prediction_offsets


@dataclass(frozen=True)
class ErnieMasker:
    """ERNIE's masking of rows, when they are built or when they are loaded; a `Masker`.

    Attributes:
        mask_word_prob: the probability that a sequence is masked by words.
        mask_id: the id of [MASK].
        vocab_size: random ids are from 1 to vocab_size - 1.
        shares: the probability that a token or word is chosen, that a chosen token becomes [MASK],
            and that it becomes a random id.
    """

    mask_word_prob: float
    mask_id: int
    vocab_size: int
    shares: tuple[float, float, float] = (CHOICE_PROB, 0.8, 0.1)
    whole_words: ClassVar[bool] = True
    changeable: ClassVar[frozenset[str]] = frozenset([*MaskShares._fields, "mask_word_prob"])

    def __post_init__(self) -> None:
        """Check the probabilities.

        Raises:
            UserError: one is out of range.
        """
        check_shares(MaskShares(*self.shares))
        Range(0, 1).check(self, "mask_word_prob", "{}={}".format)

    def change(self, **settings: Any) -> "ErnieMasker":
        """Return the masker with other settings, of `changeable`, which a reader gives.

        Raises:
            UserError: a value is out of range.
        """
        prob = settings.pop("mask_word_prob", self.mask_word_prob)
        shares: Any = tuple(MaskShares(*self.shares)._replace(**settings))
        return replace(self, mask_word_prob=prob, shares=shares)

    def mask(
        self, input_ids: np.ndarray, seg_labels: np.ndarray, offsets: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mask rows in place, as `Masker` describes.

        Args:
            input_ids: integers[tokens], row after row.
            seg_labels: int8[tokens]: 0 for the first token of a word, 1 for its later ones, -1 for
                [CLS] and [SEP], which are never masked.
            offsets: integers[rows + 1].
            keys: uint64[rows].

        Returns:
            positions: int32[predictions], places within their rows, ascending.
            labels: the type of input_ids[predictions], the original ids.
            prediction_offsets: int64[rows + 1].

        Example:
            input_ids [2, 10, 11, 3, 12, 3] with seg_labels [-1, 0, 1, -1, 0, -1], where 10 and 11
            are one word that is chosen, become [2, 4, 4, 3, 12, 3] with mask_id 4; positions
            [1, 2], labels [10, 11], prediction_offsets [0, 2].
        """
        choice, replaced, random = map(float, self.shares)
        # Rounded, as 1 - 0.8 is not 0.2.
        above = (choice, round(1.0 - replaced, 12), round(1.0 - replaced - random, 12))
        rule = (float(self.mask_word_prob), self.mask_id, self.vocab_size, above)
        masked: tuple[np.ndarray, np.ndarray, np.ndarray] = _mask_rows(
            input_ids, seg_labels, offsets, keys, *rule
        )
        return masked


@dataclass(frozen=True)
class ErnieOptions(ObjectiveOptions):
    """How ERNIE's examples are made."""

    presets: ClassVar[Mapping[str, Preset]] = {
        "ernie": Preset({}, "Sun et al. 2019 and the article, as are the defaults"),
    }
    summary: ClassVar[str] = (
        "Build an ERNIE data set: sentence pairs with the words of their tokens, to mask by words."
    )
    segments: ClassVar[str] = "next-sentence"
    pairs: ClassVar[str] = "article"

    max_seq_length: Annotated[int, Range(5, 65535)] = 512
    """Longest example in tokens, with [CLS] and both [SEP]."""
    duplicates: Annotated[int, Range(1, 65535)] = 10
    """How many times each document is built, each time with other pairs."""
    short_seq_prob: Annotated[float, Range(0, 1)] = 0.1
    """Probability that a pass over a document aims at a shorter, uniformly drawn length."""
    words: str = "unicode"
    """What a word is: "unicode" for languages that write spaces, "jieba" for Chinese (needs the
    extra "chinese"), "wordpiece" for the words of a WordPiece tokenizer, or your own rule: an
    entry point of the group "corpusmill.words", or package.module:function."""
    mask: Literal["dynamic", "static"] = "dynamic"
    """"dynamic" leaves masking to the trainer, which draws it anew in each epoch; "static" masks
    each example once and stores the original ids."""
    mask_word_prob: Annotated[float, Range(0, 1)] = 1.0
    """Probability that whole words of a sequence are masked, rather than single tokens. The
    original's list of files has 1.1, which means always."""
    pool_tokens: Annotated[int, Range(1, 2**48 - 1)] = 128_000_000
    """Size of the pool that random documents are drawn from, in tokens; a corpus that fits is used
    whole."""

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            UserError: examples cannot be built with a value.
        """
        super().__post_init__()
        if not self.words:
            raise UserError(option("words", self.words), "it is empty", "Leave it out")

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
            keys = row_keys(repeat.seed, *rows.identity)
            positions, labels, ends = self.masker.mask(input_ids, seg_labels, rows.offsets, keys)
            masks = [ragged.to_arrow(positions, ends), ragged.to_arrow(labels, ends)]
        tokens = ragged.to_arrow(input_ids, rows.offsets)
        values = (tokens, *rows.further, labels_of_words, *masks, rows.spans)
        return self.make_rows(*rows.identity, values)
