"""Sentences as the arrays that a tokenizer takes, and the rows of ids that it returns."""

from functools import partial
from itertools import pairwise

import numpy as np
from tokenizers import Tokenizer

from corpusmill.tokenization.compiled.units import EncodeSpans, encode_spans_by
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.words.marked_encoding import encode_texts


def as_arrays(sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [sentence.encode() for sentence in sentences]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def as_spans(sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    text, offsets = as_arrays(sentences)
    return text, np.stack([offsets[:-1], offsets[1:]], axis=1)


def rows(token_ids: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    assert offsets[0] == 0
    assert offsets[-1] == len(token_ids)
    return [token_ids[a:b].tolist() for a, b in pairwise(offsets)]


def encoded_rows(tokenizer: SentenceTokenizer, sentences: list[str]) -> list[list[int]]:
    return rows(*tokenizer.encode(*as_arrays(sentences)))


def plain_rows(tokenizer: Tokenizer, sentences: list[str]) -> list[list[int]]:
    """The ids by the library itself."""
    return [tokenizer.encode(sentence, add_special_tokens=False).ids for sentence in sentences]


def plainly(tokenizer: Tokenizer) -> EncodeSpans:
    """The tokenizer that a compiled one leaves stretches to."""
    return encode_spans_by(partial(encode_texts, tokenizer, None))


def refuse(_text: np.ndarray, _spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fail in place of the tokenizer that a compiled one leaves stretches to."""
    raise AssertionError("a text went to the tokenizer")


class Recorder:
    """A tokenizer that a compiled one leaves stretches to, which keeps them in `texts`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.texts: list[str] = []
        self._encode = plainly(tokenizer)

    def __call__(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.texts += [text[start:end].tobytes().decode() for start, end in spans]
        return self._encode(text, spans)
