"""How an objective's rows are masked, and the columns that result.

Static: rows are masked when they are built, once for each pass over a document. Dynamic (RoBERTa;
Liu et al. 2019, section 4.1): rows are stored unmasked, and readers mask them anew in each epoch,
with the same function.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import floor, isfinite
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.errors import UserError, option
from corpusmill.objectives.columns import prediction_columns, word_column
from corpusmill.objectives.masking.tokens import COUNTED, MaskingRule, mask_rows, mask_weighted
from corpusmill.objectives.masking.words import label_words, mask_words
from corpusmill.settings.constraints import Range
from corpusmill.tokenization.tokenizer_file import SpecialTokens


class Masker(Protocol):
    """Masks an objective's rows with the kernels that a build uses; equal maskers mask alike."""

    @property
    def whole_words(self) -> bool:
        """Whether the words of the rows must be known."""

    def mask(
        self,
        input_ids: np.ndarray,
        seg_labels: np.ndarray,
        offsets: npt.NDArray[np.int64],
        keys: npt.NDArray[np.uint64],
    ) -> tuple[np.ndarray, np.ndarray, npt.NDArray[np.int64]]:
        """Mask rows in place.

        Args:
            input_ids: integers[tokens], changed.
            seg_labels: int8[tokens], the words; empty if `whole_words` is false.
            offsets: int64[rows + 1].
            keys: uint64[rows], one for each row's draws.

        Returns:
            positions: integers[predictions], ascending in each row.
            labels: integers[predictions], the original ids.
            prediction_offsets: int64[rows + 1].
        """


