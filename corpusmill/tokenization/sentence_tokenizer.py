"""Sentences to token ids, which may be marked by where words go on."""

from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import orjson
from tokenizers import Tokenizer

from corpusmill.tokenization.compiled import byte_level_bpe
from corpusmill.tokenization.compiled import wordpiece as compiled_wordpiece
from corpusmill.tokenization.compiled.exactness import choose_line_rule, choose_unit_rule
from corpusmill.tokenization.compiled.word_memo import EncodeSpans, WordMemo, encode_spans_by
from corpusmill.tokenization.words.marked_encoding import MarkingEncoder, encode_marked
from corpusmill.tokenization.words.words import WordRule, cut_unicode, load_words

# An encoding takes some hundred bytes a token while it lives; so many keep two cores busy.
_TEXTS_PER_CALL = 4096
# How byte-level tokenizers write a space.
_BYTE_LEVEL_SPACE = "\u0120"


class SentenceTokenizer:
    """Sentences to token ids, with a memo of words where that is exact. Threads may share it.

    Args:
        tokenizer_json: a complete tokenizer.json, such as `TokenizerFile.json`.
        dtype: type of the ids.
        memo_bytes: upper bound of the memo's memory.
        memoize: False for no memo.
        special_tokens_in_text: whether a special token that stands in a text becomes its id.
        words: rule of words (`corpusmill.tokenization.words.words`) by which ids are marked
            (`corpusmill.tokenization.words.word_marks`), which dtype must have room for; empty for
            none.

    Attributes:
        why_not: why words are not remembered; empty where they are.
    """

    def __init__(
        self,
        tokenizer_json: str,
        dtype: np.dtype,
        memo_bytes: int = 64 * 2**20,
        memoize: bool = True,
        special_tokens_in_text: bool = True,
        words: str = "",
    ) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._tokenizer.encode_special_tokens = not special_tokens_in_text
        self._dtype = np.dtype(dtype)
        self._words = load_words(words)
        described = orjson.loads(tokenizer_json)
        rule, self.why_not = choose_unit_rule(described, self._tokenizer)
        if self._words and not self._words.cuts_at_spaces:
            self.why_not = self.why_not or f"words by the rule {words} may depend on their sentence"
        self._memo = None
        if memoize and not self.why_not:
            if self._words and rule == "ideographs":
                # Unicode's boundaries are known to be there; other rules may join ideographs.
                rule = "bare ideographs" if self._words.cut is cut_unicode else "words"
            encode_spans, line_rule = self._choose_encoder(described), choose_line_rule(described)
            self._memo = WordMemo(encode_spans, memo_bytes, rule, line_rule=line_rule)

    def _choose_encoder(self, described: dict[str, Any]) -> EncodeSpans:
        """What gives the ids of new words: compiled where it may be."""
        plainly = encode_spans_by(partial(_encode_texts, self._tokenizer, None))
        compiled: EncodeSpans | None = None
        space_id = -1
        if compiled_wordpiece.is_known(described):
            compiled = compiled_wordpiece.WordPieceEncoder(
                described, self._tokenizer, plainly
            ).encode
        elif byte_level_bpe.is_known(described):
            compiled = byte_level_bpe.ByteLevelEncoder(described, plainly).encode
            space_id = described["model"]["vocab"][_BYTE_LEVEL_SPACE]
        if self._words is None:
            return compiled or plainly
        marking = encode_spans_by(partial(_encode_texts, self._tokenizer, self._words))
        if compiled is None:
            return marking
        return MarkingEncoder(self._words, compiled, marking, space_id).encode

    @property
    def memoizes(self) -> bool:
        """Whether the memo is used."""
        return self._memo is not None

    def encode(self, text: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize sentences, without adding special tokens.

        Args:
            text: uint8[bytes], valid UTF-8.
            offsets: int64[sentences + 1] into text.

        Returns:
            token_ids: dtype[tokens].
            token_offsets: int64[sentences + 1].

        Example:
            the text "a bba" with offsets [0, 3, 5] is the sentences "a b" and "ba"; where a, b and
            ba are the tokens 5, 6 and 7, that gives [5, 6, 7] and [0, 2, 3].
        """
        if self._memo is not None:
            return self._memo.encode(text, offsets, self._dtype)
        begin = int(offsets[0])
        sentences = memoryview(text[begin : int(offsets[-1])].tobytes())
        bounds = pairwise((offsets - begin).tolist())
        texts = [str(sentences[start:end], "utf-8") for start, end in bounds]
        ids, token_offsets = _encode_texts(self._tokenizer, self._words, texts)
        return ids.astype(self._dtype), token_offsets


@lru_cache(maxsize=2)
def load_sentence_tokenizer(
    tokenizer_json: str, dtype: np.dtype, memoize: bool, special_tokens_in_text: bool, words: str
) -> SentenceTokenizer:
    """The one tokenizer of a process, with what it remembers: it takes a while to compile.

    Args:
        tokenizer_json: as `SentenceTokenizer` takes it, and all others.
        dtype: likewise.
        memoize: likewise.
        special_tokens_in_text: likewise.
        words: likewise.
    """
    return SentenceTokenizer(
        tokenizer_json,
        dtype,
        memoize=memoize,
        special_tokens_in_text=special_tokens_in_text,
        words=words,
    )


def _encode_texts(
    tokenizer: Tokenizer, words: WordRule | None, texts: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The texts' int32 ids, marked where there is a rule, and their int64[texts + 1] offsets."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    parts = [np.empty(0, np.int32)]
    for first in range(0, len(texts), _TEXTS_PER_CALL):
        called = texts[first : first + _TEXTS_PER_CALL]
        if words is None:
            ids, counts = _encode_unmarked(tokenizer, called)
        else:
            ids, counts = encode_marked(tokenizer, words, called)
        offsets[first + 1 : first + 1 + len(called)] = counts
        parts.append(ids)
    return np.concatenate(parts), np.cumsum(offsets)


def _encode_unmarked(tokenizer: Tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    rows = [encoding.ids for encoding in encodings]
    counts = np.array([len(row) for row in rows], np.int64)
    return np.fromiter(chain.from_iterable(rows), np.int32), counts
