"""Tokenizers of stretches of a text: made from one of texts, or completed by another one."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from corpusmill.arrays import ragged
from corpusmill.tokenization.tokenizer_json import Part, added_tokens

# Texts to int32 ids, those of one text after those of another, and their int64[texts + 1] offsets.
EncodeTexts = Callable[[list[str]], tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]
# A text, uint8[bytes] of valid UTF-8, and the first byte and end of stretches in it, int64[n, 2],
# to the ids, int32[...], of one stretch after those of another, and their int64[n + 1] offsets.
# Each stretch is tokenized as a text of its own.
EncodeSpans = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
# Likewise, with a third array bool[n]: stretches left without ids, because the tokenizer does not
# know them.
EncodeKnownSpans = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


def encode_spans_by(encode_texts: EncodeTexts) -> EncodeSpans:
    """Turn a tokenizer of texts into one of stretches of a text."""

    def encode_spans(text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        view = text.data
        return encode_texts([str(view[start:end], "utf-8") for start, end in spans.tolist()])

    return encode_spans


def completed(encode_known: EncodeKnownSpans, encode_plainly: EncodeSpans) -> EncodeSpans:
    """Turn a tokenizer of the stretches that it knows into one of all stretches.

    Args:
        encode_known: the tokenizer.
        encode_plainly: returns the same ids; tokenizes the stretches that the first one leaves.
    """

    def encode_spans(text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids, ends, left = encode_known(text, spans)
        if not left.any():
            return ids, ends
        others, other_ends = encode_plainly(text, spans[left])
        # Each stretch's ids are a row of `ids` or of `others`.
        rows = np.arange(len(spans))
        rows[left] = len(spans) + np.arange(len(other_ends) - 1)
        offsets = np.concatenate([ends, len(ids) + other_ends[1:]]).astype(np.int32)
        ids, ends = ragged.take(np.concatenate([ids, others]), offsets, rows)
        return ids, ends.astype(np.int64)

    return encode_spans


def first_bytes(tokenizer_json: Part) -> npt.NDArray[np.bool_]:
    """bool[256], True for the first bytes of added tokens."""
    is_first = np.zeros(256, np.bool_)
    is_first[[token["content"].encode()[0] for token in added_tokens(tokenizer_json)]] = True
    return is_first