class MaskShares(NamedTuple):
    """Shares that a reader gives in place of those of a build; None leaves one as it is.

    Attributes:
        masked_lm_prob: the share of a row's tokens to predict.
        mask_replace_prob: the share of these that become [MASK].
        random_replace_prob: the share of these that become a random token; the others stay.
    """

    masked_lm_prob: float | None = None
    mask_replace_prob: float | None = None
    random_replace_prob: float | None = None

    @property
    def given(self) -> dict[str, float]:
        """Those that are not None, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def check_shares(shares: MaskShares) -> None:
    """Refuse shares that are none.

    Raises:
        UserError: a share is out of range, or two are more than all predictions together.
    """
    Range(0, 1, without=0).check(shares, "masked_lm_prob", "{}={}".format)
    replaced, random = shares.mask_replace_prob or 0.0, shares.random_replace_prob or 0.0
    # The sum of 0.9 and 0.1 may exceed 1 by what a float cannot hold.
    if not (replaced >= 0 and random >= 0 and replaced + random <= 1 + 1e-9):
        value = f"mask_replace_prob={replaced}, random_replace_prob={random}"
        cure = "Give numbers of 0 and more whose sum is at most 1; what is left stays unchanged"
        raise UserError(value, "they are not shares of all predictions", cure)


@dataclass(frozen=True)
class MaskedLm:
    """How rows are masked for a masked language model.

    Attributes:
        rule: how many tokens of a row are predicted, and what replaces them.
        static: whether rows are masked when they are built.
        whole_words: whether either all tokens of a word are masked or none.
        max_ngram: the words of the longest n-gram that is masked at once.
        max_seq_length: the longest row.
        special: the tokenizer's special ids; cls, sep, mask and pad must be there.
        vocab_size: the largest id + 1.
        token_dtype: the NumPy name of the type of a token id.
        token_weights: for each id of the vocabulary, how likely it is predicted in comparison with
            the others; special ids never are. If it is empty, all are equally likely.
    """

    rule: MaskingRule
    static: bool
    whole_words: bool
    max_ngram: int
    max_seq_length: int
    special: SpecialTokens
    vocab_size: int
    token_dtype: str
    token_weights: tuple[float, ...] = ()
    changeable: ClassVar[frozenset[str]] = frozenset([*MaskShares._fields, "token_weights"])

    def __post_init__(self) -> None:
        """Check the weights of tokens.

        Raises:
            ValueError: they are not as they must be.
        """
        if weights := self.token_weights:
            is_valid = len(weights) == self.vocab_size and all(map(isfinite, weights))
            if not is_valid or min(weights) < 0 or self.whole_words or self.rule.draws_each:
                raise ValueError(
                    f"token_weights must be {self.vocab_size} numbers of 0 and more, for single "
                    "tokens that are not drawn each by itself"
                )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns stored beside the ids: predictions, or words if a reader needs them."""
        if self.static:
            most = self.rule.max_predictions
            return prediction_columns(self.token_dtype, most, self.max_seq_length)
        return (word_column(self.max_seq_length),) if self.whole_words else ()

    def change(self, **settings: Any) -> "MaskedLm":
        """Return the masker with other settings, which a reader gives.

        Args:
            settings: of `changeable`, by name.

        Raises:
            UserError: a value is out of range, or rows could not have so many predictions.
        """
        weights = tuple(map(float, settings.pop("token_weights", self.token_weights)))
        # Kernels are compiled for floats.
        shares: dict[str, Any] = {name: float(share) for name, share in settings.items()}
        rule = self.rule._replace(**shares)
        check_shares(MaskShares(*(getattr(rule, name) for name in MaskShares._fields)))
        try:
            changed = replace(self, rule=self.limit(rule), token_weights=weights)
        except ValueError as error:
            cure = "Give one for each id of the tokenizer, or omit it"
            raise UserError("token_weights", str(error), cure) from error
        return changed

    def limit(self, rule: MaskingRule) -> MaskingRule:
        """Return a rule with another share of predictions, if the longest row can have as many.

        Raises:
            UserError: it cannot.
        """
        special = 0 if rule.num_special == COUNTED else rule.num_special
        tokens, most = self.max_seq_length - special, rule.max_predictions
        wanted, share = round(tokens * rule.masked_lm_prob), rule.masked_lm_prob
        if share != self.rule.masked_lm_prob and wanted > most:
            cause = (
                f"of {tokens} tokens {wanted} would be predicted, and the data set was built with "
                f"{option('max_predictions_per_seq', most)}"
            )
            highest = floor(1e6 * most / tokens) / 1e6
            cure = f"Give at most {highest:g}, or build it with more predictions or None"
            raise UserError(f"masked_lm_prob={share}", cause, cure)
        return rule

    def build(
        self, input_ids: np.ndarray, continues: np.ndarray, offsets: np.ndarray, keys: np.ndarray
    ) -> list[pa.Array]:
        """Return the values of `columns`; if masking is static, mask the rows in place.

        Args:
            input_ids: integers[tokens], changed.
            continues: integers[tokens], 1 where a token continues the word before it; of any length
                if words are not masked whole.
            offsets: int64[rows + 1].
            keys: uint64[rows], one for each row's draws.
        """
        seg_labels = np.empty(0, np.int8)
        if self.whole_words:
            joins = self.rule.joins_segments
            seg_labels = label_words(input_ids, continues, offsets, self._maskable_ids, joins)
        if self.static:
            positions, labels, ends = self.mask(input_ids, seg_labels, offsets, keys)
            return [ragged.to_arrow(positions, ends), ragged.to_arrow(labels, ends)]
        return [ragged.to_arrow(seg_labels, offsets)] if self.whole_words else []

    def mask(
        self, input_ids: np.ndarray, seg_labels: np.ndarray, offsets: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mask a batch of rows in place, when a data set is built or when its rows are loaded.

        Args:
            input_ids: integers[tokens], changed; the column's values without padding.
            seg_labels: int8[tokens], the column's values; empty if words are not masked whole.
            offsets: int64[rows + 1].
            keys: uint64[rows]; for rows of a shard `row_keys(seed, shards, epoch, rows)` of
                `corpusmill.objectives.masking.tokens`.

        Returns:
            positions: int32[predictions], ascending in each row.
            labels: the type of input_ids[predictions], the original ids.
            prediction_offsets: int64[rows + 1].

        Raises:
            ValueError: an id is not in the vocabulary, or this has only special tokens.

        Example:
            input_ids [2, 10, 11, 3, 12, 3], where 2 and 3 are [CLS] and [SEP], may become
            [2, 10, 4, 3, 12, 3], where 4 is [MASK]; positions [2], labels [11],
            prediction_offsets [0, 1].
        """
        rule = self.rule
        # The programs of ModernBERT and DistilBERT replace by any id.
        takes_any = rule.draws_each or self.token_weights
        ids = all_other_ids(() if takes_any else self.special.all_ids, self.vocab_size)
        if not len(ids):
            raise ValueError("the vocabulary must have tokens that are not special")
        masked: tuple[np.ndarray, np.ndarray, np.ndarray]
        if self.whole_words:
            masked = mask_words(input_ids, seg_labels, offsets, keys, ids, rule, self.max_ngram)
        else:
            # The table of ids has a place for any number of 16 bits.
            least, most = input_ids.min(initial=0), input_ids.max(initial=0)
            if input_ids.itemsize > 2 and not 0 <= least <= most < self.vocab_size:
                raise ValueError("input_ids must be ids of the vocabulary")
            if rule.draws_each or self.token_weights:
                masked = mask_weighted(input_ids, offsets, keys, self._weights, ids, rule)
            else:
                masked = mask_rows(input_ids, offsets, keys, self._maskable_ids, ids, rule)
        return masked

    @cached_property
    def _weights(self) -> np.ndarray:
        """float64[ids], with a place for any number of 16 bits."""
        if not self.token_weights:
            return self._maskable_ids.astype(np.float64)
        weights = np.zeros(max(self.vocab_size, 2**16))
        weights[: self.vocab_size] = self.token_weights
        weights[list(self.special.all_ids)] = 0
        return weights

    @property
    def _maskable_ids(self) -> np.ndarray:
        special = self.special
        if self.rule.draws_each:
            return all_ids_but(self.vocab_size, special.pad_id)  # [CLS] and [SEP], too
        return all_ids_but(self.vocab_size, special.cls_id, special.sep_id, special.pad_id)


@lru_cache(maxsize=4)
def all_ids_but(vocab_size: int, *excluded: int | None) -> np.ndarray:
    """Return bool[ids], false for the excluded ids and beyond the vocabulary.

    There are at least 2**16 ids, so that any number of 16 bits has a place; a negative one counts
    from the end.
    """
    is_included = np.arange(max(vocab_size, 2**16)) < vocab_size
    is_included[[token for token in excluded if token is not None]] = False
    return is_included


@lru_cache(maxsize=4)
def all_other_ids(special: tuple[int, ...], vocab_size: int) -> np.ndarray:
    """Return int32[ids], those of the vocabulary that are not special."""
    return np.setdiff1d(np.arange(vocab_size), np.array(special)).astype(np.int32)
