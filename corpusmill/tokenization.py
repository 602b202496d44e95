"""Tokenizers from their files, and sentences to token ids."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from tokenizers import Tokenizer

from corpusmill.byte_level_bpe import ByteLevelEncoder, is_known
from corpusmill.columns import smallest_integer
from corpusmill.faults import UserError
from corpusmill.special_tokens import SpecialTokens, find_special_tokens
from corpusmill.tokenizer_training import SPECIAL_TOKENS, bert_tokenizer
from corpusmill.word_memo import WordMemo, encode_spans_by
from corpusmill.word_memo_exactness import choose_unit_rule

_COMPANIONS = ("special_tokens_map.json", "tokenizer_config.json")
_CURE = "Give a tokenizer.json or a BERT vocab.txt; `train-tokenizer` makes one"

# An encoding takes some hundred bytes a token while it lives; so many keep two cores busy.
_TEXTS_PER_CALL = 4096

ReadBytes = Callable[[str], bytes | None]


@dataclass(frozen=True)
class TokenizerFile:
    """A tokenizer, ready to be sent to workers.

    Attributes:
        name: as the user gave it.
        json: a complete tokenizer.json, without padding, truncation and dropout.
        vocab_size: largest id + 1, added tokens included.
        special: the special tokens.
        digest: hexadecimal sha256 of `json`.
    """

    name: str
    json: str
    vocab_size: int
    special: SpecialTokens
    digest: str

    @property
    def token_dtype(self) -> np.dtype:
        """The smallest of int16, uint16 and int32 that holds every id."""
        return smallest_integer(max(self.vocab_size - 1, np.iinfo(np.int16).max))


def read_tokenizer(path: str, read_bytes: ReadBytes) -> TokenizerFile:
    """Read a tokenizer.json or, where the name ends in .txt, a BERT vocab.txt.

    A vocab.txt is cased if it holds words with upper-case letters, and lower-cased, with accents
    stripped, if not; do_lower_case in a tokenizer_config.json beside it decides where given.

    Args:
        path: the file.
        read_bytes: gives the bytes of a path, or None where there is no such file.

    Raises:
        UserError: no such file, or none that is a tokenizer.
    """
    content = _read_file(path, read_bytes)
    companions = _read_companions(path, read_bytes)
    if path.endswith(".txt"):
        tokenizer = _from_vocabulary(path, content, companions.get("tokenizer_config.json", {}))
    else:
        tokenizer = _from_json(path, content)
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    _check_ids(path, vocabulary)
    described: dict[str, Any] = json.loads(tokenizer.to_str())
    _check_unknown(path, described["model"])
    special = find_special_tokens(described, companions)
    described["padding"] = described["truncation"] = None
    if described["model"].get("dropout"):
        # It draws from a global generator: the same input would not give the same ids.
        described["model"]["dropout"] = None
    text = json.dumps(described, ensure_ascii=False)
    return TokenizerFile(
        path, text, max(vocabulary.values()) + 1, special, hashlib.sha256(text.encode()).hexdigest()
    )


def _refuse(path: str, cause: str, cure: str = _CURE) -> NoReturn:
    raise UserError(f"--tokenizer {path}", cause, cure) from None


def _read_file(path: str, read_bytes: ReadBytes) -> bytes:
    content = None
    with suppress(IsADirectoryError):
        content = read_bytes(path)
    if content is None:
        inside = [f"{path.rstrip('/')}/{name}" for name in ("tokenizer.json", "vocab.txt")]
        found = [name for name in inside if read_bytes(name) is not None]
        if found:
            _refuse(path, "it is a folder", f"Give {found[0]}")
        folder = Path(path).is_dir()
        _refuse(path, "it is a folder" if folder else "there is no such file, or it cannot be read")
    if not content.strip():
        _refuse(path, "the file is empty")
    return content


def _read_companions(path: str, read_bytes: ReadBytes) -> dict[str, dict[str, Any]]:
    folder = path.rsplit("/", 1)[0] + "/" if "/" in path else ""
    companions = {}
    for name in _COMPANIONS:
        content = read_bytes(folder + name)
        if content:
            try:
                parsed = json.loads(content)
            except ValueError as error:
                raise UserError(
                    f"{folder}{name}",
                    f"it stands beside the tokenizer but is not JSON ({error})",
                    "Mend or remove it",
                ) from None
            companions[name] = parsed if isinstance(parsed, dict) else {}
    return companions


def _from_json(path: str, content: bytes) -> Tokenizer:
    try:
        parsed = json.loads(content)
    except ValueError as error:
        _refuse(path, f"it is not JSON ({error})")
    if not isinstance(parsed, dict) or not isinstance(parsed.get("model"), dict):
        _refuse(path, "it is JSON, but describes no tokenizer")
    try:
        return Tokenizer.from_str(json.dumps(parsed))
    except Exception as error:  # the library raises nothing narrower
        _refuse(path, f"the tokenizers library cannot read it ({error})")


def _check_ids(path: str, vocabulary: Mapping[str, int]) -> None:
    if not vocabulary:
        _refuse(path, "its vocabulary is empty")
    # The library writes a tokenizer in time linear in the largest id: half a minute for these.
    if max(vocabulary.values()) > np.iinfo(np.int32).max:
        _refuse(path, "its largest id does not fit into 32 bits with a sign")


def _check_unknown(path: str, model: Mapping[str, Any]) -> None:
    if model["type"] in {"WordPiece", "WordLevel"} and model["unk_token"] not in model["vocab"]:
        # Otherwise found out only when the first unknown word is met.
        _refuse(
            path,
            f"its vocabulary lacks the token for unknown words, {model['unk_token']!r}",
            "Add the token to the vocabulary, or name the right one as the model's unk_token",
        )


def _from_vocabulary(path: str, content: bytes, config: Mapping[str, Any]) -> Tokenizer:
    try:
        lines = content.decode("utf-8-sig").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        _refuse(path, f"it is not UTF-8 ({error})")
    vocabulary = {line.removesuffix("\r"): place for place, line in enumerate(lines)}
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        _refuse(path, f"it lacks the lines {', '.join(missing)}, so it is no BERT vocabulary")
    cased = any(map(_is_upper_case_word, vocabulary))
    return bert_tokenizer(
        vocabulary,
        lowercase=bool(config.get("do_lower_case", not cased)),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
    )


def _is_upper_case_word(token: str) -> bool:
    # [unused0] and <S> are names; single letters occur in lower-cased vocabularies, too.
    word = token.removeprefix("##")
    return len(word) > 1 and word[0] not in "[<" and any(character.isupper() for character in word)


class SentenceTokenizer:
    """Sentences to token ids, with a memo of words where that is exact. Threads may share it.

    Args:
        tokenizer_json: a complete tokenizer.json, such as `TokenizerFile.json`.
        dtype: type of the ids.
        memo_bytes: upper bound of the memo's memory.

    Attributes:
        why_not: why words are not remembered; empty where they are.
    """

    def __init__(self, tokenizer_json: str, dtype: np.dtype, memo_bytes: int = 64 * 2**20) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._dtype = np.dtype(dtype)
        described = json.loads(tokenizer_json)
        rule, self.why_not = choose_unit_rule(described, self._tokenizer)
        encode_spans = encode_spans_by(self._encode_texts)
        if not self.why_not and is_known(described):
            encode_spans = ByteLevelEncoder(described, encode_spans).encode
        self._memo = None if self.why_not else WordMemo(encode_spans, memo_bytes, rule)

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
        ids, token_offsets = self._encode_texts(texts)
        return ids.astype(self._dtype), token_offsets

    def _encode_texts(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """The texts' int32 ids, one behind the other, and their int64[texts + 1] offsets."""
        offsets = np.zeros(len(texts) + 1, np.int64)
        parts = [np.empty(0, np.int32)]
        for first in range(0, len(texts), _TEXTS_PER_CALL):
            called = self._tokenizer.encode_batch_fast(
                texts[first : first + _TEXTS_PER_CALL], add_special_tokens=False
            )
            rows = [encoding.ids for encoding in called]
            offsets[first + 1 : first + 1 + len(rows)] = [len(row) for row in rows]
            parts.append(np.fromiter(chain.from_iterable(rows), np.int32))
        return np.concatenate(parts), np.cumsum(offsets)
