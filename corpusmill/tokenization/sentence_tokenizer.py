"""Sentences to token ids, which a rule of words may mark."""

from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from tokenizers import Tokenizer

from corpusmill.errors import PanicError, UserError, catch_panics
from corpusmill.tokenization.compiled import byte_level_bpe, wordpiece
from corpusmill.tokenization.compiled.exactness import choose_line_rule, choose_unit_rule
from corpusmill.tokenization.compiled.spans import EncodeSpans, encode_spans_by
from corpusmill.tokenization.compiled.word_memo import WordMemo
from corpusmill.tokenization.words.marked_encoding import encode_texts, mark_words
from corpusmill.tokenization.words.pieces import find_continuing
from corpusmill.tokenization.words.word_marks import ids_of, mark
from corpusmill.tokenization.words.words import cut_unicode, load_words

_LIBRARY = "the tokenizers library"
# How byte-level tokenizers write a space.
_BYTE_LEVEL_SPACE = "\u0120"


class SentenceTokenizer:
    """Tokenizes sentences, with a memo of words where that is exact. Threads may share it.

    Args:
        tokenizer_json: a complete tokenizer.json, such as `TokenizerFile.json`.
        dtype: type of the ids.
        memoize: whether to use a memo if it is exact.
        special_tokens_in_text: whether a special token that occurs in a text becomes its id.
        words: name of the rule of words (`corpusmill.tokenization.words.words`) that marks ids
            (`corpusmill.tokenization.words.word_marks`), for which dtype must have room; empty to
            leave them unmarked.
        memo_bytes: upper bound of the memo's memory.
    """

    def __init__(
        self,
        tokenizer_json: str,
        dtype: np.dtype,
        memoize: bool = True,
        special_tokens_in_text: bool = True,
        words: str = "",
        memo_bytes: int = 64 * 2**20,
    ) -> None:
        with catch_panics(_LIBRARY):
            self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._tokenizer.encode_special_tokens = not special_tokens_in_text
        self._dtype = np.dtype(dtype)
        rule = load_words(words)
        self._words = None if rule is None or rule.is_of_pieces else rule
        self._is_marked, self._continuing = rule is not None, None
        if rule is not None and rule.is_of_pieces:
            model = orjson.loads(tokenizer_json)["model"]
            self._continuing = find_continuing(self._tokenizer, model)
        self._unknown_id = _unknown_id(self._tokenizer, orjson.loads(tokenizer_json)["model"])
        self._encode_plainly = encode_spans_by(partial(encode_texts, self._tokenizer, self._words))
        self._memo = self._make_memo(orjson.loads(tokenizer_json), memo_bytes) if memoize else None

    def _make_memo(self, described: dict[str, Any], memo_bytes: int) -> WordMemo | None:
        """The memo; None if a text's ids may differ from those of its words."""
        rule, objection = choose_unit_rule(described, self._tokenizer)
        if objection or (self._words and not self._words.cuts_at_spaces):
            return None
        if self._words and rule == "ideographs":
            # Unicode's rule always has a boundary there; other rules may join ideographs.
            rule = "bare ideographs" if self._words.cut is cut_unicode else "words"
        encode_spans, line_rule = self._choose_encoder(described), choose_line_rule(described)
        return WordMemo(encode_spans, memo_bytes, rule, line_rule)

    def _choose_encoder(self, described: dict[str, Any]) -> EncodeSpans:
        """The tokenizer of new words, compiled if possible."""
        unmarked = encode_spans_by(partial(encode_texts, self._tokenizer, None))
        space_id = -1
        if wordpiece.is_known(described):
            compiled = wordpiece.compile_wordpiece(described, self._tokenizer, unmarked)
        elif byte_level_bpe.is_known(described):
            compiled = byte_level_bpe.compile_byte_level_bpe(described, unmarked)
            space_id = described["model"]["vocab"][_BYTE_LEVEL_SPACE]
        else:
            return self._encode_plainly
        if self._words is None:
            return compiled
        return mark_words(self._words, compiled, self._encode_plainly, space_id)

    @property
    def memoizes(self) -> bool:
        """Whether the memo is used."""
        return self._memo is not None

    def count_unknown(self, token_ids: npt.NDArray[np.integer[Any]]) -> int:
        """Count the tokens that replace text which the vocabulary cannot spell.

        Args:
            token_ids: integers[tokens], as `encode` returns them.
        """
        if self._unknown_id is None:
            return 0
        ids = ids_of(token_ids) if self._is_marked else token_ids
        return int(np.count_nonzero(ids == self._unknown_id))

    def encode(
        self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.int64]]:
        """Tokenize sentences, without adding special tokens.

        Args:
            text: uint8[bytes], valid UTF-8.
            offsets: int64[sentences + 1] into text.

        Returns:
            token_ids: dtype[tokens].
            token_offsets: int64[sentences + 1].

        Raises:
            UserError: the tokenizers library cannot tokenize one of them.

        Example:
            the text "a bba" with offsets [0, 3, 5] is the sentences "a b" and "ba"; if a, b and ba
            are the tokens 5, 6 and 7, the result is [5, 6, 7] and [0, 2, 3].
        """
        try:
            with catch_panics(_LIBRARY):
                ids, token_offsets = self._encode(text, offsets)
        except PanicError as error:
            cause = f"it cannot tokenize a text of the corpus ({error})"
            raise UserError("--tokenizer", cause, "Give another tokenizer") from None
        if self._continuing is not None:
            ids = mark(ids, self._continuing[ids])
        return ids, token_offsets

    def _encode(
        self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.int64]]:
        """Tokenize sentences; see `encode`. A rule that follows the vocabulary is not applied."""
        if self._memo is not None:
            return self._memo.encode(text, offsets, self._dtype)
        spans = np.stack([offsets[:-1], offsets[1:]], axis=1)
        ids, token_offsets = self._encode_plainly(text, spans)
        return ids.astype(self._dtype), token_offsets


def _unknown_id(tokenizer: Tokenizer, model: dict[str, Any]) -> int | None:
    """The id that the model gives to what it cannot spell; None if it spells everything."""
    if model.get("unk_token") is not None:
        token_id: int | None = tokenizer.token_to_id(model["unk_token"])
        return token_id
    return model.get("unk_id")  # Unigram


# A tokenizer takes a while to compile: a process keeps it, with the words that it remembers.
load_sentence_tokenizer = lru_cache(maxsize=2)(SentenceTokenizer)
