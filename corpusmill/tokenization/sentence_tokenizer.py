"""Sentences to token ids, which a rule of words may mark."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from corpusmill.arrays.kernel_cache import njit
from corpusmill.errors import PanicError, UserError, catch_panics, option
from corpusmill.tokenization.compiled import byte_level_bpe, unigram, wordpiece
from corpusmill.tokenization.compiled.exactness import choose_line_rule, choose_unit_rule
from corpusmill.tokenization.compiled.seams import Seams
from corpusmill.tokenization.compiled.units import (
    MOST_CHARACTERS,
    EncodeSpans,
    completed,
    encode_spans_by,
    join_texts,
)
from corpusmill.tokenization.compiled.word_memo import WordMemo
from corpusmill.tokenization.growth import LIBRARY, load_tokenizer
from corpusmill.tokenization.marked_texts import MarkedPieces, MarkedTokenizer
from corpusmill.tokenization.tokenizer_file import (
    added_tokens,
    hide_special_tokens,
    ids_of,
    mark,
    special_names,
)
from corpusmill.tokenization.words.marked_encoding import encode_texts, find_continuing, mark_words
from corpusmill.tokenization.words.words import (
    FindJoins,
    WordRule,
    cut_around_rare,
    cut_unicode,
    join_marks,
    load_words,
)

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
            (`corpusmill.tokenization.tokenizer_file`), for which dtype must have room; empty to
            leave them unmarked.

    Attributes:
        library: the tokenizers library's tokenizer, whose ids are given.
        added: the ids of the added tokens, special or not, the longest first.
    """

    def __init__(
        self,
        tokenizer_json: str,
        dtype: np.dtype,
        memoize: bool = True,
        special_tokens_in_text: bool = True,
        words: str = "",
    ) -> None:
        # The special tokens' UTF-8, longest first: uint8[bytes] and int64[tokens + 1] into it.
        described = orjson.loads(tokenizer_json)
        ids = {token["content"]: token["id"] for token in added_tokens(described)}
        self.added = {name: ids[name] for name in sorted(filter(None, ids), key=len, reverse=True)}
        names = map(str.encode, special_names(described))
        self._special_texts, self._special_offsets = join_texts(names)
        self._marked_arguments = tokenizer_json, special_tokens_in_text
        if not special_tokens_in_text:
            tokenizer_json = hide_special_tokens(tokenizer_json)
        self.library = load_tokenizer(tokenizer_json)
        self.library.encode_special_tokens = not special_tokens_in_text
        self._dtype = np.dtype(dtype)
        described, rule = orjson.loads(tokenizer_json), load_words(words)
        self._words = None if rule is None or rule.is_of_pieces else rule
        self._is_marked, self._continuing = rule is not None, None
        if rule is not None and rule.is_of_pieces:
            self._continuing = find_continuing(self.library, described["model"])
        # What the model gives to what it cannot spell; None if it spells everything.
        unknown = described["model"].get("unk_token")
        self._unknown_id: int | None = described["model"].get("unk_id")  # Unigram
        if unknown is not None:
            self._unknown_id = self.library.token_to_id(unknown)
        self._find_joins: FindJoins | None = None
        self._is_compiled = False
        self._encode_plainly = self._encode_by_library(self._words)
        self._memo = self._make_memo(described) if memoize else None

    def _encode_by_library(self, words: WordRule | None) -> EncodeSpans:
        return encode_spans_by(partial(encode_texts, self.library, words))

    def _make_memo(self, described: dict[str, Any]) -> WordMemo | None:
        """The memo; None if a text's ids may differ from those of its words."""
        if described["model"]["type"] == "Unigram":
            plainly, most = self._encode_plainly, MOST_CHARACTERS
            if self._words or not (
                compiled := unigram.compile_unigram(described, self.library, plainly, most)
            ):
                return None
            encode_spans, joints = compiled
            if joints is not None:
                return WordMemo(encode_spans, "joined", joints=joints)
            # There is no memo, but whole texts are compiled.
            self._encode_plainly, self._is_compiled = encode_spans, True
            return None
        rule, objection = choose_unit_rule(described, self.library)
        words = self._words
        if words and words.find_joins and wordpiece.is_known(described):
            self._find_joins = words.find_joins
            words = load_words("unicode")
        if objection or (words and not words.cuts_at_spaces):
            return None
        if words and rule == "ideographs":
            # Unicode's rule always has a boundary there; other rules may join ideographs.
            rule = "ideographs" if words.cut is cut_unicode else "words"
        encode_spans, seams = self._choose_encoder(described, words)
        line_rule = choose_line_rule(described)
        may_cut = line_rule in {"around-breaks", "after-breaks"}
        return WordMemo(encode_spans, rule, line_rule, seams=seams if may_cut else None)

    def _choose_encoder(
        self, described: dict[str, Any], words: WordRule | None
    ) -> tuple[EncodeSpans, Seams | None]:
        """The tokenizer of new words, compiled if possible, and marked by a rule of words."""
        plainly, unmarked = self._encode_by_library(words), self._encode_by_library(None)
        space_id, seams = -1, None
        if wordpiece.is_known(described):
            compiled = wordpiece.compile_wordpiece(described, self.library, unmarked)
        elif byte_level_bpe.is_known(described):
            compiled, seams = byte_level_bpe.compile_byte_level_bpe(described, unmarked)
            space_id = described["model"]["vocab"][_BYTE_LEVEL_SPACE]
        else:
            return plainly, None
        if words is None:
            return compiled, seams
        return mark_words(words, compiled, plainly, space_id), None

    @property
    def memoizes(self) -> bool:
        """Whether the memo is used, or the tokenizer is compiled for whole texts."""
        return self._memo is not None or self._is_compiled

    def count_unknown(self, token_ids: npt.NDArray[np.integer[Any]]) -> int:
        """Count the tokens that replace text which the vocabulary cannot spell.

        Args:
            token_ids: integers[tokens], as `encode` returns them.
        """
        if self._unknown_id is None:
            return 0
        ids = ids_of(token_ids) if self._is_marked else token_ids
        return int(np.count_nonzero(ids == self._unknown_id))

    def count_special(self, text: npt.NDArray[np.uint8]) -> int:
        """Count the special tokens that stand in a text, whatever becomes of them.

        Args:
            text: uint8[bytes].
        """
        texts, offsets = self._special_texts, self._special_offsets
        # There are one or two first bytes, and a pass for each is faster than a table of all.
        begins = np.zeros(len(text), np.bool_)
        for first in np.unique(texts[offsets[:-1]]):
            begins |= text == first
        found: int = _count_texts(text, np.flatnonzero(begins), texts, offsets)
        return found

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
        with self._refusing_panics():
            ids, token_offsets = self._encode(text, offsets)
        if self._continuing is not None:
            ids = mark(ids, self._continuing[ids])
        return ids, token_offsets

    @cached_property
    def _marked(self) -> MarkedTokenizer:
        return MarkedTokenizer(*self._marked_arguments)

    def encode_marked(self, texts: list[str]) -> MarkedPieces:
        """Tokenize texts with marks, by the tokenizers library.

        Raises:
            UserError: it cannot tokenize one of them.
        """
        with self._refusing_panics():
            pieces = self._marked.encode_pieces(texts)
        return pieces._replace(token_ids=pieces.token_ids.astype(self._dtype))

    @contextmanager
    def _refusing_panics(self) -> Iterator[None]:
        try:
            with catch_panics(LIBRARY):
                yield
        except PanicError as error:
            cause = f"it cannot tokenize a text of the corpus ({error})"
            raise UserError(option("tokenizer"), cause, "Give another tokenizer") from None

    def _encode(
        self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.int64]]:
        """Tokenize sentences; see `encode`. A rule that follows the vocabulary is not applied."""
        memo, find_joins = self._memo, self._find_joins
        if memo is not None and find_joins is None:
            return memo.encode(text, offsets, self._dtype)
        cuts, firsts = offsets, np.arange(len(offsets))
        encode_spans = self._encode_plainly
        if memo is not None and find_joins is not None:
            if memo.has_ideographs:
                cuts, firsts = cut_around_rare(text, offsets)

            # Words are joined afterwards. BERT's tokenizer makes no token of white space alone,
            # except perhaps of control characters: stretches with these are left.
            def encode_joined(
                text: np.ndarray, _: np.ndarray
            ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
                ids, ends = memo.encode(text, cuts, np.dtype(np.int32))
                marked, left = join_marks(ids, ends, *find_joins(text, cuts))
                return marked, ends, left

            encode_spans = completed(encode_joined, encode_spans)
        ids, ends = encode_spans(text, np.stack([cuts[:-1], cuts[1:]], axis=1))
        return ids.astype(self._dtype), ends[firsts]


@njit
def _count_texts(
    text: np.ndarray, places: np.ndarray, texts: np.ndarray, offsets: np.ndarray
) -> int:
    """Count texts, given longest first, that stand at places of another one, without overlaps."""
    count = end = 0
    for place in places:
        for number in range(len(offsets) - 1 if place >= end else 0):
            start, length = offsets[number], offsets[number + 1] - offsets[number]
            same = 0
            while same < min(length, len(text) - place) and (
                text[place + same] == texts[start + same]
            ):
                same += 1
            if same == length:
                count, end = count + 1, place + length
                break
    return count


# A tokenizer takes a while to compile: a process keeps it, with the words that it remembers.
load_sentence_tokenizer = lru_cache(maxsize=2)(SentenceTokenizer)
