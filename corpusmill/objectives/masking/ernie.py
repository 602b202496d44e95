"""ERNIE's dynamic masking: whole words or single tokens, drawn anew each time a sequence is read.

Source: `mask` in ERNIE/batching.py of PaddlePaddle/ERNIE, which "ERNIE 中文训练数据预处理" (the
article) explains; Sun et al. 2019, arXiv 1904.09223, section 3.2. A sequence is masked in one of
two modes:

- characters: each token is chosen with probability 0.15 on its own;
- words: each word is chosen with probability 0.15, with all of its tokens.

A chosen token becomes [MASK] (80 %), a random id (10 %) or stays (10 %), each token of a word by
its own draw. Their number has no upper limit, and a sequence may have none. Random ids are drawn
from 1 to vocabulary size - 1, with all special tokens except 0 ([PAD] there): the upper bound of
the original's `randint(1, vocabulary size)` is excluded. The original draws the mode once per file
and epoch; here it is drawn once per sequence.
"""

from dataclasses import dataclass
from operator import index
from typing import ClassVar

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, to_below, to_uniform
from corpusmill.errors import UserError
from corpusmill.objectives.masking.masked_lm import check_rows
from corpusmill.objectives.masking.words import LATER_IN_WORD, NO_WORD

CHOICE_PROB = 0.15


def mask_sequences(
    input_ids: np.ndarray,
    seg_labels: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    mask_word_prob: float,
    mask_id: int,
    vocab_size: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mask every sequence of a batch; the arguments are not changed.

    The mask of a sequence depends only on its own ids, labels and key. A reader draws other masks
    in each epoch with the keys `row_keys(seed, shards, epoch, rows)` of
    `corpusmill.objectives.masking.tokens`.

    Args:
        input_ids: integers[tokens], sequence after sequence.
        seg_labels: int8[tokens]: 0 for the first token of a word, 1 for its later ones, -1 for
            [CLS] and [SEP], which are never masked.
        offsets: integers[sequences + 1].
        keys: uint64[sequences].
        mask_word_prob: the probability that a sequence is masked by words, 0 to 1.
        mask_id: the id of [MASK].
        vocab_size: random ids are from 1 to `vocab_size` - 1.

    Returns:
        masked_ids: the type of input_ids[tokens].
        positions: int32[predictions], places within their sequences, ascending.
        labels: the type of input_ids[predictions], the original ids.
        prediction_offsets: int64[sequences + 1].

    Raises:
        TypeError: an argument is of another type.
        ValueError: the arrays do not fit one another, or a number is out of range.

    Example:
        input_ids [2, 10, 11, 3, 12, 3] with seg_labels [-1, 0, 1, -1, 0, -1], where 10 and 11 are
        one word that is chosen, become [2, 4, 4, 3, 12, 3] with mask_id 4; positions [1, 2], labels
        [10, 11], prediction_offsets [0, 2].
    """
    if mask_id < 0 or vocab_size < 2:
        raise ValueError("mask_id must not be negative, and vocab_size must be 2 or more")
    check_rows(input_ids, seg_labels, offsets, keys, max(mask_id, vocab_size - 1))
    rule = (float(mask_word_prob), index(mask_id), index(vocab_size))
    masked: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] = _mask_sequences(
        input_ids, seg_labels, offsets, keys, *rule
    )
    return masked


@njit
def _mask_sequences(
    input_ids: np.ndarray,
    seg_labels: np.ndarray,
    offsets: np.ndarray,
    keys: np.ndarray,
    mask_word_prob: float,
    mask_id: int,
    vocab_size: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mask every sequence of a batch, as `mask_sequences` describes."""
    masked_ids = input_ids.copy()
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
                share /= CHOICE_PROB
                chosen = share <= 1
                if not chosen:
                    continue
            positions[written] = place - begin
            labels[written] = input_ids[place]
            written += 1
            if share > 0.2:
                masked_ids[place] = mask_id
            elif share > 0.1:
                masked_ids[place] = 1 + to_below(draw(key, counter + 1), vocab_size - 1)
        prediction_offsets[i + 1] = written
    return masked_ids, positions[:written].copy(), labels[:written].copy(), prediction_offsets


@dataclass(frozen=True)
class ErnieMasker:
    """ERNIE's masking of rows, when they are built or when they are loaded; a `Masker`.

    Attributes:
        mask_word_prob: the probability that a sequence is masked by words.
        mask_id: the id of [MASK].
        vocab_size: random ids are from 1 to vocab_size - 1.
    """

    mask_word_prob: float
    mask_id: int
    vocab_size: int
    whole_words: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the probability.

        Raises:
            UserError: it is out of range.
        """
        if not 0 <= self.mask_word_prob <= 1:
            value = f"mask_word_prob={self.mask_word_prob}"
            raise UserError(value, "it is not a probability", "Give 0 (never) to 1 (always)")

    def mask(
        self, input_ids: np.ndarray, seg_labels: np.ndarray, offsets: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mask rows in place, as `Masker` describes."""
        rule = (self.mask_word_prob, self.mask_id, self.vocab_size)
        masked_ids, positions, labels, ends = mask_sequences(
            input_ids, seg_labels, offsets, keys, *rule
        )
        input_ids[:] = masked_ids
        return positions, labels, ends
