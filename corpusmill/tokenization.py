"""Tokenizers from their files, and sentences to token ids."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from corpusmill.columns import smallest_integer
from corpusmill.faults import UserError
from corpusmill.special_tokens import SpecialTokens, find_special_tokens
from corpusmill.word_memo import WordMemo, why_not_exact

_COMPANIONS = ("special_tokens_map.json", "tokenizer_config.json")
_CURE = "Give a tokenizer.json or a BERT vocab.txt; `train-tokenizer` makes one"

ReadBytes = Callable[[str], bytes | None]


@dataclass(frozen=True)
class TokenizerFile:
    """A tokenizer, ready to be sent to workers.

    Attributes:
        name: as the user gave it.
        json: a complete tokenizer.json, without padding, truncation or dropout.
        vocab_size: largest id + 1, added tokens included.
        special: the special tokens.
    """

    name: str
    json: str
    vocab_size: int
    special: SpecialTokens

    @property
    def digest(self) -> str:
        """Hexadecimal sha256 of `json`."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    @property
    def token_dtype(self) -> np.dtype:
        """The smallest type of at least 16 bits that holds every id."""
        return max(smallest_integer(self.vocab_size - 1), np.dtype(np.int16), key=lambda dtype: dtype.itemsize)


def read_tokenizer(path: str, read_bytes: ReadBytes) -> TokenizerFile:
    """Read a tokenizer.json or a BERT vocab.txt.

    Args:
        path: the file.
        read_bytes: gives the bytes of a path, or None where there is no such file.

    Raises:
        UserError: no such file, or none that is a tokenizer.
    """
    content = read_bytes(path)
    if content is None:
        raise UserError(f"--tokenizer {path}", "no such file", _CURE)
    if not content.strip():
        raise UserError(f"--tokenizer {path}", "the file is empty", _CURE)
    companions = _read_companions(path, read_bytes)
    if path.endswith(".txt"):
        tokenizer = _from_vocabulary(path, content, companions)
    else:
        tokenizer = _from_json(path, content)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    parsed: dict[str, Any] = json.loads(tokenizer.to_str())
    original = {} if path.endswith(".txt") else json.loads(content)
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    # Padding is switched off for building, but says which token pads.
    special = find_special_tokens({**parsed, "padding": original.get("padding")}, vocabulary, companions)
    if parsed["model"].get("dropout"):
        # BPE dropout draws from a global generator: the same input would not give the same bytes.
        parsed["model"]["dropout"] = None
    text = json.dumps(parsed, ensure_ascii=False)
    return TokenizerFile(path, text, max(vocabulary.values()) + 1, special)


def _read_companions(path: str, read_bytes: ReadBytes) -> dict[str, dict[str, Any]]:
    folder = path.rsplit("/", 1)[0] + "/" if "/" in path else ""
    companions = {}
    for name in _COMPANIONS:
        content = read_bytes(folder + name)
        if content:
            try:
                parsed = json.loads(content)
            except ValueError as error:
                raise UserError(f"{folder}{name}", f"it is not JSON ({error})", "Mend or remove it") from None
            companions[name] = parsed if isinstance(parsed, dict) else {}
    return companions


def _from_json(path: str, content: bytes) -> Tokenizer:
    try:
        parsed = json.loads(content)
    except ValueError as error:
        raise UserError(f"--tokenizer {path}", f"it is not JSON ({error})", _CURE) from None
    if not isinstance(parsed, dict) or "model" not in parsed:
        raise UserError(f"--tokenizer {path}", "it is JSON, but describes no tokenizer", _CURE)
    try:
        return Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises nothing narrower
        raise UserError(f"--tokenizer {path}", f"the tokenizers library refuses it ({error})", _CURE) from None


def _from_vocabulary(path: str, content: bytes, companions: dict[str, dict[str, Any]]) -> Tokenizer:
    try:
        tokens = content.decode().rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"--tokenizer {path}", f"it is not UTF-8 ({error})", _CURE) from None
    vocabulary = {token.rstrip("\r"): place for place, token in enumerate(tokens)}
    special = [token for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if token in vocabulary]
    if "[UNK]" not in vocabulary:
        raise UserError(f"--tokenizer {path}", "it has no line [UNK], so it is no BERT vocabulary", _CURE)
    # As BERT's own: lower-case unless the vocabulary was made from text that keeps its case.
    cased = any(token != token.lower() for token in vocabulary if not token.startswith("["))
    lowercase = bool(companions.get("tokenizer_config.json", {}).get("do_lower_case", not cased))
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(special)
    return tokenizer


class SentenceTokenizer:
    """Sentences to token ids, with a memo of words where that is exact.

    Args:
        tokenizer_json: a complete tokenizer.json.
        dtype: type of the ids.
        memo_bytes: upper bound of the memo's memory.

    Attributes:
        why_not: why words are not remembered; empty where they are.
    """

    def __init__(self, tokenizer_json: str, dtype: np.dtype, memo_bytes: int = 64 * 2**20) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._dtype = dtype
        self.why_not = why_not_exact(json.loads(tokenizer_json), self._tokenizer)
        self._memo = None if self.why_not else WordMemo(self._encode_texts, memo_bytes)

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
            the text "a bba" with offsets [0, 3, 5] is the sentences "a b" and "ba"; where a, b and ba
            are the tokens 5, 6 and 7, that gives [5, 6, 7] and [0, 2, 3].
        """
        if self._memo is not None:
            return self._memo.encode(text, offsets, self._dtype)
        view = text.tobytes()
        bounds = offsets.tolist()
        sentences = [view[a:b].decode() for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        ids = self._encode_texts(sentences)
        token_offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum([len(of) for of in ids], out=token_offsets[1:])
        flat = [token for of in ids for token in of]
        return np.array(flat, self._dtype), token_offsets

    def _encode_texts(self, texts: list[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]
