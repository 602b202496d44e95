"""What BERT's normalizer and pre-tokenizer do with each character, asked of the library itself."""

import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np
import numpy.typing as npt
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from corpusmill.tokenization.compiled.wordpiece_kernels import (
    BLANK,
    IN_WORD,
    PUNCTUATION,
    Characters,
)
from corpusmill.tokenization.training.counting_kernels import UNKNOWN, Alphabet

# Below the first lie nearly all scripts that are written with spaces, below the second all but the
# rarest ideographs.
FEW_CODES, MANY_CODES = 0x3000, 0x2CEB0
# Ideographs, each of which becomes itself and a word of its own, as in
# `corpusmill.tokenization.compiled.characters`.
IDEOGRAPHS = (
    *range(0x3400, 0x4DC0), *range(0x4E00, 0xA000), *range(0x20000, 0x2A6E0),
    *range(0x2A700, 0x2B820), *range(0x2B920, 0x2CEB0),
)  # fmt: skip
# Halves of characters, and scripts that are no longer written.
_NOT_ASKED = (*range(0xD800, 0xE000), *range(0x10000, 0x1F000), *range(0x20000, 0x2CEB0))
_SEPARATOR = "|"
_UNKNOWN_PART = bytes([0, UNKNOWN])


@cache
def read_bert_characters(lowercase: bool, codes: int) -> Alphabet:
    """Find out what the code points below a limit are turned into.

    The normalizer maps characters one by one. It also decomposes them and reorders combining marks,
    but drops all that it moved; the few others are left as unknown.

    Args:
        lowercase: whether text is lower-cased and accents are stripped.
        codes: the limit.
    """
    encoded = dict.fromkeys(range(codes), _UNKNOWN_PART)
    asked = sorted({*range(codes)}.difference(_NOT_ASKED, IDEOGRAPHS))
    texts = list(map(chr, asked))
    normalized = _normalize(BertNormalizer(lowercase=lowercase), texts)
    classes = _classify(sorted(set("".join(normalized))))
    for code, character, text in zip(asked, texts, normalized, strict=True):
        encoded[code] = _encode(character, text, classes)
    for code in IDEOGRAPHS:
        if code < codes:
            content = chr(code).encode()
            encoded[code] = bytes([len(content), PUNCTUATION]) + content
    ends = np.cumsum([0, *map(len, encoded.values())]).astype(np.int32)
    growth = max(
        -(-len(text.encode()) // len(character.encode()))
        for character, text in zip(texts, normalized, strict=True)
    )
    characters = Characters(ends, np.frombuffer(b"".join(encoded.values()), np.uint8), growth)
    return Alphabet(characters, _list_plain(characters))


def _list_plain(characters: Characters) -> npt.NDArray[np.uint8]:
    plain = np.full((128, 2), UNKNOWN, np.uint8)
    for code in range(128):
        part = characters.parts[characters.ends[code] : characters.ends[code + 1]]
        if len(part) == 3:
            plain[code] = part[1:]
    return plain


def _normalize(normalizer: BertNormalizer, characters: list[str]) -> list[str]:
    """Normalize characters, all but one in a single call."""
    others = ["" if one == _SEPARATOR else one for one in characters]
    normalized: list[str] = normalizer.normalize_str(_SEPARATOR.join(others)).split(_SEPARATOR)
    normalized[ord(_SEPARATOR)] = normalizer.normalize_str(_SEPARATOR)
    return normalized


def _classify(characters: list[str]) -> dict[str, int]:
    """Find the class of each character by how it is broken from the letters around it."""
    text = "".join(f"a{character}" for character in characters) + "a"
    classes = np.full(len(text), BLANK)
    for _, (start, end) in BertPreTokenizer().pre_tokenize_str(text):
        classes[start:end] = IN_WORD if end - start > 1 else PUNCTUATION
    return dict(zip(characters, classes[1::2].tolist(), strict=True))


def _encode(character: str, text: str, classes: dict[str, int]) -> bytes:
    """Return a character's part of `Characters.parts`."""
    kinds = [classes[one] for one in text]
    category = unicodedata.category(character)
    is_moved = category.startswith("M") and category != "Mn" and unicodedata.combining(character)
    if category == "Cn" or is_moved or _count_words(kinds) > 1:
        return _UNKNOWN_PART
    return b"".join(
        bytes([len(one.encode()), kind]) + one.encode()
        for one, kind in zip(text, kinds, strict=True)
    )


def _count_words(kinds: Iterable[int]) -> int:
    words, before = 0, BLANK
    for kind in kinds:
        words += kind == PUNCTUATION or (kind == IN_WORD and before != IN_WORD)
        before = kind
    return words
